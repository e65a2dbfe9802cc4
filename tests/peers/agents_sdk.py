"""A handoff program as users of the OpenAI Agents SDK write it. It runs in an environment that has no Legato.

    python agents_sdk.py BASE_URL responses|chat

Prints one JSON object with the results of a conversation of three messages, in each of four memory modes.
"""

import asyncio
import json
import sys

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
def look_up_order(order_id: str) -> str:
    """Look up an order by its id."""
    return f"Order {order_id}: one teapot, delivered on Monday, 49.90 EUR."


@function_tool
def refund_order(order_id: str, cents: int) -> str:
    """Refund an order to the customer."""
    return f"Refunded {cents} cents for order {order_id}."


MESSAGES = ["My order A-17 arrived broken, I want a refund.", "Please look up order A-17 once more.", "Thank you, and refund B-2 too."]


def build_team(model):
    refunds = Agent(
        name="Refunds",
        handoff_description="Refunds broken orders.",
        instructions="Handle refunds.",
        tools=[look_up_order, refund_order],
        model=model,
    )
    triage = Agent(name="Triage", instructions="Route the customer to the right colleague.", handoffs=[refunds], model=model)
    refunds.handoffs = [triage]
    return triage


async def run_by_value(start, stream):
    agent, history = start, []
    for message in MESSAGES:
        history.append({"role": "user", "content": message})
        result = Runner.run_streamed(agent, history) if stream else await Runner.run(agent, history)
        if stream:
            async for _ in result.stream_events():
                pass
        agent, history = result.last_agent, result.to_input_list()
    return {"agent": agent.name, "output": str(result.final_output), "items": len(history)}


async def run_by_chain(start):
    agent, previous = start, None
    for message in MESSAGES:
        result = await Runner.run(agent, message, previous_response_id=previous, auto_previous_response_id=True)
        agent, previous = result.last_agent, result.last_response_id
    return {"agent": agent.name, "output": str(result.final_output), "previous": previous}


async def run_by_conversation(client, start):
    conversation = await client.conversations.create()
    agent = start
    for message in MESSAGES:
        result = await Runner.run(agent, message, conversation_id=conversation.id)
        agent = result.last_agent
    items = [item async for item in client.conversations.items.list(conversation.id)]
    return {"agent": agent.name, "output": str(result.final_output), "items": len(items)}


async def main(base_url, api):
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=base_url, api_key="sk-peer", max_retries=0)
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatCompletionsModel
    start = build_team(kind(model="gpt-4.1", openai_client=client))
    results = {"by value": await run_by_value(start, False), "by value, streamed": await run_by_value(start, True)}
    if api == "responses":
        results["by chain"] = await run_by_chain(start)
        results["by conversation"] = await run_by_conversation(client, start)
    print(json.dumps(results))


asyncio.run(main(sys.argv[1], sys.argv[2]))
