"""The Model Context Protocol, both ways. Needs the extra `mcp`.

`MCPServer` gives the tools of a server to agents; `Offered` gives a workflow to others' programs, as `legato mcp module:workflow` does.
Each is imported when its name is first used: most programs need one of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legato.errors import BadInput, install_hint

if TYPE_CHECKING:
    from legato.mcp.offering import Offered
    from legato.tools.mcp import Change, Listed, MCPServer, MCPToolError, SchemaNotEnforced

__all__ = ["Change", "Listed", "MCPServer", "MCPToolError", "Offered", "SchemaNotEnforced"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module("legato.mcp.offering" if name == "Offered" else "legato.tools.mcp")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "jsonschema", "re2"):
            raise
        raise BadInput(f"{name} needs the package {missing.name!r}", do=install_hint("mcp")) from None
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
