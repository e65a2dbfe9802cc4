"""The errors that the seeds report, out of the emulator through the official SDK, word for word; and what repairs each.

A triage agent hands over to refunds by a call. What goes wrong after that is how the provider's rules about calls, items and
chains meet a handoff.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.minds.base import Item, Prompt, Thought, Use, Words

MODEL = "gpt-5.5"
USER = {"role": "user", "content": "Order 7 arrived broken."}
TRIAGE = "You are triage. Hand over to refunds."
REFUNDS = "You are refunds."
HANDOFF = {"type": "function", "name": "handoff_to_refunds", "parameters": {"type": "object", "properties": {}}}
LOOK_UP = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}
PAY = {"type": "function", "name": "pay", "parameters": {"type": "object", "properties": {}}}


def team(prompt: Prompt) -> list[Item]:
    """Triage hands over, the clerk uses every tool it has at once, refunds answers."""
    thoughts: list[Item] = [Thought("Whose business is this?")] if prompt.thinks else []
    if prompt.tools and not any(heard.who == "tool" for heard in prompt.heard):
        return [*thoughts, *(Use(tool.name) for tool in prompt.tools)]
    return [*thoughts, Words("I will see to it.")]


@pytest.fixture(scope="module")
def desk() -> Iterator[Emulator]:
    with serve(mind=team) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def openai_client(desk: Emulator) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=desk.openai_url, api_key="sk-seeds", max_retries=0) as client:
        yield client


def triage(client: openai.OpenAI, **options: Any) -> Any:
    """Triage's turn: it thinks, and hands over by a call."""
    reply = client.responses.create(model=MODEL, instructions=TRIAGE, tools=[HANDOFF], input=[USER], **options)
    assert [item.type for item in reply.output] == ["reasoning", "function_call"]
    return reply


def dumped(reply: Any) -> list[dict[str, Any]]:
    """The output as a framework keeps it."""
    return [item.model_dump(exclude_none=True) for item in reply.output]


def taken(call_id: str) -> dict[str, Any]:
    """The output that a handoff's call is answered with."""
    return {"type": "function_call_output", "call_id": call_id, "output": "refunds has taken over"}


def body(message: str, param: str | None = "input", code: str | None = None) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


# -- seed 1: a chain whose last response has an open handoff -----------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_chain_whose_handoff_was_never_answered_gets_no_tool_output_found(openai_client: openai.OpenAI, stream: bool) -> None:
    handed = triage(openai_client)
    call = handed.output[-1].call_id
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(
            model=MODEL, instructions=TRIAGE, tools=[HANDOFF], input=[USER], previous_response_id=handed.id, stream=stream
        )
    assert refused.value.response.json() == body(f"No tool output found for function call {call}.")
    repaired = openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[taken(call)], previous_response_id=handed.id)
    assert repaired.output_text == "I will see to it."


def test_the_same_in_a_conversation(openai_client: openai.OpenAI) -> None:
    talk = openai_client.conversations.create()
    handed = triage(openai_client, conversation=talk.id)
    call = handed.output[-1].call_id
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input="Are you there?", conversation=talk.id)
    assert refused.value.response.json() == body(f"No tool output found for function call {call}.")
    assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[taken(call)], conversation=talk.id).output_text


def test_a_handoff_answered_in_another_agents_fresh_chain_gets_no_tool_call_found(openai_client: openai.OpenAI) -> None:
    call = triage(openai_client).output[-1].call_id
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[USER, taken(call)])
    assert refused.value.response.json() == body(f"No tool call found for function call output with call_id {call}.")
    called = {"type": "function_call", "call_id": call, "name": "handoff_to_refunds", "arguments": "{}"}
    assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[USER, called, taken(call)]).output_text


def test_the_whole_history_together_with_the_chain_gets_a_duplicate_item(openai_client: openai.OpenAI) -> None:
    handed = triage(openai_client)
    history = [USER, *dumped(handed), taken(handed.output[-1].call_id)]
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=history, previous_response_id=handed.id)
    words = f"Duplicate item found with id {handed.output[0].id}. Remove duplicate items from your input and try again."
    assert refused.value.response.json() == body(words)
    assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=history).output_text


# -- seed 0: items replayed by their ids where nothing is stored -------------------------------------------------------


def without(items: list[dict[str, Any]], *members: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key not in members} for item in items]


def not_stored(id: str) -> str:
    return (
        f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input."
    )


def test_reasoning_replayed_by_its_id_under_store_false_gets_item_not_found(openai_client: openai.OpenAI) -> None:
    handed = triage(openai_client, store=False)
    thought, call = handed.output
    kept = without(dumped(handed), "encrypted_content")
    with pytest.raises(openai.NotFoundError) as refused:
        openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=[USER, *kept, taken(call.call_id)], store=False)
    assert refused.value.response.json() == body(not_stored(thought.id))
    for repaired in (dumped(handed), without(dumped(handed), "id"), without(kept[1:], "id")):
        history = [USER, *repaired, taken(call.call_id)]
        assert openai_client.responses.create(model=MODEL, instructions=REFUNDS, input=history, store=False).output_text


def test_a_call_replayed_as_a_reference_under_store_false_gets_item_not_found(openai_client: openai.OpenAI) -> None:
    call = triage(openai_client, store=False).output[-1]
    with pytest.raises(openai.NotFoundError) as refused:
        openai_client.responses.create(
            model=MODEL, input=[USER, {"type": "item_reference", "id": call.id}, taken(call.call_id)], store=False
        )
    assert refused.value.response.json() == body(not_stored(call.id))


def test_through_azure_item_not_found_is_a_bad_request_where_the_switch_says_so() -> None:
    with (
        serve(mind=team, switches={"responses.item_not_found_status": 400}) as emulator,
        openai.AzureOpenAI(azure_endpoint=emulator.url, api_key="k", api_version="2026-01-01", max_retries=0) as client,
    ):
        handed = triage(client, store=False)
        history = [USER, *without(dumped(handed), "encrypted_content"), taken(handed.output[-1].call_id)]
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model=MODEL, instructions=REFUNDS, input=history, store=False)
        assert refused.value.response.json() == body(not_stored(handed.output[0].id))


# -- seed 4: two of three calls rejected, and the output of the third lost ---------------------------------------------


def test_the_lost_output_of_a_call_that_ran_beside_rejected_ones_gets_no_tool_output_found(openai_client: openai.OpenAI) -> None:
    tools = [LOOK_UP, PAY, {**PAY, "name": "pay_again"}]
    asked = openai_client.responses.create(model=MODEL, input=[USER], tools=tools)
    ran, *gated = [item.call_id for item in asked.output if item.type == "function_call"]
    rejected = [{"type": "function_call_output", "call_id": call, "output": "rejected"} for call in gated]
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.responses.create(model=MODEL, input=rejected, tools=tools, previous_response_id=asked.id)
    assert refused.value.response.json() == body(f"No tool output found for function call {ran}.")
    answered = [{"type": "function_call_output", "call_id": ran, "output": "found"}, *rejected]
    assert openai_client.responses.create(model=MODEL, input=answered, tools=tools, previous_response_id=asked.id).output_text


# -- seed 2: Chat Completions, where a second copy of the history puts the answer elsewhere ----------------------------


def chat_tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("stream", [False, True])
def test_calls_whose_answers_the_history_displaced_get_tool_calls_must_be_followed(openai_client: openai.OpenAI, stream: bool) -> None:
    tools = [chat_tool("look_up"), chat_tool("handoff_to_refunds")]
    said = openai_client.chat.completions.create(model="gpt-4o", messages=[USER], tools=tools).choices[0].message
    assert said.tool_calls is not None
    calls = [call.id for call in said.tool_calls]
    answers = [{"role": "tool", "tool_call_id": call, "content": "done"} for call in calls]
    asked = said.model_dump(exclude_none=True)
    twice: list[Any] = [USER, asked, USER, asked, *answers]  # what is replayed on top of what was kept
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.chat.completions.create(model="gpt-4o", messages=twice, tools=tools, stream=stream)
    words = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {calls[0]}, {calls[1]}"
    )
    assert refused.value.response.json() == body(words, "messages.[2].role")
    once: list[Any] = [USER, asked, *answers]
    assert openai_client.chat.completions.create(model="gpt-4o", messages=once, tools=tools).choices[0].message.content


def test_an_answer_whose_call_was_trimmed_away_gets_no_preceeding_call(openai_client: openai.OpenAI) -> None:
    trimmed: list[Any] = [USER, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.chat.completions.create(model="gpt-4o", messages=trimmed)
    words = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
    assert refused.value.response.json() == body(words, "messages.[1].role")


def test_what_is_kept_of_a_refusal_names_its_clause_and_where_it_was_broken(desk: Emulator, openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        openai_client.responses.create(model=MODEL, input=[USER], previous_response_id=triage(openai_client).id)
    newest = max(desk.exchanges, key=lambda exchange: exchange.number)
    assert [(verdict.clause, verdict.path) for verdict in newest.verdict] == [("T1", "previous_response_id")]
