"""Sample exchanges for the tests of the harness. They are read without loss, and each member can be replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REQUESTS: dict[str, dict[str, Any]] = {
    "responses": {"model": "gpt-4.1", "input": "Where is order 7?"},
    "chat": {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Where is order 7?"}]},
    "anthropic": {"model": "claude-sonnet-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Where is order 7?"}]},
}
HOSTS = {"responses": "openai", "chat": "openai", "anthropic": "anthropic"}
ANSWER_TEXT = "It was shipped on Monday."
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": ANSWER_TEXT, "annotations": []}],
}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_7", "name": "look_up", "arguments": '{"order": 7}', "status": "completed"}


def make_response(*output: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return an answer of the Responses API."""
    usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    plain = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-4.1", "output": list(output or (MESSAGE,))}
    return {**plain, "usage": usage, **members}


def make_completion(message: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """Return an answer of Chat Completions."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER_TEXT, **(message or {})}}
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    return {"id": "c_1", "object": "chat.completion", "model": "gpt-4.1", "choices": [choice], "usage": usage, **members}


def make_message(*content: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return an answer of the Messages API."""
    blocks = list(content or ({"type": "text", "text": ANSWER_TEXT},))
    plain = {"id": "m_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "stop_reason": "end_turn", "content": blocks}
    return {**plain, "usage": {"input_tokens": 11, "output_tokens": 5}, **members}


def make_refusal(message: str, **members: Any) -> dict[str, Any]:
    """Return a refusal of OpenAI."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **members}}


def make_stream(*events: dict[str, Any]) -> str:
    """Return a stream of events as text."""
    return "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)


ANSWERS = {"responses": make_response(), "chat": make_completion(), "anthropic": make_message()}


def make_exchange(api: str, answer: Any = None, status: int = 200, **members: Any) -> dict[str, Any]:
    """Return a line of a corpus. By default the provider accepted a plain question and answered it."""
    location = {"key": "k1", "repo": "some/project", "file": "tape.yaml", "index": 0}
    plain = {**location, "api": api, "host": HOSTS[api], "url": "", "status": status, "headers": {}}
    return {**plain, "request": REQUESTS[api], "response": ANSWERS[api] if answer is None else answer, **members}


def write_corpus(path: Path, *lines: dict[str, Any] | str) -> Path:
    """Write a corpus of these lines; return its path."""
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8")
    return path
