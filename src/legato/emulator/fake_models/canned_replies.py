"""Fake models that return given replies: those of a function, or those of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutine
from typing import TypeAlias

from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ModelPrompt, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.fake_models.prompt_turns import count_turn
from legato.errors import BadInput

ReplyLike: TypeAlias = FakeReply | str | FakeReplyItem | Sequence[str | FakeReplyItem]


class FunctionModel:
    """A function of the prompt as a fake model. It returns a `FakeReply`, a text, an item, or a list of texts and items."""

    def __init__(self, function: Callable[[ModelPrompt], ReplyLike]) -> None:
        self.function = function

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return the function's reply."""
        name = getattr(self.function, "__name__", repr(self.function))
        return to_fake_reply(self.function(prompt), f"the result of {name}()")

    def __repr__(self) -> str:
        return f"<function model: {getattr(self.function, '__name__', 'a function')}()>"


class ReplyList:
    """A list of replies as a fake model: the first for the model's first turn in a conversation, and so on.

    The turn is read from the prompt, so each conversation has its own position in the list.
    """

    def __init__(self, replies: Sequence[ReplyLike]) -> None:
        self.replies = tuple(to_fake_reply(reply, f"reply number {number}") for number, reply in enumerate(replies, 1))

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return the reply for this turn of the conversation."""
        turn = count_turn(prompt)
        if turn > len(self.replies):
            raise BadInput(
                f"there is no reply number {turn}",
                expected=f"a conversation with at most {len(self.replies)} turns of the model",
                found=f"{turn - 1} turns of the model, then {prompt.messages[-1].role if prompt.messages else 'nothing'}",
                do="add a reply to the list",
            )
        return self.replies[turn - 1]

    def __repr__(self) -> str:
        return f"<reply list: {len(self.replies)} replies>"


def to_fake_reply(reply: object, source: str) -> FakeReply:
    """Convert a text, an item or a list of them to a reply. Raises `BadInput` for anything else; `source` names it in the message."""
    if isinstance(reply, FakeReply):
        return reply
    parts = list(reply) if isinstance(reply, list | tuple) else [reply]
    items: list[FakeReplyItem] = []
    for item in parts:
        if isinstance(item, str):
            items.append(ReplyText(item))
        elif isinstance(item, ReplyText | ReplyThought | ReplyCall | ReplyRefusal):
            items.append(item)
        else:
            if iscoroutine(item):
                item.close()  # so that Python does not warn that it was never awaited
            raise BadInput(
                f"{source} is not a valid reply",
                expected="a FakeReply, text, ReplyText, ReplyThought, ReplyCall, ReplyRefusal, or a list of them",
                found=repr(item)[:200],
                do="make it an ordinary function, without async" if iscoroutine(item) else "",
            )
    return FakeReply(tuple(items))
