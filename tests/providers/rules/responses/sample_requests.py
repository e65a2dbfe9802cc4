"""Models, requests, items and error bodies for the test cases of the Responses rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.providers.rules.rule_cases import RuleCase, SetupStep

NON_REASONING_MODEL = "gpt-4o-mini"  # does not reason; its window has 128,000 tokens
REASONING_MODEL = "gpt-5.5"
OTHER_REASONING_MODEL = "gpt-5.6-terra"
OPTIONAL_REASONING_MODEL = "gpt-5.4-nano"  # its default effort is none
UNKNOWN_MODEL = "no-such-model"


def make_case(
    rule_id: str,
    illegal: dict[str, Any],
    legal: dict[str, Any],
    message: str,
    param: str | None = None,
    code: str | None = None,
    *,
    status: int = 400,
    switches: Mapping[str, Any] | None = None,
    setup: tuple[SetupStep, ...] = (),
) -> RuleCase:
    """Return a case with an illegal request and the error in its response."""
    return RuleCase(rule_id, illegal, make_error_body(message, param, code), status, legal, dict(switches or {}), setup)


def make_error_body(message: str, param: str | None, code: str | None) -> dict[str, Any]:
    """Return the body of an error response."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def make_permission_case(rule_id: str, legal: dict[str, Any], *setup: SetupStep) -> RuleCase:
    """Return a case of a permission."""
    return RuleCase(rule_id, status=200, legal=legal, setup=setup)


# -- requests and their parts ------------------------------------------------------------------------------------------

USER_MESSAGE = {"role": "user", "content": "hello"}
FOLLOW_UP = {"role": "user", "content": "and then?"}
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}


def make_request(input: Any = "hello", model: str = NON_REASONING_MODEL, **fields: Any) -> dict[str, Any]:
    """Return a request; without arguments a legal one."""
    return {"model": model, "input": input, **fields}


def drop_fields(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a body without some fields."""
    return {key: value for key, value in body.items() if key not in names}


def make_call(call_id: str = "call_1", **members: Any) -> dict[str, Any]:
    """Return a function call. It has no item id by default."""
    return {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": "{}", **members}


def make_output(call_id: str = "call_1", **members: Any) -> dict[str, Any]:
    """Return a function call output."""
    return {"type": "function_call_output", "call_id": call_id, "output": "found", **members}


def make_reference(id: str) -> dict[str, Any]:
    """Return a reference to an item."""
    return {"type": "item_reference", "id": id}


def make_reply(content: Any = "yes", **members: Any) -> dict[str, Any]:
    """Return an assistant message."""
    return {"role": "assistant", "content": content, **members}
