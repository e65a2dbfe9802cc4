"""A desk of two agents, built anew by each call, and its fake model. Also a program: it decides on a state in another process.

python -m tests.compat.agents.desk approve|reject < STATE
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from legato.compat.agents import Agent, RunContextWrapper, Runner, RunState, function_tool
from legato.emulator.fake_models import ModelPrompt, ReplyCall


@dataclass
class Shop:
    name: str


def write(shop: Shop) -> dict[str, Any]:
    return asdict(shop)


def read(data: dict[str, Any]) -> Shop:
    return Shop(**data)


def desk() -> Agent[Shop]:
    """Triage, who hands over to refunds."""

    @function_tool
    async def look_up(ctx: RunContextWrapper[Shop], order: str) -> str:
        """Look an order up."""
        return f"{order} of {ctx.context.name}: a teapot"

    async def is_dear(ctx: RunContextWrapper[Shop], params: dict[str, Any], call_id: str) -> bool:
        return int(params["cents"]) > 100

    @function_tool(needs_approval=is_dear)
    async def refund(ctx: RunContextWrapper[Shop], order: str, cents: int) -> str:
        """Refund an order."""
        return f"{ctx.context.name} refunded {cents} for {order}"

    refunds = Agent[Shop](name="Refunds", instructions="Refund.", model="gpt-5.1", tools=[look_up, refund])
    triage = Agent[Shop](name="Triage", instructions="Route.", model="gpt-5.1", handoffs=[refunds])
    refunds.handoffs = [triage]
    return triage


def fake_model(prompt: ModelPrompt) -> Any:
    """Hands over; looks up and refunds, a large sum and a small one, at once; tells what came of it."""
    if prompt.instructions == "Route.":
        return ReplyCall("transfer_to_refunds", json.dumps({"reason": "it is about money"}))
    last = prompt.messages[-1]
    if last.role == "tool" and last.tool != "transfer_to_refunds":
        return f"So: {last.text}"
    if "thank" in prompt.last_user_text.lower():
        return "You are welcome."
    return [
        ReplyCall("refund", json.dumps({"order": "A-1", "cents": 900})),
        ReplyCall("look_up", json.dumps({"order": "A-1"})),
        ReplyCall("refund", json.dumps({"order": "B-2", "cents": 50})),
    ]


async def decide(verdict: str, text: str) -> str:
    """Load a state, decide all that waits, go on to the end."""
    agent = desk()
    state = await RunState.from_string(agent, text, context_deserializer=read, strict_context=True)
    for interruption in state.get_interruptions():
        if verdict == "approve":
            state.approve(interruption)
        else:
            state.reject(interruption, rejection_message="Not today.")
    result = await Runner.run(agent, state)
    return str(result.final_output)


if __name__ == "__main__":
    print(asyncio.run(decide(sys.argv[1], sys.stdin.read())))
