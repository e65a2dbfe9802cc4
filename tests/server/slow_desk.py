"""A workflow whose tools and replies wait for a file named `go`. It writes each step as a line into the file `done`."""

import asyncio
from pathlib import Path

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import Call, OutputText
from legato.models.model import ModelReply


async def wait_for_go() -> None:
    while not Path("go").exists():  # noqa: ASYNC110 - there is no event for a new file
        await asyncio.sleep(0.01)


def log_step(line: str) -> None:
    with Path("done").open("a") as done:
        done.write(f"{line}\n")


@tool
async def pay(to: str) -> str:
    """Pay somebody."""
    log_step(f"paying {to}")
    await wait_for_go()
    log_step(f"paid {to}")
    return f"{to} has the money"


@tool(idempotent=True)
async def look(at: str) -> str:
    """Look at something."""
    log_step(f"looking at {at}")
    await wait_for_go()
    return f"{at} is fine"


class Slow:
    """Calls the tool named by the first word of the last message; otherwise replies, with a pause in the middle."""

    name = "slow"

    async def reply(self, request, emit) -> ModelReply:
        last = request.messages[-1]
        word, _, rest = last.text.partition(" ")
        if last.role == "user" and word in ("pay", "look"):
            return ModelReply(items=(Call(word, f'{{"to": "{rest}"}}' if word == "pay" else f'{{"at": "{rest}"}}'),))
        emit("One two ")
        log_step("half said")
        if last.text == "slowly":
            await wait_for_go()
        emit("three.")
        return ModelReply(items=(OutputText("One two three."),))


desk = HandoffBuilder(name="desk", participants=[Agent(name="clerk", model=Slow(), tools=[pay, look])]).build()
