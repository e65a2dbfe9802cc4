"""Fake models: the source of the emulator's replies. `base.py` has their prompts and replies.

`SupportDesk` (the default) plays a support desk or a research team; `Script` follows rules; `FunctionModel` calls a function; `ReplyList`
has a list of replies; `LogReplay` repeats a recorded log. All reply from the prompt alone: the same prompt gets the same reply.
"""

from __future__ import annotations

from pathlib import Path

from legato.emulator.fake_models.base import (
    FakeModel,
    FakeReply,
    FakeReplyItem,
    ModelPrompt,
    PromptMessage,
    PromptTool,
    ReplyCall,
    ReplyRefusal,
    ReplyText,
    ReplyThought,
)
from legato.emulator.fake_models.canned_replies import FunctionModel, ReplyList
from legato.emulator.fake_models.log_replay import LogReplay
from legato.emulator.fake_models.schema_values import make_arguments
from legato.emulator.fake_models.script import Script
from legato.emulator.fake_models.script_rules import ScriptedCall, ScriptRule
from legato.emulator.fake_models.support_desk import SupportDesk
from legato.errors import BadInput

__all__ = [
    "FakeModel",
    "FakeReply",
    "FakeReplyItem",
    "FunctionModel",
    "LogReplay",
    "ModelPrompt",
    "PromptMessage",
    "PromptTool",
    "ReplyCall",
    "ReplyList",
    "ReplyRefusal",
    "ReplyText",
    "ReplyThought",
    "Script",
    "ScriptRule",
    "ScriptedCall",
    "SupportDesk",
    "make_arguments",
    "make_fake_model",
]


def make_fake_model(value: object = None) -> FakeModel:
    """Return a fake model for the `fake_model` option.

    The value is None or `"desk"`, a path to a script (.yaml, .yml) or to a log (.jsonl), a list of rules or replies, a function of the
    prompt, or a fake model.

    >>> make_fake_model(), make_fake_model(["Hello!", "Good bye!"])
    (<support desk>, <reply list: 2 replies>)
    """
    if value is None or value == "desk":
        return SupportDesk()
    if isinstance(value, str | Path):
        match Path(value).suffix.lower():
            case ".yaml" | ".yml":
                return Script.from_yaml(Path(value))
            case ".jsonl":
                return LogReplay.from_log(value)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(each, ScriptRule) for each in value):
            return Script(value)
        return ReplyList(value)
    elif not isinstance(value, type):
        if callable(getattr(value, "reply", None)):
            fake_model: FakeModel = value  # type: ignore[assignment]  # it has the protocol's only method
            return fake_model
        if callable(value):
            return FunctionModel(value)
    raise BadInput(
        "this cannot be the emulator's fake model",
        expected="'desk', a path that ends in .yaml, .yml or .jsonl, a list of replies or rules, a function, or a fake model",
        found=repr(value)[:200],
    )
