"""002 and 003, retold: fragments, of an API that in part never was, so they cannot run as they stand. Their point is kept.

What changed in 002: its six lines become a whole desk with a tool and checkpoints, and its workaround stands in it as written.
What changed in 003: `set_coordinator` and `run_stream` still work, but events are told by `type`, the answer goes through `run(responses=)`
instead of `send_response`, and a restore names its checkpoint instead of happening by itself. `HandoffUserInputRequest.conversation` and
the executors' own lists are other people's private parts: there is nothing like them here, and nothing is imitated.
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
from legato.core.codec import encode
from legato.emulator import serve
from legato.emulator.running import Emulator
from tests.seeds.desk import NoHistoryProvider, bank, desk

ROOT = Path(__file__).parents[2]
TURNS = ["How much is on account 7?", "And how much is left?", "Is that all, really?"]


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    with serve(mind=bank) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        yield running
        assert [exchange for exchange in running.exchanges if exchange.status != 200] == []


async def say(workflow: Workflow, text: str) -> None:
    """Answer what is asked, as the programs do; the first message answers nothing."""
    if await workflow.get_last_checkpoint_id() is None:
        await workflow.run(text)
        return
    asked = await workflow.run(checkpoint_id=await workflow.get_last_checkpoint_id())
    (request,) = asked.get_request_info_events()
    await workflow.run(responses={request.request_id: HandoffAgentUserRequest.create_response(text)})


def bodies(emulator: Emulator) -> list[list[dict[str, Any]]]:
    return [exchange.request["messages"] for exchange in emulator.exchanges]


def users(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "user"]


# -- 002: three turns, two agents, checkpoints, and whatever context providers ----------------------------------------------

PROVIDERS = {
    "none given, the default": None,
    "a no-op, the workaround": [NoHistoryProvider()],
    "a history provider": [InMemoryHistoryProvider()],
}


@pytest.mark.parametrize("providers", PROVIDERS.values(), ids=PROVIDERS)
@pytest.mark.filterwarnings("ignore::legato.compat.MeansNothingHere")
async def test_the_message_count_grows_by_what_was_said(emulator: Emulator, providers: list[ContextProvider] | None) -> None:
    workflow = desk(InMemoryCheckpointStorage(), providers)
    for text in TURNS:
        await say(workflow, text)
    sent = bodies(emulator)
    # The system message and the question; with the handoff's call and output; with the lookup's; then for each turn
    # the answer before it and the question, and the lookup's call and output.
    assert [len(messages) for messages in sent] == [2, 4, 6, 8, 10, 12, 14]
    assert [users(messages) for messages in sent] == [TURNS[:1]] * 3 + [TURNS[:2]] * 2 + [TURNS] * 2
    for messages in sent:
        calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == calls
        assert len(calls) == len(set(calls))
    # No call that was made is asked for again: one lookup for each question.
    made = [call["function"]["name"] for message in sent[-1] for call in message.get("tool_calls") or ()]
    assert made == ["handoff_to_teller", *["balance"] * 3]


async def test_a_history_provider_is_told_that_it_owns_no_history() -> None:
    class MyHistory(InMemoryHistoryProvider):
        """Another name, so that it is told in this test whatever ran before."""

    with pytest.warns(MeansNothingHere, match=r"MyHistory means nothing here: the ledger owns the history"):
        desk(InMemoryCheckpointStorage(), [MyHistory()])


# -- 003: saved while the user is asked, restored elsewhere, twice, and at an older point ----------------------------------


async def elsewhere(folder: Path, checkpoint: str, message: str) -> dict[str, Any]:
    """Go on in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-m", "tests.seeds.desk", str(folder), checkpoint, message,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    return told


async def test_saved_while_pending_and_restored_elsewhere_twice_and_older_every_message_is_there_once(
    emulator: Emulator, tmp_path: Path
) -> None:
    storage = FileCheckpointStorage(tmp_path)
    workflow = desk(storage)
    await say(workflow, TURNS[0])
    older = str(await workflow.get_last_checkpoint_id())
    await say(workflow, TURNS[1])
    newer = str(await workflow.get_last_checkpoint_id())
    assert await storage.list_checkpoint_ids(workflow_name="bank") == [older, newer]
    await storage.close()

    first = await elsewhere(tmp_path, newer, TURNS[2])
    second = await elsewhere(tmp_path, newer, "Are you sure?")
    third = await elsewhere(tmp_path, older, "What about account 8?")

    assert first["session"] == workflow.session_id  # nothing had come after it: the same conversation goes on
    assert len({workflow.session_id, second["session"], third["session"]}) == 3  # it had been gone on from: branches of their own
    assert first["asked"] == second["asked"] == f"Answer to {TURNS[1]!r}."
    assert third["asked"] == f"Answer to {TURNS[0]!r}."
    expected = {
        "first": [*TURNS],
        "second": [*TURNS[:2], "Are you sure?"],
        "third": [TURNS[0], "What about account 8?"],
    }
    for name, told in (("first", first), ("second", second), ("third", third)):
        assert told["messages"] == [text for turn in expected[name] for text in (turn, f"Answer to {turn!r}.")]
        assert told["answer"] == f"Answer to {expected[name][-1]!r}."
    # And in the very bodies that were sent: each question once, in order.
    sent = [users(messages) for messages in bodies(emulator)]
    assert sent[-6:] == [expected["first"]] * 2 + [expected["second"]] * 2 + [expected["third"]] * 2


@pytest.mark.usefixtures("stopped_clock")
async def test_a_pending_request_costs_the_same_however_long_the_conversation_is(emulator: Emulator) -> None:
    storage = InMemoryCheckpointStorage()
    workflow = desk(storage)
    sizes = []
    for turn in range(12):
        await say(workflow, f"Question number {turn:02}?")
        sizes.append(sum(len(encode(fact)) for fact in await storage.store.read(workflow.session_id)))
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) - min(grown) < 40  # positions and token counts have more digits; nothing else grew

    # Asking again, in an object that is new, writes nothing at all.
    checkpoint = await workflow.get_last_checkpoint_id()
    again = await desk(storage).run(checkpoint_id=checkpoint)
    assert [event.data.agent_response.text for event in again.get_request_info_events()] == ["Answer to 'Question number 11?'."]
    assert sum(len(encode(fact)) for fact in await storage.store.read(workflow.session_id)) == sizes[-1]
