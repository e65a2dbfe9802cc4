"""What the cases of the Responses law book are made of: models, requests, items, and the answer in its envelope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.providers.lawcase import LawCase, Step

PLAIN = "gpt-4o-mini"  # does not reason; its window has 128,000 tokens
THINKS = "gpt-5.5"
THINKS_TOO = "gpt-5.6-terra"
THINKS_WHEN_TOLD = "gpt-5.4-nano"  # its default effort is none
UNKNOWN = "no-such-model"


def refused(
    clause: str,
    breaks: dict[str, Any],
    obeys: dict[str, Any],
    message: str,
    param: str | None = None,
    code: str | None = None,
    *,
    status: int = 400,
    profile: Mapping[str, Any] | None = None,
    setup: tuple[Step, ...] = (),
) -> LawCase:
    """A clause that can be broken, and the answer."""
    return LawCase(clause, breaks, error(message, param, code), status, obeys, dict(profile or {}), setup)


def error(message: str, param: str | None, code: str | None) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def allowed(clause: str, obeys: dict[str, Any], *setup: Step) -> LawCase:
    """A clause that says what is accepted."""
    return LawCase(clause, status=200, obeys=obeys, setup=setup)


# -- the pieces that requests are made of ------------------------------------------------------------------------------

USER = {"role": "user", "content": "hello"}
AGAIN = {"role": "user", "content": "and then?"}
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}


def ask(input: Any = "hello", model: str = PLAIN, **fields: Any) -> dict[str, Any]:
    """A request that is legal as far as it goes."""
    return {"model": model, "input": input, **fields}


def without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """The same with less in it."""
    return {key: value for key, value in body.items() if key not in names}


def call(call_id: str = "call_1", **members: Any) -> dict[str, Any]:
    """A function call, without an id of its own unless it is given one."""
    return {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": "{}", **members}


def output(call_id: str = "call_1", **members: Any) -> dict[str, Any]:
    """The output of a function call."""
    return {"type": "function_call_output", "call_id": call_id, "output": "found", **members}


def reference(id: str) -> dict[str, Any]:
    """A reference to an item."""
    return {"type": "item_reference", "id": id}


def said(content: Any = "yes", **members: Any) -> dict[str, Any]:
    """A message of the assistant."""
    return {"role": "assistant", "content": content, **members}
