"""The HTTP API: workflows, their sessions and their questions, for browsers and other machines. `legato serve` runs it.

with legato.server.serve(desk, store=SQLiteStore("desk.sqlite")) as server:
    print(server.url, server.token)
"""

from legato.errors import BadInput, install_hint

try:
    from legato.server.app import make_app
    from legato.server.running import Server, serve
    from legato.server.serving import Serving
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("ag_ui", "starlette", "uvicorn"):
        raise
    raise BadInput(f"this needs {missing.name}, which is not installed", do=install_hint("server")) from None

__all__ = ["Server", "Serving", "make_app", "serve"]
