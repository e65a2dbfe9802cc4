"""What others append while a tool of this driver runs: its outcome counts once, and nothing waits for it in vain."""

import asyncio
from contextlib import suppress

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.digests import digest_arguments
from legato.core.facts import CallLost, CallRef, CallReturned, CallStarted, Cancelled, Decided
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call
from tests.runtime.holding import Held, begin

CALL = CallRef(2, 0)
LOST = CallLost(at=1, call=CALL, attempt=1)
RUN_AGAIN = Decided(at=1, kind="outcome", verdict="approve", call=CALL, digest=digest_arguments("{}"))


class Desk(Held):
    """A session whose one tool is held up, and finishes its work also where it is cancelled."""

    def __init__(self, store):
        super().__init__()
        self.store = store

        @tool
        async def pay() -> str:
            with suppress(asyncio.CancelledError):
                await self.here()
            await self.go.wait()
            return "paid"

        model = ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done")
        self.session = HandoffBuilder("w", [Agent("a", model=model, tools=[pay])]).with_checkpointing(store).build().session("s")

    async def append(self, *facts):
        """Append as another process would."""
        await self.store.append("s", len(await self.store.read("s")), facts)

    async def until(self, condition):
        while not condition(self.session.facts):  # noqa: ASYNC110 - it counts turns of the loop, and waits for no clock
            await asyncio.sleep(0)


def has(kind, **attributes):
    def found(facts):
        return any(type(fact) is kind and all(getattr(fact, name) == value for name, value in attributes.items()) for fact in facts)

    return found


async def test_outcome_after_lost_answers_the_call():
    desk = Desk(MemoryStore())
    running = begin(desk.session.run("pay"))
    await desk.reached.wait()
    await desk.append(LOST)
    await desk.until(has(CallLost))
    for _ in range(100):  # long enough for a driver that takes no notice of the outcome to come to rest
        await asyncio.sleep(0)
    desk.go.set()
    assert (await running).text == "done"


async def test_outcome_after_run_again_is_late():
    desk = Desk(MemoryStore())
    running = begin(desk.session.run("pay"))
    await desk.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await desk.append(LOST, RUN_AGAIN)
    desk.go.set()
    other = desk.session.workflow.session("s")
    async with asyncio.timeout(60):
        while not has(CallReturned)((await other.refresh()).facts):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0)
    assert has(CallReturned, late=True, attempt=1)(other.facts)
    assert not has(CallStarted, attempt=2)(other.facts)


class Interrupted(MemoryStore):
    """A cancel of somebody else lands right behind the start of a tool."""

    async def append(self, ledger, expected, facts, **more):
        length = await super().append(ledger, expected, facts, **more)
        if any(isinstance(fact, CallStarted) for fact in facts):
            await super().append(ledger, length, [Cancelled(at=1)])
        return length


async def test_cancel_behind_own_append_is_heard():
    desk = Desk(Interrupted())
    async with asyncio.timeout(60):
        assert (await desk.session.run("pay")).status == "cancelled"
    desk.go.set()
