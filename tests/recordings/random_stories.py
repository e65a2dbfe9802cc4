"""Random conversations: workflow, models, tools and user are random, and the same for the same number.

Every random choice has a seed of its own, made from the thing that is chosen. So a conversation stays the same when a version takes more
steps, chooses in another order or draws other ids.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from legato import Agent, ClientTool, HandoffBuilder, Limits, Workflow, guardrail, history, image, tool
from legato.core.facts import Call, OutputText, Refusal, Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from tests.recordings.models import MODEL_KINDS, make_http_scripted_model

CLIENT_TOOLS = (
    ClientTool("client_page", parameters={"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}),
    ClientTool("client_clock"),
)
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "look_up": ('{"order": "7"}', '{"order": "eight"}', '{"order": 9}', "{"),
    "fetch": ('{"page": 2}', "{}", '{"page": "x"}'),
    "refund": ('{"order": "7", "cents": 250}', '{"order": "7", "cents": 3}', "[]"),
    "ask_boss": ('{"question": "May I?"}',),
    "migrate": ('{"step": 1}',),
    "slow": ('{"order": "7"}', '{"order": "8"}'),
    "client_page": ('{"page": 1}', '{"page": "one"}'),
    "client_clock": ("{}", ""),
}
MODEL_KIND_NAMES = tuple(MODEL_KINDS)


def make_random_story(number: int, template: Any) -> Any:
    """Return the story of this number. `template` is any other story: its user and its workflow are replaced."""
    dice = Random(f"person {number}")
    messages: list[Any] = [f"message {index} é" for index in range(dice.choice((1, 2, 3, 4)))]
    if dice.random() < 0.3:
        messages[0] = ["Look at this", image(b"\x89PNG\r\n\x1a\n" + bytes(range(40)), "image/png")]
    user = replace(
        template.user,
        messages=messages,
        decide=lambda request: _decide(number, request),
        tools=CLIENT_TOOLS if dice.random() < 0.3 else (),
        output_schema=None,
        max_resumes=20,
    )
    return replace(template, build=lambda store, world: _build_workflow(number, world), user=user)


def _decide(number: int, request: Any) -> Any:
    dice = Random(f"decision {number} {request.kind} {request.tool} {json.dumps(request.arguments, sort_keys=True, default=str)}")
    match request.kind:
        case "limit":
            return "approve" if dice.random() < 0.7 else ("reject", "enough")
        case "result" | "outcome":
            return ("answer", f"a person says {dice.randrange(9)}")
    roll = dice.random()
    if roll < 0.15:
        return ("reject", "No, thanks.")
    if roll < 0.25 and isinstance(request.arguments, dict) and "cents" in request.arguments:
        return ("edit", {**request.arguments, "cents": 1})
    return "always" if roll < 0.35 else "approve"


@tool
async def look_up(order: str) -> str:
    """Look up an order."""
    await asyncio.sleep(0.01 * len(order))
    if order == "eight":
        raise ValueError("there is no order eight")
    return f"order {order}"


@tool(idempotent=True)
async def fetch(page: int = 1) -> dict[str, int]:
    """Fetch a page."""
    return {"page": page, "words": page * 3}


@tool(needs_approval=lambda ctx, arguments, call: arguments["cents"] > 5)
async def refund(order: str, cents: int) -> str:
    """Refund an order."""
    return f"refunded {cents}"


@tool(deferred=True)
async def ask_boss(question: str) -> str:
    """Ask the boss."""
    raise AssertionError("its result comes from elsewhere")


@tool(alone=True)
async def migrate(step: int) -> str:
    """Do a step by itself."""
    return "x" * 300


@tool(timeout=0.05)
async def slow(order: str) -> str:
    """Take long."""
    await asyncio.sleep(0.01 if order == "7" else 1)
    return "at last"


TOOLS = (look_up, fetch, refund, ask_boss, migrate, slow)


def _make_script(number: int, world: Any) -> Callable[[Any], ModelReply]:
    def reply(request: Any) -> ModelReply:
        place = f"{number} {request.agent} {request.reply_count} {request.agent_reply_count} {len(request.messages)}"
        dice = Random(f"reply {place}")
        world.counters[place] += 1
        if dice.random() < 0.06 and world.counters[place] < 3:
            raise ModelFailed("by dice", retryable=dice.random() < 0.6, retry_after=dice.choice((0.1, 3.0, 500.0)))
        items: list[Any] = []
        if dice.random() < 0.7:
            items.append(OutputText(f"words of {request.agent} \u2028 {request.reply_count}"))
        names = [spec.name for spec in request.turn_context.tools]
        if names and (dice.random() < 0.65 or not items) and request.reply_count < 14:
            for index in range(dice.choice((1, 1, 1, 2, 3))):
                name = dice.choice(names) if dice.random() < 0.95 else dice.choice(("nonsense", "handoff_to_nobody"))
                arguments = dice.choice(ARGUMENTS.get(name, ("{}", '{"reason": "because"}', '{"task": "help"}')))
                items.append(Call(name, arguments, dice.choice(("", "", f"call_{request.reply_count}_{index}", "call"))))
        if not items:
            items.append(Refusal("I would rather not.") if dice.random() < 0.4 else OutputText(f"plain {request.reply_count}"))
        finish = "length" if dice.random() < 0.04 else "stop"
        return ModelReply(items=tuple(items), usage=Usage(10, 5), finish=finish)  # type: ignore[arg-type]

    return reply


def _choose_history_policy(dice: Random, edge: bool = False) -> Any:
    if dice.random() < 0.6:
        return None
    choices: list[Callable[[], Any]] = [
        history.everything,
        history.dialogue,
        history.since_handoff,
        history.own_tools,
        lambda: history.last(2),
        lambda: history.custom(lambda groups: [group for group in groups if group.agent != "b"]),
    ]
    if not edge:
        choices.append(lambda: history.summarised(40, by=lambda text: f"{len(text)} letters", keep=1))
    return dice.choice(choices)()


@guardrail("input")
def no_threes(context: Any, text: str) -> str | None:
    return "no threes please" if "3" in text else None


@guardrail("tool")
def no_sevens(context: Any, call: Any) -> str | None:
    return "not with step 1" if call.arguments.get("step") == 1 else None


def _build_workflow(number: int, world: Any) -> Workflow:
    """Build the workflow of this number: all agents over the same API, or each over one of its own."""
    dice = Random(f"workflow {number}")
    names = "abcd"[: dice.randrange(2, 5)]
    mixed = number % 3 == 2

    def make_model(name: str) -> Any:
        kind = MODEL_KINDS[
            Random(f"kind {number} {name}").choice(MODEL_KIND_NAMES) if mixed else MODEL_KIND_NAMES[number % len(MODEL_KIND_NAMES)]
        ]
        return make_http_scripted_model(_make_script(number, world), kind.make_model(number % 5 != 0), kind.has_reasoning)

    agents = []
    for name in names:
        tools = dice.sample(TOOLS, dice.randrange(0, 5))
        if dice.random() < 0.25:
            tools.append(Agent(f"helper_{name}", "You help.", make_model("helper"), dice.sample(TOOLS, dice.randrange(0, 5))).as_tool())
        rails = [each for each in (no_threes, no_sevens) if dice.random() < 0.15]
        agents.append(Agent(name, f"You are {name}.", make_model(name), tools, history=_choose_history_policy(dice), guardrails=rails))
    builder = HandoffBuilder(f"w{number}", agents)
    if dice.random() < 0.6:
        for index, name in enumerate(names):
            builder.add_handoff(
                name, names[(index + 1) % len(names)], needs_approval=dice.random() < 0.2, history=_choose_history_policy(dice, edge=True)
            )
    if dice.random() < 0.2:
        builder.with_autonomous_mode([names[0]], turn_limits=dict.fromkeys(names, 2))
    if dice.random() < 0.2:
        builder.with_messages("supersede")
    if dice.random() < 0.3:
        builder.with_next_turn("start")
    rare = {"handoffs": 4, "tool_calls": 5, "tool_rounds": 2}
    chosen: dict[str, Any] = {name: value for name, value in rare.items() if dice.random() < 0.1}
    builder.with_limits(Limits(turns=8, **chosen))
    builder.with_model_attempts(dice.choice((1, 2, 3)))
    builder.with_parallel_tools(dice.choice((1, 2, 16)))
    return builder.build()
