"""The events of a streamed response: each kind of item comes in the steps in which OpenAI sends it."""

from __future__ import annotations

import re
from typing import Any

from legato.testing import call, handoff
from tests.server.openai.asking import approved, client_of
from tests.server.rooms import Refunds, refunding, served


def steps(events: list[Any], index: int) -> list[str]:
    """The kinds of events of one item, in order; several deltas in a row count once."""
    kinds = [event.type.removeprefix("response.") for event in events if getattr(event, "output_index", None) == index]
    return [kind for at, kind in enumerate(kinds) if kinds[at - 1 : at] != [kind]]


def added(events: list[Any]) -> list[Any]:
    return [event.item for event in events if event.type == "response.output_item.added"]


def finished(events: list[Any]) -> list[Any]:
    return [event.item for event in events if event.type == "response.output_item.done"]


CALL = ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
TEXT = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"]


def test_each_item_comes_in_the_steps_of_its_kind() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        events = list(client_of(server).responses.create(model="desk", input="Refund order 7", stream=True))
    assert [item.type for item in added(events)] == ["mcp_call", "message", "mcp_call", "message", "mcp_approval_request"]
    called = [*CALL, "mcp_call.completed", "output_item.done"]
    assert [steps(events, index) for index in range(5)] == [called, TEXT, called, TEXT, ["output_item.added", "output_item.done"]]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [item.to_dict() for item in finished(events)] == [item.to_dict() for item in events[-1].response.output]


def test_a_call_begins_without_arguments_or_outcome() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        events = list(client_of(server).responses.create(model="desk", input="Refund order 7", stream=True))
    begun, done = added(events)[0], finished(events)[0]
    assert (begun.status, begun.arguments, begun.output, begun.error) == ("in_progress", "", None, None)
    assert (done.status, done.arguments, done.output) == ("completed", '{"order": "7"}', "order 7 cost 24.50")
    assert begun.id == done.id
    sent = [event for event in events if re.search("mcp_call_arguments", event.type)]
    assert [getattr(event, "delta", None) or event.arguments for event in sent[:2]] == [done.arguments, done.arguments]


def test_a_rejected_call_ends_as_failed() -> None:
    desk = Refunds([handoff("refunds")], [call("refund", order="7", card="x"), "Then not."])
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund order 7")
        answer = [approved(asked.output[-1], False, "too much")]
        events = list(client.responses.create(model="desk", previous_response_id=asked.id, input=answer, stream=True))
    assert steps(events, 0) == [*CALL, "mcp_call.failed", "output_item.done"]
    assert (added(events)[0].status, finished(events)[0].status) == ("in_progress", "failed")
    assert "too much" in str(finished(events)[0].error)


def test_a_function_call_comes_with_its_arguments_and_name() -> None:
    desk = Refunds([handoff("refunds")], [call("ask_bank", order="7")])
    with served(desk.workflow) as server:
        events = list(client_of(server).responses.create(model="desk", input="Refund order 7", stream=True))
    begun, done = added(events)[-1], finished(events)[-1]
    assert (begun.type, begun.status, begun.arguments) == ("function_call", "in_progress", "")
    assert (done.status, done.arguments, done.call_id) == ("completed", '{"order": "7"}', begun.call_id)
    arguments = "function_call_arguments"
    assert steps(events, len(added(events)) - 1) == ["output_item.added", f"{arguments}.delta", f"{arguments}.done", "output_item.done"]
    told = next(event for event in events if event.type == f"response.{arguments}.done")
    assert (told.name, told.arguments, told.item_id) == ("ask_bank", '{"order": "7"}', done.id)
