"""The turns of a prompt's conversation.

Everything is read from the prompt: a fake model keeps no count of its own, so it can reply to any number of conversations in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from legato.emulator.fake_models.base import ModelPrompt, PromptMessage


def count_turn(prompt: ModelPrompt) -> int:
    """Return the number of the model's next turn: 1 if it has not replied yet. Adjacent assistant messages are one turn."""
    return 1 + sum(1 for _ in _find_turn_starts(prompt))


def list_earlier_prompts(prompt: ModelPrompt) -> Iterator[ModelPrompt]:
    """Yield the prompts of the earlier turns, with the present instructions and tools."""
    for index in _find_turn_starts(prompt):
        yield replace(prompt, messages=prompt.messages[:index])


def _find_turn_starts(prompt: ModelPrompt) -> Iterator[int]:
    for index, message in enumerate(prompt.messages):
        if message.role == "assistant" and (index == 0 or prompt.messages[index - 1].role != "assistant"):
            yield index


def list_messages_since_user(prompt: ModelPrompt) -> tuple[PromptMessage, ...]:
    """Return the messages after the user's last one; all messages if there is none."""
    for index in range(len(prompt.messages), 0, -1):
        if prompt.messages[index - 1].role == "user":
            return prompt.messages[index:]
    return prompt.messages


def list_newest_outputs(prompt: ModelPrompt) -> tuple[PromptMessage, ...]:
    """Return the tool outputs at the end of the conversation, to which there is no reply yet."""
    outputs: list[PromptMessage] = []
    for message in reversed(prompt.messages):
        if message.role not in ("tool", "system"):
            break
        if message.role == "tool":
            outputs.insert(0, message)
    return tuple(outputs)
