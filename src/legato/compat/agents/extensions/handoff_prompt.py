"""`agents.extensions.handoff_prompt`, by name; the words are ours."""

from __future__ import annotations

RECOMMENDED_PROMPT_PREFIX = (
    "You are one of several agents who share this conversation. Some of your tools pass it on to another agent; their names begin with "
    "transfer_to_. Use them when the request is another agent's business, and do not tell the user that the conversation was passed on."
)


def prompt_with_handoff_instructions(prompt: str) -> str:
    """Instructions that begin by saying what handing over means."""
    return f"{RECOMMENDED_PROMPT_PREFIX}\n\n{prompt}"
