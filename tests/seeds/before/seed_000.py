"""Seed 000's program, word for word. It runs in an environment that has no Legato; `before.py` sets the two variables and the login."""

import asyncio
import os
from typing import cast

from agent_framework import Agent, AgentResponseUpdate, Message, resolve_agent_id
from agent_framework.azure import AzureOpenAIResponsesClient
from agent_framework.orchestrations import HandoffBuilder
from azure.identity import AzureCliCredential
from dotenv import load_dotenv

load_dotenv()


def create_agents(client):
    coordinator = client.as_agent(
        instructions="You are a coordinator. You break down a user query into a research task and a summary task. Assign the two tasks to the appropriate specialists, one after the other.",
        name="coordinator",
    )
    research_agent = client.as_agent(
        instructions="You are a research specialist that explores topics thoroughly. When given a research task, break it down into multiple aspects and explore each one. Continue your research across multiple responses. When you have covered the topic comprehensively, return control to the coordinator.",
        name="research_agent",
    )
    summary_agent = client.as_agent(
        instructions="You summarize research findings. Provide a concise, well-organized summary. When done, return control to the coordinator.",
        name="summary_agent",
    )
    return coordinator, research_agent, summary_agent


async def main():
    client = AzureOpenAIResponsesClient(
        project_endpoint=os.environ["AZURE_AI_PROJECT_ENDPOINT"],
        deployment_name=os.environ["AZURE_AI_MODEL_DEPLOYMENT_NAME"],
        credential=AzureCliCredential(),
    )
    coordinator, research_agent, summary_agent = create_agents(client)
    workflow = (
        HandoffBuilder(
            name="autonomous_iteration_handoff",
            participants=[coordinator, research_agent, summary_agent],
            termination_condition=lambda conv: (
                sum(1 for msg in conv if msg.author_name == "coordinator" and msg.role == "assistant") >= 5
            ),
        )
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [research_agent, summary_agent])
        .add_handoff(research_agent, [coordinator])
        .add_handoff(summary_agent, [coordinator])
        .with_autonomous_mode(
            turn_limits={
                resolve_agent_id(coordinator): 5,
                resolve_agent_id(research_agent): 10,
                resolve_agent_id(summary_agent): 5,
            }
        )
        .build()
    )
    request = "Perform a comprehensive research on Microsoft Agent Framework."
    async for event in workflow.run(request, stream=True):
        if event.type == "handoff_sent":
            print(f"\nHandoff: {event.data.source} -> {event.data.target}\n")
        elif event.type == "output":
            data = event.data
            if isinstance(data, AgentResponseUpdate) and data.text:
                print(data.text, end="", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
