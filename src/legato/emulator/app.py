"""The emulator's ASGI application: its routes, its live page, and the reply to an unknown path."""

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

from legato.asgi.request_bodies import reject_conflicting_lengths
from legato.asgi.tokens import is_same_token, parse_bearer_token
from legato.emulator.anthropic.adapter import AnthropicAdapter
from legato.emulator.api_adapter import ApiAdapter
from legato.emulator.chat.adapter import ChatAdapter
from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.exchanges import Exchange, ExchangeLog
from legato.emulator.faults import FaultPlan
from legato.emulator.ids import IdGenerator
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.open_exchange import json_response
from legato.emulator.options import EmulatorOptions
from legato.emulator.request_handler import RequestHandler
from legato.emulator.request_types import EmulatorRequest
from legato.emulator.responses.adapter import ResponsesAdapter
from legato.emulator.storage import ProviderStorage
from legato.errors import BadInput

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
ModelLookup: TypeAlias = Callable[[], tuple[int, dict[str, Any]]]
Endpoint: TypeAlias = Callable[..., tuple[int, dict[str, Any]]]


class EmulatorApp:
    """The ASGI application of one emulator, with all its parts."""

    def __init__(self, options: EmulatorOptions) -> None:
        self.token = secrets.token_urlsafe(18)
        self.fault_plan = FaultPlan(options.faults, options.seed)
        self._storage = ProviderStorage(options.state)
        try:
            self.exchange_log = ExchangeLog(options.max_exchanges, options.log)
        except BadInput:
            self._storage.close()
            raise
        cipher, models, seed = (
            ContentCipher(_load_content_key(self._storage, options.seed)),
            ModelCatalogue(),
            _make_id_seed(self._storage, options.seed),
        )
        self.handler = RequestHandler(
            options.fake_model,
            self.fault_plan,
            self.exchange_log,
            accepted_keys=options.accepted_keys,
            latency=options.latency,
            seed=options.seed,
            max_text_chars=options.max_text_chars,
            clock=options.clock,
        )
        self.responses = ResponsesAdapter(self._storage, IdGenerator(options.seed), cipher, options.switches.responses, models)
        self.chat = ChatAdapter(self._storage, IdGenerator(f"{seed}/chat"), options.switches.chat, models)
        self.anthropic = AnthropicAdapter(IdGenerator(f"{seed}/anthropic"), cipher, options.switches.anthropic, models)
        self._model_catalogue = models
        self._routes = self._make_routes()
        unknown = {404: self._answer_unknown_path, 405: self._answer_unknown_path}
        self.asgi = reject_conflicting_lengths(_reject_foreign_hosts(Starlette(routes=self._routes, exception_handlers=unknown), options))

    def close(self) -> None:
        """Close the emulator's files."""
        self.exchange_log.close()
        self._storage.close()

    def _make_routes(self) -> list[Route]:
        openai = [
            *self._make_stored_object_routes("/v1"),
            Route("/v1/responses", self._model_request_handler(self.responses), methods=["POST"]),
            Route("/v1/chat/completions", self._model_request_handler(self.chat), methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{id:path}", self._get_model),
        ]
        azure = [
            *self._make_stored_object_routes("/openai/v1"),
            *self._make_stored_object_routes("/openai"),
            Route("/openai/v1/responses", self._model_request_handler(self.responses, is_azure=True), methods=["POST"]),
            Route("/openai/responses", self._model_request_handler(self.responses, is_azure=True), methods=["POST"]),
            Route("/openai/v1/chat/completions", self._model_request_handler(self.chat, is_azure=True), methods=["POST"]),
            Route(
                "/openai/deployments/{deployment}/chat/completions", self._model_request_handler(self.chat, is_azure=True), methods=["POST"]
            ),
            Route(
                "/openai/deployments/{deployment}/responses", self._model_request_handler(self.responses, is_azure=True), methods=["POST"]
            ),
            *(Route(f"{root}/models", self._list_models) for root in ("/openai/v1", "/openai")),
            *(Route(f"{root}/models/{{id:path}}", self._get_model) for root in ("/openai/v1", "/openai")),
        ]
        anthropic = [
            Route("/v1/messages", self._model_request_handler(self.anthropic), methods=["POST"]),
            Route("/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
        ]
        inside = [Route("/_emulator", self._show_page), Route("/_emulator/exchanges", self._list_exchanges)]
        return [*openai, *anthropic, *azure, *inside]

    def _make_stored_object_routes(self, root: str) -> list[Route]:
        """Return the routes of stored responses, conversations and chat completions below a root."""
        responses, conversations = self.responses.response_endpoints, self.responses.conversation_endpoints
        completions = Route(f"{root}/chat/completions/{{id}}", self._stored_object_handler(self.chat, self.chat.get_stored_completion))
        table: list[tuple[str, str, Endpoint]] = [
            ("GET", "/responses/{id}", responses.get),
            ("DELETE", "/responses/{id}", responses.delete),
            ("POST", "/responses/{id}/cancel", responses.cancel),
            ("GET", "/responses/{id}/input_items", responses.input_items),
            ("POST", "/conversations", conversations.create),
            ("GET", "/conversations/{id}", conversations.get),
            ("POST", "/conversations/{id}", conversations.update),
            ("DELETE", "/conversations/{id}", conversations.delete),
            ("GET", "/conversations/{id}/items", conversations.list_items),
            ("POST", "/conversations/{id}/items", conversations.add_items),
            ("GET", "/conversations/{id}/items/{item}", conversations.get_item),
            ("DELETE", "/conversations/{id}/items/{item}", conversations.delete_item),
        ]
        return [
            completions,
            *(
                Route(root + path, self._stored_object_handler(self.responses, endpoint), methods=[method])
                for method, path, endpoint in table
            ),
        ]

    # -- handlers ------------------------------------------------------------------------------------------------------

    def _model_request_handler(self, adapter: ApiAdapter, *, is_azure: bool = False) -> Handler:
        async def respond(http: Request) -> Response:
            return await self.handler.handle_model_request(http, adapter, is_azure=is_azure)

        return respond

    def _stored_object_handler(self, adapter: ApiAdapter, endpoint: Endpoint) -> Handler:
        """Return the handler of an endpoint for stored objects."""

        async def respond(http: Request) -> Response:
            def look_up(request: EmulatorRequest) -> tuple[int, dict[str, Any]]:
                return endpoint(request, **http.path_params, query=dict(http.query_params))

            return await self.handler.handle_lookup(http, adapter, look_up, is_azure=http.url.path.startswith("/openai"))

        return respond

    async def _list_models(self, http: Request) -> Response:
        after, before = (http.query_params.get(name, "") for name in ("after_id", "before_id"))
        return await self._look_up_models(
            http,
            self._model_catalogue.list_openai,
            lambda: self._model_catalogue.list_anthropic(_integer_parameter(http, "limit", 20), after, before),
        )

    async def _get_model(self, http: Request) -> Response:
        name = http.path_params["id"]
        return await self._look_up_models(
            http, lambda: self._model_catalogue.get_openai(name), lambda: self._model_catalogue.get_anthropic(name)
        )

    async def _look_up_models(self, http: Request, openai: ModelLookup, anthropic: ModelLookup) -> Response:
        """Answer a request for models. Both vendors have the same path; only Anthropic's clients send a version header."""
        is_anthropic = "anthropic-version" in http.headers
        adapter: ApiAdapter = self.anthropic if is_anthropic else self.chat
        return await self.handler.handle_lookup(http, adapter, lambda request: anthropic() if is_anthropic else openai())

    async def _count_tokens(self, http: Request) -> Response:
        return await self.handler.handle_lookup(http, self.anthropic, self.anthropic.count_tokens)

    async def _answer_unknown_path(self, http: Request, error: Exception) -> Response:
        """Answer a request for an unknown path with the error of its vendor. Only the exchange's note suggests another path."""
        path, number = http.url.path, self.exchange_log.next_number(is_model_request=False)
        body = _not_found_body(http)
        known_paths = [each for each in (f"/v1{path}", path.removeprefix("/v1")) if self._is_known_path(http, each)]
        note = f"did you mean {known_paths[0]}?" if known_paths else ""
        exchange = Exchange(number, self.handler.clock(), "", path, {}, http.method, is_model_request=False, status=404, note=note)
        exchange.reply_body, exchange.is_complete = body, True
        self.exchange_log.add(exchange)
        return json_response(404, body, {})

    def _is_known_path(self, http: Request, path: str) -> bool:
        scope = {"type": "http", "method": http.method, "path": path, "root_path": "", "headers": []}
        return any(route.matches(scope)[0] is Match.FULL for route in self._routes)

    # -- the live page -------------------------------------------------------------------------------------------------

    async def _show_page(self, http: Request) -> Response:
        if not self._has_page_token(http):
            return _token_required()
        page = files("legato.emulator").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(page, headers=_PAGE_HEADERS)

    async def _list_exchanges(self, http: Request) -> Response:
        if not self._has_page_token(http):
            return _token_required()
        after, limit = _integer_parameter(http, "after", 0), _integer_parameter(http, "limit", 1000)
        ended = self.exchange_log.list_ended_after(after, limit)
        exchanges = [{**msgspec.to_builtins(exchange), "told": exchange.summary_line} for exchange in ended]
        return json_response(200, {"summary": self.exchange_log.summary(), "exchanges": exchanges}, {"cache-control": "no-store"})

    def _has_page_token(self, http: Request) -> bool:
        """Return True if a request has the page's token. Other pages in the same browser must not read conversations."""
        token = http.query_params.get("token") or parse_bearer_token(http.headers.get("authorization", ""))
        return is_same_token(token, self.token)


def make_app(options: EmulatorOptions) -> EmulatorApp:
    """Return the application of an emulator."""
    return EmulatorApp(options)


_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}


def _token_required() -> Response:
    return Response("this page needs the token that the emulator showed when it started\n", 401, media_type="text/plain")


def _integer_parameter(http: Request, name: str, default: int) -> int:
    try:
        return max(0, int(http.query_params.get(name, default)))
    except ValueError:
        return default


def _not_found_body(http: Request) -> dict[str, Any]:
    if http.url.path.startswith("/openai"):
        return {"error": {"code": "404", "message": "Resource not found"}}
    if "anthropic-version" in http.headers or http.url.path.startswith("/v1/messages"):
        return {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}
    message = f"Invalid URL ({http.method} {http.url.path})"
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _load_content_key(storage: ProviderStorage, seed: int) -> bytes:
    """Return the key that encrypts reasoning. It is stored, so that reasoning can be decrypted after a restart."""
    row = storage.get("", "emulator", "seal")
    if row is None:
        row = {"key": hashlib.sha256(f"legato emulator {seed}".encode()).hexdigest()}
        storage.put("", "emulator", "seal", row)
    return bytes.fromhex(row["key"])


def _make_id_seed(storage: ProviderStorage, seed: int) -> str:
    """Return the seed of ids. It differs if the storage was used before, so that a restarted emulator repeats no id."""
    row = storage.get("", "emulator", "lives") or {"lives": 0}
    storage.put("", "emulator", "lives", {"lives": row["lives"] + 1})
    return f"{seed}/{row['lives']}" if row["lives"] else str(seed)


def _reject_foreign_hosts(app: ASGIApp, options: EmulatorOptions) -> ASGIApp:
    """Reject requests with a foreign `Host` header: a page on another site must not read stored objects through DNS rebinding."""
    if options.host not in LOOPBACK_HOSTS:
        return app

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
            if _hostname(host) not in LOOPBACK_HOSTS:
                await Response("this emulator answers to loopback names only\n", 421, media_type="text/plain")(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded_app


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
