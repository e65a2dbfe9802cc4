"""Which path leads where. May know: Starlette and the dialects. Decides: who may ask, and what an unknown path is told."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from legato.asgi.bodies import without_two_lengths
from legato.asgi.hosts import bearer_token, is_same_token
from legato.emulator.anthropic.dialect import AnthropicDialect
from legato.emulator.asks import Ask
from legato.emulator.chat.dialect import ChatDialect
from legato.emulator.dialect import Dialect
from legato.emulator.exchanges import Exchange, Exchanges
from legato.emulator.faults import FaultPlan
from legato.emulator.ids import Ids
from legato.emulator.models import Catalogue
from legato.emulator.options import Options
from legato.emulator.responses.dialect import ResponsesDialect
from legato.emulator.seal import Seal
from legato.emulator.serving import Serving
from legato.emulator.shelf import Shelf
from legato.emulator.turn import whole
from legato.errors import BadInput

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Look: TypeAlias = Callable[[], tuple[int, dict[str, Any]]]
Endpoint: TypeAlias = Callable[..., tuple[int, dict[str, Any]]]


class App:
    """One emulator's parts, put together."""

    def __init__(self, options: Options) -> None:
        self.token = secrets.token_urlsafe(18)
        self.faults = FaultPlan(options.faults, options.seed)
        self._shelf = Shelf(options.state)
        try:
            self.exchanges = Exchanges(options.keep, options.log)
        except BadInput:
            self._shelf.close()
            raise
        seal, models, seed = Seal(_key(self._shelf, options.seed)), Catalogue(), _seed_of_life(self._shelf, options.seed)
        self.serving = Serving(
            options.mind,
            self.faults,
            self.exchanges,
            keys=options.keys,
            latency=options.latency,
            seed=options.seed,
            longest=options.longest,
            clock=options.clock,
        )
        self.responses = ResponsesDialect(self._shelf, Ids(options.seed), seal, options.profiles.responses, models)
        self.chat = ChatDialect(self._shelf, Ids(f"{seed}/chat"), options.profiles.chat, models)
        self.anthropic = AnthropicDialect(Ids(f"{seed}/anthropic"), seal, options.profiles.anthropic, models)
        self._models = models
        self._routes = self._all_routes()
        unknown = {404: self._no_such_path, 405: self._no_such_path}
        self.asgi = without_two_lengths(_only_from_here(Starlette(routes=self._routes, exception_handlers=unknown), options))

    def close(self) -> None:
        """Let go of files."""
        self.exchanges.close()
        self._shelf.close()

    def _all_routes(self) -> list[Route]:
        openai = [
            *self._stored("/v1"),
            Route("/v1/responses", self._asked(self.responses), methods=["POST"]),
            Route("/v1/chat/completions", self._asked(self.chat), methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{id:path}", self._one_model),
        ]
        azure = [
            *self._stored("/openai/v1"),
            *self._stored("/openai"),
            Route("/openai/v1/responses", self._asked(self.responses, azure=True), methods=["POST"]),
            Route("/openai/responses", self._asked(self.responses, azure=True), methods=["POST"]),
            Route("/openai/v1/chat/completions", self._asked(self.chat, azure=True), methods=["POST"]),
            Route("/openai/deployments/{deployment}/chat/completions", self._asked(self.chat, azure=True), methods=["POST"]),
            Route("/openai/deployments/{deployment}/responses", self._asked(self.responses, azure=True), methods=["POST"]),
            *(Route(f"{root}/models", self._list_models) for root in ("/openai/v1", "/openai")),
            *(Route(f"{root}/models/{{id:path}}", self._one_model) for root in ("/openai/v1", "/openai")),
        ]
        anthropic = [
            Route("/v1/messages", self._asked(self.anthropic), methods=["POST"]),
            Route("/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
        ]
        inside = [Route("/_emulator", self._page), Route("/_emulator/exchanges", self._exchanges)]
        return [*openai, *anthropic, *azure, *inside]

    def _stored(self, root: str) -> list[Route]:
        """What can be asked about stored responses, conversations and chat completions."""
        stored, talks = self.responses.responses, self.responses.conversations
        completions = Route(f"{root}/chat/completions/{{id}}", self._held(self.chat, self.chat.stored))
        table: list[tuple[str, str, Endpoint]] = [
            ("GET", "/responses/{id}", stored.get),
            ("DELETE", "/responses/{id}", stored.delete),
            ("POST", "/responses/{id}/cancel", stored.cancel),
            ("GET", "/responses/{id}/input_items", stored.input_items),
            ("POST", "/conversations", talks.create),
            ("GET", "/conversations/{id}", talks.get),
            ("POST", "/conversations/{id}", talks.update),
            ("DELETE", "/conversations/{id}", talks.delete),
            ("GET", "/conversations/{id}/items", talks.list_items),
            ("POST", "/conversations/{id}/items", talks.add_items),
            ("GET", "/conversations/{id}/items/{item}", talks.get_item),
            ("DELETE", "/conversations/{id}/items/{item}", talks.delete_item),
        ]
        return [completions, *(Route(root + path, self._held(self.responses, find), methods=[method]) for method, path, find in table)]

    # -- handlers ------------------------------------------------------------------------------------------------------

    def _asked(self, dialect: Dialect, *, azure: bool = False) -> Handler:
        async def answer(http: Request) -> Response:
            return await self.serving.answer(http, dialect, azure=azure)

        return answer

    def _held(self, dialect: Dialect, endpoint: Endpoint) -> Handler:
        """An endpoint about what is stored."""

        async def answer(http: Request) -> Response:
            def find(ask: Ask) -> tuple[int, dict[str, Any]]:
                return endpoint(ask, **http.path_params, query=dict(http.query_params))

            return await self.serving.look(http, dialect, find, azure=http.url.path.startswith("/openai"))

        return answer

    async def _list_models(self, http: Request) -> Response:
        after, before = (http.query_params.get(name, "") for name in ("after_id", "before_id"))
        return await self._about_models(
            http, self._models.list_openai, lambda: self._models.list_anthropic(_number(http, "limit", 20), after, before)
        )

    async def _one_model(self, http: Request) -> Response:
        name = http.path_params["id"]
        return await self._about_models(http, lambda: self._models.get_openai(name), lambda: self._models.get_anthropic(name))

    async def _about_models(self, http: Request, openai: Look, anthropic: Look) -> Response:
        """Both vendors have the same path; the version header is Anthropic's."""
        theirs = "anthropic-version" in http.headers
        dialect: Dialect = self.anthropic if theirs else self.chat
        return await self.serving.look(http, dialect, lambda ask: anthropic() if theirs else openai())

    async def _count_tokens(self, http: Request) -> Response:
        return await self.serving.look(http, self.anthropic, self.anthropic.count_tokens)

    async def _no_such_path(self, http: Request, error: Exception) -> Response:
        """An unknown path, in the words of whoever would own it. Only the exchange says what may have been meant."""
        path, number = http.url.path, self.exchanges.number(asks=False)
        body = _not_found(http)
        known = [meant for meant in (f"/v1{path}", path.removeprefix("/v1")) if self._leads_somewhere(http, meant)]
        note = f"did you mean {known[0]}?" if known else ""
        exchange = Exchange(number, self.serving.now(), "", path, {}, http.method, asks=False, status=404, note=note)
        exchange.reply, exchange.whole = body, True
        self.exchanges.add(exchange)
        return whole(404, body, {})

    def _leads_somewhere(self, http: Request, path: str) -> bool:
        scope = {"type": "http", "method": http.method, "path": path, "root_path": "", "headers": []}
        return any(route.matches(scope)[0] is Match.FULL for route in self._routes)

    # -- looking inside ------------------------------------------------------------------------------------------------

    async def _page(self, http: Request) -> Response:
        if not self._may_look(http):
            return _ask_for_token()
        page = files("legato.emulator").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(page, headers=_NOTHING_FROM_ELSEWHERE)

    async def _exchanges(self, http: Request) -> Response:
        if not self._may_look(http):
            return _ask_for_token()
        after, limit = _number(http, "after", 0), _number(http, "limit", 1000)
        seen = self.exchanges.after(after, limit)
        told = [{**msgspec.to_builtins(exchange), "told": exchange.told} for exchange in seen]
        return whole(200, {"summary": self.exchanges.summary(), "exchanges": told}, {"cache-control": "no-store"})

    def _may_look(self, http: Request) -> bool:
        """Conversations are nobody else's business, not even another page's in the same browser."""
        given = http.query_params.get("token") or bearer_token(http.headers.get("authorization", ""))
        return is_same_token(given, self.token)


def make_app(options: Options) -> App:
    """An emulator that is ready to be served."""
    return App(options)


_NOTHING_FROM_ELSEWHERE = {
    "content-security-policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}


def _ask_for_token() -> Response:
    return Response("this page needs the token that the emulator showed when it started\n", 401, media_type="text/plain")


def _number(http: Request, name: str, default: int) -> int:
    try:
        return max(0, int(http.query_params.get(name, default)))
    except ValueError:
        return default


def _not_found(http: Request) -> dict[str, Any]:
    if http.url.path.startswith("/openai"):
        return {"error": {"code": "404", "message": "Resource not found"}}
    if "anthropic-version" in http.headers or http.url.path.startswith("/v1/messages"):
        return {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}
    words = f"Invalid URL ({http.method} {http.url.path})"
    return {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}}


def _key(shelf: Shelf, seed: int) -> bytes:
    """The key that seals reasoning. It lies on the shelf, so that what was sealed can be opened after a restart."""
    row = shelf.get("", "emulator", "seal")
    if row is None:
        row = {"key": hashlib.sha256(f"legato emulator {seed}".encode()).hexdigest()}
        shelf.put("", "emulator", "seal", row)
    return bytes.fromhex(row["key"])


def _seed_of_life(shelf: Shelf, seed: int) -> str:
    """The seed of ids. On a shelf that was used before another one: an emulator that is started anew repeats no id of an earlier life."""
    row = shelf.get("", "emulator", "lives") or {"lives": 0}
    shelf.put("", "emulator", "lives", {"lives": row["lives"] + 1})
    return f"{seed}/{row['lives']}" if row["lives"] else str(seed)


def _only_from_here(app: ASGIApp, options: Options) -> ASGIApp:
    """Refuse requests that name another host: a page elsewhere, led here by its own DNS, must not read what is kept."""
    if options.host not in LOOPBACK:
        return app

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
            if _hostname(host) not in LOOPBACK:
                await Response("this emulator answers to loopback names only\n", 421, media_type="text/plain")(scope, receive, send)
                return
        await app(scope, receive, send)

    return guard


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
