"""The beginning, continuation and end of runs: inputs, ids, limits, failures, streams."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from legato.compat.agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    HandoffInputData,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    MeansNothingHere,
    ModelBehaviorError,
    ModelCallFailed,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    ToolContext,
    UserError,
    default_store,
    function_tool,
    handoff,
    input_guardrail,
    set_default_openai_api,
    set_default_store,
)
from legato.compat.gaps import explain
from legato.core.facts import CallReturned, ModelReplied
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, desk, fake_model

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def echo(prompt: ModelPrompt) -> str:
    return f"{len(prompt.messages)}: {prompt.last_user_text}"


def bodies(emulator: Any) -> list[dict[str, Any]]:
    return [each.request_body for each in emulator.exchanges if each.is_model_request]


# -- what is given back as input -----------------------------------------------------------------------------------------


async def test_input_list_round_trips_unchanged(provider: Provider) -> None:
    """A list that is passed back as input stays the same list: no item is lost or doubled."""
    emulator = provider(fake_model)
    result = await Runner.run(desk(), "I want my money back for A-1 and B-2.", context=Shop("Ladle & Co"))
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(desk(), state)
    items = result.to_input_list()
    assert [item.get("type", item.get("role")) for item in items] == [
        "user", "function_call", "function_call_output", *["function_call"] * 3, *["function_call_output"] * 3, "assistant",
    ]  # fmt: skip
    again = await Runner.run(desk(), [*items, {"role": "user", "content": "Thank you!"}], context=Shop("Ladle & Co"))
    assert again.to_input_list()[: len(items) + 1] == [*items, {"role": "user", "content": "Thank you!"}]
    assert bodies(emulator)[-2]["input"] == [*items, {"role": "user", "content": "Thank you!"}]


async def test_input_list_of_a_waiting_run_is_legal(provider: Provider) -> None:
    """The input list of a run that waits is legal to send, and says that its calls wait."""
    provider(fake_model)
    waiting = await Runner.run(desk(), "I want my money back for A-1 and B-2.", context=Shop("Ladle & Co"))
    items = waiting.to_input_list()
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    assert list(outputs) == calls
    assert "waited for a person's approval" in outputs[calls[1]]
    again = await Runner.run(desk(), [*items, {"role": "user", "content": "Thank you!"}], context=Shop("Ladle & Co"))
    assert again.final_output == "You are welcome."


async def test_agent_given_a_finished_conversation_is_prompted(provider: Provider) -> None:
    """An agent whose input ends with another agent's reply is prompted to go on; no user is quoted."""
    emulator = provider(echo)
    first = await Runner.run(Agent(name="Writer"), "Hello")
    result = await Runner.run(Agent(name="Editor"), first.to_input_list())
    assert result.final_output == "3: Go on."
    assert [item["role"] for item in bodies(emulator)[-1]["input"]] == ["user", "assistant", "user"]
    assert [item["content"] for item in result.to_input_list()] == ["Hello", "1: Hello", "3: Go on."]


@pytest.mark.parametrize(
    ("agent", "sent"),
    [
        (Agent(name="A", model="gpt-5.1"), ("none", "low")),
        (Agent(name="A", model="gpt-5.1-chat-latest"), (None, None)),
        (Agent(name="A", model="gpt-4.1"), (None, None)),
        (Agent(name="A", model="gpt-5.1", model_settings=ModelSettings(reasoning={"effort": "high"})), ("high", None)),
        (Agent(name="A", model="gpt-4.1").clone(model="gpt-5.4-pro"), ("medium", "low")),
    ],
)
async def test_default_reasoning_effort_equals_the_sdks(provider: Provider, agent: Any, sent: Any) -> None:
    emulator = provider(echo)
    await Runner.run(agent, "Hello")
    body = bodies(emulator)[-1]
    assert (body.get("reasoning", {}).get("effort"), body.get("text", {}).get("verbosity")) == sent


async def test_run_model_brings_its_own_defaults(provider: Provider) -> None:
    emulator = provider(echo)
    await Runner.run(Agent(name="A"), "Hello", run_config=RunConfig(model="gpt-4.1"))
    assert not {"reasoning", "text"} & set(bodies(emulator)[-1])


async def test_pictures_and_raw_items_are_kept(provider: Provider) -> None:
    emulator = provider(["A teapot.", "Yes."])
    picture = {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PNG}]}
    first = await Runner.run(Agent(name="clerk"), [picture])
    items = [picture, first.raw_responses[0].output[0], {"role": "user", "content": "Sure?"}]
    second = await Runner.run(Agent(name="clerk"), items)
    assert second.final_output == "Yes."
    assert bodies(emulator)[1]["input"][0]["content"][1]["image_url"] == PNG
    assert [item["role"] for item in bodies(emulator)[1]["input"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("address", ["data:image/png;base64,not base64!", "data:image/png"])
async def test_picture_with_unreadable_bytes_is_refused(provider: Provider, address: str) -> None:
    emulator = provider(["A teapot."])
    with pytest.raises(UserError, match="not base64"):
        await Runner.run(Agent(name="clerk"), [{"role": "user", "content": [{"type": "input_image", "image_url": address}]}])
    assert bodies(emulator) == []


async def test_imported_replies_have_the_models_origin(provider: Provider) -> None:
    """The origin decides whether the reasoning of imported replies is replayed."""
    provider(echo)
    items: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1: one"}, {"role": "user", "content": "two"}]
    result = await Runner.run(Agent(name="clerk"), items)
    imported, created = (fact.origin for fact in result.legato_session.facts if isinstance(fact, ModelReplied))
    assert imported == created != ""


async def test_run_continues_from_outputs_given_as_input(provider: Provider) -> None:
    """A run continues from outputs of tools that the program ran itself."""
    emulator = provider(lambda prompt: f"So: {prompt.messages[-1].text}")
    call = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"}
    items = [{"role": "user", "content": "Add."}, call, {"type": "function_call_output", "call_id": "call_1", "output": "5"}]
    result = await Runner.run(Agent(name="clerk", instructions="Count."), items)
    assert result.final_output == "So: 5"
    assert bodies(emulator)[0]["instructions"] == "Count."
    assert bodies(emulator)[0]["input"] == items


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([], "empty"),
        (None, "text or a list of items, not NoneType"),
        ({"role": "user", "content": "Hi"}, "text or a list of items, not dict"),
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], "instructions"),
        ([{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Hi"}], "begins with words of the assistant"),
        ([{"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], "without outputs"),
        ([{"role": "user", "content": "Hi"}, {"type": "function_call_output", "call_id": "c", "output": ""}], "no such call"),
        ([{"type": "item_reference", "id": "msg_1"}], "the item itself"),
        ([{"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}], "by value"),
    ],
)
async def test_unrecordable_input_is_refused_before_any_write(provider: Provider, items: Any, told: str) -> None:
    emulator = provider([])
    with pytest.raises(UserError, match=told):
        await Runner.run(Agent(name="clerk"), items)
    assert bodies(emulator) == []
    assert await default_store().list() == []


# -- going on ------------------------------------------------------------------------------------------------------------


async def test_unknown_response_id_is_fetched_by_value(provider: Provider) -> None:
    """The items of a response id that no ledger has are fetched, and sent by value."""
    emulator = provider(echo)
    first = await Runner.run(Agent(name="clerk"), "one")
    second = await Runner.run(Agent(name="clerk"), "two", previous_response_id=first.last_response_id)
    set_default_store(MemoryStore())  # as in another process
    third = await Runner.run(Agent(name="clerk"), "three", previous_response_id=second.last_response_id)
    assert third.final_output == "5: three"
    *_, body = bodies(emulator)
    assert "previous_response_id" not in body
    assert [item["content"] for item in body["input"]] == ["one", "1: one", "two", "3: two", "three"]
    with pytest.raises(UserError, match="to_input_list"):
        await Runner.run(Agent(name="clerk"), "four", previous_response_id="resp_nobody")


async def test_foreign_conversation_is_fetched_by_value(provider: Provider) -> None:
    """The items of a conversation that another program filled are fetched, and sent by value."""
    emulator = provider(echo)
    async with AsyncOpenAI() as client:
        items: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1: one"}]
        conversation = await client.conversations.create(items=items)
    result = await Runner.run(Agent(name="clerk"), "two", conversation_id=conversation.id)
    assert result.final_output == "3: two"
    again = await Runner.run(Agent(name="clerk"), "three", conversation_id=conversation.id)
    assert again.final_output == "5: three"
    assert [len(body["input"]) for body in bodies(emulator)] == [3, 1]


async def test_fork_at_a_reply_includes_its_outputs(provider: Provider) -> None:
    emulator = provider(lambda prompt: echo(prompt) if prompt.last_user_text == "And?" else ReplyCall("look", "{}", "call_1"))

    looked = []

    @function_tool
    def look() -> str:
        """Look."""
        looked.append("once")
        return "a teapot"

    clerk = Agent(name="clerk", tools=[look], tool_use_behavior="stop_on_first_tool")
    first = await Runner.run(clerk, "Look!")
    assert first.final_output == "a teapot"
    second = await Runner.run(clerk, "And?", previous_response_id=first.last_response_id)
    assert second.final_output == "4: And?"
    *_, body = bodies(emulator)
    assert body["previous_response_id"] == first.last_response_id
    assert [item.get("output", item.get("content")) for item in body["input"]] == ["a teapot", "And?"]
    assert looked == ["once"]


async def test_undecided_reply_cannot_be_continued_by_id(provider: Provider) -> None:
    provider(fake_model)
    waiting = await Runner.run(desk(), "Money back", context=Shop("Ladle & Co"))
    with pytest.raises(UserError, match="to_state"):
        await Runner.run(desk(), "And?", previous_response_id=waiting.last_response_id, context=Shop("Ladle & Co"))


async def test_one_conversation_is_named_once(provider: Provider) -> None:
    provider([])
    with pytest.raises(UserError, match="give one of them"):
        await Runner.run(Agent(name="clerk"), "Hi", previous_response_id="resp_1", conversation_id="conv_1")


async def test_store_false_stores_nothing_at_the_provider(provider: Provider) -> None:
    """With `store=False` the provider stores nothing, and response ids still work."""
    emulator = provider(echo)
    clerk = Agent(name="clerk", model_settings=ModelSettings(store=False))
    first = await Runner.run(clerk, "one")
    second = await Runner.run(clerk, "two", previous_response_id=first.last_response_id)
    assert second.final_output == "3: two"
    assert all(body["store"] is False and "previous_response_id" not in body for body in bodies(emulator))


async def test_chat_completions_has_all_of_it_too(provider: Provider) -> None:
    emulator = provider(echo)
    set_default_openai_api("chat_completions")
    first = await Runner.run(Agent(name="clerk"), "one")
    second = await Runner.run(Agent(name="clerk"), "two", previous_response_id=first.last_response_id)
    assert second.final_output == "3: two"
    async with AsyncOpenAI() as client:
        clerk = Agent(name="clerk", model=OpenAIChatCompletionsModel("gpt-4.1", openai_client=client))
        with pytest.raises(UserError, match="no conversation here holds it"):
            await Runner.run(clerk, "three", previous_response_id="chatcmpl-nobody")
    assert {each.api for each in emulator.exchanges} == {"chat"}


def test_scripts_without_an_event_loop_run_too(provider: Provider) -> None:
    provider(echo)
    session = SQLiteSession("one")
    assert Runner.run_sync(Agent(name="clerk"), "one", session=session).final_output == "1: one"
    result = Runner.run_sync(Agent(name="clerk"), "two", session=session)
    assert result.final_output == "3: two"
    assert len(result.to_input_list()) == 4


async def test_run_sync_in_a_loop_names_its_replacement(provider: Provider) -> None:
    with pytest.raises(UserError, match=r"await Runner\.run"):
        Runner.run_sync(Agent(name="clerk"), "Hi")


# -- endings -------------------------------------------------------------------------------------------------------------


async def test_a_run_that_fails_is_gone_on_with(provider: Provider) -> None:
    emulator = provider(echo)
    emulator.fault("unauthorized")
    with pytest.raises(ModelCallFailed) as caught:
        await Runner.run(Agent(name="clerk"), "one")
    result = await Runner.run(Agent(name="clerk"), caught.value.run_data.to_state())
    assert result.final_output == "1: one"


async def test_output_of_wrong_type_raises_model_behavior_error(provider: Provider) -> None:
    provider(lambda prompt: "no number")
    with pytest.raises(ModelBehaviorError):
        await Runner.run(Agent(name="clerk", output_type=list[int], model=ScriptedModel(["no", "none", "nothing"])), "Count.")


async def test_stopped_message_is_not_in_the_conversation(provider: Provider) -> None:
    emulator = provider(echo)

    @input_guardrail(name="manners")
    def manners(ctx: RunContextWrapper[Any], agent: Agent[Any], input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"rude": True}, "idiot" in str(input))

    session = SQLiteSession("s")
    clerk = Agent(name="clerk", input_guardrails=[manners])
    await Runner.run(clerk, "Hello", session=session)
    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        await Runner.run(clerk, "You idiot", session=session)
    assert caught.value.guardrail_result.output.output_info == {"rude": True}
    assert caught.value.guardrail_result.guardrail.get_name() == "manners"
    result = await Runner.run(clerk, "Sorry", session=session)
    assert result.final_output == "3: Sorry"
    assert len(bodies(emulator)) == 2
    assert result.input_guardrail_results[0].output.tripwire_triggered is False
    assert "idiot" not in str(await session.get_items())


async def test_streamed_max_turns_error_ends_the_stream(provider: Provider) -> None:
    provider(lambda prompt: ReplyCall("look", "{}"))

    @function_tool
    def look() -> str:
        """Look."""
        return "nothing"

    result = Runner.run_streamed(Agent(name="clerk", tools=[look]), "Look!", max_turns=2)
    names: list[str] = []

    async def look_on() -> None:
        async for event in result.stream_events():
            names.append(getattr(event, "name", event.type))

    with pytest.raises(MaxTurnsExceeded):
        await look_on()
    assert names == ["agent_updated_stream_event", *["tool_called", "tool_output"] * 2]
    assert result.final_output is None


# -- streaming -----------------------------------------------------------------------------------------------------------


async def test_text_and_items_are_streamed_once(provider: Provider) -> None:
    provider(fake_model)
    result = Runner.run_streamed(desk(), "Money back", context=Shop("Ladle & Co"))
    first = [getattr(event, "name", event.type) async for event in result.stream_events()]
    assert first == [
        "agent_updated_stream_event",
        "handoff_requested",
        "handoff_occured",
        "agent_updated_stream_event",
        *["tool_called"] * 3,
        *["tool_output"] * 2,
    ]
    state = result.to_state()
    state.reject(result.interruptions[0])
    result = Runner.run_streamed(desk(), state)
    events = [event async for event in result.stream_events()]
    words = "".join(event.data.delta for event in events if event.type == "raw_response_event")
    assert words == result.final_output == "So: Ladle & Co refunded 50 for B-2"
    assert [event.name for event in events if event.type == "run_item_stream_event"] == ["message_output_created"]


async def test_guarded_reply_is_streamed_after_acceptance(provider: Provider) -> None:
    provider(["[1, 2]"])
    result = Runner.run_streamed(Agent(name="clerk", output_type=list[int], model=ScriptedModel(["[1, 2]"])), "Count.")
    words = "".join([event.data.delta async for event in result.stream_events() if event.type == "raw_response_event"])
    assert words == "[1, 2]"
    assert result.final_output == [1, 2]


async def test_broken_stream_is_retracted_before_its_retry(provider: Provider) -> None:
    emulator = provider(lambda prompt: ReplyText("one two three four five six seven"))
    emulator.fault("cut event=7")
    result = Runner.run_streamed(Agent(name="clerk"), "Count.")
    shown = ""
    async for event in result.stream_events():
        if event.type == "output_reset_stream_event":
            shown = ""
        elif event.type == "raw_response_event":
            shown += event.data.delta
    assert shown == result.final_output == "one two three four five six seven"


async def test_cancelled_run_continues_from_its_state(provider: Provider) -> None:
    provider(lambda prompt: "Done." if prompt.messages[-1].role == "tool" else ReplyCall("wait", "{}"))

    @function_tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0.05)
        return "waited"

    clerk = Agent(name="clerk", tools=[wait])
    result = Runner.run_streamed(clerk, "Wait.")
    async for event in result.stream_events():
        if getattr(event, "name", "") == "tool_called":
            result.cancel()
    await result._task
    state = result.to_state()
    async with asyncio.timeout(60):
        while not any(isinstance(fact, CallReturned) for fact in await state.store.read(state.id)):  # what runs is finished  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    again = await Runner.run(clerk, state)
    assert again.final_output == "Done."
    assert [item.output for item in again.new_items if item.type == "tool_call_output_item"] == ["waited"]


# -- tools, handoffs, what cannot be had ------------------------------------------------------------------------------------


async def test_handmade_tool_receives_arguments_as_text(provider: Provider) -> None:
    provider(lambda prompt: prompt.messages[-1].text if prompt.messages[-1].role == "tool" else ReplyCall("double", '{"n": 21}', "call_7"))
    calls = []

    async def double(ctx: ToolContext[Any], given: str) -> str:
        calls.append((ctx.tool_name, ctx.tool_call_id, given))
        return str(2 * json.loads(given)["n"])

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    clerk = Agent(name="clerk", tools=[FunctionTool("double", "Double a number.", schema, double)])
    result = await Runner.run(clerk, "Double 21.")
    assert result.final_output == "42"
    assert calls == [("double", "call_7", '{"n": 21}')]


async def test_failing_tool_uses_the_programs_error_text(provider: Provider) -> None:
    provider(lambda prompt: prompt.messages[-1].text if prompt.messages[-1].role == "tool" else ReplyCall("fail", "{}"))

    @function_tool(failure_error_function=lambda ctx, error: f"Sorry: {error}")
    async def fail() -> str:
        """Fail."""
        raise ValueError("no luck")

    assert (await Runner.run(Agent(name="clerk", tools=[fail]), "Try.")).final_output == "Sorry: no luck"


def test_decorated_function_can_be_invoked_directly() -> None:
    @function_tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    made = asyncio.run(add.on_invoke_tool(ToolContext(None), '{"a": 2}'))
    assert made == 3


def _rewrites(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=({"role": "user", "content": "Something else"},))


def _splits(data: HandoffInputData) -> HandoffInputData:
    return data.clone(new_items=data.new_items[:1])


@pytest.mark.parametrize(("filter", "told"), [(_rewrites, "changes what was said"), (_splits, "keeps a part of a reply")])
async def test_filter_that_loses_or_invents_is_refused(provider: Provider, filter: Any, told: str) -> None:
    provider(lambda prompt: ReplyCall("transfer_to_other", "{}"))
    other = Agent(name="other")
    with pytest.raises(UserError, match=told):
        await Runner.run(Agent(name="clerk", handoffs=[handoff(other, input_filter=filter)]), "Hi")


async def test_on_handoff_is_called_once_per_handoff(provider: Provider) -> None:
    provider(lambda prompt: ReplyCall("transfer_to_other", "{}") if "transfer_to_other" in [t.name for t in prompt.tools] else echo(prompt))
    came: list[Any] = []
    other = Agent[Any](name="other")
    clerk = Agent(name="clerk", handoffs=[handoff(other, on_handoff=lambda ctx: came.append(ctx.context))])
    other.handoffs = [clerk]
    session = SQLiteSession("s")
    await Runner.run(clerk, "one", context="ada", session=session)
    assert came == ["ada"]
    await Runner.run(other, "two", context="ada", session=session)
    assert came == ["ada"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Runner.run(Agent(name="a"), "Hi", hooks=object()), "RunHooks"),
        (lambda: Runner.run(Agent(name="a", mcp_servers=[object()]), "Hi"), "legato.mcp.MCPServer"),
        (lambda: Runner.run(Agent(name="a", model="litellm/claude"), "Hi"), "Anthropic"),
        (lambda: Runner.run(Agent(name="a", tools=[len]), "Hi"), "function_tool"),
        (lambda: Runner.run(Agent(name="a"), "Hi", session=object()), "SQLiteSession"),
        (lambda: Runner.run(Agent(name="a", handoffs=[Agent(name="a")]), "Hi"), "same name"),
        (lambda: Runner.run(Agent(name="a", model_settings=ModelSettings(extra_headers={"x": "y"})), "Hi"), "default_headers"),
        (lambda: Runner.run(Agent(name="a"), "Hi", run_config=RunConfig(call_model_input_filter=len)), "legato.history"),
    ],
)
async def test_unsupported_options_name_their_replacement(provider: Provider, make: Any, told: str) -> None:
    provider([])
    with pytest.raises(UserError, match=told):
        await make()
    assert await default_store().list() == []


def test_what_means_nothing_here_is_told_once() -> None:
    with pytest.warns(MeansNothingHere, match="means nothing here: because"):
        explain("a flag of this test", "because")
    explain("a flag of this test", "because")


async def test_replies_and_usage_come_from_the_ledger(provider: Provider) -> None:
    provider(echo)
    result = await Runner.run(Agent(name="clerk"), "one")
    fact = next(fact for fact in result.legato_session.facts if isinstance(fact, ModelReplied))
    (response,) = result.raw_responses
    assert (response.response_id, response.usage.total_tokens) == (fact.response_id, fact.usage.total)
    assert result.context_wrapper.usage == response.usage
    assert response.output[0].content[0].text == "1: one"
    again = await Runner.run(Agent(name="clerk"), "two", previous_response_id=result.last_response_id)
    assert again.context_wrapper.usage == again.raw_responses[0].usage  # of this run alone
    assert again.context_wrapper.usage.requests == 1
