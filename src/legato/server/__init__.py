"""The HTTP server for workflows: Legato's API, OpenAI's APIs, AG-UI and the console. `legato serve` runs it.

with legato.server.serve(desk, store=SQLiteStore("desk.sqlite")) as server:
    print(server.url, server.token)
"""

from legato.errors import BadInput, install_hint

try:
    from legato.server.app import make_app
    from legato.server.server_runner import Server, serve
    from legato.server.session_registry import SessionRegistry
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("ag_ui", "starlette", "uvicorn"):
        raise
    raise BadInput(f"legato.server needs the package {missing.name!r}, which is not installed", do=install_hint("server")) from None

__all__ = ["Server", "SessionRegistry", "make_app", "serve"]
