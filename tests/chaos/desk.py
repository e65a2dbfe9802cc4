"""The desk that workers serve while chaos reigns. What happens follows from the user's last message, so a restart changes nothing:

    "m07 billing pay look"    message 7: whoever has control hands it to `billing`, who calls `pay` and `look` side by side

`look` may be started again unasked; `pay` and `refund` may not; `refund` needs approval; `ship` is deferred. Everything takes some
milliseconds, and now and then a second, so that whatever dies finds something in the middle.
"""

from __future__ import annotations

import asyncio
import uuid
from random import Random
from typing import Any

from msgspec.structs import replace

from legato import Agent, HandoffBuilder, ToolContext, tool
from legato.core.groups import AssistantEntry, Entry, UserEntry
from legato.core.messages import text_of
from legato.core.view import Request
from legato.models.base import Emit, Reply
from legato.testing import call, handoff
from legato.testing.scripted import as_reply
from tests.chaos import book

AGENTS = ("triage", "billing", "parcels")
ONCE = frozenset({"pay", "refund"})
"""Tools that may not be started twice."""


async def body(ctx: ToolContext[Any], order: str) -> str:
    """What every tool does: say that it began, take its time, say that it ended."""
    name, number = ctx.call.tool, uuid.uuid4().hex
    book.write(
        what="begin", kind="tool", id=number, name=name, session=ctx.session_id, key=ctx.idempotency_key, attempt=ctx.attempt, order=order
    )
    dice = Random(number)
    await asyncio.sleep(dice.choice((0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.5)))
    gave = f"{name} {order} {number[:8]}"
    book.write(what="end", id=number, key=ctx.idempotency_key, gave=gave)
    return gave


@tool(idempotent=True)
async def look(order: str, ctx: ToolContext[Any]) -> str:
    """Look up an order."""
    return await body(ctx, order)


@tool
async def pay(order: str, ctx: ToolContext[Any]) -> str:
    """Pay for an order."""
    return await body(ctx, order)


@tool(needs_approval=True)
async def refund(order: str, ctx: ToolContext[Any]) -> str:
    """Refund an order."""
    return await body(ctx, order)


@tool(deferred=True)
async def ship(order: str) -> str:
    """Ship a replacement."""


def token(entry: Entry) -> str:
    """An entry of a request in a few letters: what it is, and where in the ledger it comes from."""
    if isinstance(entry, UserEntry):
        return f"s{entry.position}" if entry.synthetic else f"u{entry.position}={text_of(entry.content).split(' ')[0]}"
    return f"r{entry.position}" if isinstance(entry, AssistantEntry) else f"o{entry.ref}"


def answer(seen: Request) -> Any:
    """What the model says."""
    last = max(index for index, message in enumerate(seen.messages) if message.role == "user")
    number, agent, *wanted = seen.messages[last].text.split()
    if seen.agent != agent:
        return [f"{agent} knows that.", handoff(agent, number)]
    done = {each.tool for message in seen.messages[last + 1 :] for each in message.calls}
    missing = [each for each in wanted if each not in done]
    return [call(each, order=f"{number}-{each}") for each in missing] if missing else f"done {number}"


class Writing:
    """A model that writes down what it was sent, and gives each reply a name."""

    name = "writing"

    async def reply(self, request: Request, emit: Emit) -> Reply:
        number = uuid.uuid4().hex
        saw = " ".join(token(entry) for entry in request.entries)
        book.write(what="begin", kind="model", id=number, name=request.agent, session=request.session, upto=request.upto, saw=saw)
        await asyncio.sleep(Random(number).choice((0.001, 0.005, 0.02, 0.05)))
        reply = replace(as_reply(answer(request), request), response_id=number)
        book.write(what="end", id=number)
        return reply


def script(seed: int, session: str, turns: int) -> list[str]:
    """What the person of a conversation says, from its first message to its last."""
    dice = Random(f"{seed} {session}")
    said = []
    for number in range(turns):
        tools = dice.choices(
            ([], ["look"], ["pay"], ["look", "pay"], ["refund"], ["ship"], ["pay", "refund", "look"], ["ship", "pay"]),
            (6, 4, 4, 2, 2, 1, 1, 1),
        )[0]
        said.append(" ".join([f"m{number:02}", dice.choice(AGENTS), *tools]))
    return said


_tools = [look, pay, refund, ship]
desk = HandoffBuilder("desk", [Agent(name, model=Writing(), tools=_tools) for name in AGENTS]).build()
