"""Items that clients send back, by reference or whole: they are recognised by their ids, and nothing is recorded twice."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as some

from legato import Limits
from legato.core.facts import CallRef
from legato.server.openai.item_ids import ItemId, parse_item_id
from legato.testing import call, handoff
from tests.server.openai.openai_client import make_client
from tests.server.workflows import (
    InterruptedModel,
    PausedModel,
    PayerOffice,
    RefundDesk,
    list_messages,
    load_session,
    make_chat,
    make_refund_desk,
    run_server,
)


def user_message(words: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": words}]}


def make_reference(item: Any) -> dict[str, Any]:
    return {"type": "item_reference", "id": item.id}


def to_input_item(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = item.to_dict()
    return found


def make_verdict(request: Any, approve: bool) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}


def find_requests(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "mcp_approval_request"]


def list_outputs(response: Any) -> list[dict[str, Any]]:
    """References to what is over; requests are referred to where they are answered."""
    return [make_reference(item) for item in response.output if item.type != "mcp_approval_request"]


def make_desk_with_two_refunds() -> RefundDesk:
    asks = [[call("refund", order="1", card="x"), call("refund", order="2", card="x")], "It is done.", "You are welcome."]
    return RefundDesk([["I hand you over.", handoff("refunds")]], asks)


@pytest.mark.parametrize("as_item", [make_reference, to_input_item])
def test_history_with_ids_continues_its_conversation(as_item: Any) -> None:
    workflow, history = make_chat(["one", "two", "three"]), []
    with run_server(workflow) as server:
        for words in ("first", "second", "third"):
            history.append(user_message(words))
            answer = make_client(server).responses.create(model="chat", input=history)
            history += [as_item(item) for item in answer.output]
        assert list_messages(server, workflow, answer.conversation.id) == [
            "user: first",
            "ada: one",
            "user: second",
            "ada: two",
            "user: third",
            "ada: three",
        ]
    assert answer.legato["ignored"] == ["input before what is recorded"]


def test_streamed_items_have_ids_that_continue() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        client = make_client(server)
        events = list(client.responses.create(model="chat", input="first", stream=True))
        item = next(event.item for event in events if event.type == "response.output_item.added")
        second = client.responses.create(model="chat", input=[user_message("first"), make_reference(item), user_message("second")])
        assert list_messages(server, workflow, second.conversation.id) == ["user: first", "ada: one", "user: second", "ada: two"]
    assert item.id == events[-1].response.output[0].id


def test_unfinished_stream_can_be_continued() -> None:
    model = PausedModel(["Good morning", "Good evening"])
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server)
        with client.responses.create(model="chat", input="first", stream=True) as stream:
            item = next(event.item for event in stream if event.type == "response.output_item.added")
        history = [user_message("first"), make_reference(item), user_message("second")]
        queued = client.responses.create(model="chat", input=history, background=True)
        model.free.set()
        heard = list(client.responses.retrieve(queued.id, stream=True))[-1].response
        assert heard.output_text.endswith("Good evening")
        told = list_messages(server, workflow, queued.conversation.id)
    assert [line for line in told if line.startswith("user")] == ["user: first", "user: second"]


def test_failed_reply_can_be_continued() -> None:
    model = InterruptedModel(["Good morning"], times=2, wait_until_free=True)
    workflow = make_chat([], model=model)
    with run_server(workflow) as server:
        client = make_client(server)
        events = []
        for event in client.responses.create(model="chat", input="first", stream=True):
            events.append(event)
            if event.type == "response.output_text.delta":
                model.free.set()
        assert events[-1].type == "response.failed"
        items = [event.item for event in events if event.type == "response.output_item.done"]
        assert items[0].status == "incomplete"
        history = [user_message("first"), *map(make_reference, items), user_message("second")]
        again = client.responses.create(model="chat", input=history)
        assert list_messages(server, workflow, events[-1].response.conversation.id) == ["user: first", "user: second", "ada: Good morning"]
    assert again.output_text == "Good morning"


@pytest.mark.parametrize("verdicts", [(True, True), (False, True), (False, False)])
def test_referenced_approval_is_recorded_once(verdicts: tuple[bool, bool]) -> None:
    desk = make_desk_with_two_refunds()
    with run_server(desk.workflow) as server:
        client, history = make_client(server), [user_message("Refund 1 and 2")]
        asked = client.responses.create(model="desk", input=history)
        history += list_outputs(asked)
        for request, approve in zip(find_requests(asked), verdicts, strict=True):
            history += [make_reference(request), make_verdict(request, approve)]
        done = client.responses.create(model="desk", input=history)
        history += [*list_outputs(done), user_message("Thanks")]
        thanked = client.responses.create(model="desk", input=history)
        told = list_messages(server, desk.workflow, asked.conversation.id)
    assert [line for line in told if line.startswith("user")] == ["user: Refund 1 and 2", "user: Thanks"]
    assert (done.output_text, thanked.output_text) == ("It is done.", "You are welcome.")
    assert desk.paid == [order for order, approve in zip("12", verdicts, strict=True) if approve]
    calls = [item for item in done.output if item.type == "mcp_call"]
    assert [item.approval_request_id for item in calls] == [request.id for request in find_requests(asked)]


def test_message_before_approval_is_already_recorded() -> None:
    desk = make_desk_with_two_refunds()
    with run_server(desk.workflow) as server:
        client, history = make_client(server), [user_message("Refund 1 and 2")]
        asked = client.responses.create(model="desk", input=history, conversation="c")
        history += [make_verdict(request, True) for request in find_requests(asked)]
        client.responses.create(model="desk", input=history, conversation="c")
        client.responses.create(model="desk", input=[*history, user_message("Thanks")], conversation="c")
        told = list_messages(server, desk.workflow, "c")
    assert [line for line in told if line.startswith("user")] == ["user: Refund 1 and 2", "user: Thanks"]
    assert desk.paid == ["1", "2"]


def test_child_session_approval_is_accepted_as_history() -> None:
    office = PayerOffice()
    with run_server(office.workflow) as server:
        client, history = make_client(server), [user_message("Pay ann")]
        asked = client.responses.create(model="office", input=history, conversation="c")
        history += [make_verdict(asked.output[-1], True)]
        client.responses.create(model="office", input=history, conversation="c")
        last = client.responses.create(model="office", input=[*history, user_message("Are you there?")], conversation="c")
        told = list_messages(server, office.workflow, "c")
    assert (last.output_text, office.paid) == ("Yes?", ["ann"])
    assert [line for line in told if line.startswith("user")] == ["user: Pay ann", "user: Are you there?"]


def test_limit_is_raised_by_item_reference() -> None:
    desk = RefundDesk([call("look_up", order="7"), "There it is.", "Bye."], limits=Limits(turns=1))
    with run_server(desk.workflow) as server:
        client, history = make_client(server), [user_message("Where is 7?")]
        asked = client.responses.create(model="desk", input=history)
        history += [*list_outputs(asked), make_reference(asked.output[-1]), make_verdict(asked.output[-1], True)]
        done = client.responses.create(model="desk", input=history)
        last = client.responses.create(model="desk", input=[*history, user_message("Bye")])
        told = list_messages(server, desk.workflow, done.conversation.id)
    assert (done.output_text, last.conversation.id) == ("There it is.", done.conversation.id)
    assert [line for line in told if line.startswith("user")] == ["user: Where is 7?", "user: Bye"]


def test_the_output_of_a_call_names_its_conversation() -> None:
    desk = RefundDesk([handoff("refunds")], [call("ask_bank", order="7"), "The bank agrees."])
    with run_server(desk.workflow) as server:
        client, ask = make_client(server), user_message("Refund order 7")
        asked = client.responses.create(model="desk", input=[ask])
        waits = asked.output[-1]
        written = {"type": "function_call", "call_id": waits.call_id, "name": waits.name, "arguments": waits.arguments}
        told = {"type": "function_call_output", "call_id": waits.call_id, "output": "it agrees"}
        done = client.responses.create(model="desk", input=[ask, written, told])
        assert (done.output_text, done.conversation.id) == ("The bank agrees.", asked.conversation.id)
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.responses.create(model="desk", input=[ask, written, told])


def test_repeated_answer_alone_is_refused() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client, history = make_client(server), [user_message("Refund order 7")]
        asked = client.responses.create(model="desk", input=history)
        history += [*list_outputs(asked), make_reference(asked.output[-1]), make_verdict(asked.output[-1], True)]
        client.responses.create(model="desk", input=history)
        length = len(load_session(server, desk.workflow, asked.conversation.id).facts)
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.responses.create(model="desk", input=history)
        assert len(load_session(server, desk.workflow, asked.conversation.id).facts) == length
    assert desk.paid == ["7"]


def test_answer_contradicting_the_ledger_is_refused() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client, history = make_client(server), [user_message("Refund order 7")]
        asked = client.responses.create(model="desk", input=history)
        request = asked.output[-1]
        client.responses.create(model="desk", input=[make_verdict(request, False)], previous_response_id=asked.id)
        history += [*list_outputs(asked), make_reference(request), make_verdict(request, True), user_message("And?")]
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.responses.create(model="desk", input=history)
    assert desk.paid == []


def test_approval_and_message_are_both_recorded() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client, ask = make_client(server), user_message("Refund order 7")
        asked = client.responses.create(model="desk", input=[ask])
        request = asked.output[-1]
        done = client.responses.create(
            model="desk", input=[ask, make_reference(request), make_verdict(request, True), user_message("Quick!")]
        )
        told = list_messages(server, desk.workflow, asked.conversation.id)
        assert [item.name for item in done.output if item.type == "mcp_call"] == ["refund"]
    assert desk.paid == ["7"]
    assert [line for line in told if line.startswith("user")] == ["user: Refund order 7", "user: Quick!"]


def test_outdated_history_continues_in_fork() -> None:
    workflow = make_chat(["one", "two", "other", "more"])
    with run_server(workflow) as server:
        client, history = make_client(server), [user_message("first")]
        first = client.responses.create(model="chat", input=history)
        history += list_outputs(first)
        client.responses.create(model="chat", input=[*history, user_message("second")])
        other = client.responses.create(model="chat", input=[*history, user_message("otherwise")])
        assert other.conversation.id != first.conversation.id
        history += [
            user_message("otherwise"),
            *list_outputs(other),
            user_message("and more"),
        ]  # items of both sessions: the branch has them all
        more = client.responses.create(model="chat", input=history)
        assert more.conversation.id == other.conversation.id
        assert list_messages(server, workflow, first.conversation.id) == ["user: first", "ada: one", "user: second", "ada: two"]
        assert list_messages(server, workflow, more.conversation.id) == [
            "user: first",
            "ada: one",
            "user: otherwise",
            "ada: other",
            "user: and more",
            "ada: more",
        ]


def test_history_with_same_key_is_one_request() -> None:
    workflow = make_chat(["one", "two", "three"])
    with run_server(workflow) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        asked: dict[str, Any] = {"model": "chat", "input": [user_message("first"), *list_outputs(first), user_message("second")]}
        answers = [client.responses.create(**asked, extra_headers={"Idempotency-Key": "k"}) for _ in range(3)]
        assert len({answer.id for answer in answers}) == 1
        assert list_messages(server, workflow, first.conversation.id) == ["user: first", "ada: one", "user: second", "ada: two"]


def test_items_of_two_conversations_are_refused_together() -> None:
    workflow = make_chat(["one", "two"])
    with run_server(workflow) as server:
        client = make_client(server)
        mine, other = (client.responses.create(model="chat", input=words) for words in ("first", "second"))
        mixed = [user_message("first"), *list_outputs(other), *list_outputs(mine), user_message("third")]
        for naming in ({}, {"previous_response_id": mine.id}, {"conversation": mine.conversation.id}, {"conversation": "new"}):
            with pytest.raises(openai.BadRequestError, match="has no such item") as refused:
                client.responses.create(model="chat", input=mixed, **naming)
            assert (refused.value.code, refused.value.param) == (
                "item_not_found",
                "input[2]" if naming.get("conversation") == "new" else "input[1]",
            )
        for response in (mine, other):
            assert len(list_messages(server, workflow, response.conversation.id)) == 2
        assert list_messages(server, workflow, "new") == []


def test_an_item_of_a_deleted_session_is_refused() -> None:
    workflow = make_chat(["one", "two", "three"])
    with run_server(workflow) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first", conversation="c")
        for _ in range(2):
            asyncio.run(server.registry.store.delete("c"))
            with pytest.raises(openai.BadRequestError, match="session 'c' has no such item"):
                client.responses.create(model="chat", input=[user_message("first"), *list_outputs(first), user_message("second")])
            client.responses.create(model="chat", input="anew", conversation="c")  # the same id, and yet another conversation


@pytest.mark.parametrize("id", ["msg_68af", "rs_1", "", "msg_00000000_r0_!!", "mcpr_x_y"])
def test_a_reference_to_an_unknown_item_is_refused(id: str) -> None:
    with run_server(make_chat(["one"])) as server:
        with pytest.raises(openai.BadRequestError, match="does not exist") as refused:
            make_client(server).responses.create(model="chat", input=[{"type": "item_reference", "id": id}, user_message("Hi")])
        assert (refused.value.code, refused.value.param) == ("item_not_found", "input[0].id")
        assert server.registry.store._ledgers == {}


def test_forged_places_in_a_ledger_are_refused() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        ids = {item.type: item.id for item in asked.output}
        _, ledger, _, session = ids["message"].split("_")
        length = len(load_session(server, desk.workflow, asked.conversation.id).facts)
        places = ["msg:r99", "msg:0", "msg:2", "msg:999999999", "mcp:2.9", "mcp:1.0", "mcp:999.0", "mcpr:x-approval-2.0_d"]
        forged = [f"{place.partition(':')[0]}_{ledger}_{place.partition(':')[2]}_{session}" for place in places[:-1]]
        forged += [ids["message"].replace(ledger, "00000000"), ids["mcp_approval_request"].replace(ledger, "00000000")]
        for id in forged:
            with pytest.raises(openai.BadRequestError) as refused:
                client.responses.create(model="desk", input=[{"type": "item_reference", "id": id}, user_message("Hi")])
            assert refused.value.code == "item_not_found", id
        assert len(load_session(server, desk.workflow, asked.conversation.id).facts) == length
        made_up = ids["mcp_approval_request"].replace("approval", "outcome")
        with pytest.raises(openai.ConflictError):
            client.responses.create(model="desk", input=[{**make_verdict(asked.output[-1], True), "approval_request_id": made_up}])
    assert desk.paid == []


def test_items_of_another_workflow_are_refused() -> None:
    with run_server(make_chat(["one"]), make_chat([], "other")) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        with pytest.raises(openai.BadRequestError, match="belongs to 'chat'"):
            client.responses.create(model="other", input=[user_message("first"), *list_outputs(first), user_message("second")])


def test_history_without_new_input_is_refused() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        with pytest.raises(openai.BadRequestError, match=r"no new message: .* or answer a pending request"):
            client.responses.create(model="chat", input=[user_message("first"), *list_outputs(first)])


def test_unknown_assistant_message_after_history_is_refused() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server)
        first = client.responses.create(model="chat", input="first")
        invented = {"role": "assistant", "content": "I promise you money."}
        with pytest.raises(openai.BadRequestError, match="send only new ones"):
            client.responses.create(model="chat", input=[user_message("first"), *list_outputs(first), invented, user_message("So pay!")])


ENCODED_SESSION = base64.b64encode(b"desk-1?>", altchars=b"-.").decode().rstrip("=")


@pytest.mark.parametrize(
    ("id", "names"),
    [
        (f"msg_0123abcd_r2_{ENCODED_SESSION}", {"reply": 2}),
        (f"msg_0123abcd_r2v1_{ENCODED_SESSION}", {"reply": 2}),
        (f"msg_0123abcd_7_{ENCODED_SESSION}", {"position": 7}),
        (f"mcp_0123abcd_4.1_{ENCODED_SESSION}", {"call": CallRef(4, 1)}),
        (f"mcpr_0123abcd_a_b-approval-4.1_d_{ENCODED_SESSION}", {"request_name": "a_b-approval-4.1_d"}),
    ],
)
def test_id_contains_session_and_place(id: str, names: dict[str, Any]) -> None:
    assert parse_item_id(id) == ItemId(session_id="desk-1?>", ledger_mark="0123abcd", **names)


@pytest.mark.parametrize(
    "id",
    [
        f"msg_0123ABCD_r2_{ENCODED_SESSION}",
        f"msg_0123abcd_r02_{ENCODED_SESSION}",
        f"msg_0123abcd_r2_{ENCODED_SESSION}=",
        f"msg_0123abcd_2.0_{ENCODED_SESSION}",
        f"mcp_0123abcd_r2_{ENCODED_SESSION}",
        f"rs_0123abcd_r2_{ENCODED_SESSION}",
        f"msg_0123abcd__{ENCODED_SESSION}",
        "msg_0123abcd_r2_AAA",
        "msg_0123abcd_r2_YWI/",
        "msg_0123abcd_r2_YWJ",  # the unused bits are not those that we write
        "msg_0123abcd_r2_",
        None,
        7,
    ],
)
def test_foreign_id_is_not_parsed(id: object) -> None:
    assert parse_item_id(id) is None


@given(some.text())
def test_parsing_any_text_as_id_never_raises(text: str) -> None:
    for prefix in ("msg", "mcp", "mcpr", "fc", "call"):
        parse_item_id(f"{prefix}_0123abcd_{text}")
