"""Routes for the console's static files, which need no token.

The files are read when the server starts, and each has a route of its own: no request can name another file.
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
MEDIA_TYPES = {
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
NO_CONSOLE_PAGE = b"<!doctype html><title>Legato</title><p>This is Legato's HTTP API; the console is not installed. See /api."


class ConsoleFiles:
    """The contents of the console's files, by URL path."""

    def __init__(self) -> None:
        self.files = {"/": NO_CONSOLE_PAGE}
        if find_spec("legato.server.console") is not None:
            self._add_folder(files("legato.server.console"), "/console/")
        self.files["/"] = self.files.pop("/console/index.html", NO_CONSOLE_PAGE)

    def _add_folder(self, folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir() and not each.name.startswith("_"):
                self._add_folder(each, f"{prefix}{each.name}/")
            elif any(each.name.endswith(extension) for extension in MEDIA_TYPES):
                self.files[f"{prefix}{each.name}"] = each.read_bytes()

    def make_routes(self) -> list[Route]:
        """Return one route for each file."""
        return [Route(path, self._make_handler(path, content)) for path, content in self.files.items()]

    def _make_handler(self, path: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        media_type = MEDIA_TYPES[f".{path.rpartition('.')[2]}"] if path != "/" else MEDIA_TYPES[".html"]
        headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-cache", "etag": tag}

        async def serve(request: Request) -> Response:
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            return Response(content, headers=headers, media_type=media_type)

        return serve
