"""A session as lists and pages show it. S4."""

from __future__ import annotations

import msgspec
import pytest

from legato.core.pending_requests import VERDICTS
from legato.core.secret_arguments import masked
from legato.errors import BadInput, NotPending
from legato.inspection.hiding import unhidden
from legato.inspection.listing import ForkedFrom, detail_of, facts_page, question, row_of, unreadable
from legato.inspection.recorded import as_recorded
from legato.stores import MemoryStore
from legato.stores.contract import LedgerInfo
from legato.testing import call
from tests.inspection.desk import PIN, desk, refunding

ROW = {"id", "workflow", "status", "agent", "facts", "updated", "parent", "within", "last", "pending", "served", "error", "damaged"}
DETAIL = ROW | {"opened", "origin", "usage", "losses", "messages", "replies", "can_drive"}
REQUEST = {"id", "kind", "prompt", "agent", "tool", "arguments", "digest", "session", "call", "limit", "verdicts", "schema", "secrets"}
REQUEST |= {"for_client"}


async def test_a_session_is_told_in_the_same_fields_whatever_state_it_is_in() -> None:
    store = MemoryStore()
    new = refunding().session("new", store=store)
    pending = refunding().session("pending", store=store)
    await new.refresh()
    await pending.run("I want my money back")
    for session in (new, pending):
        assert set(msgspec.to_builtins(row_of(session))) == ROW
        assert set(msgspec.to_builtins(detail_of(session))) == DETAIL
    row = row_of(pending)
    assert (row.workflow, row.status, row.agent, row.pending, row.facts) == ("desk", "pending", "refunds", 1, len(pending.facts))
    assert (row.last.author, row.last.text) == ("user", "I want my money back")
    assert (row_of(new).status, row_of(new).last.author) == ("new", "")
    detail = detail_of(pending)
    assert (detail.messages, detail.replies, detail.opened, detail.origin) == (1, 3, pending.facts[0].at, None)
    assert detail.usage.input == pending.usage.input > 0


async def test_a_long_message_is_cut_in_a_row() -> None:
    session = desk("b" * 500).session("s")
    await session.run("Hello")
    assert row_of(session).last.text == "b" * 199 + "…"


async def test_a_fork_names_its_parent_and_how_much_it_shares() -> None:
    store = MemoryStore()
    session = refunding().session("one", store=store)
    await session.run("I want my money back")
    branch = await session.fork(3, "two")
    info = next(info for info in await store.list() if info.ledger == "two")
    detail = detail_of(branch)
    assert (detail.parent, detail.origin, row_of(branch, info).parent) == ("one", ForkedFrom("one", 3), "one")
    assert row_of(session).parent == ""


async def test_a_question_says_how_it_may_be_answered_and_hides_what_is_secret() -> None:
    session = refunding().session("s")
    await session.run("I want my money back")
    (asked,) = detail_of(session).pending
    plain = msgspec.to_builtins(asked)
    assert set(plain) == REQUEST
    assert asked.verdicts == ("approve", "reject", "edit")
    assert asked.digest == session.pending[0].digest
    assert asked.arguments["order_id"] == "7"
    assert asked.arguments["pin"].startswith("secret:")
    assert set(asked.secrets) == {"pin", "note"}
    assert set(asked.schema["properties"]) == {"order_id", "amount", "pin", "note"}
    assert PIN not in msgspec.json.encode(plain).decode()


async def test_of_a_session_whose_program_is_not_there_every_argument_is_hidden() -> None:
    store = MemoryStore()
    session = refunding().session("s", store=store)
    await session.run("I want my money back")
    seen = await as_recorded(session.facts).session("s", store=store).refresh()
    (asked,) = detail_of(seen, served=False).pending
    assert asked.schema is None
    assert asked.secrets == ("order_id", "amount", "pin")
    assert all(value.startswith("secret:") for value in asked.arguments.values())


async def test_verdicts_are_those_that_the_session_takes() -> None:
    session = desk(call("ask_stock", item="cups"), "Done.").session("s")
    await session.run("Hello")
    (request,) = session.pending
    assert question(session, request).verdicts == VERDICTS["result"] == ("answer", "reject")
    for answered in (session.approve(request), session.edit(request, {"item": "tea"})):
        with pytest.raises(NotPending):
            await answered
    await session.answer(request, 5)
    assert not session.pending


async def test_an_edit_that_leaves_a_digest_as_it_is_leaves_the_secret_as_it_is() -> None:
    session = refunding().session("s")
    await session.run("I want my money back")
    request = session.pending[0]
    sent = {**question(session, request).arguments, "amount": 20.0}
    assert unhidden(session, request, sent) == {"order_id": "7", "amount": 20.0, "pin": PIN}
    other = masked('{"pin": "another"}', ["pin"])
    forged = {**sent, "pin": msgspec.json.decode(other)["pin"]}
    for wrong in (forged, {**sent, "pin": PIN, "note": sent["pin"]}):
        with pytest.raises(BadInput, match="stands for a secret of other arguments"):
            unhidden(session, request, wrong)


async def test_facts_come_in_pages_and_without_secrets() -> None:
    session = refunding().session("s")
    await session.run("I want my money back")
    await session.edit(session.pending[0], {"order_id": "7", "amount": 20.0, "pin": PIN})
    await session.resume()
    whole = facts_page(session)
    parts = [facts_page(session, start, 4) for start in range(0, whole.length, 4)]
    assert [fact for part in parts for fact in part.facts] == whole.facts
    assert [fact["position"] for fact in whole.facts] == list(range(len(session.facts)))
    assert [fact["fact"] for fact in whole.facts][:3] == ["opened", "message_received", "model_replied"]
    written = msgspec.json.encode(whole).decode()
    assert PIN not in written
    assert "secret:" in written
    assert facts_page(session, 10_000).facts == []


def test_what_cannot_be_read_is_told_from_the_stores_line() -> None:
    row = unreadable(LedgerInfo("s", 7, 1_000, "p"), BadInput("it is of a newer format"))
    assert (row.id, row.facts, row.updated, row.parent, row.status) == ("s", 7, 1_000, "p", "unreadable")
    assert row.damaged == "it is of a newer format"
