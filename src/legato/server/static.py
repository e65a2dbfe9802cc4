"""The console's files. May know: the package that holds them. Decides: what is served without a token, and how.

Only files that were there when the server started are served, each by its name: no path is made of what was asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
NO_CONSOLE = b"<!doctype html><title>Legato</title><p>This is Legato's HTTP API; it has no console here. See /api."


class Static:
    """The files, by the path that they are asked for."""

    def __init__(self) -> None:
        self.files = {"/": NO_CONSOLE}
        if find_spec("legato.server.console") is not None:
            self._add(files("legato.server.console"), "/console/")
        self.files["/"] = self.files.pop("/console/index.html", NO_CONSOLE)

    def _add(self, folder: Traversable, under: str) -> None:
        for each in folder.iterdir():
            if each.is_dir() and not each.name.startswith("_"):
                self._add(each, f"{under}{each.name}/")
            elif any(each.name.endswith(ending) for ending in KINDS):
                self.files[f"{under}{each.name}"] = each.read_bytes()

    def routes(self) -> list[Route]:
        """One for each file."""
        return [Route(path, self._serve(path, content)) for path, content in self.files.items()]

    def _serve(self, path: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        kind = KINDS[f".{path.rpartition('.')[2]}"] if path != "/" else KINDS[".html"]
        headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-cache", "etag": tag}

        async def serve(request: Request) -> Response:
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            return Response(content, headers=headers, media_type=kind)

        return serve
