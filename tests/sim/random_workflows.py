"""Small random workflows for the simulator, built from a fixed set of tools.

>>> make_random_workflow(7)
<Workflow w0: a, b, c>
>>> make_random_workflow(7) is make_random_workflow(8)
True
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

from legato import history
from legato.core.limits import Limits
from legato.runtime.definition import History
from legato.testing.scripted_models import ScriptedModel
from legato.tools import Tool, ToolCall, ToolContext, tool
from legato.workflow.agent import Agent, guardrail
from legato.workflow.builder import HandoffBuilder
from legato.workflow.workflow import Workflow

SEEDS_PER_WORKFLOW = 10
"""Consecutive seeds that share a workflow. Building a workflow costs as much as simulating it a few times."""


@tool
async def look_up(order: str) -> str:
    """Needs no approval, is not idempotent."""
    raise AssertionError("simulated")


@tool(idempotent=True)
async def fetch(order: str, page: int = 1) -> str:
    """Needs no approval, is idempotent."""
    raise AssertionError("simulated")


@tool(needs_approval=True)
async def refund(order: str, cents: int) -> str:
    """Needs approval, is not idempotent."""
    raise AssertionError("simulated")


@tool(needs_approval=True, idempotent=True)
async def unlock(door: int) -> str:
    """Needs approval, is idempotent."""
    raise AssertionError("simulated")


async def _is_odd(context: ToolContext[Any], arguments: dict[str, object], call: ToolCall) -> bool:
    return bool(arguments["amount"] % 2)  # type: ignore[operator]


@tool(needs_approval=_is_odd)
async def pay(amount: int) -> str:
    """Needs approval for odd amounts."""
    raise AssertionError("simulated")


@tool(alone=True)
async def migrate(step: int) -> str:
    """Never runs beside other tools."""
    raise AssertionError("simulated")


@tool(deferred=True)
async def ask_boss(question: str) -> str:
    """Gets its result from outside."""
    raise AssertionError("simulated")


@tool(timeout=0.08)
async def slow(order: str) -> str:
    """Often exceeds its timeout."""
    raise AssertionError("simulated")


@tool(timeout=0.08, idempotent=True)
async def slow_fetch(order: str) -> str:
    """Often exceeds its timeout, is idempotent."""
    raise AssertionError("simulated")


@tool(needs_approval=True, timeout=0.08)
def wire_money(cents: int) -> str:
    """Needs approval, is not async, often exceeds its timeout."""
    raise AssertionError("simulated")


TOOLS: tuple[Tool, ...] = (look_up, fetch, refund, unlock, pay, migrate, ask_boss, slow, slow_fetch, wire_money)


@guardrail("tool")
def not_seven(context: Any, call: ToolCall) -> str | None:
    return "not with 7" if 7 in call.arguments.values() else None


@guardrail("input")
async def no_twos(context: Any, text: str) -> str | None:
    await asyncio.sleep(0.02)  # long enough for a model's reply, a user's action or a process's death in between
    return "no twos please" if "2" in text and "last" not in text else None


@guardrail("output")
def no_threes(context: Any, text: str) -> str | None:
    return "no threes please" if "3" in text else None


def has_enough_replies(messages: list[Any]) -> bool:
    return bool(messages) and messages[-1].role == "assistant" and messages[-1].text.endswith(("3", "7"))


async def has_enough_messages(messages: list[Any]) -> bool:
    return len(messages) > 6


def make_random_workflow(seed: int) -> Workflow:
    """Return the workflow of a seed."""
    return _build_workflow(seed // SEEDS_PER_WORKFLOW)


@lru_cache(maxsize=2)
def _build_workflow(number: int) -> Workflow:
    rng = Random(f"workflow {number}")
    names = "abcd"[: rng.randrange(2, 5)]
    rails = (not_seven, no_twos, no_threes)
    agents = [
        Agent(
            name,
            f"You are {name}.",
            ScriptedModel(by_agent={}),
            [*rng.sample(TOOLS, rng.randrange(0, 6)), *_make_helpers(Random(f"helpers {number} {name}"))],
            history=_choose_history(rng),
            guardrails=[each for each in rails if rng.random() < 0.1],
        )
        for name in names
    ]
    builder = HandoffBuilder(f"w{number}", agents)
    if rng.random() < 0.7:
        for index, name in enumerate(names):
            near = names[(index + 1) % len(names)]
            others = [other for other in names if other not in (name, near) and rng.random() < 0.3]
            builder.add_handoff(name, [near], needs_approval=rng.random() < 0.2, history=_choose_history(rng, edge=True))
            if others:
                builder.add_handoff(name, others)
    if rng.random() < 0.3:
        builder.with_autonomous_mode([rng.choice(names)], turn_limits={name: rng.randrange(0, 3) for name in names})
    if rng.random() < 0.3:
        builder.with_termination_condition(rng.choice((has_enough_replies, has_enough_messages)))
    if rng.random() < 0.3:
        builder.with_messages("supersede")
    if rng.random() < 0.3:
        builder.with_next_turn("start")
    builder.with_limits(_choose_limits(rng, Random(f"tool rounds {number}")))
    builder.with_model_attempts(rng.choice((1, 2, 3)))
    builder.with_parallel_tools(rng.choice((1, 2, 16)))
    return builder.build()


def _make_helpers(rng: Random) -> list[Tool]:
    """Return the agents that work as tools of one agent. They have tools that wait for people, and sometimes a helper of their own."""
    helpers: list[Tool] = []
    for level in range(rng.choice((0, 0, 0, 1, 1, 2))):
        tools = [*rng.sample(TOOLS, rng.randrange(1, 4)), *helpers]
        helpers = [Agent(f"helper{level}", "You help.", ScriptedModel(by_agent={}), tools).as_tool()]
    return helpers


def _choose_history(rng: Random, edge: bool = False) -> History | None:
    if rng.random() < 0.75:
        return None
    choices: list[Callable[[], History]] = [
        history.everything,
        history.dialogue,
        history.since_handoff,
        history.own_tools,
        lambda: history.last(rng.randrange(1, 3)),
        lambda: history.custom(_drop_agent_b),
    ]
    if not edge:
        choices.append(lambda: history.summarised(40, by=_summarise, keep=1))
    return rng.choice(choices)()


def _drop_agent_b(groups: list[history.Group]) -> list[history.Group]:
    return [group for group in groups if group.agent != "b"]


def _summarise(text: str) -> str:
    return f"{len(text)} letters"


def _choose_limits(rng: Random, rounds: Random) -> Limits:
    rare = {"handoffs": 3, "same_edge": 2, "tool_calls": 4, "tokens": 400, "seconds": 1.0}
    chosen: dict[str, Any] = {name: value for name, value in rare.items() if rng.random() < 0.12}
    if rounds.random() < 0.2:
        chosen["tool_rounds"] = rounds.choice((1, 2))
    return Limits(turns=rng.choice((6, 8, 8)), **chosen)
