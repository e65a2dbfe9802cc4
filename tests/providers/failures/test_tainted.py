"""A conversation of the provider's of which nobody knows what it holds is never used again, whoever died (C4, D1).

What goes there is recorded before it is sent (`ConversationClaimed`); if no reply to it was recorded, the provider may have it or not.
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
from legato.emulator.minds.base import Thought, Words
from legato.stores import SQLiteStore
from legato.stores.contract import Store
from tests.providers.failures.test_retries import greeter
from tests.providers.failures.wires import Line, answers, conversations, line

NAME = "responses conversation"
HELLO: list[Any] = [[Thought("A guest."), Words("Hello!")], [Thought("Again."), Words("Still here.")], "And here.", "Yes."]
ROOT = Path(__file__).parents[3]


async def requests_begun(wire: Line, number: int) -> None:
    while wire.emulator.log.requests < number:  # noqa: ASYNC110 - the server has no event to wait for
        await asyncio.sleep(0.002)


async def check_never_used_again(wire: Line, session: Session, tainted: str) -> None:
    """The turn comes to its end in another conversation, told by value; and so do those after it."""
    before = len(await wire.exchanges())
    result = await session.resume()
    assert (result.status, result.text) == ("waiting", "Still here.")
    for words in ("And here.", "Yes."):
        assert (await session.run("Go on")).text == words
    later = [exchange.request for exchange in (await wire.exchanges())[before:]]
    assert tainted not in {request.get("conversation") for request in later}
    assert len({request["conversation"] for request in later}) == 1
    told = [item["content"] for item in later[0]["input"] if item.get("role") == "user"]
    assert told == ["Hello", "Are you there?"]
    assert later[2]["input"] == [{"role": "user", "content": "Go on"}]  # and from there on only what is new
    assert [message.text for message in session.messages][:4] == ["Hello", "Hello!", "Are you there?", "Still here."]
    await wire.check(session)


async def test_killed_between_the_question_and_the_answer(tmp_path: Path, stream: bool) -> None:
    async with line(stream, HELLO, faults=["slow delay=0.2@2"]) as wire:
        path = tmp_path / "killed.db"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("victim.py")),
            wire.emulator.openai_url,
            str(path),
            str(stream),
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        await asyncio.wait_for(requests_begun(wire, 2), 60)
        process.kill()
        await process.wait()
        async with SQLiteStore(path) as store:
            session = greeter(wire.model(NAME)).session("s", store=store)
            await session.refresh()
            assert [type(fact) for fact in session.facts][-1] is ConversationClaimed
            first, tainted = conversations(session)
            assert first == tainted
            await check_never_used_again(wire, session, tainted)


async def test_a_driver_that_vanished_before_or_while_it_asked(stream: bool, store: Store) -> None:
    async with line(stream, HELLO, faults=["slow delay=0.05@2"]) as wire:
        workflow = greeter(wire.model(NAME))
        await workflow.session("s", store=store).run("Hello")

        async def say() -> None:
            await workflow.session("s", store=store).run("Are you there?")

        driving = asyncio.create_task(say())
        await requests_begun(wire, 2)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        session = await workflow.session("s", store=store).refresh()
        assert [type(fact) for fact in session.facts][-1] is ConversationClaimed
        await check_never_used_again(wire, session, conversations(session)[-1])


async def test_a_question_that_somebody_cancelled(stream: bool) -> None:
    async with line(stream, HELLO, faults=["slow delay=0.05@2"]) as wire:
        session = greeter(wire.model(NAME)).session("s")
        await session.run("Hello")
        running = asyncio.create_task(_result(session, "Are you there?"))
        await requests_begun(wire, 2)
        await session.cancel()
        assert (await running).status == "cancelled"
        tainted = conversations(session)[-1]
        assert (await session.run("Go on")).text == "Still here."
        assert conversations(session)[-1] != tainted
        assert (await session.run("Go on")).text == "And here."
        assert len(set(conversations(session))) == 2
        await wire.check(session)


async def _result(session: Session, message: str) -> Any:
    return await session.run(message)


@pytest.mark.parametrize("fault", ["cut event=6", "error_event after=6", "hang_up", "server_error", "timeout seconds=0.01"])
async def test_a_request_that_failed_on_its_way(fault: str, at_once: None) -> None:
    async with line(True, HELLO) as wire:
        session = greeter(wire.model(NAME)).session("s")
        await session.run("Hello")
        wire.emulator.fault(fault)
        assert (await session.run("Are you there?")).text == "Still here."
        before, tainted, after = conversations(session)
        assert before == tainted != after
        assert (await session.run("Go on")).text == "And here."
        assert conversations(session)[-1] == after
        await wire.check(session)


async def test_a_fork_begins_a_conversation_of_its_own_and_the_original_goes_on_in_its(stream: bool, store: Store) -> None:
    async with line(stream, HELLO) as wire:
        session = greeter(wire.model(NAME)).session("s", store=store)
        await session.run("Hello")
        branch = await session.fork(id="branch")
        assert (await branch.run("In the branch")).text == "Still here."
        assert (await session.run("In the original")).text == "Still here."
        assert (await branch.run("Again")).text == "And here."
        assert len(set(conversations(session))) == 1
        assert len({fact.base for fact in answers(branch)[1:]}) == 1
        assert answers(branch)[-1].base not in conversations(session)
        await wire.check(session, branch)


async def test_what_is_recorded_before_a_request_is_where_it_goes(stream: bool, store: Store) -> None:
    """Every request to a conversation has its `ConversationClaimed` before it, and its reply names the same conversation."""
    async with line(stream, HELLO) as wire:
        session = greeter(wire.model(NAME)).session("s", store=store)
        for _ in range(3):
            await session.run("Hello")
        pairs = [fact for fact in session.facts if isinstance(fact, (ConversationClaimed, ModelReplied))]
        sent = [exchange.request["conversation"] for exchange in await wire.exchanges()]
        assert [type(fact) for fact in pairs] == [ConversationClaimed, ModelReplied] * 3
        assert [fact.conversation for fact in pairs if isinstance(fact, ConversationClaimed)] == sent
        assert [fact.base for fact in pairs if isinstance(fact, ModelReplied)] == sent
