"""The application. May know: Starlette. Decides: which path leads where, and that workers live as long as the application does."""

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
from legato.runtime.error_summary import describe_error
from legato.server.access import Access, Guarded
from legato.server.answering import Refused
from legato.server.api import about, looking, talking
from legato.server.api.table import Asked, Endpoint, Nothing, route
from legato.server.error_shapes import OPENAI_PATHS, error_for_path
from legato.server.limits import Limited, Limits
from legato.server.openapi import document
from legato.server.protocols import protocols
from legato.server.serving import Serving
from legato.server.static import Static

log = logging.getLogger("legato.server")

ENDPOINTS: list[Endpoint] = [*about.ENDPOINTS, *looking.ENDPOINTS, *talking.ENDPOINTS]
"""The API."""


def make_app(
    serving: Serving,
    access: Access,
    limits: Limits | None = None,
    worker: Worker | None = None,
    failed: Callable[[BaseException], None] | None = None,
) -> ASGIApp:
    """The application, for any server that speaks ASGI.

    A `worker` works for as long as the application lives; `failed` is told if it cannot.
    """
    others = protocols(serving)
    table = [*ENDPOINTS, _description([*ENDPOINTS], others)]
    routes = [*(route(each, serving) for each in table), *others, *Static().routes()]
    inner = _Application(
        routes=routes,
        exception_handlers={HTTPException: _not_here},
        lifespan=lambda _: _living(serving, worker, failed),
    )
    inner.router.redirect_slashes = False
    bounds = limits or Limits()
    return Guarded(Limited(inner, bounds), access, bounds)


class _Application(Starlette):
    """Starlette's, without what it puts around everything else: what goes wrong inside is answered by `Limited`, and logged by nobody."""

    def build_middleware_stack(self) -> ASGIApp:
        return ExceptionMiddleware(self.router, handlers=self.exception_handlers)


def _description(endpoints: list[Endpoint], others: list[Route]) -> Endpoint:
    """The endpoint that describes these, and itself."""

    async def openapi(asked: Asked[Nothing, Nothing]) -> dict[str, Any]:
        """This description: OpenAPI 3.1."""
        return written

    described = Endpoint("GET", "/api/openapi.json", openapi, "This description", shape={"type": "object"})
    written = document([*endpoints, described], others)
    return described


@asynccontextmanager
async def _living(serving: Serving, worker: Worker | None, failed: Callable[[BaseException], None] | None) -> AsyncIterator[None]:
    async def work(worker: Worker) -> None:
        try:
            await worker.run(signals=False)
        except Exception as error:
            log.error("nothing is driven any more: %s", describe_error(error))
            if failed is not None:
                failed(error)

    working = asyncio.get_running_loop().create_task(work(worker)) if worker is not None else None
    try:
        yield
    finally:
        if worker is not None and working is not None:
            worker.stop()
            await working  # what it records until then, streams still tell
        serving.closing.set()


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refused = Refused(error.status_code, "refused", "this cannot be answered")
    if error.status_code == 405:
        allowed = _allowed(request)
        refused = Refused(405, "method_not_allowed", "this path is asked in another way", expected=allowed, allow=allowed)
    elif error.status_code == 404:
        return _nothing_at(request)
    return error_for_path(refused, request.scope["path"])


def _nothing_at(request: Request) -> Response:
    """Say that nothing is at a path, and where to look.

    OpenAI's SDKs put their paths behind any `base_url`, and show the message of an error alone.
    """
    path = request.scope["path"]
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    meant = f"{OPENAI_PATHS.rstrip('/')}{path}"
    do = "see /api/openapi.json for what there is"
    if path.startswith(OPENAI_PATHS):
        there = sorted({route.path for route in routes if route.path.startswith(OPENAI_PATHS) and "{" not in route.path})
        do = f"use what there is of OpenAI's API: {', '.join(there)}"
    elif any(route.path_regex.match(meant) for route in routes):
        path, do = meant, f"OpenAI's API is below {OPENAI_PATHS}: end the client's base_url with it"
    return error_for_path(Refused(404, "not_found", "nothing is here", do=do), path)


def _allowed(request: Request) -> str:
    """The ways in which a path may be asked: of all routes that it leads to."""
    matching = [route for route in request.app.routes if isinstance(route, Route) and route.path_regex.match(request.scope["path"])]
    return ", ".join(sorted({method for route in matching for method in route.methods or ()}))
