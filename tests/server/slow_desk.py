"""A desk that waits in the middle of a tool and of a reply: for a file named `go`. Each thing it does is a line in `done`."""

import asyncio
from pathlib import Path

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import Call, Words
from legato.models.base import Reply


async def go() -> None:
    while not Path("go").exists():  # noqa: ASYNC110 - nobody tells of a file
        await asyncio.sleep(0.01)


def note(line: str) -> None:
    with Path("done").open("a") as done:
        done.write(f"{line}\n")


@tool
async def pay(to: str) -> str:
    """Pay somebody."""
    note(f"paying {to}")
    await go()
    note(f"paid {to}")
    return f"{to} has the money"


@tool(idempotent=True)
async def look(at: str) -> str:
    """Look at something."""
    note(f"looking at {at}")
    await go()
    return f"{at} is fine"


class Slow:
    """Calls the tool that the first word of the last message names; else says a sentence, and waits in its middle."""

    name = "slow"

    async def reply(self, request, emit) -> Reply:
        last = request.messages[-1]
        word, _, rest = last.text.partition(" ")
        if last.role == "user" and word in ("pay", "look"):
            return Reply(items=(Call(word, f'{{"to": "{rest}"}}' if word == "pay" else f'{{"at": "{rest}"}}'),))
        emit("One two ")
        note("half said")
        if last.text == "slowly":
            await go()
        emit("three.")
        return Reply(items=(Words("One two three."),))


desk = HandoffBuilder(name="desk", participants=[Agent(name="clerk", model=Slow(), tools=[pay, look])]).build()
