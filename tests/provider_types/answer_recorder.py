"""A recorder of the answers of emulators and servers in this process. Their types are checked after each test.

The applications are wrapped when they are created; nothing in them is replaced. Answers of servers in other processes are not recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_CHECKED_ANSWERS = 300
"""The number of answers of one test that are checked. Tests with thousands of answers repeat the same kinds."""

RECORDED_ANSWERS: list[Any] = []
"""The answers since the last check."""

_IS_OVER_HTTP: ContextVar[bool] = ContextVar("_OVER_HTTP", default=False)
API_PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}


class RecordingApp:
    """A wrapper of an application that records its answers."""

    def __init__(self, app: ASGIApp, sender: Literal["emulator", "server"]) -> None:
        self._app = app
        self._sender = sender

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and record its answer."""
        if scope["type"] != "http" or not scope["path"].startswith(("/v1/", "/openai/")):
            await self._app(scope, receive, send)
            return
        answer = [self._sender, scope["method"], scope["path"], _decode_headers(scope["headers"]), 0, {}, b"", False]
        parts: list[bytes] = []

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer[4:6] = message["status"], _decode_headers(message.get("headers", ()))
            else:
                parts.append(message.get("body", b""))
                answer[6:8] = b"", not message.get("more_body", False)
            await send(message)

        RECORDED_ANSWERS.append((answer, parts))
        token = _IS_OVER_HTTP.set(True)
        try:
            await self._app(scope, receive, send_and_record)
        finally:
            _IS_OVER_HTTP.reset(token)


def install_recorder() -> None:
    """Record the answers of all emulators and servers that are started from now on."""
    import legato.emulator.server
    import legato.server.server_runner
    from legato.emulator.anthropic.adapter import AnthropicAdapter
    from legato.emulator.chat.adapter import ChatAdapter
    from legato.emulator.responses.adapter import ResponsesAdapter

    make_emulator, make_server = legato.emulator.server.make_app, legato.server.server_runner.make_app

    def make_recorded_emulator(*arguments: Any, **options: Any) -> Any:
        app = make_emulator(*arguments, **options)
        app.asgi = RecordingApp(app.asgi, "emulator")
        return app

    def make_recorded_server(*arguments: Any, **options: Any) -> Any:
        return RecordingApp(make_server(*arguments, **options), "server")

    for adapter in (ResponsesAdapter, ChatAdapter, AnthropicAdapter):
        for method in ("make_reply", "reply_to_violations", "reply_to_failure"):
            setattr(adapter, method, _record_replies(getattr(adapter, method)))
    legato.emulator.server.make_app = make_recorded_emulator  # type: ignore[assignment]
    legato.server.server_runner.make_app = make_recorded_server  # type: ignore[assignment]


def _record_replies(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of an adapter that makes replies. A reply that is made without HTTP is recorded as HTTP would send it."""

    @wraps(method)
    def record_reply(adapter: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        reply = method(adapter, request, *arguments, **options)
        if not _IS_OVER_HTTP.get():
            status = getattr(reply, "status", 200)
            emulator_error = {"x-legato-error": "1"} if getattr(arguments[0] if arguments else None, "kind", "") == "emulator" else {}
            headers = {"content-type": "application/json", **emulator_error}
            path = ("/openai/v1" if request.is_azure else "") + API_PATHS[request.api].removeprefix("/v1" if request.is_azure else "")
            head = ["emulator", "POST", path, dict(request.headers), status]
            RECORDED_ANSWERS.append(([*head, headers, b"", True], [msgspec.json.encode(reply.body)]))
            if events := getattr(reply, "events", ()):
                stream = [event.encode() for event in events]
                RECORDED_ANSWERS.append(([*head, {"content-type": "text/event-stream"}, b"", True], stream))
        return reply

    return record_reply


def take_findings(echoes: bool = True) -> list[str]:
    """Check the recorded answers and forget them; return the findings that are not known differences.

    `echoes`: check also the members that an answer repeats from its request. Random requests have members there that no rule checks.
    """
    if not RECORDED_ANSWERS:
        return []
    from tests.provider_types.answer_types import SentAnswer, find_type_errors
    from tests.provider_types.known_differences import is_echo, is_known

    answers, RECORDED_ANSWERS[:] = RECORDED_ANSWERS[:MAX_CHECKED_ANSWERS], []
    found: dict[str, None] = {}
    for answer, parts in answers:
        answer[6] = b"".join(parts)
        for finding in find_type_errors(SentAnswer(*answer), read_description()):
            if not is_known(finding.source, str(finding)) and (echoes or not is_echo(str(finding))):
                found[str(finding)] = None
    return list(found)


@cache
def read_description() -> Any:
    """Return OpenAI's description of its API, if the variable OPENAPI names the file."""
    path = os.environ.get("OPENAPI", "")
    if not path:
        return None
    from tests.provider_types.openapi_types import OpenAPIDescription

    return OpenAPIDescription(Path(path))


def _decode_headers(raw: Any) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}
