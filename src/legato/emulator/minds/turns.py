"""Where in a conversation a prompt stands. May know: what was heard. Decides: what is a turn.

All of it is read from the prompt: a mind keeps no count of its own, so it answers any number of conversations at once, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from legato.emulator.minds.base import Heard, Prompt


def turn_of(prompt: Prompt) -> int:
    """The how manieth time the model speaks: 1 if it has not spoken yet. What it said without a pause is one turn."""
    return 1 + sum(1 for _ in _beginnings(prompt))


def earlier(prompt: Prompt) -> Iterator[Prompt]:
    """The prompts of the turns before this one, with the instructions and tools of now."""
    for at in _beginnings(prompt):
        yield replace(prompt, heard=prompt.heard[:at])


def _beginnings(prompt: Prompt) -> Iterator[int]:
    for at, heard in enumerate(prompt.heard):
        if heard.who == "assistant" and (at == 0 or prompt.heard[at - 1].who != "assistant"):
            yield at


def since_user(prompt: Prompt) -> tuple[Heard, ...]:
    """What came after the user last spoke; everything, if they never did."""
    for at in range(len(prompt.heard), 0, -1):
        if prompt.heard[at - 1].who == "user":
            return prompt.heard[at:]
    return prompt.heard


def newest_outputs(prompt: Prompt) -> tuple[Heard, ...]:
    """The tools' outputs that nobody has said anything about yet, in the order in which they came."""
    outputs: list[Heard] = []
    for heard in reversed(prompt.heard):
        if heard.who not in ("tool", "system"):
            break
        if heard.who == "tool":
            outputs.insert(0, heard)
    return tuple(outputs)
