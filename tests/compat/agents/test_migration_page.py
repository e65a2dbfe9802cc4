"""docs/migrate/openai-agents.md: every row of its names has a test, and those that had none have it here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

import legato.compat.agents as facade
from legato.compat.agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    ModelSettings,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolContext,
    custom_span,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    set_default_openai_client,
    set_default_openai_key,
    trace,
)
from legato.emulator.fake_models import ModelPrompt, ReplyCall
from legato.models import Model
from legato.testing import ScriptedModel
from tests.compat.agents.conftest import Provider

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/migrate/openai-agents.md"
SAMPLES = "test_sample_runs_without_refused_requests"
TESTED = {
    "Agent(name,": "test_agent_clones_and_returns_prompt_and_tools",
    "agent.as_tool(...)": SAMPLES,
    "@function_tool(name_override,": "test_function_tool_follows_the_programs_options",
    "FunctionTool(name,": "test_handmade_tool_receives_arguments_as_text",
    "RunContextWrapper": "test_a_tool_knows_its_call_and_its_agent",
    "Runner.run": "test_scripts_without_an_event_loop_run_too",
    "RunHooks": "test_hooks_observe_a_run_and_its_continuation",
    "max_turns": "test_streamed_max_turns_error_ends_the_stream",
    "result.final_output": "test_result_casts_output_to_the_requested_type",
    "result.to_input_list()": "test_input_list_round_trips_unchanged",
    "result.interruptions": "test_second_decision_changes_nothing",
    "RunState.to_string": "test_mapping_context_is_stored_unchanged",
    "handoff(agent,": "test_handoff_may_be_disabled_or_need_approval",
    "handoff(input_filter=)": "test_filtered_conversation_keeps_calls_with_their_outputs",
    "previous_response_id": "test_unknown_response_id_is_fetched_by_value",
    "auto_previous_response_id": "test_responses_are_chained_by_default",
    "conversation_id": "test_foreign_conversation_is_fetched_by_value",
    "SQLiteSession(id,": SAMPLES,
    "stream_events()": "test_text_and_items_are_streamed_once",
    "@input_guardrail": "test_a_tripwire_ends_the_run_at_once",
    "ModelSettings": "test_run_settings_hold_for_the_whole_run",
    "OpenAIResponsesModel": "test_programs_client_and_key_are_used",
    "tool_use_behavior=\"stop_on_first_tool\"": SAMPLES,
    "trace": "test_traces_and_spans_record_nothing",
}  # fmt: skip


def rows() -> list[str]:
    (names,) = re.findall(r"^## Names\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for line in names.splitlines() if line.startswith("| ") and not line.startswith("| theirs")]


def test_every_names_row_has_an_existing_test() -> None:
    first = [re.findall(r"`([^`]+)`", row)[0].split(" ")[0] for row in rows()]
    assert first == list(TESTED)
    written = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    for test in TESTED.values():
        assert f"def {test}(" in written, test


def test_names_listed_as_same_exist_here() -> None:
    named = {name for row in rows() for name in re.findall(r"`@?([A-Z]\w+|\w+_guardrail|function_tool|handoff)\b", row.split(" | ")[0])}
    assert len(named) > 15
    assert named <= set(facade.__all__)


# -- rows that no other test is about ----------------------------------------------------------------------------------------


def fake_model(prompt: ModelPrompt) -> Any:
    """Calls the first tool once, then says what it heard."""
    if prompt.messages[-1].role == "tool" or not prompt.tools:
        return prompt.messages[-1].text
    return ReplyCall(prompt.tools[0].name, "{}")


async def test_agent_clones_and_returns_prompt_and_tools() -> None:
    @function_tool(is_enabled=lambda ctx, agent: ctx.context == "day")
    def look() -> str:
        """Look."""
        return ""

    agent = Agent[str](name="clerk", instructions=lambda ctx, agent: f"You are {agent.name} by {ctx.context}.", tools=[look])
    night = agent.clone(name="porter")
    assert await night.get_system_prompt(RunContextWrapper("night")) == "You are porter by night."
    assert await night.get_all_tools(RunContextWrapper("night")) == []
    assert await agent.get_all_tools(RunContextWrapper("day")) == [look]


async def test_function_tool_follows_the_programs_options(provider: Provider) -> None:
    emulator = provider(fake_model)

    @function_tool(name_override="peek", description_override="Peek.", failure_error_function=lambda ctx, error: f"Sorry: {error}")
    async def look() -> str:
        """Look."""
        raise ValueError("it is dark")

    @function_tool(is_enabled=False)
    def hidden() -> str:
        """Hide."""
        return ""

    result = await Runner.run(Agent(name="clerk", tools=[look, hidden]), "Look!")
    assert result.final_output == "Sorry: it is dark"
    (told,) = emulator.exchanges[0].request_body["tools"]
    assert (told["name"], told["description"], told["strict"]) == ("peek", "Peek.", False)


async def test_a_tool_knows_its_call_and_its_agent(provider: Provider) -> None:
    provider(fake_model)
    known: list[Any] = []

    @function_tool
    def look(ctx: ToolContext[str]) -> str:
        """Look."""
        known.append((ctx.context, ctx.tool_name, ctx.agent, ctx.tool_arguments, ctx.tool_call.call_id == ctx.tool_call_id))
        return "seen"

    clerk = Agent[str](name="clerk", tools=[look])
    await Runner.run(clerk, "Look!", context="day")
    assert known == [("day", "look", clerk, "{}", True)]


async def test_result_casts_output_to_the_requested_type(provider: Provider) -> None:
    provider([])
    result = await Runner.run(Agent(name="clerk", output_type=list[int], model=ScriptedModel(["[1, 2]"])), "Count.", max_turns=3)
    assert result.final_output_as(list, raise_if_incorrect_type=True) == [1, 2]
    assert result.max_turns == 3
    with pytest.raises(TypeError, match="not str"):
        result.final_output_as(str, raise_if_incorrect_type=True)


async def test_handoff_may_be_disabled_or_need_approval(provider: Provider) -> None:
    provider(lambda prompt: ReplyCall(prompt.tools[0].name, "{}") if prompt.tools else "Here I am.")
    boss = Agent[Any](name="boss")
    wanted = handoff(boss, tool_name_override="escalate", tool_description_override="Call the boss.", needs_approval=True)
    clerk = Agent(name="clerk", handoffs=[handoff(Agent(name="nobody"), is_enabled=False), wanted])
    result = await Runner.run(clerk, "The boss, please.")
    (item,) = result.interruptions
    assert item.name == "escalate"
    state = result.to_state()
    state.approve(item)
    result = await Runner.run(clerk, state)
    assert (result.final_output, result.last_agent) == ("Here I am.", boss)


@pytest.mark.parametrize("auto", [False, True])
async def test_responses_are_chained_by_default(provider: Provider, auto: bool) -> None:
    emulator = provider(fake_model)

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    await Runner.run(Agent(name="clerk", tools=[look]), "Look!", auto_previous_response_id=auto)
    first, second = emulator.exchanges
    assert second.request_body["previous_response_id"] == (first.reply_body or {})["id"]
    assert len(second.request_body["input"]) == 1


async def test_run_settings_hold_for_the_whole_run(provider: Provider) -> None:
    emulator = provider(lambda prompt: "A secret.")

    @input_guardrail
    def polite(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, "idiot" in input)

    @output_guardrail
    def discreet(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, "secret" in output)

    clerk = Agent(name="clerk", model="gpt-4o", model_settings=ModelSettings(temperature=1.0, max_tokens=100))
    config: Any = {"model": "gpt-4.1", "model_settings": {"temperature": 0.5}, "input_guardrails": [polite]}
    await Runner.run(clerk, "Hello", run_config=config)
    body = emulator.exchanges[-1].request_body
    assert (body["model"], body["temperature"], body["max_output_tokens"]) == ("gpt-4.1", 0.5, 100)
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(clerk, "You idiot", run_config=RunConfig(input_guardrails=[polite]))
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(clerk, "Hello", run_config=RunConfig(output_guardrails=[discreet]))


async def test_programs_client_and_key_are_used(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = provider(lambda prompt: "Hello.")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody")
    monkeypatch.delenv("OPENAI_API_KEY")
    async with AsyncOpenAI(base_url=emulator.openai_url, api_key="mine") as client:
        set_default_openai_client(client)
        try:
            assert (await Runner.run(Agent(name="clerk"), "Hi")).final_output == "Hello."
        finally:
            set_default_openai_client(None)
    monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
    set_default_openai_key("mine")
    try:
        assert (await Runner.run(Agent(name="clerk"), "Hi")).final_output == "Hello."
    finally:
        set_default_openai_key(None)  # type: ignore[arg-type]  # as it was before
    model: Model = ScriptedModel(["Any model will do."])
    assert (await Runner.run(Agent(name="clerk", model=model), "Hi")).final_output == "Any model will do."


@pytest.mark.filterwarnings("ignore::legato.compat.MeansNothingHere")
def test_traces_and_spans_record_nothing() -> None:
    with trace("desk", trace_id="trace_1", metadata={"a": 1}) as block, custom_span("step", {"b": 2}):
        assert block.trace_id == "trace_1"
    block.start()
    block.finish()
    assert facade.get_current_trace() is None


# -- what behaves better ------------------------------------------------------------------------------------------------------


async def test_call_of_an_unknown_tool_is_answered(provider: Provider) -> None:
    """A model that calls a tool which does not exist receives an error as output."""
    provider(lambda prompt: f"So: {prompt.messages[-1].text}" if prompt.messages[-1].role == "tool" else ReplyCall("nobody", "{}"))

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    result = await Runner.run(Agent(name="clerk", tools=[look]), "Look!")
    assert result.final_output.startswith("So: ")
    assert "nobody" in result.final_output
