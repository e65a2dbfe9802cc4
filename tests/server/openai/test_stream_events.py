"""The events of a streamed response: each type of item has the same events as at OpenAI."""

from __future__ import annotations

import re
from typing import Any

from legato.testing import call, handoff
from tests.server.openai.openai_client import make_approval, make_client
from tests.server.workflows import RefundDesk, make_refund_desk, run_server


def list_steps(events: list[Any], index: int) -> list[str]:
    """The kinds of events of one item, in order; several deltas in a row count once."""
    kinds = [event.type.removeprefix("response.") for event in events if getattr(event, "output_index", None) == index]
    return [kind for at, kind in enumerate(kinds) if kinds[at - 1 : at] != [kind]]


def list_added_items(events: list[Any]) -> list[Any]:
    return [event.item for event in events if event.type == "response.output_item.added"]


def list_finished_items(events: list[Any]) -> list[Any]:
    return [event.item for event in events if event.type == "response.output_item.done"]


CALL_STEPS = ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
TEXT_STEPS = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"]


def test_each_item_has_events_of_its_type() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        events = list(make_client(server).responses.create(model="desk", input="Refund order 7", stream=True))
    assert [item.type for item in list_added_items(events)] == ["mcp_call", "message", "mcp_call", "message", "mcp_approval_request"]
    called = [*CALL_STEPS, "mcp_call.completed", "output_item.done"]
    assert [list_steps(events, index) for index in range(5)] == [
        called,
        TEXT_STEPS,
        called,
        TEXT_STEPS,
        ["output_item.added", "output_item.done"],
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [item.to_dict() for item in list_finished_items(events)] == [item.to_dict() for item in events[-1].response.output]


def test_call_starts_without_arguments_and_output() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        events = list(make_client(server).responses.create(model="desk", input="Refund order 7", stream=True))
    begun, done = list_added_items(events)[0], list_finished_items(events)[0]
    assert (begun.status, begun.arguments, begun.output, begun.error) == ("in_progress", "", None, None)
    assert (done.status, done.arguments, done.output) == ("completed", '{"order": "7"}', "order 7 cost 24.50")
    assert begun.id == done.id
    sent = [event for event in events if re.search("mcp_call_arguments", event.type)]
    assert [getattr(event, "delta", None) or event.arguments for event in sent[:2]] == [done.arguments, done.arguments]


def test_a_rejected_call_ends_as_failed() -> None:
    desk = RefundDesk([handoff("refunds")], [call("refund", order="7", card="x"), "Then not."])
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        answer = [make_approval(asked.output[-1], False, "too much")]
        events = list(client.responses.create(model="desk", previous_response_id=asked.id, input=answer, stream=True))
    assert list_steps(events, 0) == [*CALL_STEPS, "mcp_call.failed", "output_item.done"]
    assert (list_added_items(events)[0].status, list_finished_items(events)[0].status) == ("in_progress", "failed")
    assert "too much" in str(list_finished_items(events)[0].error)


def test_function_call_events_have_arguments_and_name() -> None:
    desk = RefundDesk([handoff("refunds")], [call("ask_bank", order="7")])
    with run_server(desk.workflow) as server:
        events = list(make_client(server).responses.create(model="desk", input="Refund order 7", stream=True))
    begun, done = list_added_items(events)[-1], list_finished_items(events)[-1]
    assert (begun.type, begun.status, begun.arguments) == ("function_call", "in_progress", "")
    assert (done.status, done.arguments, done.call_id) == ("completed", '{"order": "7"}', begun.call_id)
    arguments = "function_call_arguments"
    assert list_steps(events, len(list_added_items(events)) - 1) == [
        "output_item.added",
        f"{arguments}.delta",
        f"{arguments}.done",
        "output_item.done",
    ]
    told = next(event for event in events if event.type == f"response.{arguments}.done")
    assert (told.name, told.arguments, told.item_id) == ("ask_bank", '{"order": "7"}', done.id)
