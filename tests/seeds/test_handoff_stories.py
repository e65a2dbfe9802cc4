"""Seeds 002 and 003, rewritten. They are fragments of an API that partly never existed, so they cannot run as they are.

Changes in 002: its six lines become a whole desk with a tool and checkpoints; its workaround is used as written.
Changes in 003: `set_coordinator` and `run_stream` still work, but events have a `type`, the answer is passed to `run(responses=)` instead
of `send_response`, and a restore names its checkpoint explicitly. `HandoffUserInputRequest.conversation` and the executors' own lists are
private parts of the other framework and are not imitated.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from legato.compat import MeansNothingHere
from legato.compat.agent_framework import (
    ContextProvider,
    FileCheckpointStorage,
    HandoffAgentUserRequest,
    InMemoryCheckpointStorage,
    InMemoryHistoryProvider,
    Workflow,
)
from legato.core.codec import encode_fact
from legato.emulator import serve
from legato.emulator.server import Emulator
from tests.seeds.desk import NoHistoryProvider, build_desk, reply_as_bank

ROOT = Path(__file__).parents[2]
TURNS = ["How much is on account 7?", "And how much is left?", "Is that all, really?"]


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with serve(fake_model=reply_as_bank) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        yield running
        assert [exchange for exchange in running.exchanges if exchange.status != 200] == []


async def send_message(workflow: Workflow, text: str) -> None:
    """Answer the pending request, as the programs do; the first message begins the conversation."""
    if await workflow.get_last_checkpoint_id() is None:
        await workflow.run(text)
        return
    restored = await workflow.run(checkpoint_id=await workflow.get_last_checkpoint_id())
    (request,) = restored.get_request_info_events()
    await workflow.run(responses={request.request_id: HandoffAgentUserRequest.create_response(text)})


def list_messages_sent(emulator: Emulator) -> list[list[dict[str, Any]]]:
    return [exchange.request_body["messages"] for exchange in emulator.exchanges]


def list_user_texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "user"]


# -- 002: three turns, two agents, checkpoints, and any context providers ----------------------------------------------

PROVIDERS = {
    "none, the default": None,
    "a no-op, the workaround": [NoHistoryProvider()],
    "a history provider": [InMemoryHistoryProvider()],
}


@pytest.mark.parametrize("providers", PROVIDERS.values(), ids=PROVIDERS)
@pytest.mark.filterwarnings("ignore::legato.compat.MeansNothingHere")
async def test_message_count_grows_with_the_conversation(emulator: Emulator, providers: list[ContextProvider] | None) -> None:
    workflow = build_desk(InMemoryCheckpointStorage(), providers)
    for text in TURNS:
        await send_message(workflow, text)
    sent = list_messages_sent(emulator)
    # The system message and the question; plus the handoff's call and output; plus the lookup's; then for each turn
    # the previous answer and the question, and the lookup's call and output.
    assert [len(messages) for messages in sent] == [2, 4, 6, 8, 10, 12, 14]
    assert [list_user_texts(messages) for messages in sent] == [TURNS[:1]] * 3 + [TURNS[:2]] * 2 + [TURNS] * 2
    for messages in sent:
        calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == calls
        assert len(calls) == len(set(calls))
    # No call is repeated: one lookup for each question.
    names = [call["function"]["name"] for message in sent[-1] for call in message.get("tool_calls") or ()]
    assert names == ["handoff_to_teller", *["balance"] * 3]


async def test_history_provider_gets_a_warning() -> None:
    class MyHistory(InMemoryHistoryProvider):
        """A class with a new name, so that the warning is shown in this test."""

    with pytest.warns(MeansNothingHere, match=r"MyHistory means nothing here: the ledger owns the history"):
        build_desk(InMemoryCheckpointStorage(), [MyHistory()])


# -- 003: saved while a request is pending; restored in other processes, twice, and at an older point ------------------


async def continue_in_process(folder: Path, checkpoint: str, message: str) -> dict[str, Any]:
    """Continue from a checkpoint in another process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-m", "tests.seeds.desk", str(folder), checkpoint, message,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0, err.decode()
    summary: dict[str, Any] = json.loads(out)
    return summary


async def test_restored_checkpoints_have_every_message_once(emulator: Emulator, tmp_path: Path) -> None:
    """Checkpoints saved while a request is pending are restored in other processes, twice and at an older point."""
    storage = FileCheckpointStorage(tmp_path)
    workflow = build_desk(storage)
    await send_message(workflow, TURNS[0])
    older = str(await workflow.get_last_checkpoint_id())
    await send_message(workflow, TURNS[1])
    newer = str(await workflow.get_last_checkpoint_id())
    assert await storage.list_checkpoint_ids(workflow_name="bank") == [older, newer]
    await storage.close()

    first = await continue_in_process(tmp_path, newer, TURNS[2])
    second = await continue_in_process(tmp_path, newer, "Are you sure?")
    third = await continue_in_process(tmp_path, older, "What about account 8?")

    assert first["session"] == workflow.session_id  # no later checkpoint: the same session continues
    assert len({workflow.session_id, second["session"], third["session"]}) == 3  # later checkpoints exist: each is a branch
    assert first["pending"] == second["pending"] == f"Answer to {TURNS[1]!r}."
    assert third["pending"] == f"Answer to {TURNS[0]!r}."
    expected = {
        "first": [*TURNS],
        "second": [*TURNS[:2], "Are you sure?"],
        "third": [TURNS[0], "What about account 8?"],
    }
    for name, summary in (("first", first), ("second", second), ("third", third)):
        assert summary["messages"] == [text for turn in expected[name] for text in (turn, f"Answer to {turn!r}.")]
        assert summary["answer"] == f"Answer to {expected[name][-1]!r}."
    # The request bodies have each question once, in order.
    sent = [list_user_texts(messages) for messages in list_messages_sent(emulator)]
    assert sent[-6:] == [expected["first"]] * 2 + [expected["second"]] * 2 + [expected["third"]] * 2


@pytest.mark.usefixtures("stopped_clock")
async def test_pending_request_has_a_constant_size(emulator: Emulator) -> None:
    storage = InMemoryCheckpointStorage()
    workflow = build_desk(storage)
    sizes = []
    for turn in range(12):
        await send_message(workflow, f"Question number {turn:02}?")
        sizes.append(sum(len(encode_fact(fact)) for fact in await storage.store.read(workflow.session_id)))
    growth = [after - before for before, after in pairwise(sizes)]
    assert max(growth) - min(growth) < 40  # positions and token counts have more digits; nothing else grew

    # Restoring in a new workflow object writes nothing.
    checkpoint = await workflow.get_last_checkpoint_id()
    again = await build_desk(storage).run(checkpoint_id=checkpoint)
    assert [event.data.agent_response.text for event in again.get_request_info_events()] == ["Answer to 'Question number 11?'."]
    assert sum(len(encode_fact(fact)) for fact in await storage.store.read(workflow.session_id)) == sizes[-1]
