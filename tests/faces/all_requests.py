"""A program whose workflow makes pending requests of every kind, and whose model fails while a file `broken` exists. Tests copy it."""

import struct
import zlib
from pathlib import Path

from legato import Agent, HandoffBuilder, Limits, image, tool
from legato.models import Call, ModelReply, OutputText
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
    """Order something from a shop whose connection breaks."""
    raise OutcomeUnknown("the connection broke after the order was sent")


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


class KeywordModel:
    """Calls the tool that a word of the last message names."""

    name = "keyword-1"

    async def reply(self, request, emit):
        if Path("broken").exists():
            raise ConnectionError("the model is away")
        last = request.messages[-1]
        if last.role == "tool" and not last.author_name.startswith("handoff"):
            return ModelReply(items=(OutputText(f"{last.author_name} said: {last.text}"),))
        text = next(message.text for message in reversed(request.messages) if message.role == "user" and not message.synthetic)
        if "loop" in text:
            return ModelReply(items=(Call("handoff_to_second" if request.agent == "first" else "handoff_to_first", "{}"),))
        call = next((call for word, call in CALLS.items() if word in text), None)
        return ModelReply(items=(call or OutputText(f"You said: {text}"),))


agents = [Agent(name, f"You are {name}.", KeywordModel(), tools=[weigh, ask_potter, order, draw]) for name in ("first", "second")]
workflow = HandoffBuilder("all requests", agents).with_next_turn("start").with_limits(Limits(same_edge=2)).build()
