"""Breakpoints that hold up work at a known point, and guardrails and models with them: for tests of concurrent events."""

import asyncio

from legato import guardrail
from legato.testing import ScriptedModel


async def complete(run):
    """Await a run. `asyncio` makes tasks of coroutines only, and a run is none."""
    return await run


def start(run):
    """Start a run in a task."""
    return asyncio.ensure_future(complete(run))


class Breakpoint:
    """A point that work reaches, and leaves only when `go` is set."""

    def __init__(self):
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def hit(self):
        self.reached.set()
        await self.go.wait()


class BlockingGuardrail(Breakpoint):
    """An input guardrail that withholds "bad" texts, stops at a breakpoint for "slow" ones, and remembers what it has checked."""

    def __init__(self):
        super().__init__()
        self.checked_texts = []

        @guardrail("input")
        async def check(context, text):
            self.checked_texts.append(text)
            if "slow" in text:
                await self.hit()
            return "withheld" if "bad" in text else None

        self.guardrail = check


def make_blocked_model(pause, replies, index=0):
    """Return a model that hits a breakpoint before the reply of this index."""

    async def reply(request):
        if request.reply_count == index:
            await pause.hit()
        return replies[request.reply_count]

    return ScriptedModel(reply)


async def count_facts(store, kind):
    """Return the number of facts of a kind in session "s"."""
    return sum(isinstance(fact, kind) for fact in await store.read("s"))


async def wait_for_facts(store, kind, number=1):
    """Wait until session "s" has so many facts of a kind."""
    async with asyncio.timeout(60):
        while await count_facts(store, kind) < number:
            await store.wait("s", len(await store.read("s")), 0.2)
