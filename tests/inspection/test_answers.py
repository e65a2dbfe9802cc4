"""Answers from those who were shown digests in place of secrets."""

from __future__ import annotations

import json

import pytest

from legato.core.facts import Decided
from legato.errors import BadInput, NotPending
from legato.inspection.answers import give_answer
from legato.inspection.listing import question
from legato.stores import MemoryStore
from tests.inspection.desk import PIN, refunding


async def test_an_edit_sent_back_by_id_keeps_the_secrets() -> None:
    session = refunding().session("s", store=MemoryStore())
    await session.run("I want my money back")
    asked = question(session, session.pending[0])
    assert PIN not in json.dumps(asked.arguments)
    await give_answer(session, asked.id, "edit", arguments={**asked.arguments, "amount": 3})
    (decided,) = [fact for fact in session.state.facts if isinstance(fact, Decided)]
    assert json.loads(decided.arguments) == {"order_id": "7", "amount": 3, "pin": PIN}


async def test_a_digest_of_other_arguments_is_refused() -> None:
    session = refunding().session("s", store=MemoryStore())
    await session.run("I want my money back")
    edited = {"order_id": "7", "amount": 3, "pin": "secret:0d8eee62d2ec63b1"}
    with pytest.raises(BadInput, match="stands for a secret of other arguments"):
        await give_answer(session, session.pending[0].id, "edit", arguments=edited)
    assert len(session.pending) == 1


async def test_an_edit_of_what_is_not_asked_is_not_pending() -> None:
    session = refunding().session("s", store=MemoryStore())
    await session.run("I want my money back")
    with pytest.raises(NotPending):
        await give_answer(session, "another", "edit", arguments={})


async def test_an_unknown_verdict_is_refused_by_name() -> None:
    session = refunding().session("s", store=MemoryStore())
    with pytest.raises(BadInput, match="no such decision"):
        await give_answer(session, "any", "dance")
