"""What the emulated model says: a policy. `base.py` has the terms; each other file has one kind of mind, or serves one.

`Desk` (the default) plays a support desk or a research team; `Script` follows rules; `Called` is a function; `Queue` a list of
replies; `Replay` a recorded conversation. All answer from the prompt alone: the same prompt gets the same answer.
"""

from __future__ import annotations

from pathlib import Path

from legato.emulator.minds.arguments import arguments_for
from legato.emulator.minds.base import Heard, Item, Mind, Prompt, Refused, Say, Thought, Tool, Use, Words
from legato.emulator.minds.desk import Desk
from legato.emulator.minds.replay import Replay
from legato.emulator.minds.rules import Call, Rule
from legato.emulator.minds.script import Called, Queue, Script
from legato.errors import BadInput

__all__ = [
    "Call",
    "Called",
    "Desk",
    "Heard",
    "Item",
    "Mind",
    "Prompt",
    "Queue",
    "Refused",
    "Replay",
    "Rule",
    "Say",
    "Script",
    "Thought",
    "Tool",
    "Use",
    "Words",
    "arguments_for",
    "mind_from",
]


def mind_from(value: object = None) -> Mind:
    """A mind from what people write: nothing or `"desk"`, a path to a script (.yaml, .yml) or to a log (.jsonl), rules, replies, a
    function of the prompt, or a mind.

    >>> mind_from(), mind_from(["Hello!", "Good bye!"])
    (<desk>, <queue: 2 replies>)
    """
    if value is None or value == "desk":
        return Desk()
    if isinstance(value, str | Path):
        match Path(value).suffix.lower():
            case ".yaml" | ".yml":
                return Script.from_yaml(Path(value))
            case ".jsonl":
                return Replay.from_log(value)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(each, Rule) for each in value):
            return Script(value)
        return Queue(value)
    elif not isinstance(value, type):
        if callable(getattr(value, "reply", None)):
            mind: Mind = value  # type: ignore[assignment]  # a protocol of one method, which it has
            return mind
        if callable(value):
            return Called(value)
    raise BadInput(
        "this is no mind for the emulator",
        expected="'desk', a path that ends in .yaml, .yml or .jsonl, a list of replies or rules, a function, or a mind",
        found=repr(value)[:200],
    )
