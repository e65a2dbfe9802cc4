"""A provider's conversation with unknown contents is never used again, whatever process died (C4, D1).

A request to a conversation is recorded before it is sent (`ConversationClaimed`). Without a recorded reply, the contents are unknown.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from legato import Session
from legato.core.facts import ConversationClaimed, ModelReplied
from legato.emulator.fake_models.base import ReplyText, ReplyThought
from legato.stores import SQLiteStore
from legato.stores.contract import Store
from tests.providers.failures.emulator_harness import EmulatorHarness, find_conversations, find_replies, run_emulator
from tests.providers.failures.test_retries import make_greeter

FORMAT = "responses conversation"
SCRIPT: list[Any] = [
    [ReplyThought("A guest."), ReplyText("Hello!")],
    [ReplyThought("Again."), ReplyText("Still here.")],
    "And here.",
    "Yes.",
]
ROOT = Path(__file__).parents[3]


async def wait_for_requests(harness: EmulatorHarness, number: int) -> None:
    while harness.emulator.log.requests < number:  # noqa: ASYNC110 - the server has no event to wait for
        await asyncio.sleep(0.002)


async def check_abandoned(harness: EmulatorHarness, session: Session, conversation: str) -> None:
    """Check that the turn ends in another conversation, with its history by value, and that later turns use that conversation."""
    before = len(await harness.read_exchanges())
    result = await session.resume()
    assert (result.status, result.text) == ("waiting", "Still here.")
    for words in ("And here.", "Yes."):
        assert (await session.run("Go on")).text == words
    later = [exchange.request_body for exchange in (await harness.read_exchanges())[before:]]
    assert conversation not in {request.get("conversation") for request in later}
    assert len({request["conversation"] for request in later}) == 1
    user_texts = [item["content"] for item in later[0]["input"] if item.get("role") == "user"]
    assert user_texts == ["Hello", "Are you there?"]
    assert later[2]["input"] == [{"role": "user", "content": "Go on"}]  # from then on only new content
    assert [message.text for message in session.messages][:4] == ["Hello", "Hello!", "Are you there?", "Still here."]
    await harness.check_sessions(session)


async def test_killed_driver_makes_a_conversation_unusable(tmp_path: Path, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT, faults=["slow delay=0.2@2"]) as harness:
        path = tmp_path / "killed.db"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("killed_process.py")),
            harness.emulator.openai_url,
            str(path),
            str(stream),
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        await asyncio.wait_for(wait_for_requests(harness, 2), 60)
        process.kill()
        await process.wait()
        async with SQLiteStore(path) as store:
            session = make_greeter(harness.make_model(FORMAT)).session("s", store=store)
            await session.refresh()
            assert [type(fact) for fact in session.facts][-1] is ConversationClaimed
            first, tainted = find_conversations(session)
            assert first == tainted
            await check_abandoned(harness, session, tainted)


async def test_vanished_driver_makes_a_conversation_unusable(stream: bool, store: Store) -> None:
    async with run_emulator(stream, SCRIPT, faults=["slow delay=0.05@2"]) as harness:
        workflow = make_greeter(harness.make_model(FORMAT))
        await workflow.session("s", store=store).run("Hello")

        async def say() -> None:
            await workflow.session("s", store=store).run("Are you there?")

        driving = asyncio.create_task(say())
        await wait_for_requests(harness, 2)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        session = await workflow.session("s", store=store).refresh()
        assert [type(fact) for fact in session.facts][-1] is ConversationClaimed
        await check_abandoned(harness, session, find_conversations(session)[-1])


async def test_cancelled_request_makes_a_conversation_unusable(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT, faults=["slow delay=0.05@2"]) as harness:
        session = make_greeter(harness.make_model(FORMAT)).session("s")
        await session.run("Hello")
        running = asyncio.create_task(_run(session, "Are you there?"))
        await wait_for_requests(harness, 2)
        await session.cancel()
        assert (await running).status == "cancelled"
        tainted = find_conversations(session)[-1]
        assert (await session.run("Go on")).text == "Still here."
        assert find_conversations(session)[-1] != tainted
        assert (await session.run("Go on")).text == "And here."
        assert len(set(find_conversations(session))) == 2
        await harness.check_sessions(session)


async def _run(session: Session, message: str) -> Any:
    return await session.run(message)


@pytest.mark.parametrize("fault", ["cut event=6", "error_event after=6", "hang_up", "server_error", "timeout seconds=0.01"])
async def test_failed_request_makes_a_conversation_unusable(fault: str, without_backoff: None) -> None:
    async with run_emulator(True, SCRIPT) as harness:
        session = make_greeter(harness.make_model(FORMAT)).session("s")
        await session.run("Hello")
        harness.emulator.fault(fault)
        assert (await session.run("Are you there?")).text == "Still here."
        before, tainted, after = find_conversations(session)
        assert before == tainted != after
        assert (await session.run("Go on")).text == "And here."
        assert find_conversations(session)[-1] == after
        await harness.check_sessions(session)


async def test_fork_gets_its_own_conversation(stream: bool, store: Store) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_greeter(harness.make_model(FORMAT)).session("s", store=store)
        await session.run("Hello")
        branch = await session.fork(id="branch")
        assert (await branch.run("In the branch")).text == "Still here."
        assert (await session.run("In the original")).text == "Still here."
        assert (await branch.run("Again")).text == "And here."
        assert len(set(find_conversations(session))) == 1
        assert len({fact.base for fact in find_replies(branch)[1:]}) == 1
        assert find_replies(branch)[-1].base not in find_conversations(session)
        await harness.check_sessions(session, branch)


async def test_conversation_is_claimed_before_each_request(stream: bool, store: Store) -> None:
    """Each request to a conversation has its `ConversationClaimed` before it, and its reply names the same conversation."""
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_greeter(harness.make_model(FORMAT)).session("s", store=store)
        for _ in range(3):
            await session.run("Hello")
        pairs = [fact for fact in session.facts if isinstance(fact, (ConversationClaimed, ModelReplied))]
        sent_conversations = [exchange.request_body["conversation"] for exchange in await harness.read_exchanges()]
        assert [type(fact) for fact in pairs] == [ConversationClaimed, ModelReplied] * 3
        assert [fact.conversation for fact in pairs if isinstance(fact, ConversationClaimed)] == sent_conversations
        assert [fact.base for fact in pairs if isinstance(fact, ModelReplied)] == sent_conversations
