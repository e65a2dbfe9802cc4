"""A program with fast models. `python long_session.py FILE FACTS` writes a long session into a store."""

import asyncio
import sys

from legato import Agent, HandoffBuilder, Limits, history, tool
from legato.models import Call, ModelReply, OutputText, Usage
from legato.stores import SQLiteStore

WORDS = "I have looked into this part of the question, and this is what I found out about it, in as many words as people use. "


@tool
def look(number: int) -> str:
    """Look something up."""
    return f"what stands at {number}"


class Clerk:
    """Looks something up for every question, and hands every other one on first."""

    name = "clerk-1"

    async def reply(self, request, emit):
        last = request.messages[-1]
        number = request.messages[-1].text.split()[-1] if last.role == "user" else "0"
        if last.role == "user" and request.agent == "first" and int(number) % 2:
            item = Call("handoff_to_second", '{"reason": "an odd one"}')
        elif last.role == "user" or last.author_name.startswith("handoff"):
            item = Call("look", f'{{"number": {number}}}')
        else:
            item = OutputText(f"{WORDS}It is {last.text}.")
        return ModelReply(items=(item,), usage=Usage(input=1000, output=50))


agents = [Agent(name, f"You are {name}.", Clerk(), tools=[look], history=history.last(3)) for name in ("first", "second")]
workflow = HandoffBuilder("long", agents).with_next_turn("start").with_limits(Limits(turns=1_000_000)).build()


async def main(path: str, facts: int) -> None:
    async with SQLiteStore(path) as store:
        session, number = await workflow.session("long", store=store).refresh(), 0
        while session.state.length < facts:
            await session.run(f"question {number}")
            number += 1
        print(session.state.length)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
