"""Legato: conversations in which LLM agents hand control to one another, and nothing is lost or repeated.

One append-only ledger owns each conversation. Model requests, checkpoints and agents' histories are projections of it or positions in it.

A name is imported when it is first used, so `legato.emulator` and the providers' rules (`legato.providers`) work without the runtime.
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato import errors, history
    from legato.core.facts import File, Image, Text, Usage
    from legato.core.limits import Limits
    from legato.core.messages import Message, file, image
    from legato.core.pending_requests import Pending
    from legato.errors import LegatoError
    from legato.runtime.definition import ContextProvider, Middleware, Provided, Turn
    from legato.runtime.events import Event
    from legato.runtime.run import Result, Run
    from legato.runtime.session import Session
    from legato.tools import ClientTool, Secret, Tool, ToolContext, tool
    from legato.workflow.agent import Agent, guardrail
    from legato.workflow.builder import HandoffBuilder
    from legato.workflow.workflow import Workflow

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "ClientTool",
    "ContextProvider",
    "Event",
    "File",
    "HandoffBuilder",
    "Image",
    "LegatoError",
    "Limits",
    "Message",
    "Middleware",
    "Pending",
    "Provided",
    "Result",
    "Run",
    "Secret",
    "Session",
    "Text",
    "Tool",
    "ToolContext",
    "Turn",
    "Usage",
    "Workflow",
    "errors",
    "file",
    "guardrail",
    "history",
    "image",
    "tool",
]

_NAMES_BY_MODULE = {
    "workflow.agent": ("Agent", "guardrail"),
    "core.facts": ("File", "Image", "Text", "Usage"),
    "core.limits": ("Limits",),
    "core.messages": ("Message", "file", "image"),
    "core.pending_requests": ("Pending",),
    "runtime.definition": ("ContextProvider", "Middleware", "Provided", "Turn"),
    "runtime.events": ("Event",),
    "errors": ("LegatoError",),
    "runtime.run": ("Result", "Run"),
    "runtime.session": ("Session",),
    "tools": ("ClientTool", "Secret", "Tool", "ToolContext", "tool"),
    "workflow.builder": ("HandoffBuilder",),
    "workflow.workflow": ("Workflow",),
}
"""The public names, by the module that defines them."""

_PUBLIC_MODULES = ("errors", "history", "models", "stores", "tools")
"""Modules that are attributes of the package, whether a program has imported them or not."""

_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

_IMPORT_LOCK = RLock()
"""The lock of imports. Modules import one another in cycles, also in msgspec. Threads that begin at different ends of a cycle would wait
for each other, and Python then gives one of them an incomplete module or an error."""

if not TYPE_CHECKING:  # with this function, a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC_MODULES and name not in _MODULE_BY_NAME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with _IMPORT_LOCK:
            if name in _PUBLIC_MODULES:
                return import_module(f"{__name__}.{name}")
            value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
