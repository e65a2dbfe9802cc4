"""The Model Context Protocol, both ways. Needs the extra `mcp`.

`MCPServer` gives the tools of an MCP server to agents. `WorkflowServer` serves a workflow to MCP clients, as `legato mcp module:workflow`
does. Each is imported when its name is first used, since most programs need only one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legato.errors import BadInput, install_hint

if TYPE_CHECKING:
    from legato.mcp.workflow_server import WorkflowServer
    from legato.tools.mcp import MCPServer, MCPToolError, SchemaNotEnforced, ServerTool, ToolChange

__all__ = ["MCPServer", "MCPToolError", "SchemaNotEnforced", "ServerTool", "ToolChange", "WorkflowServer"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module("legato.mcp.workflow_server" if name == "WorkflowServer" else "legato.tools.mcp")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "jsonschema", "re2"):
            raise
        raise BadInput(f"{name} needs the package {missing.name!r}", do=install_hint("mcp")) from None
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
