"""Writes what the OpenAI Agents SDK keeps: run states and a session's file. It runs in an environment of its own: see README.md.

python write_agents_sdk.py FOLDER
"""

import asyncio
import pathlib
import sys

from agents import Agent, Runner, SQLiteSession, function_tool, handoff


@function_tool(needs_approval=True)
async def run_cleanup(target: str) -> str:
    """Clean up."""
    return f"Cleaned up {target}"


@function_tool
async def run_diagnostic(check_name: str) -> str:
    """Run a check."""
    return f"Diagnostic '{check_name}' completed. Temp: 72C."


@function_tool
def look_up_account(question: str) -> str:
    """Look up an account of the customer."""
    return f"balance 17 ({question})"


async def main(folder: pathlib.Path) -> None:
    tools = [run_cleanup, run_diagnostic]
    support = Agent(name="IT_Support_Agent", instructions="You are an IT support assistant.", model="gpt-4.1-mini", tools=tools)
    three = "Please do this:\n1. Clean up temp_files\n2. Run a thermal_snapshot diagnostic\n3. Clean up winsxs_cache\n"
    (folder / "approval.json").write_text((await Runner.run(support, three)).to_state().to_string())

    specialist = Agent(name="specialist", instructions="You answer about accounts.", model="gpt-4.1", tools=[look_up_account])
    passing = handoff(specialist, tool_name_override="handoff_to_specialist")
    coordinator = Agent(name="coordinator", instructions="Route the customer to the specialist.", model="gpt-4.1", handoffs=[passing])
    session = SQLiteSession("customer-42", folder / "session.db")
    for message in ("What is my balance?", "And the balance of my savings?"):
        await Runner.run(coordinator, message, session=session)
    session.close()
    (folder / "handoff.json").write_text((await Runner.run(coordinator, "What is my balance?")).to_state().to_string())


asyncio.run(main(pathlib.Path(sys.argv[1])))
