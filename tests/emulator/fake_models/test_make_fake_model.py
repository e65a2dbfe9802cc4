"""`make_fake_model` turns the `fake_model` option into a fake model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato.emulator.fake_models import (
    FakeReply,
    FunctionModel,
    ModelPrompt,
    ReplyList,
    ReplyText,
    Script,
    ScriptRule,
    SupportDesk,
    make_fake_model,
)
from legato.errors import BadInput
from tests.emulator.fake_models.conversations import make_prompt


class OwnModel:
    def reply(self, model_prompt: ModelPrompt) -> FakeReply:
        return FakeReply((ReplyText("mine"),))


def test_default_is_the_support_desk() -> None:
    assert isinstance(make_fake_model(None), SupportDesk)
    assert isinstance(make_fake_model(), SupportDesk)
    assert isinstance(make_fake_model("desk"), SupportDesk)


def test_fake_model_is_returned_unchanged() -> None:
    for fake_model in (OwnModel(), SupportDesk(), Script([]), ReplyList([])):
        assert make_fake_model(fake_model) is fake_model


def test_function_becomes_a_function_model() -> None:
    fake_model = make_fake_model(lambda model_prompt: f"heard {model_prompt.last_user_text}")
    assert isinstance(fake_model, FunctionModel)
    assert fake_model.reply(make_prompt("Hello")).items == (ReplyText("heard Hello"),)


def test_list_becomes_reply_list_or_script() -> None:
    assert isinstance(make_fake_model(["one", ["two", ReplyText("three")]]), ReplyList)
    assert isinstance(make_fake_model((ScriptRule(say="x"),)), Script)


@pytest.mark.parametrize("value", [5, "desk.txt", "", Path("script"), {"rules": []}, OwnModel, b"desk", 1.5, True, "a\0.yaml", "a\0.jsonl"])
def test_other_values_raise_bad_input(value: Any) -> None:
    with pytest.raises(BadInput):
        make_fake_model(value)


def test_invalid_list_item_is_named_by_position() -> None:
    with pytest.raises(BadInput, match="reply number 2 is not a valid reply"):
        make_fake_model(["one", 2])
