"""Seed 001's program, word for word. It runs in an environment that has no Legato; `before.py` sets the two variables and the login."""

import asyncio
import os
from typing import cast

from agent_framework import Agent, AgentResponseUpdate, Message, resolve_agent_id
from agent_framework.azure import AzureOpenAIResponsesClient
from agent_framework.orchestrations import HandoffBuilder
from azure.identity import AzureCliCredential


async def main():
    client = AzureOpenAIResponsesClient(
        project_endpoint=os.getenv("AZURE_AI_PROJECT_ENDPOINT"),
        deployment_name=os.getenv("AZURE_OPENAI_RESPONSES_DEPLOYMENT_NAME"),
        credential=AzureCliCredential(),
    )

    coordinator = client.as_agent(
        instructions="You are a coordinator. Route tasks to specialists.",
        name="coordinator",
    )
    research_agent = client.as_agent(
        instructions="You are a research specialist. Research the topic briefly, then return control to coordinator.",
        name="research_agent",
    )
    summary_agent = client.as_agent(
        instructions="You summarize research findings. When done, return control to coordinator.",
        name="summary_agent",
    )

    workflow = (
        HandoffBuilder(
            name="test_handoff",
            participants=[coordinator, research_agent, summary_agent],
            termination_condition=lambda conv: (
                sum(1 for msg in conv if msg.author_name == "coordinator" and msg.role == "assistant") >= 2
            ),
        )
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [research_agent, summary_agent])
        .add_handoff(research_agent, [coordinator])
        .add_handoff(summary_agent, [coordinator])
        .with_autonomous_mode(
            turn_limits={
                resolve_agent_id(coordinator): 2,
                resolve_agent_id(research_agent): 2,
                resolve_agent_id(summary_agent): 2,
            }
        )
        .build()
    )

    async for event in workflow.run("Research Microsoft Agent Framework.", stream=True):
        if event.type == "handoff_sent":
            print(f"\nHandoff: {event.data.source} -> {event.data.target}\n")
        elif event.type == "output":
            data = event.data
            if isinstance(data, AgentResponseUpdate) and data.text:
                print(data.text, end="", flush=True)
            elif isinstance(data, list):
                print("\n\nFinal Transcript:")
                for msg in cast(list[Message], data):
                    print(f"{msg.author_name or msg.role}: {msg.text}\n")


asyncio.run(main())
