"""A session as a file. S4."""

from __future__ import annotations

import json

import pytest

from legato.errors import BadInput
from legato.shown.exporting import document, exact, page
from legato.stores import MemoryStore
from tests.shown.desk import PIN, desk, refunded
from tests.shown.test_browsing import office


async def test_a_document_has_all_that_is_recorded_but_secrets() -> None:
    session = await refunded()
    text = await document(session)
    told = json.loads(text)
    assert [fact["position"] for fact in told["facts"]] == list(range(len(session.facts)))
    assert {fact["frame"] for fact in told["facts"] if fact["fact"] == "answered"} == set(told["frames"])
    assert PIN not in text
    assert PIN in await exact(session), "the exact form is the session itself"


async def test_what_was_said_cannot_become_markup_of_the_page() -> None:
    session = desk("# not a heading\n</div><script>\x1b[2J").session("s", store=MemoryStore())
    await session.run("Hello\n\n# nor this")
    lines = page(session).splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# s"]
    assert "> # not a heading" in lines
    assert "\x1b" not in page(session)
    assert PIN not in page(await refunded())


async def test_what_waits_in_another_conversation_leaves_only_with_its_program() -> None:
    session = office().session("work", store=MemoryStore())
    await session.run("Pay the bill")
    with pytest.raises(BadInput, match="a conversation of its own"):
        await exact(session, known=False)
    assert json.loads(await exact(session))
