"""What is refused, and changes nothing (15, 23, 35, 36)."""

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
from tests.stories import approvals, checking, handoffs

OLD_LEDGERS = sorted(Path(__file__).with_name("ledgers").glob("format-*.json"))


# -- 23: approvals that do not fit -------------------------------------------------------------------------------------


async def test_an_approval_for_other_arguments_another_call_another_session_or_an_unknown_id_is_refused(store: Store) -> None:
    world = World()
    workflow = approvals.cleanup_desk(world)
    session, other = workflow.session("one", store=store), workflow.session("two", store=store)
    await session.run("Clean up and check")
    await other.run("Clean up and check")
    before = session.facts
    first, second = session.pending
    theirs, _ = other.pending
    for request in (
        msgspec.structs.replace(first, digest=second.digest),  # the first call, other arguments
        msgspec.structs.replace(first, id=second.id),  # the second call, the first one's arguments
        theirs,  # the same call of another session
        theirs.id,
        "nothing-approval-2.0",
        "",
        first.id + " ",
        first.id.replace("approval", "outcome"),
    ):
        with pytest.raises(NotPending) as refused:
            await session.approve(request)
        assert refused.value.code == "not_pending"
    with pytest.raises(NotPending):
        await session.answer(first, "I did it myself")  # that is not what was asked
    await session.refresh()
    assert session.facts == before
    assert world.times("cleaned temp") == world.times("cleaned cache") == 0
    await session.approve(first)
    for again in (first, first.id):
        with pytest.raises(NotPending):  # single use
            await session.approve(again)
        with pytest.raises(NotPending):
            await session.reject(again, "no")
    await session.resume()
    assert world.times("cleaned temp") == 1
    assert world.times("cleaned cache") == 0


async def test_a_client_cannot_supply_a_call_of_its_own(store: Store) -> None:
    world = World()
    session = approvals.cleanup_desk(world).session("s", store=store)
    await session.run("Clean up and check")
    first, _ = session.pending
    forged = msgspec.structs.replace(first, raw_arguments='{"target": "everything"}')
    await session.approve(forged)  # points at the recorded call; what it claims beyond that is ignored
    await session.resume()
    assert world.times("cleaned everything") == 0
    assert world.times("cleaned temp") == 1


async def test_an_edit_that_the_tool_cannot_run_is_refused_and_the_request_stays(store: Store) -> None:
    world = World()
    session = approvals.cleanup_desk(world).session("s", store=store)
    await session.run("Clean up and check")
    first, _ = session.pending
    for arguments in ({"target": 7}, {}, {"target": "a", "more": 1}, {"target": {1, 2}}, {"target": object()}):
        with pytest.raises(BadInput):
            await session.edit(first, arguments)
    assert len(session.pending) == 2
    assert not any(isinstance(fact, Decided) for fact in session.facts)


async def test_a_request_that_a_new_message_superseded_has_expired(store: Store) -> None:
    world = World()
    session = approvals.refund_desk(world, "supersede").session("s", store=store)
    await session.run("Refund order 7")
    (request,) = session.pending
    await session.run("No, wait")
    with pytest.raises(NotPending):
        await session.approve(request)
    await session.resume()
    assert world.deeds == []


async def test_a_standing_approval_revoked_asks_again(store: Store) -> None:
    @tool(needs_approval=True)
    async def send(to: str) -> str:
        return f"sent to {to}"

    model = ScriptedModel(lambda seen: "Sent." if seen.messages[-1].role == "tool" else call("send", to=seen.messages[-1].text))
    session = HandoffBuilder("mail", [Agent("mailer", model=model, tools=[send])]).build().session("s", store=store)
    await session.run("ann")
    await session.approve(session.pending[0], always=True)
    assert (await session.resume()).text == "Sent."
    assert (await session.run("bob")).text == "Sent."  # nobody was asked
    await session.revoke("mailer", "send")
    result = await session.run("cid")
    assert result.status == "pending"
    with pytest.raises(NotPending):
        await session.revoke("mailer", "send")
    await session.reject(result.pending[0], "no more")
    await session.resume()
    requests = await checking.requests_of(session)
    assert checking.outputs(requests[-1]) == ["sent to ann", "sent to bob", "Not run: a person declined this call. no more"]


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_a_key_used_again_for_other_words_is_refused_and_nothing_is_recorded(store: Store) -> None:
    workflow = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(lambda seen: "Yes."))]).build()
    session = workflow.session("s", store=store)
    await session.run("one", key="k")
    with pytest.raises(BadInput, match="'k'"):
        await session.run("two", key="k")
    await session.refresh()
    assert [message.text for message in session.messages] == ["one", "Yes."]


async def test_an_answer_delivered_twice_with_one_key_counts_once_and_the_key_approves_nothing_else(store: Store) -> None:
    world = World()
    session = approvals.cleanup_desk(world).session("s", store=store)
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
    assert sorted(deed for _, deed in world.deeds) == ["cleaned old cache", "cleaned temp", "thermal: 72 degrees"]


# -- 15, and what else cannot be built ---------------------------------------------------------------------------------


def test_names_that_clash_are_refused_when_the_workflow_is_built() -> None:
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
async def test_what_is_no_message_is_refused_and_nothing_is_recorded(message: Any, store: Store) -> None:
    session = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(lambda seen: "Yes."))]).build().session("s", store=store)
    with pytest.raises(BadInput):
        await session.run(message)
    await session.refresh()
    assert session.facts == []
    assert (await session.run("hello")).text == "Yes."


def test_a_handle_that_has_read_nothing_says_so() -> None:
    session = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(["Yes."]))]).build().session("s")
    for look in ("pending", "status", "messages", "facts", "usage", "losses"):
        with pytest.raises(NotLoaded, match="refresh"):
            getattr(session, look)


# -- 35: versions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", OLD_LEDGERS, ids=lambda path: path.stem)
async def test_a_session_written_by_an_older_version_opens_and_goes_on(path: Path, store: Store) -> None:
    world = World()
    session = approvals.cleanup_desk(world).load(path.read_text(encoding="utf-8"), id="old", store=store)
    await session.refresh()
    assert session.status == "pending"
    for request in session.pending:
        await session.reject(request, f"Keep the {request.arguments['target']}.")
    result = await session.resume()
    assert result.text == "That is all."
    requests = await checking.requests_of(session)
    expected = approvals.EXPECTED["reject"]
    assert checking.outputs(requests[1]) == [expected("temp"), "thermal: 72 degrees", expected("cache")]
    assert world.deeds == []


def test_there_is_a_ledger_of_every_released_format() -> None:
    assert OLD_LEDGERS


async def test_text_of_an_unreleased_form_is_refused(store: Store) -> None:
    workflow = approvals.cleanup_desk(World())
    session = workflow.session("s", store=store)
    await session.run("Clean up and check")
    envelope = json.loads(await session.to_string())
    with pytest.raises(CodecError, match="form 1, and the oldest is 2"):
        workflow.load(json.dumps({**envelope, "legato": 1}), id="t", store=store)


async def test_a_session_written_by_a_newer_version_is_refused_by_name_and_nothing_is_written(store: Store) -> None:
    workflow = approvals.cleanup_desk(World())
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


async def test_a_string_that_was_changed_is_refused_and_nothing_is_written(store: Store) -> None:
    workflow = approvals.cleanup_desk(World())
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
    with pytest.raises(LegatoError):  # each fact is well-formed, but they cannot have happened
        workflow.load(json.dumps(facts), id="copy", store=store)
    assert await store.read("copy") == []
    good = workflow.load(signed, id="copy", store=store, verify_with=b"key")
    await good.refresh()
    assert len(good.pending) == 2


async def test_loading_a_copy_that_went_another_way_is_refused(store: Store) -> None:
    workflow = handoffs.three_turns(World())
    session = workflow.session("s", store=store)
    await session.run("My order came broken")
    elsewhere = MemoryStore()
    copy = workflow.load(await session.to_string(), store=elsewhere)
    await copy.run("Order 8")
    diverged = await copy.to_string()
    await session.run("Order 7")
    with pytest.raises(LedgerExists, match="another-name"):
        await workflow.load(diverged, store=store).refresh()
    apart = workflow.load(diverged, id="apart", store=store)
    await apart.refresh()
    assert [message.text for message in apart.messages if message.role == "user"] == ["My order came broken", "Order 8"]


async def test_a_context_is_written_by_its_own_serializer_or_refused(store: Store) -> None:
    workflow = handoffs.three_turns(World())
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


async def test_an_agent_was_removed_while_a_session_waited_it_says_who_is_missing_and_what_can_be_done(store: Store) -> None:
    model = ScriptedModel(by_agent={"triage": [handoff("refunds")], "refunds": ["Which order?", "Refunded."]})

    def desk(*names: str) -> Workflow:
        return HandoffBuilder("desk", [Agent(name, model=model) for name in names]).build()

    await desk("triage", "refunds").session("s", store=store).run("Broken!")
    renamed = desk("triage", "returns").session("s", store=store)
    with pytest.raises(DefinitionChanged) as told:
        await renamed.run("Order 7")
    for word in ("refunds", "returns", "triage", "fork"):
        assert word in str(told.value)
    assert [message.text for message in (await renamed.refresh()).messages] == ["Broken!", "Which order?"]  # nothing was recorded
    again = await desk("triage", "refunds").session("s", store=store).run("Order 7")
    assert again.text == "Refunded."  # and nothing was lost
    with pytest.raises(DefinitionChanged, match="desk"):
        await HandoffBuilder("shop", [Agent("triage", model=model)]).build().session("s", store=store).refresh()


async def test_a_tool_was_removed_while_its_call_waited_the_call_waits_on_and_the_session_says_so(store: Store) -> None:
    world = World()
    before = approvals.refund_desk(world, "queue")
    session = before.session("s", store=store)
    await session.run("Refund order 7")
    script = {"refunds": [["One moment.", call("refund", order="7")], "Understood."]}
    after = HandoffBuilder("desk", [Agent("refunds", model=ScriptedModel(by_agent=script))]).build()
    changed = after.session("s", store=store)
    await changed.refresh()
    (request,) = changed.pending
    assert "no longer has 'refund'" in request.prompt
    assert (await changed.resume()).status == "pending"  # nothing is answered over a person's head
    # With the tool back, everything is as before.
    back = before.session("s", store=store)
    await back.refresh()
    await back.approve(back.pending[0])
    assert (await back.resume()).text == "Understood."
    assert world.times("refunded 7") == 1


async def test_a_tool_was_removed_while_its_call_waited_a_person_can_decline_it(store: Store) -> None:
    world = World()
    await approvals.refund_desk(world, "queue").session("s", store=store).run("Refund order 7")
    script = {"refunds": [["One moment.", call("refund", order="7")], "Understood."]}
    changed = HandoffBuilder("desk", [Agent("refunds", model=ScriptedModel(by_agent=script))]).build().session("s", store=store)
    await changed.refresh()
    await changed.reject(changed.pending[0], "We no longer do that.")
    assert (await changed.resume()).text == "Understood."
    requests = await checking.requests_of(changed)
    assert "We no longer do that." in checking.outputs(requests[-1])[0]
    assert world.deeds == []


async def test_what_was_given_to_a_tool_that_is_not_there_is_hidden_whole_because_nobody_knows_what_is_secret(store: Store) -> None:
    session = approvals.secret_desk(World()).session("s", store=store)
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
