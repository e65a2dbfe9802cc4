"""What the emulated models say in the seeds' conversations: the same to the old frameworks and to Legato. Nothing is remembered."""

from __future__ import annotations

import json

from legato.emulator.minds.base import Item, Prompt, Thought, Use, Words


def researchers(prompt: Prompt) -> list[Item]:
    """Seeds 000 and 001: a coordinator has a topic researched, then summarised. Whoever was not told the topic makes one up."""
    told = _instructions(prompt)
    topic = any(heard.who == "user" and "Microsoft Agent Framework" in heard.text for heard in prompt.heard)
    said = [heard.text for heard in prompt.heard if heard.who == "assistant"]
    findings = sum(text.startswith("Finding") for text in said)
    summaries = sum(text.startswith("Summary") for text in said)
    thought: list[Item] = [Thought("Who should do this?")] if prompt.thinks else []
    if told.startswith("You are a coordinator."):
        if not findings:
            return [*thought, Use("handoff_to_research_agent")]
        if not summaries:
            return [*thought, Use("handoff_to_summary_agent")]
        return [*thought, Words("The report is complete.")]
    if told.startswith("You are a research specialist"):
        subject = "Agent Framework" if topic else "the French Revolution, since nobody named a topic"
        finding = Words(f"Finding {findings + 1}, about {subject}.")
        return [*thought, finding] if not findings else [*thought, finding, Use("handoff_to_coordinator")]
    return [*thought, Words(f"Summary of {findings} findings."), Use("handoff_to_coordinator")]


def bank(prompt: Prompt) -> list[Item]:
    """Seeds 002 and 003: a coordinator passes a customer on; the specialist looks the account up once for each question."""
    since = prompt.heard[max((place for place, heard in enumerate(prompt.heard) if heard.who == "user"), default=-1) + 1 :]
    tools = {tool.name for tool in prompt.tools}
    if "Route" in _instructions(prompt):
        handed = any(heard.who == "tool" for heard in since)
        return [Words("One moment.")] if handed else [Use("handoff_to_specialist")]
    if "look_up_account" in tools and not any(heard.tool == "look_up_account" for heard in since):
        return [Use("look_up_account", json.dumps({"question": prompt.said}))]
    return [Words(f"About {prompt.said!r}: the balance is 17.")]


def support(prompt: Prompt) -> list[Item]:
    """Seed 004: asked for everything at once, all three tools are called in one reply."""
    if prompt.heard and prompt.heard[-1].who == "tool":
        return [Words("The check is done; nothing was cleaned up.")]
    if "Clean up temp_files" not in prompt.said:
        return [Words("I am here when you need me.")]
    return [
        Use("run_cleanup", '{"target": "temp_files"}'),
        Use("run_diagnostic", '{"check_name": "thermal_snapshot"}'),
        Use("run_cleanup", '{"target": "winsxs_cache"}'),
    ]


def either(prompt: Prompt) -> list[Item]:
    """The support desk or the bank, whichever is asked."""
    return support(prompt) if "IT support" in _instructions(prompt) else bank(prompt)


def _instructions(prompt: Prompt) -> str:
    """Whose turn it is: the newest instructions, which a framework may send beside others that the provider holds."""
    given = [prompt.instructions, *(heard.text for heard in prompt.heard if heard.who == "system")]
    return next((text for text in reversed(given) if text), "")
