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
SAMPLES = "test_the_sample_runs_and_nothing_it_sends_is_refused"
TESTED = {
    "Agent(name,": "test_an_agent_is_cloned_and_says_what_it_is_told_and_what_it_has",
    "agent.as_tool(...)": SAMPLES,
    "@function_tool(name_override,": "test_a_function_is_a_tool_as_the_program_says",
    "FunctionTool(name,": "test_a_tool_made_by_hand_gets_its_arguments_as_text",
    "RunContextWrapper": "test_a_tool_knows_its_call_and_its_agent",
    "Runner.run": "test_scripts_without_an_event_loop_run_too",
    "RunHooks": "test_hooks_are_told_of_a_run_as_it_happens_also_where_it_goes_on",
    "max_turns": "test_too_many_turns_streamed_is_told_at_the_end_of_the_stream",
    "result.final_output": "test_a_result_tells_its_output_in_the_type_that_is_asked_for",
    "result.to_input_list()": "test_a_list_given_back_as_input_is_the_same_list_nothing_lost_or_doubled",
    "result.interruptions": "test_a_decision_is_made_once_and_a_second_changes_nothing",
    "RunState.to_string": "test_a_mapping_goes_along_as_it_is_and_a_dict_is_as_good_as_a_string",
    "handoff(agent,": "test_a_handoff_may_be_off_or_wait_for_a_person",
    "handoff(input_filter=)": "test_a_filtered_conversation_never_has_a_call_without_its_output",
    "previous_response_id": "test_an_id_that_no_ledger_here_knows_is_fetched_and_goes_on_by_value",
    "auto_previous_response_id": "test_going_on_from_what_the_provider_holds_needs_no_asking",
    "conversation_id": "test_a_conversation_that_others_filled_is_fetched_and_goes_on_by_value",
    "SQLiteSession(id,": SAMPLES,
    "stream_events()": "test_each_answer_is_streamed_once_and_every_item_is_told_once",
    "@input_guardrail": "test_a_tripwire_ends_the_run_at_once",
    "ModelSettings": "test_what_is_set_for_a_run_holds_for_all_of_it",
    "OpenAIResponsesModel": "test_the_client_and_the_key_of_the_program_are_used",
    "tool_use_behavior=\"stop_on_first_tool\"": SAMPLES,
    "trace": "test_traces_and_spans_are_blocks_that_leave_no_trace",
}  # fmt: skip


def rows() -> list[str]:
    (names,) = re.findall(r"^## Names\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for line in names.splitlines() if line.startswith("| ") and not line.startswith("| theirs")]


def test_every_row_of_the_names_has_a_test_that_is_there() -> None:
    first = [re.findall(r"`([^`]+)`", row)[0].split(" ")[0] for row in rows()]
    assert first == list(TESTED)
    written = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    for test in TESTED.values():
        assert f"def {test}(" in written, test


def test_every_name_of_a_row_that_is_said_to_be_the_same_is_there() -> None:
    named = {name for row in rows() for name in re.findall(r"`@?([A-Z]\w+|\w+_guardrail|function_tool|handoff)\b", row.split(" | ")[0])}
    assert len(named) > 15
    assert named <= set(facade.__all__)


# -- rows that no other test is about ----------------------------------------------------------------------------------------


def says(prompt: ModelPrompt) -> Any:
    """Calls the first tool once, then says what it heard."""
    if prompt.messages[-1].role == "tool" or not prompt.tools:
        return prompt.messages[-1].text
    return ReplyCall(prompt.tools[0].name, "{}")


async def test_an_agent_is_cloned_and_says_what_it_is_told_and_what_it_has() -> None:
    @function_tool(is_enabled=lambda ctx, agent: ctx.context == "day")
    def look() -> str:
        """Look."""
        return ""

    agent = Agent[str](name="clerk", instructions=lambda ctx, agent: f"You are {agent.name} by {ctx.context}.", tools=[look])
    night = agent.clone(name="porter")
    assert await night.get_system_prompt(RunContextWrapper("night")) == "You are porter by night."
    assert await night.get_all_tools(RunContextWrapper("night")) == []
    assert await agent.get_all_tools(RunContextWrapper("day")) == [look]


async def test_a_function_is_a_tool_as_the_program_says(provider: Provider) -> None:
    emulator = provider(says)

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
    provider(says)
    known: list[Any] = []

    @function_tool
    def look(ctx: ToolContext[str]) -> str:
        """Look."""
        known.append((ctx.context, ctx.tool_name, ctx.agent, ctx.tool_arguments, ctx.tool_call.call_id == ctx.tool_call_id))
        return "seen"

    clerk = Agent[str](name="clerk", tools=[look])
    await Runner.run(clerk, "Look!", context="day")
    assert known == [("day", "look", clerk, "{}", True)]


async def test_a_result_tells_its_output_in_the_type_that_is_asked_for(provider: Provider) -> None:
    provider([])
    result = await Runner.run(Agent(name="clerk", output_type=list[int], model=ScriptedModel(["[1, 2]"])), "Count.", max_turns=3)
    assert result.final_output_as(list, raise_if_incorrect_type=True) == [1, 2]
    assert result.max_turns == 3
    with pytest.raises(TypeError, match="not str"):
        result.final_output_as(str, raise_if_incorrect_type=True)


async def test_a_handoff_may_be_off_or_wait_for_a_person(provider: Provider) -> None:
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
async def test_going_on_from_what_the_provider_holds_needs_no_asking(provider: Provider, auto: bool) -> None:
    emulator = provider(says)

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    await Runner.run(Agent(name="clerk", tools=[look]), "Look!", auto_previous_response_id=auto)
    first, second = emulator.exchanges
    assert second.request_body["previous_response_id"] == (first.reply_body or {})["id"]
    assert len(second.request_body["input"]) == 1


async def test_what_is_set_for_a_run_holds_for_all_of_it(provider: Provider) -> None:
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


async def test_the_client_and_the_key_of_the_program_are_used(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_traces_and_spans_are_blocks_that_leave_no_trace() -> None:
    with trace("desk", trace_id="trace_1", metadata={"a": 1}) as block, custom_span("step", {"b": 2}):
        assert block.trace_id == "trace_1"
    block.start()
    block.finish()
    assert facade.get_current_trace() is None


# -- what behaves better ------------------------------------------------------------------------------------------------------


async def test_a_model_that_calls_a_tool_which_is_not_there_is_told_so(provider: Provider) -> None:
    provider(lambda prompt: f"So: {prompt.messages[-1].text}" if prompt.messages[-1].role == "tool" else ReplyCall("nobody", "{}"))

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    result = await Runner.run(Agent(name="clerk", tools=[look]), "Look!")
    assert result.final_output.startswith("So: ")
    assert "nobody" in result.final_output
