"""Work that is held up at a known point, and guardrails that take their time: for tests of what happens meanwhile."""

import asyncio

from legato import guardrail
from legato.testing import ScriptedModel


async def awaited(run):
    return await run


def begin(run):
    return asyncio.ensure_future(awaited(run))


class Held:
    """A point that work reaches and does not leave before it is let go."""

    def __init__(self):
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def here(self):
        self.reached.set()
        await self.go.wait()


class Guard(Held):
    """Withholds what is bad, takes its time over what is slow, and remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

        @guardrail("input")
        async def guard(context, text):
            self.asked.append(text)
            if "slow" in text:
                await self.here()
            return "withheld" if "bad" in text else None

        self.rail = guard


def thinking(held, replies, turn=0):
    """A model that is held up before one of its replies."""

    async def reply(seen):
        if seen.turn == turn:
            await held.here()
        return replies[seen.turn]

    return ScriptedModel(reply)


async def counted(store, kind):
    """How many facts of a kind session "s" has."""
    return sum(isinstance(fact, kind) for fact in await store.read("s"))


async def recorded(store, kind, number=1):
    """Wait until it has so many."""
    async with asyncio.timeout(60):
        while await counted(store, kind) < number:
            await store.wait("s", len(await store.read("s")), 0.2)
