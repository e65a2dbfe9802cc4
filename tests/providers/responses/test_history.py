"""Histories: handoffs that went wrong as in the tickets, what is looked up, and reasoning among what it belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.minds.base import Thought, Use, Words
from legato.providers.rules.responses.laws import OPENAI, Profile, envelope, judge
from tests.providers.lawcase import Step, filled
from tests.providers.responses.lawcase import AGAIN, PLAIN, THINKS, TOOL, USER, ask, call, output, reference, said, without
from tests.providers.responses.world import World

HANDOFF = {**TOOL, "name": "hand_off_to_refunds"}
HANDED = Step.respond(ask(model=THINKS, tools=[HANDOFF]), Thought("not mine"), Use("hand_off_to_refunds", "{}"), save_as="r1")


def after(*steps: Step, profile: Profile = OPENAI) -> World:
    world = World(profile)
    for step in steps:
        world.take(step)
    return world


def verdict(world: World, request: dict[str, Any], profile: Profile = OPENAI) -> list[str]:
    """The clauses that a request breaks, after what has happened."""
    return [complaint.clause.id for complaint in judge(filled(request, world.saved), world.account(), profile)]


def answer(world: World, request: dict[str, Any], profile: Profile = OPENAI) -> tuple[int, dict[str, Any]]:
    (complaint, *_) = judge(filled(request, world.saved), world.account(), profile)
    return complaint.status, envelope(complaint, profile)


# -- the four ways in which a handoff fails ----------------------------------------------------------------------------


def test_handing_off_with_the_chain_while_the_handoff_call_waits_is_a_call_without_output() -> None:
    world = after(HANDED)
    assert verdict(world, ask([AGAIN], model=THINKS, previous_response_id="{r1.id}")) == ["T1"]
    answered = [output("{r1.output[1].call_id}", output="handed off"), AGAIN]
    assert verdict(world, ask(answered, model=THINKS, previous_response_id="{r1.id}")) == []


def test_answering_the_handoff_call_in_another_agents_fresh_chain_is_an_output_without_call() -> None:
    other = Step.respond(ask("I want a refund", model=PLAIN), Words("certainly"), save_as="r2")
    world = after(HANDED, other)
    answered = [output("{r1.output[1].call_id}"), AGAIN]
    assert verdict(world, ask(answered, previous_response_id="{r2.id}")) == ["T2"]
    assert verdict(world, ask(answered)) == ["T2"]


def test_sending_the_whole_history_and_the_chain_as_well_is_a_duplicate() -> None:
    history = [USER, "{r1.output[0]}", "{r1.output[1]}", output("{r1.output[1].call_id}"), AGAIN]
    world = after(HANDED)
    assert verdict(world, ask(history, model=THINKS, previous_response_id="{r1.id}")) == ["I8", "I8"]
    assert verdict(world, ask(history, model=THINKS)) == []


def test_switching_storage_off_but_keeping_the_ids_is_an_unknown_item() -> None:
    unstored = Step.respond(ask(model=THINKS, store=False, tools=[HANDOFF]), Thought("hm"), Use("hand_off_to_refunds"), save_as="r1")
    world = after(unstored)
    bare = {"type": "reasoning", "id": "{r1.output[0].id}", "summary": []}
    history = [USER, bare, "{r1.output[1]}", output("{r1.output[1].call_id}"), AGAIN]
    assert verdict(world, ask(history, model=THINKS, store=False)) == ["I1"]
    sealed = [USER, "{r1.output[0]}", "{r1.output[1]}", output("{r1.output[1].call_id}"), AGAIN]
    assert verdict(world, ask(sealed, model=THINKS, store=False)) == []


# -- the tickets' bodies -----------------------------------------------------------------------------------------------


def test_a_replayed_item_that_was_never_stored_gets_the_tickets_body() -> None:
    request = ask([USER, {"type": "reasoning", "id": "rs_0a1b", "summary": []}, said(), AGAIN], store=False)
    error = {
        "message": "Item with id 'rs_0a1b' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }
    assert answer(World(), request) == (404, {"error": error})
    assert answer(World(), request, Profile(item_not_found_status=400)) == (400, {"error": error})


def test_a_stale_previous_response_gets_the_tickets_body() -> None:
    pending = Step.respond(ask(tools=[HANDOFF]), Use("hand_off_to_refunds", "{}", "call_qgTofhhnqcvlozSsO1OgsgPK"), save_as="r1")
    error = {
        "message": "No tool output found for function call call_qgTofhhnqcvlozSsO1OgsgPK.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }
    assert answer(after(pending), ask([AGAIN], previous_response_id="{r1.id}")) == (400, {"error": error})


def test_the_sibling_whose_output_was_dropped_gets_the_tickets_body() -> None:
    uses = [Use("run_cleanup", "{}", "call_CLEANUP1"), Use("run_diagnostic", "{}", "call_DIAG"), Use("run_cleanup", "{}", "call_CLEANUP2")]
    world = after(Step.respond(ask(), *uses, save_as="r1"))
    resumed = ask([output("call_CLEANUP1"), output("call_CLEANUP2")], previous_response_id="{r1.id}")
    status, body = answer(world, resumed)
    assert (status, body["error"]["message"]) == (400, "No tool output found for function call call_DIAG.")
    whole = ask([output("call_CLEANUP1"), output("call_DIAG"), output("call_CLEANUP2")], previous_response_id="{r1.id}")
    assert verdict(world, whole) == []


# -- conversations and chains ------------------------------------------------------------------------------------------


def test_a_conversation_holds_input_and_output_and_wants_only_what_is_new() -> None:
    world = after(
        Step.conversation(save_as="c1"),
        Step.respond(ask(tools=[TOOL], conversation="{c1.id}"), Use("look_up", "{}", "call_9"), save_as="r1"),
    )
    assert verdict(world, ask([AGAIN], conversation="{c1.id}")) == ["T1"]
    assert verdict(world, ask([output("call_9")], conversation="{c1.id}")) == []
    assert verdict(world, ask(["{r1.output[0]}", output("call_9")], conversation="{c1.id}")) == ["I8"]


def test_a_response_that_was_not_stored_cannot_be_continued() -> None:
    world = after(Step.respond(ask(store=False), Words("good day"), save_as="r1"))
    assert verdict(world, ask([AGAIN], previous_response_id="{r1.id}")) == ["S1"]


def test_an_empty_id_is_the_id_of_nothing() -> None:
    assert verdict(World(), ask([USER], previous_response_id="")) == ["S1"]
    assert verdict(World(), ask([USER], conversation="")) == ["S8"]
    assert verdict(World(), ask([USER], prompt={"id": ""})) == ["S10"]


def test_another_accounts_response_cannot_be_continued() -> None:
    world = after(Step.respond(ask(), Words("good day"), save_as="r1", account="other"))
    assert verdict(world, ask([AGAIN], previous_response_id="{r1.id}")) == ["S1"]


def test_a_chain_may_be_continued_without_new_input() -> None:
    assert verdict(after(Step.respond(ask(), Words("good day"), save_as="r1")), ask([], previous_response_id="{r1.id}")) == []


# -- what is looked up -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        reference("msg_unknown"),
        {"type": "reasoning", "id": "rs_unknown", "summary": [], "encrypted_content": None},
        {"type": "image_generation_call", "id": "ig_unknown", "status": "completed"},
        {"type": "file_search_call", "id": "fs_unknown", "status": "completed", "queries": []},
    ],
    ids=lambda item: item["type"],
)
def test_references_bare_reasoning_images_and_file_searches_are_looked_up(item: dict[str, Any]) -> None:
    assert verdict(World(), ask([USER, item, said(), AGAIN])) == ["I3"]


def test_bare_reasoning_that_is_stored_is_found() -> None:
    world = after(Step.respond(ask(model=THINKS), Thought("hm"), Words("good day"), save_as="r1"))
    bare = {"type": "reasoning", "id": "{r1.output[0].id}", "summary": []}
    assert verdict(world, ask([USER, bare, reference("{r1.output[1].id}"), AGAIN], model=THINKS)) == []


# -- reasoning ---------------------------------------------------------------------------------------------------------

PAIRED = Profile(reasoning_pairing_unstored=True)
CALLED = Step.respond(ask(model=THINKS, tools=[TOOL]), Thought("a tool"), Use("look_up", "{}", "call_7"), save_as="r1")


def test_the_recorded_refusal_of_a_changed_history_is_refused() -> None:
    unstored = Step.respond(ask(model=THINKS, store=False), Thought("hm"), Words("good day"), save_as="r1")
    changed = ask([USER, "{r1.output[0]}", {"role": "assistant", "content": "something else"}, AGAIN], model=THINKS)
    assert verdict(after(unstored, profile=PAIRED), changed, PAIRED) == ["R1"]
    assert verdict(after(unstored), changed) == []
    stored = Step.respond(ask(model=THINKS), Thought("hm"), Words("good day"), save_as="r1")
    assert verdict(after(stored), changed) == ["R1"]


def test_pairing_is_seen_by_a_judge_who_can_open_nothing() -> None:
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    assert [complaint.clause.id for complaint in judge(ask([USER, sealed, said(), AGAIN]), profile=PAIRED)] == ["R1"]
    assert [complaint.clause.id for complaint in judge(ask([USER, sealed, AGAIN]), profile=PAIRED)] == ["R8"]
    assert judge(ask([USER, sealed, said(id="msg_1"), AGAIN]), profile=PAIRED) == []
    assert judge(ask([USER, without(sealed, "id"), said(), AGAIN]), profile=PAIRED) == []


def test_reasoning_that_was_never_stored_is_bound_to_nothing() -> None:
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    assert judge(ask([USER, sealed, said(), AGAIN], store=False)) == []
    assert judge(ask([USER, sealed, AGAIN], store=False)) == []


def test_a_call_without_id_after_its_reasoning_is_known_by_its_call_id() -> None:
    world = after(CALLED)
    assert verdict(world, ask([USER, "{r1.output[0]}", call("call_7"), output("call_7")], model=THINKS)) == []
    assert verdict(world, ask([USER, "{r1.output[0]}", call("call_8"), output("call_8")], model=THINKS)) == ["R1"]


def test_a_call_without_id_does_not_stand_in_for_a_message() -> None:
    unstored = Step.respond(ask(model=THINKS, store=False), Thought("hm"), Words("good day"), save_as="r1")
    replaced = ask([USER, "{r1.output[0]}", call(), output()], model=THINKS, store=False)
    assert verdict(after(unstored, profile=PAIRED), replaced, PAIRED) == ["R1"]


def test_a_call_without_id_stands_in_though_nothing_is_stored() -> None:
    unstored = Step.respond(ask(model=THINKS, store=False), Thought("hm"), Use("look_up", "{}", "call_7"), save_as="r1")
    replayed = ask([USER, "{r1.output[0]}", call("call_7"), output("call_7")], model=THINKS, store=False)
    assert verdict(after(unstored), replayed) == []


def test_a_reference_to_what_followed_does_as_well_as_the_item() -> None:
    refs = [reference("{r1.output[0].id}"), reference("{r1.output[1].id}"), output("call_7")]
    assert verdict(after(CALLED), ask([USER, *refs], model=THINKS)) == []
    assert verdict(after(CALLED), ask([USER, *refs[1:]], model=THINKS)) == ["R2"]


def test_sealed_reasoning_without_an_id_is_known_by_its_seal() -> None:
    nameless = {"type": "reasoning", "summary": [], "encrypted_content": "{r1.output[0].encrypted_content}"}
    assert verdict(after(CALLED), ask([USER, nameless, "{r1.output[1]}", output("call_7")], model=THINKS)) == []


def test_something_between_sealed_reasoning_and_what_followed_is_seen_though_nothing_is_stored() -> None:
    unstored = Step.respond(ask(model=THINKS, store=False), Thought("hm"), Words("good day"), save_as="r1")
    between = ask([USER, "{r1.output[0]}", AGAIN, "{r1.output[1]}", AGAIN], model=THINKS, store=False)
    assert verdict(after(unstored, profile=PAIRED), between, PAIRED) == ["R3"]


@pytest.mark.parametrize(
    "say",
    [
        (Thought("a"), Words("b"), Use("look_up", "{}", "call_1")),
        (Thought("a"), Use("look_up", "{}", "call_1"), Use("look_up", "{}", "call_2")),
        (Thought("a"), Words("b"), Thought("c"), Words("d")),
    ],
    ids=["a message and a call", "two calls", "more reasoning"],
)
def test_orders_that_were_seen_accepted_are_accepted(say: tuple[Any, ...]) -> None:
    world = after(Step.respond(ask(model=THINKS, tools=[TOOL]), *say, save_as="r1"))
    outputs = [output(use.id) for use in say if isinstance(use, Use)]
    replayed = [f"{{r1.output[{index}]}}" for index in range(len(say))]
    assert verdict(world, ask([USER, *replayed, *outputs, AGAIN], model=THINKS)) == []
    assert verdict(world, ask([*outputs, AGAIN], model=THINKS, previous_response_id="{r1.id}")) == []


def test_seals_go_with_their_organisation_even_without_an_id() -> None:
    foreign = Step.respond(ask(model=THINKS, store=False), Thought("hm"), Words("good day"), save_as="r1", account="other")
    nameless = {"type": "reasoning", "summary": [], "encrypted_content": "{r1.output[0].encrypted_content}"}
    assert verdict(after(foreign), ask([USER, nameless, said(), AGAIN], model=THINKS)) == ["R12"]


def test_a_dated_name_is_the_same_model_to_a_seal() -> None:
    strict = Profile(same_model_blobs=True)
    world = after(Step.respond(ask(model=THINKS, store=False), Thought("hm"), Words("good day"), save_as="r1"), profile=strict)
    replayed = ask(["{r1.output[0]}", "{r1.output[1]}", AGAIN], model=f"{THINKS}-2026-04-23")
    assert verdict(world, replayed, strict) == []


def test_a_call_and_a_message_may_have_a_null_status_and_reasoning_may_not() -> None:
    assert verdict(World(), ask([USER, call(status=None), output(), said(status=None), AGAIN])) == []
    assert verdict(World(), ask([USER, {"type": "reasoning", "summary": [], "status": None}, said(), AGAIN])) == ["N13"]
