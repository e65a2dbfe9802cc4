"""Small random workflows, for the simulator: made by dice from a fixed stock of tools.

>>> random_workflow(7)
<Workflow w0: a, b, c>
>>> random_workflow(7) is random_workflow(8)
True
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

from legato import history
from legato.core.workflow_graph import Limits
from legato.runtime.definition import History
from legato.testing.scripted import ScriptedModel
from legato.tools import Tool, ToolCall, ToolContext, tool
from legato.workflow.agent import Agent, guardrail
from legato.workflow.workflow import HandoffBuilder, Workflow

SEEDS_EACH = 10
"""How many successive seeds share a workflow: building one costs as much as playing it a few times."""


@tool
async def look_up(order: str) -> str:
    """Open, not idempotent."""
    raise AssertionError("simulated")


@tool(idempotent=True)
async def fetch(order: str, page: int = 1) -> str:
    """Open, idempotent."""
    raise AssertionError("simulated")


@tool(needs_approval=True)
async def refund(order: str, cents: int) -> str:
    """Gated, not idempotent."""
    raise AssertionError("simulated")


@tool(needs_approval=True, idempotent=True)
async def unlock(door: int) -> str:
    """Gated, idempotent."""
    raise AssertionError("simulated")


async def _odd(context: ToolContext[Any], arguments: dict[str, object], call: ToolCall) -> bool:
    return bool(arguments["amount"] % 2)  # type: ignore[operator]


@tool(needs_approval=_odd)
async def pay(amount: int) -> str:
    """Gated for odd amounts."""
    raise AssertionError("simulated")


@tool(alone=True)
async def migrate(step: int) -> str:
    """Runs by itself."""
    raise AssertionError("simulated")


@tool(deferred=True)
async def ask_boss(question: str) -> str:
    """Answered from outside."""
    raise AssertionError("simulated")


@tool(timeout=0.08)
async def slow(order: str) -> str:
    """Often too late."""
    raise AssertionError("simulated")


@tool(timeout=0.08, idempotent=True)
async def slow_fetch(order: str) -> str:
    """Often too late, harmless to repeat."""
    raise AssertionError("simulated")


@tool(needs_approval=True, timeout=0.08)
def wire_money(cents: int) -> str:
    """Gated, not async, often too late."""
    raise AssertionError("simulated")


TOOLS: tuple[Tool, ...] = (look_up, fetch, refund, unlock, pay, migrate, ask_boss, slow, slow_fetch, wire_money)


@guardrail("tool")
def not_seven(context: Any, call: ToolCall) -> str | None:
    return "not with 7" if 7 in call.arguments.values() else None


@guardrail("input")
async def no_twos(context: Any, text: str) -> str | None:
    await asyncio.sleep(0.02)  # time enough for a model, a person or the end of a process to come in between
    return "no twos please" if "2" in text and "last" not in text else None


@guardrail("output")
def no_threes(context: Any, text: str) -> str | None:
    return "no threes please" if "3" in text else None


def enough(messages: list[Any]) -> bool:
    return bool(messages) and messages[-1].role == "assistant" and messages[-1].text.endswith(("3", "7"))


async def enough_async(messages: list[Any]) -> bool:
    return len(messages) > 6


def random_workflow(seed: int) -> Workflow:
    """The workflow for a seed."""
    return _workflow(seed // SEEDS_EACH)


@lru_cache(maxsize=2)
def _workflow(number: int) -> Workflow:
    dice = Random(f"workflow {number}")
    names = "abcd"[: dice.randrange(2, 5)]
    rails = (not_seven, no_twos, no_threes)
    agents = [
        Agent(
            name,
            f"You are {name}.",
            ScriptedModel(by_agent={}),
            [*dice.sample(TOOLS, dice.randrange(0, 6)), *_helpers(Random(f"helpers {number} {name}"))],
            history=_policy(dice),
            guardrails=[each for each in rails if dice.random() < 0.1],
        )
        for name in names
    ]
    builder = HandoffBuilder(f"w{number}", agents)
    if dice.random() < 0.7:
        for index, name in enumerate(names):
            near = names[(index + 1) % len(names)]
            others = [other for other in names if other not in (name, near) and dice.random() < 0.3]
            builder.add_handoff(name, [near], needs_approval=dice.random() < 0.2, history=_policy(dice, edge=True))
            if others:
                builder.add_handoff(name, others)
    if dice.random() < 0.3:
        builder.with_autonomous_mode([dice.choice(names)], turn_limits={name: dice.randrange(0, 3) for name in names})
    if dice.random() < 0.3:
        builder.with_termination_condition(dice.choice((enough, enough_async)))
    if dice.random() < 0.3:
        builder.with_messages("supersede")
    if dice.random() < 0.3:
        builder.with_next_turn("start")
    builder.with_limits(_limits(dice, Random(f"tool rounds {number}")))
    builder.with_model_attempts(dice.choice((1, 2, 3)))
    builder.with_parallel_tools(dice.choice((1, 2, 16)))
    return builder.build()


def _helpers(dice: Random) -> list[Tool]:
    """Some agents have another as a tool, which has tools that wait for people, and sometimes such a helper of its own."""
    made: list[Tool] = []
    for level in range(dice.choice((0, 0, 0, 1, 1, 2))):
        tools = [*dice.sample(TOOLS, dice.randrange(1, 4)), *made]
        made = [Agent(f"helper{level}", "You help.", ScriptedModel(by_agent={}), tools).as_tool()]
    return made


def _policy(dice: Random, edge: bool = False) -> History | None:
    if dice.random() < 0.75:
        return None
    choices: list[Callable[[], History]] = [
        history.everything,
        history.dialogue,
        history.since_handoff,
        history.own_tools,
        lambda: history.last(dice.randrange(1, 3)),
        lambda: history.custom(_no_b),
    ]
    if not edge:
        choices.append(lambda: history.summarised(40, by=_shorter, keep=1))
    return dice.choice(choices)()


def _no_b(groups: list[history.Group]) -> list[history.Group]:
    return [group for group in groups if group.agent != "b"]


def _shorter(text: str) -> str:
    return f"{len(text)} letters"


def _limits(dice: Random, rounds: Random) -> Limits:
    rare = {"handoffs": 3, "same_edge": 2, "tool_calls": 4, "tokens": 400, "seconds": 1.0}
    chosen: dict[str, Any] = {name: value for name, value in rare.items() if dice.random() < 0.12}
    if rounds.random() < 0.2:
        chosen["tool_rounds"] = rounds.choice((1, 2))
    return Limits(turns=dice.choice((6, 8, 8)), **chosen)
