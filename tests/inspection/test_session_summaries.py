"""Summaries of sessions, requests and facts. S4."""

from __future__ import annotations

import msgspec
import pytest

from legato.core.pending_requests import VERDICTS
from legato.core.secret_arguments import mask_arguments
from legato.errors import BadInput, NotPending
from legato.inspection.secret_masks import restore_secrets
from legato.inspection.session_summaries import (
    ForkOrigin,
    build_facts_page,
    build_session_detail,
    summarize_request,
    summarize_session,
    summarize_unreadable,
)
from legato.inspection.workflow_from_ledger import rebuild_workflow
from legato.stores import MemoryStore
from legato.stores.contract import LedgerInfo
from legato.testing import call
from tests.inspection.support_desk import PIN, build_desk, build_refund_desk

SUMMARY_FIELDS = {
    "id",
    "workflow",
    "status",
    "agent",
    "facts",
    "updated",
    "parent",
    "within",
    "last",
    "pending",
    "served",
    "error",
    "damaged",
}
DETAIL_FIELDS = SUMMARY_FIELDS | {"opened", "origin", "usage", "losses", "messages", "replies", "can_drive"}
REQUEST_FIELDS = {
    "id",
    "kind",
    "prompt",
    "agent",
    "tool",
    "arguments",
    "digest",
    "session",
    "call",
    "limit",
    "verdicts",
    "schema",
    "secrets",
}
REQUEST_FIELDS |= {"for_client"}


async def test_summary_fields_are_the_same_in_every_status() -> None:
    store = MemoryStore()
    new = build_refund_desk().session("new", store=store)
    pending = build_refund_desk().session("pending", store=store)
    await new.refresh()
    await pending.run("I want my money back")
    for session in (new, pending):
        assert set(msgspec.to_builtins(summarize_session(session))) == SUMMARY_FIELDS
        assert set(msgspec.to_builtins(build_session_detail(session))) == DETAIL_FIELDS
    row = summarize_session(pending)
    assert (row.workflow, row.status, row.agent, row.pending, row.facts) == ("desk", "pending", "refunds", 1, len(pending.facts))
    assert (row.last.author, row.last.text) == ("user", "I want my money back")
    assert (summarize_session(new).status, summarize_session(new).last.author) == ("new", "")
    detail = build_session_detail(pending)
    assert (detail.messages, detail.replies, detail.opened, detail.origin) == (1, 3, pending.facts[0].at, None)
    assert detail.usage.input == pending.usage.input > 0


async def test_long_message_is_truncated_in_summary() -> None:
    session = build_desk("b" * 500).session("s")
    await session.run("Hello")
    assert summarize_session(session).last.text == "b" * 199 + "…"


async def test_fork_names_its_parent_and_shared_facts() -> None:
    store = MemoryStore()
    session = build_refund_desk().session("one", store=store)
    await session.run("I want my money back")
    branch = await session.fork(3, "two")
    info = next(info for info in await store.list() if info.ledger == "two")
    detail = build_session_detail(branch)
    assert (detail.parent, detail.origin, summarize_session(branch, info).parent) == ("one", ForkOrigin("one", 3), "one")
    assert summarize_session(session).parent == ""


async def test_request_has_verdicts_and_masks_secrets() -> None:
    session = build_refund_desk().session("s")
    await session.run("I want my money back")
    (asked,) = build_session_detail(session).pending
    plain = msgspec.to_builtins(asked)
    assert set(plain) == REQUEST_FIELDS
    assert asked.verdicts == ("approve", "reject", "edit")
    assert asked.digest == session.pending[0].digest
    assert asked.arguments["order_id"] == "7"
    assert asked.arguments["pin"].startswith("secret:")
    assert set(asked.secrets) == {"pin", "note"}
    assert set(asked.schema["properties"]) == {"order_id", "amount", "pin", "note"}
    assert PIN not in msgspec.json.encode(plain).decode()


async def test_every_argument_is_masked_without_the_program() -> None:
    store = MemoryStore()
    session = build_refund_desk().session("s", store=store)
    await session.run("I want my money back")
    seen = await rebuild_workflow(session.facts).session("s", store=store).refresh()
    (asked,) = build_session_detail(seen, is_served=False).pending
    assert asked.schema is None
    assert asked.secrets == ("order_id", "amount", "pin")
    assert all(value.startswith("secret:") for value in asked.arguments.values())


async def test_verdicts_are_those_the_session_accepts() -> None:
    session = build_desk(call("ask_stock", item="cups"), "Done.").session("s")
    await session.run("Hello")
    (request,) = session.pending
    assert summarize_request(session, request).verdicts == VERDICTS["result"] == ("answer", "reject")
    for answered in (session.approve(request), session.edit(request, {"item": "tea"})):
        with pytest.raises(NotPending):
            await answered
    await session.answer(request, 5)
    assert not session.pending


async def test_unedited_digest_keeps_its_secret() -> None:
    session = build_refund_desk().session("s")
    await session.run("I want my money back")
    request = session.pending[0]
    sent = {**summarize_request(session, request).arguments, "amount": 20.0}
    assert restore_secrets(session, request, sent) == {"order_id": "7", "amount": 20.0, "pin": PIN}
    other = mask_arguments('{"pin": "another"}', ["pin"])
    forged = {**sent, "pin": msgspec.json.decode(other)["pin"]}
    for wrong in (forged, {**sent, "pin": PIN, "note": sent["pin"]}):
        with pytest.raises(BadInput, match="digest of a secret in other arguments"):
            restore_secrets(session, request, wrong)


async def test_facts_pages_contain_no_secrets() -> None:
    session = build_refund_desk().session("s")
    await session.run("I want my money back")
    await session.edit(session.pending[0], {"order_id": "7", "amount": 20.0, "pin": PIN})
    await session.resume()
    whole = build_facts_page(session)
    parts = [build_facts_page(session, start, 4) for start in range(0, whole.length, 4)]
    assert [fact for part in parts for fact in part.facts] == whole.facts
    assert [fact["position"] for fact in whole.facts] == list(range(len(session.facts)))
    assert [fact["fact"] for fact in whole.facts][:3] == ["opened", "message_received", "model_replied"]
    written = msgspec.json.encode(whole).decode()
    assert PIN not in written
    assert "secret:" in written
    assert build_facts_page(session, 10_000).facts == []


def test_unreadable_session_is_summarized_from_store_info() -> None:
    row = summarize_unreadable(LedgerInfo("s", 7, 1_000, "p"), BadInput("it is of a newer format"))
    assert (row.id, row.facts, row.updated, row.parent, row.status) == ("s", 7, 1_000, "p", "unreadable")
    assert row.damaged == "it is of a newer format"
