"""Output guardrails judge whatever a run answers, tool outputs too."""

from __future__ import annotations

from typing import Any

import pytest

from legato.compat.agents import (
    Agent,
    GuardrailFunctionOutput,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    RunResult,
    StopAtTools,
    function_tool,
    output_guardrail,
)
from legato.core.facts import OutputText
from legato.core.model_reply import ModelReply
from legato.testing import ScriptedModel, call

SECRET = "4111"


@function_tool
def read_card() -> str:
    """Read the card."""
    return f"The number is {SECRET}."


@function_tool
def look() -> str:
    """Look."""
    return "nothing"


@output_guardrail
async def no_secrets(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput({"checked": len(str(output))}, SECRET in str(output))


STOPS = {
    "first tool": "stop_on_first_tool",
    "named tool": StopAtTools(stop_at_tool_names=["read_card"]),
}


def clerk(*replies: Any, **more: Any) -> Agent[Any]:
    return Agent(name="clerk", model=ScriptedModel(list(replies)), tools=[read_card, look], **{"output_guardrails": [no_secrets], **more})


async def play(agent: Agent[Any], stream: bool, told: list[str]) -> RunResult:
    """Run the agent; `told` gets all events as text."""
    if not stream:
        return await Runner.run(agent, "Go")
    result = Runner.run_streamed(agent, "Go")
    async for event in result.stream_events():
        told.append(repr(event))
    return result


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("behavior", STOPS.values(), ids=STOPS)
async def test_tool_output_that_answers_is_judged(behavior: Any, stream: bool) -> None:
    agent = clerk([call("read_card"), call("look")], tool_use_behavior=behavior)
    told: list[str] = []
    with pytest.raises(OutputGuardrailTripwireTriggered) as caught:
        await play(agent, stream, told)
    assert caught.value.guardrail_result.guardrail is no_secrets
    assert caught.value.guardrail_result.agent_output == f"The number is {SECRET}."
    result = caught.value.run_data
    assert result.final_output is None
    assert SECRET not in f"{told} {result.new_items} {result.to_input_list()} {result.raw_responses} {result!r}"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("behavior", STOPS.values(), ids=STOPS)
async def test_accepted_tool_output_is_shown(behavior: Any, stream: bool) -> None:
    @output_guardrail
    def anything(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, False)

    agent = clerk(call("read_card"), tool_use_behavior=behavior, output_guardrails=[anything])
    told: list[str] = []
    result = await play(agent, stream, told)
    assert result.final_output == f"The number is {SECRET}."
    assert [item.type for item in result.new_items] == ["tool_call_item", "tool_call_output_item"]
    assert [each.agent_output for each in result.output_guardrail_results] == [f"The number is {SECRET}."]
    assert str(told).count("name='tool_output'") == stream


async def test_run_config_guardrails_judge_tool_outputs() -> None:
    agent = clerk(call("read_card"), tool_use_behavior="stop_on_first_tool", output_guardrails=[])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(agent, "Go", run_config=RunConfig(output_guardrails=[no_secrets]))


async def test_other_tool_outputs_are_not_judged() -> None:
    agent = clerk(call("read_card"), "Done.", tool_use_behavior=StopAtTools(stop_at_tool_names=["look"]))
    result = await play(agent, True, [])
    assert result.final_output == "Done."
    assert [each.agent_output for each in result.output_guardrail_results] == ["Done."]


async def test_reply_cut_short_is_held_until_judged() -> None:
    class Cut(ScriptedModel):
        async def reply(self, request: Any, emit: Any) -> ModelReply:
            return ModelReply(items=(OutputText(f"The number is {SECRET}"),), finish="length")

    told: list[str] = []
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await play(Agent(name="clerk", model=Cut([]), output_guardrails=[no_secrets]), True, told)
    assert SECRET not in str(told)


async def test_agent_as_tool_is_judged() -> None:
    inner = clerk(call("read_card"), tool_use_behavior="stop_on_first_tool")
    outer = Agent(name="boss", model=ScriptedModel([call("clerk", input="Read it"), "Done."]), tools=[inner.as_tool("clerk", "Ask")])
    result = await Runner.run(outer, "Go")
    assert result.final_output == "Done."
    assert SECRET not in str(result.to_input_list())
