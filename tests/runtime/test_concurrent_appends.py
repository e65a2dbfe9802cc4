"""Appends of other writers while a tool of this driver runs: its outcome counts once, and no driver waits for it in vain."""

import asyncio
from contextlib import suppress

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.digests import digest_arguments
from legato.core.facts import CallLost, CallRef, CallReturned, CallStarted, Cancelled, Decided
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call
from tests.runtime.blocking import Breakpoint, start

CALL = CallRef(2, 0)
LOST = CallLost(at=1, call=CALL, attempt=1)
RUN_AGAIN = Decided(at=1, kind="outcome", verdict="approve", call=CALL, digest=digest_arguments("{}"))


class Desk(Breakpoint):
    """A session with one tool that stops at a breakpoint, and finishes its work even if it is cancelled."""

    def __init__(self, store):
        super().__init__()
        self.store = store

        @tool
        async def pay() -> str:
            with suppress(asyncio.CancelledError):
                await self.hit()
            await self.go.wait()
            return "paid"

        model = ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done")
        self.session = HandoffBuilder("w", [Agent("a", model=model, tools=[pay])]).with_checkpointing(store).build().session("s")

    async def append(self, *facts):
        """Append like another process."""
        await self.store.append("s", len(await self.store.read("s")), facts)

    async def until(self, condition):
        while not condition(self.session.facts):  # noqa: ASYNC110 - it counts turns of the loop, and waits for no clock
            await asyncio.sleep(0)


def contains(kind, **attributes):
    def is_in(facts):
        return any(type(fact) is kind and all(getattr(fact, name) == value for name, value in attributes.items()) for fact in facts)

    return is_in


async def test_outcome_answers_call_declared_lost():
    desk = Desk(MemoryStore())
    running = start(desk.session.run("pay"))
    await desk.reached.wait()
    await desk.append(LOST)
    await desk.until(contains(CallLost))
    for _ in range(100):  # long enough for a driver that ignores the outcome to become idle
        await asyncio.sleep(0)
    desk.go.set()
    assert (await running).text == "done"


async def test_outcome_after_approved_rerun_is_late():
    desk = Desk(MemoryStore())
    running = start(desk.session.run("pay"))
    await desk.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await desk.append(LOST, RUN_AGAIN)
    desk.go.set()
    other = desk.session.workflow.session("s")
    async with asyncio.timeout(60):
        while not contains(CallReturned)((await other.refresh()).facts):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0)
    assert contains(CallReturned, late=True, attempt=1)(other.facts)
    assert not contains(CallStarted, attempt=2)(other.facts)


class CancellingStore(MemoryStore):
    """A store in which another process cancels the session right after the start of a tool."""

    async def append(self, ledger, expected, facts, **more):
        length = await super().append(ledger, expected, facts, **more)
        if any(isinstance(fact, CallStarted) for fact in facts):
            await super().append(ledger, length, [Cancelled(at=1)])
        return length


async def test_cancel_right_after_own_append_is_noticed():
    desk = Desk(CancellingStore())
    async with asyncio.timeout(60):
        assert (await desk.session.run("pay")).status == "cancelled"
    desk.go.set()
