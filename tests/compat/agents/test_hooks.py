"""Hooks are told what happens, in order, and hold nothing back but what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.compat.agents import (
    Agent,
    AgentHooks,
    HookFailed,
    ModelCallFailed,
    RunContextWrapper,
    RunHooks,
    Runner,
    ToolContext,
    UserError,
    function_tool,
)
from legato.emulator.fake_models import ModelPrompt, ReplyCall
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, desk, fake_model

SAID = "I want my money back for A-1 and B-2."


class RecordingHooks(RunHooks[Any]):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.lines.append(f"start {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.lines.append(f"end {agent.name}: {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.lines.append(f"{from_agent.name} -> {to_agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        assert (context.tool_name, context.agent) == (tool.name, agent)
        self.lines.append(f"run {tool.name} {json.loads(context.tool_arguments)['order']}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        self.lines.append(f"ran {tool.name}: {result}")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.lines.append(f"ask {agent.name} ({system_prompt}) with {len(input_items)} items")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.lines.append(f"asked {agent.name}: {len(response.output)} items")


@pytest.mark.parametrize("stream", [False, True])
async def test_hooks_observe_a_run_and_its_continuation(provider: Provider, stream: bool) -> None:
    provider(fake_model)
    told = RecordingHooks()

    async def run(input: Any) -> Any:
        if not stream:
            return await Runner.run(desk(), input, hooks=told, context=Shop("Ladle & Co"))
        result = Runner.run_streamed(desk(), input, hooks=told, context=Shop("Ladle & Co"))
        async for _ in result.stream_events():
            pass
        return result

    result = await run(SAID)
    assert told.lines[:7] == [
        "start Triage",
        "ask Triage (Route.) with 1 items",
        "asked Triage: 1 items",
        "Triage -> Refunds",
        "start Refunds",
        "ask Refunds (Refund.) with 3 items",
        "asked Refunds: 3 items",
    ]
    assert sorted(told.lines[7:]) == [
        "ran look_up: A-1 of Ladle & Co: a teapot",
        "ran refund: Ladle & Co refunded 50 for B-2",
        "run look_up A-1",
        "run refund B-2",
    ]
    told.lines.clear()
    state = result.to_state()
    state.approve(result.interruptions[0])
    await run(state)
    assert told.lines == [
        "run refund A-1",
        "ran refund: Ladle & Co refunded 900 for A-1",
        "ask Refunds (Refund.) with 9 items",
        "asked Refunds: 1 items",
        "end Refunds: So: Ladle & Co refunded 50 for B-2",
    ]
    told.lines.clear()
    await run(state)  # there is nothing left to do, so there is nothing to tell
    assert told.lines == []


async def test_agents_hooks_observe_only_that_agent(provider: Provider) -> None:
    provider(fake_model)
    lines: list[str] = []

    class Own(AgentHooks[Shop]):
        async def on_start(self, context: RunContextWrapper[Shop], agent: Agent[Any]) -> None:
            lines.append(f"start {agent.name} of {context.context.name}")

        async def on_handoff(self, context: RunContextWrapper[Shop], agent: Agent[Any], source: Agent[Any]) -> None:
            lines.append(f"{source.name} -> {agent.name}")

        async def on_tool_start(self, context: ToolContext[Shop], agent: Agent[Any], tool: Any) -> None:
            lines.append(f"run {tool.name}")

        async def on_end(self, context: RunContextWrapper[Shop], agent: Agent[Any], output: Any) -> None:
            lines.append(f"end {agent.name}")

    triage = desk()
    triage.hooks = Own()
    await Runner.run(triage, SAID, context=Shop("Ladle & Co"))
    assert lines == ["start Triage of Ladle & Co", "Triage -> Refunds"]
    refunds = triage.handoffs[0]
    triage.hooks, refunds.hooks = None, Own()
    lines.clear()
    result = await Runner.run(triage, SAID, context=Shop("Ladle & Co"))
    state = result.to_state()
    state.reject(result.interruptions[0])
    await Runner.run(triage, state)
    assert lines == ["start Refunds of Ladle & Co", *sorted(lines[1:3]), "end Refunds"]
    assert sorted(lines[1:3]) == ["run look_up", "run refund"]


def calls_once(prompt: ModelPrompt) -> Any:
    return prompt.messages[-1].text if prompt.messages[-1].role == "tool" else ReplyCall("delete", "{}")


async def test_raising_hook_before_a_tool_stops_it(provider: Provider) -> None:
    provider(calls_once)
    ran = []

    @function_tool
    def delete() -> str:
        """Delete."""
        ran.append("deleted")
        return "deleted"

    class Guard(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            raise PermissionError("not on Sundays")

    result = await Runner.run(Agent(name="clerk", tools=[delete]), "Delete it.", hooks=Guard())
    assert ran == []
    assert "not on Sundays" in result.final_output


async def test_raising_hook_after_a_tool_undoes_nothing(provider: Provider) -> None:
    provider(calls_once)

    @function_tool
    def delete() -> str:
        """Delete."""
        return "deleted"

    class Broken(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
            raise ValueError("no disk for the log")

    with pytest.warns(HookFailed, match="no disk for the log"):
        result = await Runner.run(Agent(name="clerk", tools=[delete]), "Delete it.", hooks=Broken())
    assert result.final_output == "deleted"


async def test_raising_hook_before_a_model_request_pauses(provider: Provider) -> None:
    """A hook that raises before a model request stops the run, and the run can continue."""
    emulator = provider(["Hello."])

    class Guard(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            raise PermissionError("not on Sundays")

    with pytest.raises(ModelCallFailed, match="not on Sundays") as caught:
        await Runner.run(Agent(name="clerk"), "Hi", hooks=Guard())
    assert not [each for each in emulator.exchanges if each.is_model_request]
    assert (await Runner.run(Agent(name="clerk"), caught.value.run_data.to_state())).final_output == "Hello."


async def test_hooks_that_are_none_are_refused(provider: Provider) -> None:
    provider([])
    with pytest.raises(UserError, match="derived from RunHooks"):
        await Runner.run(Agent(name="clerk"), "Hi", hooks=AgentHooks())
    with pytest.raises(UserError, match=r"agent 'clerk'.*derived from AgentHooks"):
        await Runner.run(Agent(name="clerk", hooks=RunHooks()), "Hi")
