"""Masked arguments can be encoded, whatever a model writes as arguments. S4."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from legato import Agent, HandoffBuilder, Secret, Workflow, tool
from legato.core.facts import Call, OutputText
from legato.core.view import ModelRequest
from legato.inspection.secret_masks import restore_secrets
from legato.inspection.session_export import export_json, export_markdown, replay_events
from legato.inspection.session_summaries import build_facts_page, build_session_detail, summarize_request
from legato.models.model import Emit, ModelReply
from legato.runtime.session import Session
from legato.stores import MemoryStore

HALF_SURROGATE_TEXTS = st.text(st.sampled_from('ab"\\\ud800\udc00\udfff\n\x1b\u202e'), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HALF_SURROGATE_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HALF_SURROGATE_TEXTS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS_JSON = st.dictionaries(st.sampled_from(("to", "pin", "Pin")) | HALF_SURROGATE_TEXTS, VALUES, max_size=4).map(
    json.dumps
)  # ASCII: halves as escapes
ARGUMENT_TEXTS = ARGUMENTS_JSON | VALUES.map(json.dumps) | st.text(st.characters(codec="utf-8"), max_size=20)


@tool(needs_approval=True)
def pay(to: str, pin: Secret[str]) -> str:
    """Pay."""
    return "paid"


@tool(needs_approval=True)
def note(to: dict[str, Any]) -> str:
    """Note."""
    return "noted"


class CallingModel:
    """A model that calls a tool with the text it was made with, once."""

    name = "writes"

    def __init__(self, tool: str, text: str) -> None:
        self.call = Call(tool, text)

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        return ModelReply(items=(self.call if request.messages[-1].role == "user" else OutputText("Well."),))


def build_calling_workflow(name: str, text: str) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", model=CallingModel(name, text), tools=[pay, note])]).build()


async def run_until_asked(name: str, text: str) -> Session:
    session = build_calling_workflow(name, text).session("s", store=MemoryStore())
    await session.run("Go")
    return session


async def render_everything(session: Session) -> str:
    data = [
        build_facts_page(session),
        build_session_detail(session),
        [event.data for event in replay_events(session)],
        [each.prompt for each in session.pending],
    ]
    return "\n".join([*(msgspec.json.encode(each).decode() for each in data), await export_json(session), await export_markdown(session)])


@settings(max_examples=80)
@given(st.sampled_from(("pay", "note", "nobody")), ARGUMENT_TEXTS)
@example("pay", r'{"to": "\ud800", "pin": "\udc00"}')
@example("pay", r'{"\ud800": 1, "pin": "1"}')
@example("note", r'{"to": {"a": "\ud800"}}')
@example("note", '{"to": ' + '{"a": ' * 300 + "1" + "}" * 301)
@example("pay", '{"to": ' + "[" * 5000 + "]" * 5000 + "}")
@example("pay", '{"to": ' + "9" * 5000 + "}")
def test_any_arguments_can_be_encoded_for_pages(name: str, text: str) -> None:
    """Whatever text a model writes as arguments, every page and export of it can be encoded."""

    async def look() -> None:
        session = await run_until_asked(name, text)
        (await render_everything(session)).encode()

    asyncio.run(look())


@pytest.mark.parametrize("odd", ['{"a": NaN}', "1e400", "-Infinity"])
def test_unencodable_numbers_survive_the_round_trip(odd: str) -> None:
    """A value that JSON cannot carry is shown as text, and is the same value again when the text comes back."""

    async def look() -> None:
        session = await run_until_asked("note", f'{{"to": {{"odd": {odd}}}}}')
        [request] = session.pending
        sent = msgspec.json.decode(msgspec.json.encode(summarize_request(session, request)))["arguments"]
        assert restore_secrets(session, request, sent)["to"] is not sent["to"]
        assert repr(restore_secrets(session, request, sent)) == repr(request.arguments)

    asyncio.run(look())


@pytest.mark.parametrize(
    "written", ['{"to": "Ann", "Pin": "canary"}', '{"to": 1, "pin ": {"canary": 1}}', r'{"to": "Ann", "p\u0131n": ["canary"]}']
)
def test_misspelled_secret_argument_is_masked_everywhere(written: str) -> None:
    async def look() -> None:
        session = await run_until_asked("pay", written)
        assert "canary" not in await render_everything(session)
        assert '\\"to\\":' in await render_everything(session), "arguments that are not secret are not masked"

    asyncio.run(look())
