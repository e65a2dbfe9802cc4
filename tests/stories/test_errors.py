"""Errors that are raised before anything changes (15, 23, 35, 36)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.facts import Decided
from legato.errors import (
    BadInput,
    BuildError,
    CodecError,
    DefinitionChanged,
    LedgerExists,
    LegatoError,
    NewerFormat,
    NotLoaded,
    NotPending,
)
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import World
from tests.stories import approvals, conversation_checks, handoffs

OLD_LEDGERS = sorted(Path(__file__).with_name("ledgers").glob("format-*.json"))


# -- 23: approvals that fit no request ---------------------------------------------------------------------------------


async def test_approval_that_fits_no_request_is_refused(store: Store) -> None:
    """Approvals for other arguments, another call, another session or an unknown id are refused."""
    world = World()
    workflow = approvals.build_cleanup_desk(world)
    session, other = workflow.session("one", store=store), workflow.session("two", store=store)
    await session.run("Clean up and check")
    await other.run("Clean up and check")
    before = session.facts
    first, second = session.pending
    foreign, _ = other.pending
    for request in (
        msgspec.structs.replace(first, digest=second.digest),  # the first call, other arguments
        msgspec.structs.replace(first, id=second.id),  # the second call, the first one's arguments
        foreign,  # the same call of another session
        foreign.id,
        "nothing-approval-2.0",
        "",
        first.id + " ",
        first.id.replace("approval", "outcome"),
    ):
        with pytest.raises(NotPending) as error:
            await session.approve(request)
        assert error.value.code == "not_pending"
    with pytest.raises(NotPending):
        await session.answer(first, "I did it myself")  # the request is for an approval
    await session.refresh()
    assert session.facts == before
    assert world.count("cleaned temp") == world.count("cleaned cache") == 0
    await session.approve(first)
    for again in (first, first.id):
        with pytest.raises(NotPending):  # single use
            await session.approve(again)
        with pytest.raises(NotPending):
            await session.reject(again, "no")
    await session.resume()
    assert world.count("cleaned temp") == 1
    assert world.count("cleaned cache") == 0


async def test_client_cannot_supply_another_call(store: Store) -> None:
    world = World()
    session = approvals.build_cleanup_desk(world).session("s", store=store)
    await session.run("Clean up and check")
    first, _ = session.pending
    forged = msgspec.structs.replace(first, raw_arguments='{"target": "everything"}')
    await session.approve(forged)  # only its id counts; other fields are ignored
    await session.resume()
    assert world.count("cleaned everything") == 0
    assert world.count("cleaned temp") == 1


async def test_invalid_edit_is_refused_and_request_stays(store: Store) -> None:
    world = World()
    session = approvals.build_cleanup_desk(world).session("s", store=store)
    await session.run("Clean up and check")
    first, _ = session.pending
    for arguments in ({"target": 7}, {}, {"target": "a", "more": 1}, {"target": {1, 2}}, {"target": object()}):
        with pytest.raises(BadInput):
            await session.edit(first, arguments)
    assert len(session.pending) == 2
    assert not any(isinstance(fact, Decided) for fact in session.facts)


async def test_superseded_request_cannot_be_approved(store: Store) -> None:
    world = World()
    session = approvals.build_refund_desk(world, "supersede").session("s", store=store)
    await session.run("Refund order 7")
    (request,) = session.pending
    await session.run("No, wait")
    with pytest.raises(NotPending):
        await session.approve(request)
    await session.resume()
    assert world.effects == []


async def test_revoked_standing_approval_is_requested_again(store: Store) -> None:
    @tool(needs_approval=True)
    async def send(to: str) -> str:
        return f"sent to {to}"

    model = ScriptedModel(lambda seen: "Sent." if seen.messages[-1].role == "tool" else call("send", to=seen.messages[-1].text))
    session = HandoffBuilder("mail", [Agent("mailer", model=model, tools=[send])]).build().session("s", store=store)
    await session.run("ann")
    await session.approve(session.pending[0], always=True)
    assert (await session.resume()).text == "Sent."
    assert (await session.run("bob")).text == "Sent."  # without a request
    await session.revoke("mailer", "send")
    result = await session.run("cid")
    assert result.status == "pending"
    with pytest.raises(NotPending):
        await session.revoke("mailer", "send")
    await session.reject(result.pending[0], "no more")
    await session.resume()
    requests = await conversation_checks.rebuild_requests(session)
    assert conversation_checks.list_outputs(requests[-1]) == ["sent to ann", "sent to bob", "Not run: a person declined this call. no more"]


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_key_reused_for_another_message_is_refused(store: Store) -> None:
    workflow = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(lambda seen: "Yes."))]).build()
    session = workflow.session("s", store=store)
    await session.run("one", key="k")
    with pytest.raises(BadInput, match="'k'"):
        await session.run("two", key="k")
    await session.refresh()
    assert [message.text for message in session.messages] == ["one", "Yes."]


async def test_answer_with_one_key_counts_once(store: Store) -> None:
    """An answer delivered twice with one key counts once, and the key is refused for anything else."""
    world = World()
    session = approvals.build_cleanup_desk(world).session("s", store=store)
    await session.run("Clean up and check")
    first, second = session.pending
    await session.approve(first, key="webhook-1")
    await session.approve(first, key="webhook-1")  # delivered again: no error, no effect
    await session.approve(first.id, key="webhook-1")
    for other in (second, second.id):
        with pytest.raises(BadInput, match="webhook-1"):
            await session.approve(other, key="webhook-1")
    with pytest.raises(BadInput, match="webhook-1"):
        await session.reject(first, "no", key="webhook-1")
    assert [request.id for request in session.pending] == [second.id]
    await session.edit(second, {"target": "old cache"}, key="webhook-2")
    with pytest.raises(BadInput, match="webhook-2"):
        await session.edit(second, {"target": "everything"}, key="webhook-2")
    await session.resume()
    assert sorted(deed for _, deed in world.effects) == ["cleaned old cache", "cleaned temp", "thermal: 72 degrees"]


# -- 15: definitions that cannot work ----------------------------------------------------------------------------------


def test_clashing_names_are_refused_at_build() -> None:
    model = ScriptedModel(by_agent={})

    def build(*names: str) -> Workflow:
        return HandoffBuilder("w", [Agent("start", model=model), *(Agent(name, model=model) for name in names)]).build()

    with pytest.raises(BuildError, match="Refund_Desk"):
        build("Refund Desk", "Refund_Desk")
    with pytest.raises(BuildError, match="twins"):
        build("twins", "twins")
    assert build("x" * 80, "x" * 79 + "y")  # different names stay different
    for name in ("", " ", "a\nb", "x" * 201, 7):
        with pytest.raises(BadInput):
            Agent(name, model=model)  # type: ignore[arg-type]


@pytest.mark.parametrize("message", ["", [], None, 7, b"bytes", {"text": "hi"}, [None], "\ud800", ["ok", "\ud800"]])
async def test_invalid_message_is_refused_and_not_recorded(message: Any, store: Store) -> None:
    session = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(lambda seen: "Yes."))]).build().session("s", store=store)
    with pytest.raises(BadInput):
        await session.run(message)
    await session.refresh()
    assert session.facts == []
    assert (await session.run("hello")).text == "Yes."


def test_unread_handle_raises_not_loaded() -> None:
    session = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(["Yes."]))]).build().session("s")
    for name in ("pending", "status", "messages", "facts", "usage", "losses"):
        with pytest.raises(NotLoaded, match="refresh"):
            getattr(session, name)


# -- 35: versions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", OLD_LEDGERS, ids=lambda path: path.stem)
async def test_session_of_an_older_format_continues(path: Path, store: Store) -> None:
    world = World()
    session = approvals.build_cleanup_desk(world).load(path.read_text(encoding="utf-8"), id="old", store=store)
    await session.refresh()
    assert session.status == "pending"
    for request in session.pending:
        await session.reject(request, f"Keep the {request.arguments['target']}.")
    result = await session.resume()
    assert result.text == "That is all."
    requests = await conversation_checks.rebuild_requests(session)
    expected = approvals.EXPECTED_OUTPUTS["reject"]
    assert conversation_checks.list_outputs(requests[1]) == [expected("temp"), "thermal: 72 degrees", expected("cache")]
    assert world.effects == []


def test_every_released_format_has_a_ledger() -> None:
    assert OLD_LEDGERS


async def test_unreleased_export_format_is_refused(store: Store) -> None:
    workflow = approvals.build_cleanup_desk(World())
    session = workflow.session("s", store=store)
    await session.run("Clean up and check")
    envelope = json.loads(await session.to_string())
    with pytest.raises(CodecError, match="format 1, and the oldest is 2"):
        workflow.load(json.dumps({**envelope, "legato": 1}), id="t", store=store)


async def test_newer_format_is_refused_and_not_written(store: Store) -> None:
    workflow = approvals.build_cleanup_desk(World())
    session = workflow.session("s", store=store)
    await session.run("Clean up and check")
    envelope = json.loads(await session.to_string())
    newer = {**envelope, "legato": envelope["legato"] + 1}
    with pytest.raises(NewerFormat, match="format 3"):
        workflow.load(json.dumps(newer), id="copy", store=store)
    opened = envelope["facts"][0][0]
    envelope["shapes"][opened[0]].insert(-1, "format")
    opened.insert(-1, 2)
    with pytest.raises(NewerFormat, match="format 2"):
        workflow.load(json.dumps(envelope), id="copy", store=store)
    assert await store.read("copy") == []


async def test_changed_string_is_refused_and_not_written(store: Store) -> None:
    workflow = approvals.build_cleanup_desk(World())
    session = workflow.session("s", store=store)
    await session.run("Clean up and check")
    text = await session.to_string()
    signed = await session.to_string(sign_with=b"key")
    other_fact, other_type = text.replace('"message_received"', '"message_sung"'), text.replace(",true,", ",1,")
    other_shape, no_shape = text.replace('"needed"', '"call"'), text.replace("[1,", "[99,")
    for broken in ("", "{}", "[]", "null", "\x00", text[:-5], other_fact, other_type, other_shape, no_shape):
        assert broken != text
        with pytest.raises(CodecError):
            workflow.load(broken, id="copy", store=store)
    with pytest.raises(CodecError):
        workflow.load(signed.replace("thermal", "thermic"), id="copy", store=store, verify_with=b"key")
    with pytest.raises(CodecError):
        workflow.load(text, id="copy", store=store, verify_with=b"key")
    facts = json.loads(text)
    facts["facts"] = [[fact for fact in rows if facts["shapes"][fact[0]][0] != "message_received"] for rows in facts["facts"]]
    with pytest.raises(LegatoError):  # each fact is valid, but not in this order
        workflow.load(json.dumps(facts), id="copy", store=store)
    assert await store.read("copy") == []
    good = workflow.load(signed, id="copy", store=store, verify_with=b"key")
    await good.refresh()
    assert len(good.pending) == 2


async def test_loading_a_diverged_copy_is_refused(store: Store) -> None:
    workflow = handoffs.build_three_turns(World())
    session = workflow.session("s", store=store)
    await session.run("My order came broken")
    copy = workflow.load(await session.to_string(), store=MemoryStore())
    await copy.run("Order 8")
    diverged = await copy.to_string()
    await session.run("Order 7")
    with pytest.raises(LedgerExists, match="another-name"):
        await workflow.load(diverged, store=store).refresh()
    apart = workflow.load(diverged, id="apart", store=store)
    await apart.refresh()
    assert [message.text for message in apart.messages if message.role == "user"] == ["My order came broken", "Order 8"]


async def test_context_needs_a_serializer_for_export(store: Store) -> None:
    workflow = handoffs.build_three_turns(World())
    session = workflow.session("s", store=store, context={"token": "hunter2"})
    await session.run("My order came broken")
    with pytest.raises(BadInput, match="serialize_context"):
        await session.to_string()
    assert "hunter2" not in await session.to_string(strict=False)
    text = await session.to_string(serialize_context=lambda context: {"user": 7})
    with pytest.raises(BadInput, match="deserialize_context"):
        workflow.load(text, id="copy", store=store)
    copy = workflow.load(text, id="copy", store=store, deserialize_context=lambda data: data["user"])
    assert copy.context == 7
    assert "hunter2" not in str(await store.read("s"))


# -- 36: the definition changed while a session waited -----------------------------------------------------------------


async def test_removed_agent_gives_a_helpful_error(store: Store) -> None:
    """The error names the missing agent and says what can be done."""
    model = ScriptedModel(by_agent={"triage": [handoff("refunds")], "refunds": ["Which order?", "Refunded."]})

    def desk(*names: str) -> Workflow:
        return HandoffBuilder("desk", [Agent(name, model=model) for name in names]).build()

    await desk("triage", "refunds").session("s", store=store).run("Broken!")
    renamed = desk("triage", "returns").session("s", store=store)
    with pytest.raises(DefinitionChanged) as error:
        await renamed.run("Order 7")
    for word in ("refunds", "returns", "triage", "fork"):
        assert word in str(error.value)
    assert [message.text for message in (await renamed.refresh()).messages] == ["Broken!", "Which order?"]  # nothing was recorded
    again = await desk("triage", "refunds").session("s", store=store).run("Order 7")
    assert again.text == "Refunded."  # and nothing was lost
    with pytest.raises(DefinitionChanged, match="desk"):
        await HandoffBuilder("shop", [Agent("triage", model=model)]).build().session("s", store=store).refresh()


async def test_call_of_a_removed_tool_stays_pending(store: Store) -> None:
    """The call of a removed tool stays pending, and its prompt says so."""
    world = World()
    before = approvals.build_refund_desk(world, "queue")
    session = before.session("s", store=store)
    await session.run("Refund order 7")
    script = {"refunds": [["One moment.", call("refund", order="7")], "Understood."]}
    after = HandoffBuilder("desk", [Agent("refunds", model=ScriptedModel(by_agent=script))]).build()
    changed = after.session("s", store=store)
    await changed.refresh()
    (request,) = changed.pending
    assert "no longer has 'refund'" in request.prompt
    assert (await changed.resume()).status == "pending"  # only a person may decide it
    # When the tool is back, the call can be approved.
    back = before.session("s", store=store)
    await back.refresh()
    await back.approve(back.pending[0])
    assert (await back.resume()).text == "Understood."
    assert world.count("refunded 7") == 1


async def test_call_of_a_removed_tool_can_be_rejected(store: Store) -> None:
    world = World()
    await approvals.build_refund_desk(world, "queue").session("s", store=store).run("Refund order 7")
    script = {"refunds": [["One moment.", call("refund", order="7")], "Understood."]}
    changed = HandoffBuilder("desk", [Agent("refunds", model=ScriptedModel(by_agent=script))]).build().session("s", store=store)
    await changed.refresh()
    await changed.reject(changed.pending[0], "We no longer do that.")
    assert (await changed.resume()).text == "Understood."
    requests = await conversation_checks.rebuild_requests(changed)
    assert "We no longer do that." in conversation_checks.list_outputs(requests[-1])[0]
    assert world.effects == []


async def test_arguments_of_an_unknown_tool_are_masked(store: Store) -> None:
    """Its arguments are masked as a whole, because its secret arguments are unknown."""
    session = approvals.build_secret_desk(World()).session("s", store=store)
    await session.run("Let me in")
    removed = HandoffBuilder("door", [Agent("door", model=ScriptedModel(lambda seen: "No."))]).build().session("s", store=store)
    await removed.refresh()
    (request,) = removed.pending
    assert "hunter2" not in request.prompt
    assert request.arguments["password"] == "hunter2"
    model = ScriptedModel(by_agent={"door": [call("logg_in", user="ada", password="hunter2"), "No."]})
    misspelled = HandoffBuilder("misspelled", [Agent("door", model=model)]).build().session("m", store=store)
    events = [str(event) async for event in misspelled.run("Let me in")]
    assert any("logg_in" in event for event in events)
    assert "hunter2" not in "".join(events)
