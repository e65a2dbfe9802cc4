"""A program whose people are asked all there is, and whose models fail when a file says so. Tests copy it into a folder of their own."""

import struct
import zlib
from pathlib import Path

from legato import Agent, HandoffBuilder, Limits, image, tool
from legato.models import Call, Reply, Words
from legato.tools import OutcomeUnknown


@tool(needs_approval=True)
def weigh(grams: int) -> str:
    """Weigh some tea."""
    return f"{grams} g are on the scale"


@tool(deferred=True)
def ask_potter(question: str) -> str:
    """Ask the potter, who answers by letter."""
    raise AssertionError("a deferred tool's body never runs")


@tool
def order(item: str) -> str:
    """Order something from a shop whose line breaks."""
    raise OutcomeUnknown("the line broke after the order was sent")


@tool
def draw(colour: str) -> list:
    """Draw a square."""
    row = b"\0" + b"\x2b\x4c\x9b" * 24
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 24, 24, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(row * 24)), (b"IEND", b"")]
    png = b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    return ["A square:", image(b"\x89PNG\r\n\x1a\n" + png)]


CALLS = {
    "weigh": Call("weigh", '{"grams": 5}'),
    "potter": Call("ask_potter", '{"question": "Which clay?"}'),
    "order": Call("order", '{"item": "a kettle"}'),
    "draw": Call("draw", '{"colour": "blue"}'),
}


class Keen:
    """Does what a word of the last message says."""

    name = "keen-1"

    async def reply(self, request, emit):
        if Path("broken").exists():
            raise ConnectionError("the model is away")
        last = request.messages[-1]
        if last.role == "tool" and not last.author_name.startswith("handoff"):
            return Reply(items=(Words(f"{last.author_name} said: {last.text}"),))
        said = next(message.text for message in reversed(request.messages) if message.role == "user" and not message.synthetic)
        if "loop" in said:
            return Reply(items=(Call("handoff_to_second" if request.agent == "first" else "handoff_to_first", "{}"),))
        found = next((call for word, call in CALLS.items() if word in said), None)
        return Reply(items=(found or Words(f"You said: {said}"),))


agents = [Agent(name, f"You are {name}.", Keen(), tools=[weigh, ask_potter, order, draw]) for name in ("first", "second")]
asking = HandoffBuilder("asking", agents).with_next_turn("start").with_limits(Limits(same_edge=2)).build()
