"""Test cases of provider rules as plain data.

A case has the steps before the request, a request that breaks one rule and nothing else, the exact response to it, and the most similar
legal request. Nothing here knows how requests are checked, so the same cases run against the rules (tests/providers/rules) and, over HTTP,
against the emulator (tests/emulator/test_rules_over_http.py).

In requests and bodies, `{r1.output[0].id}` is a placeholder for a part of the reply that was saved as `r1`. A string that is nothing but a
placeholder becomes the value itself, of any type. `[:4]` and `[-4:]` are the ends of a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from legato.emulator.fake_models.base import FakeReplyItem

FinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True)
class SetupStep:
    """A step before the request of a case."""

    kind: Literal["respond", "conversation", "delete", "expire", "lock"]
    name: str  # the name under which the result is saved, or the name of the result that it changes
    body: dict[str, Any] = field(default_factory=dict)
    model_output: tuple[FakeReplyItem, ...] = ()
    finish_reason: FinishReason = "stop"
    account: str = ""  # empty: the account of the case's request

    @classmethod
    def respond(
        cls, body: dict[str, Any], *model_output: FakeReplyItem, save_as: str, finish_reason: FinishReason = "stop", account: str = ""
    ) -> SetupStep:
        """Return the step of a legal request and its response, which is saved: `{r1.id}`, `{r1.output[0]}`, `{r1.content}` ..."""
        return cls("respond", save_as, body, model_output, finish_reason, account)

    @classmethod
    def conversation(cls, *items: dict[str, Any], save_as: str) -> SetupStep:
        """Return the step that creates a conversation with these items."""
        return cls("conversation", save_as, {"items": list(items)})

    @classmethod
    def delete(cls, name: str) -> SetupStep:
        """Return the step that deletes a response."""
        return cls("delete", name)

    @classmethod
    def expire(cls, name: str) -> SetupStep:
        """Return the step that lets a response expire."""
        return cls("expire", name)

    @classmethod
    def lock(cls, name: str) -> SetupStep:
        """Return the step that locks a conversation: another request is using it."""
        return cls("lock", name)


@dataclass(frozen=True)
class RuleCase:
    """A test case of one rule. A case of a permission has no illegal request."""

    rule_id: str
    illegal: Any = None
    error_body: dict[str, Any] | None = None  # without values that no case can know, such as a request id
    status: int = 400
    legal: Any = None
    switches: dict[str, Any] = field(default_factory=dict)  # those that differ from the defaults
    setup: tuple[SetupStep, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)  # in addition to those that every client of the API sends
    omitted_headers: tuple[str, ...] = ()  # headers that the illegal request lacks
    token_count: int = 0  # of the prompt, for cases about its length

    def __str__(self) -> str:
        return self.rule_id


PLACEHOLDER = re.compile(r"\{([a-z]\w*)((?:\.\w+|\[\d+\]|\[:4\]|\[-4:\])*)\}")
SLICES = {":4": slice(4), "-4:": slice(-4, None)}


def fill_placeholders(value: Any, saved_values: Mapping[str, Any]) -> Any:
    """Return a request or body with saved values in place of its placeholders. An unknown name raises `KeyError`.

    >>> fill_placeholders({"id": "{r1.id}", "text": "about {r1.id}"}, {"r1": {"id": "resp_1"}})
    {'id': 'resp_1', 'text': 'about resp_1'}
    """
    if isinstance(value, dict):
        return {key: fill_placeholders(inner, saved_values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_placeholders(inner, saved_values) for inner in value]
    if not isinstance(value, str):
        return value
    match = PLACEHOLDER.fullmatch(value)
    if match:
        return _resolve_path(saved_values[match[1]], match[2])
    return PLACEHOLDER.sub(lambda match: str(_resolve_path(saved_values[match[1]], match[2])), value)


def _resolve_path(value: Any, path: str) -> Any:
    for member, index in re.findall(r"\.(\w+)|\[([-:\d]+)\]", path):
        value = value[member] if member else value[SLICES[index] if index in SLICES else int(index)]
    return value
