"""Fake models for the seeds' conversations, stateless, and the same for the old frameworks and for Legato."""

from __future__ import annotations

import json

from legato.emulator.fake_models.base import FakeReplyItem, ModelPrompt, ReplyCall, ReplyText, ReplyThought


def reply_as_researchers(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Reply in seeds 000 and 001: a coordinator has a topic researched and summarised. Without the topic, one is made up."""
    instructions = find_instructions(prompt)
    topic = any(message.role == "user" and "Microsoft Agent Framework" in message.text for message in prompt.messages)
    replies = [message.text for message in prompt.messages if message.role == "assistant"]
    findings = sum(text.startswith("Finding") for text in replies)
    summaries = sum(text.startswith("Summary") for text in replies)
    thought: list[FakeReplyItem] = [ReplyThought("Who should do this?")] if prompt.has_reasoning else []
    if instructions.startswith("You are a coordinator."):
        if not findings:
            return [*thought, ReplyCall("handoff_to_research_agent")]
        if not summaries:
            return [*thought, ReplyCall("handoff_to_summary_agent")]
        return [*thought, ReplyText("The report is complete.")]
    if instructions.startswith("You are a research specialist"):
        subject = "Agent Framework" if topic else "the French Revolution, since nobody named a topic"
        finding = ReplyText(f"Finding {findings + 1}, about {subject}.")
        return [*thought, finding] if not findings else [*thought, finding, ReplyCall("handoff_to_coordinator")]
    return [*thought, ReplyText(f"Summary of {findings} findings."), ReplyCall("handoff_to_coordinator")]


def reply_as_bank(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Reply in seeds 002 and 003: a coordinator hands over; the specialist looks the account up once for each question."""
    since = prompt.messages[max((place for place, heard in enumerate(prompt.messages) if heard.role == "user"), default=-1) + 1 :]
    tools = {tool.name for tool in prompt.tools}
    if "Route" in find_instructions(prompt):
        handed = any(heard.role == "tool" for heard in since)
        return [ReplyText("One moment.")] if handed else [ReplyCall("handoff_to_specialist")]
    if "look_up_account" in tools and not any(heard.tool == "look_up_account" for heard in since):
        return [ReplyCall("look_up_account", json.dumps({"question": prompt.last_user_text}))]
    return [ReplyText(f"About {prompt.last_user_text!r}: the balance is 17.")]


def reply_as_support(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Reply in seed 004: all three tools are called in one reply."""
    if prompt.messages and prompt.messages[-1].role == "tool":
        return [ReplyText("The check is done; nothing was cleaned up.")]
    if "Clean up temp_files" not in prompt.last_user_text:
        return [ReplyText("I am here when you need me.")]
    return [
        ReplyCall("run_cleanup", '{"target": "temp_files"}'),
        ReplyCall("run_diagnostic", '{"check_name": "thermal_snapshot"}'),
        ReplyCall("run_cleanup", '{"target": "winsxs_cache"}'),
    ]


def reply_as_support_or_bank(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Reply as the support desk or as the bank, depending on the instructions."""
    return reply_as_support(prompt) if "IT support" in find_instructions(prompt) else reply_as_bank(prompt)


def find_instructions(prompt: ModelPrompt) -> str:
    """Return the newest instructions, which a framework may send beside others that the provider stores."""
    texts = [prompt.instructions, *(message.text for message in prompt.messages if message.role == "system")]
    return next((text for text in reversed(texts) if text), "")
