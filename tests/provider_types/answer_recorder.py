"""Keeps every answer that an emulator or a server of this process sends, so that its type can be checked when the test is over.

The applications are wrapped where they are put together; nothing in them is replaced. Servers in processes of their own are not seen.
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

MOST_ANSWERS = 300
"""How many answers of one test are looked at. Tests with thousands send the same kinds again and again."""

KEPT: list[Any] = []
"""The answers since they were last looked at."""

_OVER_HTTP: ContextVar[bool] = ContextVar("_OVER_HTTP", default=False)
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}


class Recording:
    """An application whose answers are kept."""

    def __init__(self, app: ASGIApp, sender: Literal["emulator", "server"]) -> None:
        self._app = app
        self._sender = sender

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""
        if scope["type"] != "http" or not scope["path"].startswith(("/v1/", "/openai/")):
            await self._app(scope, receive, send)
            return
        answer = [self._sender, scope["method"], scope["path"], _headers(scope["headers"]), 0, {}, b"", False]
        parts: list[bytes] = []

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer[4:6] = message["status"], _headers(message.get("headers", ()))
            else:
                parts.append(message.get("body", b""))
                answer[6:8] = b"", not message.get("more_body", False)
            await send(message)

        KEPT.append((answer, parts))
        token = _OVER_HTTP.set(True)
        try:
            await self._app(scope, receive, keep)
        finally:
            _OVER_HTTP.reset(token)


def install() -> None:
    """Keep the answers of all emulators and servers that are started from now on."""
    import legato.emulator.server
    import legato.server.server_runner
    from legato.emulator.anthropic.adapter import AnthropicAdapter
    from legato.emulator.chat.adapter import ChatAdapter
    from legato.emulator.responses.adapter import ResponsesAdapter

    make_emulator, make_server = legato.emulator.server.make_app, legato.server.server_runner.make_app

    def make_recorded_emulator(*given: Any, **named: Any) -> Any:
        app = make_emulator(*given, **named)
        app.asgi = Recording(app.asgi, "emulator")
        return app

    def make_recorded_server(*given: Any, **named: Any) -> Any:
        return Recording(make_server(*given, **named), "server")

    for adapter in (ResponsesAdapter, ChatAdapter, AnthropicAdapter):
        for method in ("make_reply", "reply_to_violations", "reply_to_failure"):
            setattr(adapter, method, _recorded(getattr(adapter, method)))
    legato.emulator.server.make_app = make_recorded_emulator  # type: ignore[assignment]
    legato.server.server_runner.make_app = make_recorded_server  # type: ignore[assignment]


def _recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a dialect that answers; what it answers without HTTP is kept as HTTP would have it."""

    @wraps(method)
    def answer(dialect: Any, ask: Any, *given: Any, **named: Any) -> Any:
        answered = method(dialect, ask, *given, **named)
        if not _OVER_HTTP.get():
            status = getattr(answered, "status", 200)
            emulator_error = {"x-legato-error": "1"} if getattr(given[0] if given else None, "kind", "") == "emulator" else {}
            headers = {"content-type": "application/json", **emulator_error}
            path = ("/openai/v1" if ask.is_azure else "") + PATHS[ask.api].removeprefix("/v1" if ask.is_azure else "")
            about = ["emulator", "POST", path, dict(ask.headers), status]
            KEPT.append(([*about, headers, b"", True], [msgspec.json.encode(answered.body)]))
            if events := getattr(answered, "events", ()):
                stream = [event.encode() for event in events]
                KEPT.append(([*about, {"content-type": "text/event-stream"}, b"", True], stream))
        return answered

    return answer


def take_findings(echoes: bool = True) -> list[str]:
    """What is wrong with the answers that were kept, and not known; they are kept no longer.

    `echoes`: look also at what is sent back as the request had it. Random requests have more there than any rule looks at.
    """
    if not KEPT:
        return []
    from tests.provider_types.answers import SentAnswer, findings_in
    from tests.provider_types.known_differences import is_echo, is_known

    kept, KEPT[:] = KEPT[:MOST_ANSWERS], []
    found: dict[str, None] = {}
    for answer, parts in kept:
        answer[6] = b"".join(parts)
        for finding in findings_in(SentAnswer(*answer), description()):
            if not is_known(finding.source, str(finding)) and (echoes or not is_echo(str(finding))):
                found[str(finding)] = None
    return list(found)


@cache
def description() -> Any:
    """OpenAI's description of its API, if the variable OPENAPI names the file."""
    path = os.environ.get("OPENAPI", "")
    if not path:
        return None
    from tests.provider_types.openapi_types import Description

    return Description(Path(path))


def _headers(raw: Any) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}
