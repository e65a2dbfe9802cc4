"""Whatever a model writes as arguments, what is shown of them can be sent. S4."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from legato import Agent, HandoffBuilder, Secret, Workflow, tool
from legato.core.facts import Call, Words
from legato.core.view import Request
from legato.inspection.exporting import document, page, told
from legato.inspection.hiding import unhidden
from legato.inspection.listing import detail_of, facts_page, question
from legato.models.base import Emit, Reply
from legato.runtime.session import Session
from legato.stores import MemoryStore

HALVES = st.text(st.sampled_from('ab"\\\ud800\udc00\udfff\n\x1b\u202e'), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HALVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HALVES, inner, max_size=3),
    max_leaves=6,
)
WRITTEN = st.dictionaries(st.sampled_from(("to", "pin", "Pin")) | HALVES, VALUES, max_size=4).map(json.dumps)  # ASCII: halves as escapes
TEXTS = WRITTEN | VALUES.map(json.dumps) | st.text(st.characters(codec="utf-8"), max_size=20)


@tool(needs_approval=True)
def pay(to: str, pin: Secret[str]) -> str:
    """Pay."""
    return "paid"


@tool(needs_approval=True)
def note(to: dict[str, Any]) -> str:
    """Note."""
    return "noted"


class Writes:
    """A model that calls a tool with the text it was made with, once."""

    name = "writes"

    def __init__(self, tool: str, text: str) -> None:
        self.call = Call(tool, text)

    async def reply(self, request: Request, emit: Emit) -> Reply:
        return Reply(items=(self.call if request.messages[-1].role == "user" else Words("Well."),))


def calling(name: str, text: str) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", model=Writes(name, text), tools=[pay, note])]).build()


async def asked(name: str, text: str) -> Session:
    session = calling(name, text).session("s", store=MemoryStore())
    await session.run("Go")
    return session


async def shown(session: Session) -> str:
    data = [facts_page(session), detail_of(session), [event.data for event in told(session)], [each.prompt for each in session.pending]]
    return "\n".join([*(msgspec.json.encode(each).decode() for each in data), await document(session), await page(session)])


@settings(max_examples=80)
@given(st.sampled_from(("pay", "note", "nobody")), TEXTS)
@example("pay", r'{"to": "\ud800", "pin": "\udc00"}')
@example("pay", r'{"\ud800": 1, "pin": "1"}')
@example("note", r'{"to": {"a": "\ud800"}}')
@example("note", '{"to": ' + '{"a": ' * 300 + "1" + "}" * 301)
@example("pay", '{"to": ' + "[" * 5000 + "]" * 5000 + "}")
@example("pay", '{"to": ' + "9" * 5000 + "}")
def test_whatever_text_a_model_writes_as_arguments_every_page_of_it_can_be_encoded(name: str, text: str) -> None:
    async def look() -> None:
        session = await asked(name, text)
        (await shown(session)).encode()

    asyncio.run(look())


@pytest.mark.parametrize("odd", ['{"a": NaN}', "1e400", "-Infinity"])
def test_what_cannot_be_sent_is_what_it_was_when_it_comes_back(odd: str) -> None:
    async def look() -> None:
        session = await asked("note", f'{{"to": {{"odd": {odd}}}}}')
        [request] = session.pending
        sent = msgspec.json.decode(msgspec.json.encode(question(session, request)))["arguments"]
        assert unhidden(session, request, sent)["to"] is not sent["to"]
        assert repr(unhidden(session, request, sent)) == repr(request.arguments)

    asyncio.run(look())


@pytest.mark.parametrize(
    "written", ['{"to": "Ann", "Pin": "canary"}', '{"to": 1, "pin ": {"canary": 1}}', r'{"to": "Ann", "p\u0131n": ["canary"]}']
)
def test_a_secret_under_a_misspelled_name_is_shown_nowhere(written: str) -> None:
    async def look() -> None:
        session = await asked("pay", written)
        assert "canary" not in await shown(session)
        assert '\\"to\\":' in await shown(session), "what the tool may show is shown"

    asyncio.run(look())
