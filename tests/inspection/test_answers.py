"""Answers from people who saw digests in place of secrets."""

from __future__ import annotations

import json

import pytest

from legato.core.facts import Decided
from legato.errors import BadInput, NotPending
from legato.inspection.answers import record_answer
from legato.inspection.session_summaries import summarize_request
from legato.stores import MemoryStore
from tests.inspection.support_desk import PIN, build_refund_desk


async def test_edit_by_id_keeps_secrets() -> None:
    session = build_refund_desk().session("s", store=MemoryStore())
    await session.run("I want my money back")
    request = summarize_request(session, session.pending[0])
    assert PIN not in json.dumps(request.arguments)
    await record_answer(session, request.id, "edit", arguments={**request.arguments, "amount": 3})
    (decided,) = [fact for fact in session.state.facts if isinstance(fact, Decided)]
    assert json.loads(decided.arguments) == {"order_id": "7", "amount": 3, "pin": PIN}


async def test_digest_of_other_arguments_is_refused() -> None:
    session = build_refund_desk().session("s", store=MemoryStore())
    await session.run("I want my money back")
    edited = {"order_id": "7", "amount": 3, "pin": "secret:0d8eee62d2ec63b1"}
    with pytest.raises(BadInput, match="digest of a secret in other arguments"):
        await record_answer(session, session.pending[0].id, "edit", arguments=edited)
    assert len(session.pending) == 1


async def test_edit_of_unknown_request_is_not_pending() -> None:
    session = build_refund_desk().session("s", store=MemoryStore())
    await session.run("I want my money back")
    with pytest.raises(NotPending):
        await record_answer(session, "another", "edit", arguments={})


async def test_unknown_verdict_is_refused_by_name() -> None:
    session = build_refund_desk().session("s", store=MemoryStore())
    with pytest.raises(BadInput, match="not a verdict"):
        await record_answer(session, "any", "dance")
