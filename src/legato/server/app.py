"""The ASGI application: routes, middleware, and a worker that lives as long as the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from legato.engines.worker import Worker
from legato.runtime.error_summary import describe_error_without_message
from legato.server import agui, openai
from legato.server.api import input_routes, session_routes, workflow_routes
from legato.server.api.endpoints import ApiRequest, Endpoint, NoFields, make_endpoint_route
from legato.server.console_files import ConsoleFiles
from legato.server.error_formats import OPENAI_PATHS, error_response_for_path
from legato.server.http_errors import RequestRefused
from legato.server.openapi import describe_api
from legato.server.request_guard import Access, AccessMiddleware
from legato.server.request_limits import LimitsMiddleware, RequestLimits
from legato.server.session_registry import SessionRegistry

log = logging.getLogger("legato.server")

ENDPOINTS: list[Endpoint] = [*workflow_routes.ENDPOINTS, *session_routes.ENDPOINTS, *input_routes.ENDPOINTS]
"""The endpoints of Legato's own HTTP API."""


def make_app(
    registry: SessionRegistry,
    access: Access,
    limits: RequestLimits | None = None,
    worker: Worker | None = None,
    on_worker_failure: Callable[[BaseException], None] | None = None,
) -> ASGIApp:
    """Return the application, for any ASGI server.

    The `worker` runs for as long as the application does. `on_worker_failure` is called if it stops with an error.
    """
    foreign_routes = [*openai.make_routes(registry), *agui.make_routes(registry)]
    endpoints = [*ENDPOINTS, _make_description_endpoint(ENDPOINTS, foreign_routes)]
    routes = [*(make_endpoint_route(each, registry) for each in endpoints), *foreign_routes, *ConsoleFiles().make_routes()]
    inner = _Application(
        routes=routes,
        exception_handlers={HTTPException: _handle_http_exception},
        lifespan=lambda _: _run_worker(registry, worker, on_worker_failure),
    )
    inner.router.redirect_slashes = False
    limits = limits or RequestLimits()
    return AccessMiddleware(LimitsMiddleware(inner, limits), access, limits)


class _Application(Starlette):
    """Starlette without its outermost error middleware: `LimitsMiddleware` answers unexpected errors, and no server logs their text."""

    def build_middleware_stack(self) -> ASGIApp:
        return ExceptionMiddleware(self.router, handlers=self.exception_handlers)


def _make_description_endpoint(endpoints: list[Endpoint], foreign_routes: list[Route]) -> Endpoint:
    """Return the endpoint of the OpenAPI description, which also describes itself."""

    async def openapi(request: ApiRequest[NoFields, NoFields]) -> dict[str, Any]:
        """Return this description: OpenAPI 3.1."""
        return description

    endpoint = Endpoint("GET", "/api/openapi.json", openapi, "Describe the API", response_schema={"type": "object"})
    description = describe_api([*endpoints, endpoint], foreign_routes)
    return endpoint


@asynccontextmanager
async def _run_worker(
    registry: SessionRegistry, worker: Worker | None, on_worker_failure: Callable[[BaseException], None] | None
) -> AsyncIterator[None]:
    async def run(worker: Worker) -> None:
        try:
            await worker.run(signals=False)
        except Exception as error:
            log.error("the worker stopped, sessions are no longer driven: %s", describe_error_without_message(error))
            if on_worker_failure is not None:
                on_worker_failure(error)

    task = asyncio.get_running_loop().create_task(run(worker)) if worker is not None else None
    try:
        yield
    finally:
        if worker is not None and task is not None:
            worker.stop()
            await task  # streams still send what the worker records until then
        registry.closing.set()


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _not_found_response(request)
    refusal = RequestRefused(error.status_code, "refused", "this request cannot be answered")
    if error.status_code == 405:
        allowed = _allowed_methods(request)
        refusal = RequestRefused(405, "method_not_allowed", "this path does not support the method", expected=allowed, allow=allowed)
    return error_response_for_path(refusal, request.scope["path"])


def _not_found_response(request: Request) -> Response:
    """Return a 404 that says where to look.

    OpenAI's SDKs append their paths to any `base_url`, and show only the message of an error.
    """
    path = request.scope["path"]
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    openai_path = f"{OPENAI_PATHS.rstrip('/')}{path}"
    do = "see /api/openapi.json for the available paths"
    if path.startswith(OPENAI_PATHS):
        available = sorted({route.path for route in routes if route.path.startswith(OPENAI_PATHS) and "{" not in route.path})
        do = f"use an available path of OpenAI's API: {', '.join(available)}"
    elif any(route.path_regex.match(openai_path) for route in routes):
        path, do = openai_path, f"OpenAI's API is below {OPENAI_PATHS}: append that to the client's base_url"
    return error_response_for_path(RequestRefused(404, "not_found", "there is nothing at this path", do=do), path)


def _allowed_methods(request: Request) -> str:
    """Return the methods of all routes that match the path."""
    matching = [route for route in request.app.routes if isinstance(route, Route) and route.path_regex.match(request.scope["path"])]
    return ", ".join(sorted({method for route in matching for method in route.methods or ()}))
