"""The seeds' conversations with Legato: the same agents, messages, fake models and emulator as with the old frameworks."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.emulator import Emulator
from legato.models import AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from legato.stores import SQLiteStore

QUESTIONS = ["What is my balance?", "And the balance of my savings?", "Which of the two is larger?"]
PARALLEL = (
    "Please do all of the following RIGHT NOW in parallel:\n1. Clean up temp_files\n2. Run a thermal_snapshot diagnostic\n"
    "3. Clean up winsxs_cache\nCall all three tools at once."
)


async def seed_000(emulator: Emulator) -> str:
    """Run the research team until the coordinator has replied five times, streamed."""
    team = build_researchers(
        emulator,
        "You are a coordinator. You break down a user query into a research task and a summary task.",
        "You are a research specialist that explores topics thoroughly.",
        "You summarize research findings. Provide a concise, well-organized summary.",
        max_replies=5,
        limits={"coordinator": 5, "research_agent": 10, "summary_agent": 5},
    )
    return await stream(team, "Perform a comprehensive research on Microsoft Agent Framework.")


async def seed_001(emulator: Emulator) -> str:
    """Run the research team until the coordinator has replied twice, chained on stored responses, which failed in the seed."""
    team = build_researchers(
        emulator,
        "You are a coordinator. Route tasks to specialists.",
        "You are a research specialist. Research the topic briefly, then return control to coordinator.",
        "You summarize research findings. When done, return control to coordinator.",
        max_replies=2,
        limits={"coordinator": 2, "research_agent": 2, "summary_agent": 2},
        memory="chained",
    )
    return await stream(team, "Research Microsoft Agent Framework.")


async def seed_002(emulator: Emulator) -> str:
    """Send three messages to two agents without history settings."""
    with TemporaryDirectory() as folder:
        async with SQLiteStore(Path(folder) / "bank.sqlite") as store:
            session = build_bank(emulator).session("customer", store=store)
            for question in QUESTIONS:
                await session.run(question, stream=True)
            return session.status


async def seed_003(emulator: Emulator) -> str:
    """Send three messages, each with a newly opened store and a newly built workflow."""
    status = ""
    with TemporaryDirectory() as folder:
        for question in QUESTIONS:
            async with SQLiteStore(Path(folder) / "bank.sqlite") as store:
                session = build_bank(emulator).session("customer", store=store)
                await session.run(question)
                status = session.status
    return status


async def seed_004(emulator: Emulator) -> str:
    """Make three parallel calls, two of which need approval; export, load, reject both, and resume."""
    desk = build_support(emulator)
    first = desk.session("it")
    await first.run("Hello, I might need help with cleanup and diagnostics soon.")
    await first.run(PARALLEL, stream=True)
    text = await first.to_string()
    session = await build_support(emulator).load(text).refresh()
    for request in session.pending:
        await session.reject(request, "Not approved.")
    await session.resume(stream=True)
    return session.status


async def stream(team: Workflow, request: str) -> str:
    session = team.session("seed")
    async for _ in session.run(request, stream=True):
        pass
    return session.status


def build_researchers(
    emulator: Emulator,
    coordinator_text: str,
    research_text: str,
    summary_text: str,
    *,
    max_replies: int,
    limits: dict[str, int],
    memory: str = "inline",
) -> Workflow:
    model = AzureOpenAIResponses("gpt-5.5", endpoint=emulator.url, api_key="sk-seeds", memory=memory)
    coordinator = Agent("coordinator", coordinator_text, model)
    research_agent = Agent("research_agent", research_text, model)
    summary_agent = Agent("summary_agent", summary_text, model)
    return (
        HandoffBuilder(
            name="research",
            participants=[coordinator, research_agent, summary_agent],
            termination_condition=lambda messages: sum(message.author_name == "coordinator" for message in messages) >= max_replies,
        )
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [research_agent, summary_agent])
        .add_handoff(research_agent, [coordinator])
        .add_handoff(summary_agent, [coordinator])
        .with_autonomous_mode(turn_limits=limits)
        .build()
    )


def build_bank(emulator: Emulator) -> Workflow:
    @tool
    def look_up_account(question: str) -> str:
        """Look up an account of the customer."""
        return f"balance 17 ({question})"

    model = OpenAIChat("gpt-4.1", base_url=emulator.openai_url, api_key="sk-seeds")
    coordinator = Agent("coordinator", "Route the customer to the specialist.", model)
    specialist = Agent("specialist", "You answer about accounts.", model, tools=[look_up_account])
    return (
        HandoffBuilder(name="bank", participants=[coordinator, specialist])
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [specialist])
        .add_handoff(specialist, [coordinator])
        .build()
    )


def build_support(emulator: Emulator) -> Workflow:
    @tool(needs_approval=True)
    async def run_cleanup(target: str) -> str:
        """Run a cleanup operation on the given target. REQUIRES APPROVAL."""
        return f"Cleaned up {target}"

    @tool
    async def run_diagnostic(check_name: str) -> str:
        """Run a read-only diagnostic check. Does NOT require approval."""
        return f"Diagnostic '{check_name}' completed. CPU load: 23%, Temp: 72C."

    model = OpenAIResponses("gpt-4.1-mini", base_url=emulator.openai_url, api_key="sk-seeds", memory="chained")
    agent = Agent("IT_Support_Agent", "You are an IT support assistant.", model, [run_cleanup, run_diagnostic])
    return HandoffBuilder("support", [agent]).build()
