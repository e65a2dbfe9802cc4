"""The errors that the seeds report: the emulator sends them with the exact message, and each has a repair that works.

A triage agent hands off to refunds by a call. The errors come from the provider's rules about calls, items and chains after a handoff.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.fake_models.base import FakeReplyItem, ModelPrompt, ReplyCall, ReplyText, ReplyThought

MODEL = "gpt-5.5"
USER = {"role": "user", "content": "Order 7 arrived broken."}
TRIAGE = "You are triage. Hand over to refunds."
REFUNDS = "You are refunds."
HANDOFF = {"type": "function", "name": "handoff_to_refunds", "parameters": {"type": "object", "properties": {}}}
LOOK_UP = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}
PAY = {"type": "function", "name": "pay", "parameters": {"type": "object", "properties": {}}}


def team_model(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Triage hands off, the clerk calls all its tools at once, refunds replies."""
    thoughts: list[FakeReplyItem] = [ReplyThought("Whose business is this?")] if prompt.has_reasoning else []
    if prompt.tools and not any(heard.role == "tool" for heard in prompt.messages):
        return [*thoughts, *(ReplyCall(tool.name) for tool in prompt.tools)]
    return [*thoughts, ReplyText("I will see to it.")]


@pytest.fixture(scope="module")
def desk() -> Iterator[Emulator]:
    with serve(fake_model=team_model) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def openai_client(desk: Emulator) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=desk.openai_url, api_key="sk-seeds", max_retries=0) as client:
        yield client


def request_triage(client: openai.OpenAI, **options: Any) -> Any:
    """Request triage's turn: it reasons, and hands off by a call."""
    reply = client.responses.create(model=MODEL, instructions=TRIAGE, tools=[HANDOFF], input=[USER], **options)
    assert [item.type for item in reply.output] == ["reasoning", "function_call"]
    return reply


def dump_output(reply: Any) -> list[dict[str, Any]]:
    """Return the output as a framework keeps it."""
    return [item.model_dump(exclude_none=True) for item in reply.output]


def make_handoff_output(call_id: str) -> dict[str, Any]:
    """Return the output of a handoff's call."""
    return {"type": "function_call_output", "call_id": call_id, "output": "refunds has taken over"}


def make_error_body(message: str, param: str | None = "input", code: str | None = None) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


# -- seed 1: a chain whose last response has an open handoff -----------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_unanswered_handoff_of_chain_is_rejected(openai_client: openai.OpenAI, stream: bool) -> None:
    handed = request_triage(openai_client)
    call = handed.output[-1].call_id
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.responses.create(
            model=MODEL, instructions=TRIAGE, tools=[HANDOFF], input=[USER], previous_response_id=handed.id, stream=stream
        )
    assert caught.value.response.json() == make_error_body(f"No tool output found for function call {call}.")
    repaired = openai_client.responses.create(
        model=MODEL, instructions=REFUNDS, input=[make_handoff_output(call)], previous_response_id=handed.id
    )
    assert repaired.output_text == "I will see to it."


def test_unanswered_handoff_of_conversation_is_rejected(openai_client: openai.OpenAI) -> None:
    talk = openai_client.conversations.create()
    handed = request_triage(openai_client, conversation=talk.id)
    call = handed.output[-1].call_id
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input="Are you there?", conversation=talk.id)
    assert caught.value.response.json() == make_error_body(f"No tool output found for function call {call}.")
    assert openai_client.responses.create(
        model=MODEL, instructions=REFUNDS, input=[make_handoff_output(call)], conversation=talk.id
    ).output_text


def test_output_in_fresh_chain_is_rejected(openai_client: openai.OpenAI) -> None:
    call = request_triage(openai_client).output[-1].call_id
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[USER, make_handoff_output(call)])
    assert caught.value.response.json() == make_error_body(f"No tool call found for function call output with call_id {call}.")
    called = {"type": "function_call", "call_id": call, "name": "handoff_to_refunds", "arguments": "{}"}
    assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[USER, called, make_handoff_output(call)]).output_text


def test_history_with_chain_is_duplicate_item(openai_client: openai.OpenAI) -> None:
    handed = request_triage(openai_client)
    history = [USER, *dump_output(handed), make_handoff_output(handed.output[-1].call_id)]
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=history, previous_response_id=handed.id)
    words = f"Duplicate item found with id {handed.output[0].id}. Remove duplicate items from your input and try again."
    assert caught.value.response.json() == make_error_body(words)
    assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=history).output_text


# -- seed 0: items replayed by their ids where nothing is stored -------------------------------------------------------


def without_members(items: list[dict[str, Any]], *members: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key not in members} for item in items]


def make_not_found_message(id: str) -> str:
    return (
        f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input."
    )


def test_replayed_unstored_reasoning_is_not_found(openai_client: openai.OpenAI) -> None:
    handed = request_triage(openai_client, store=False)
    thought, call = handed.output
    kept = without_members(dump_output(handed), "encrypted_content")
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.responses.create(
            model=MODEL, instructions=REFUNDS, input=[USER, *kept, make_handoff_output(call.call_id)], store=False
        )
    assert caught.value.response.json() == make_error_body(make_not_found_message(thought.id))
    for repaired in (dump_output(handed), without_members(dump_output(handed), "id"), without_members(kept[1:], "id")):
        history = [USER, *repaired, make_handoff_output(call.call_id)]
        assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=history, store=False).output_text


def test_reference_to_unstored_call_is_not_found(openai_client: openai.OpenAI) -> None:
    call = request_triage(openai_client, store=False).output[-1]
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.responses.create(
            model=MODEL, input=[USER, {"type": "item_reference", "id": call.id}, make_handoff_output(call.call_id)], store=False
        )
    assert caught.value.response.json() == make_error_body(make_not_found_message(call.id))


def test_azure_item_not_found_status_is_switch() -> None:
    with (
        serve(fake_model=team_model, switches={"responses.item_not_found_status": 400}) as emulator,
        openai.AzureOpenAI(azure_endpoint=emulator.url, api_key="k", api_version="2026-01-01", max_retries=0) as client,
    ):
        handed = request_triage(client, store=False)
        history = [USER, *without_members(dump_output(handed), "encrypted_content"), make_handoff_output(handed.output[-1].call_id)]
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model=MODEL, instructions=REFUNDS, input=history, store=False)
        assert caught.value.response.json() == make_error_body(make_not_found_message(handed.output[0].id))


# -- seed 4: two of three calls rejected, and the output of the third lost ---------------------------------------------


def test_lost_parallel_output_is_rejected(openai_client: openai.OpenAI) -> None:
    tools = [LOOK_UP, PAY, {**PAY, "name": "pay_again"}]
    first = openai_client.responses.create(model=MODEL, input=[USER], tools=tools)
    ran, *gated = [item.call_id for item in first.output if item.type == "function_call"]
    rejected = [{"type": "function_call_output", "call_id": call, "output": "rejected"} for call in gated]
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.responses.create(model=MODEL, input=rejected, tools=tools, previous_response_id=first.id)
    assert caught.value.response.json() == make_error_body(f"No tool output found for function call {ran}.")
    answered = [{"type": "function_call_output", "call_id": ran, "output": "found"}, *rejected]
    assert openai_client.responses.create(model=MODEL, input=answered, tools=tools, previous_response_id=first.id).output_text


# -- seed 2: Chat Completions, where a second copy of the history puts the answer elsewhere ----------------------------


def chat_tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("stream", [False, True])
def test_displaced_outputs_of_calls_are_rejected(openai_client: openai.OpenAI, stream: bool) -> None:
    tools = [chat_tool("look_up"), chat_tool("handoff_to_refunds")]
    said = openai_client.chat.completions.create(model="gpt-4o", messages=[USER], tools=tools).choices[0].message
    assert said.tool_calls is not None
    calls = [call.id for call in said.tool_calls]
    outputs = [{"role": "tool", "tool_call_id": call, "content": "done"} for call in calls]
    first = said.model_dump(exclude_none=True)
    twice: list[Any] = [USER, first, USER, first, *outputs]  # the replayed history after the stored one
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(model="gpt-4o", messages=twice, tools=tools, stream=stream)
    words = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {calls[0]}, {calls[1]}"
    )
    assert caught.value.response.json() == make_error_body(words, "messages.[2].role")
    once: list[Any] = [USER, first, *outputs]
    assert openai_client.chat.completions.create(model="gpt-4o", messages=once, tools=tools).choices[0].message.content


def test_output_of_trimmed_call_is_rejected(openai_client: openai.OpenAI) -> None:
    trimmed: list[Any] = [USER, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(model="gpt-4o", messages=trimmed)
    words = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
    assert caught.value.response.json() == make_error_body(words, "messages.[1].role")


def test_recorded_violation_names_rule_and_path(desk: Emulator, openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        openai_client.responses.create(model=MODEL, input=[USER], previous_response_id=request_triage(openai_client).id)
    newest = max(desk.exchanges, key=lambda exchange: exchange.number)
    assert [(violation.rule_id, violation.path) for violation in newest.violations] == [("T1", "previous_response_id")]
