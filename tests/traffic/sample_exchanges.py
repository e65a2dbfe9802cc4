"""A small corpus, written for the tests of the harness: exchanges that read without loss, and the means to spoil them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HELLO: dict[str, dict[str, Any]] = {
    "responses": {"model": "gpt-4.1", "input": "Where is order 7?"},
    "chat": {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Where is order 7?"}]},
    "anthropic": {"model": "claude-sonnet-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Where is order 7?"}]},
}
PROVIDER = {"responses": "openai", "chat": "openai", "anthropic": "anthropic"}
WORDS = "It was shipped on Monday."
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": WORDS, "annotations": []}],
}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_7", "name": "look_up", "arguments": '{"order": 7}', "status": "completed"}


def response(*output: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An answer of the Responses API."""
    usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    plain = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-4.1", "output": list(output or (MESSAGE,))}
    return {**plain, "usage": usage, **members}


def completion(message: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """An answer of Chat Completions."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": WORDS, **(message or {})}}
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    return {"id": "c_1", "object": "chat.completion", "model": "gpt-4.1", "choices": [choice], "usage": usage, **members}


def message(*content: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An answer of the Messages API."""
    blocks = list(content or ({"type": "text", "text": WORDS},))
    plain = {"id": "m_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "stop_reason": "end_turn", "content": blocks}
    return {**plain, "usage": {"input_tokens": 11, "output_tokens": 5}, **members}


def refusal(message: str, **members: Any) -> dict[str, Any]:
    """A refusal of OpenAI."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **members}}


def stream(*events: dict[str, Any]) -> str:
    """A stream of events, as text."""
    return "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)


ANSWER = {"responses": response(), "chat": completion(), "anthropic": message()}


def exchange(api: str, answer: Any = None, status: int = 200, **members: Any) -> dict[str, Any]:
    """A line of a corpus. Without more, the provider accepted a plain question and answered it."""
    where = {"key": "k1", "repo": "some/project", "file": "tape.yaml", "index": 0}
    plain = {**where, "api": api, "host": PROVIDER[api], "url": "", "status": status, "headers": {}}
    return {**plain, "request": HELLO[api], "response": ANSWER[api] if answer is None else answer, **members}


def write_corpus(path: Path, *lines: dict[str, Any] | str) -> Path:
    """A corpus of these lines."""
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8")
    return path
