"""Legato: conversations in which LLM agents hand control to one another, and nothing is lost or repeated.

One append-only ledger owns the conversation; agents, checkpoints and requests are projections of it or positions in it.

A name is imported when it is first used, so `legato.emulator` and the providers' rules (`legato.providers`) work without the runtime.
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato import errors, history
    from legato.core.facts import File, Image, Text, Usage
    from legato.core.messages import Message, file, image
    from legato.core.pending_requests import Pending
    from legato.core.workflow_graph import Limits
    from legato.errors import LegatoError
    from legato.runtime.definition import ContextProvider, Middleware, Provided, Turn
    from legato.runtime.events import Event
    from legato.runtime.run import Result, Run
    from legato.runtime.session import Session
    from legato.tools import ClientTool, Secret, Tool, ToolContext, tool
    from legato.workflow.agent import Agent, guardrail
    from legato.workflow.workflow import HandoffBuilder, Workflow

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

_HOMES = {
    "workflow.agent": ("Agent", "guardrail"),
    "core.facts": ("File", "Image", "Text", "Usage"),
    "core.workflow_graph": ("Limits",),
    "core.messages": ("Message", "file", "image"),
    "core.pending_requests": ("Pending",),
    "runtime.definition": ("ContextProvider", "Middleware", "Provided", "Turn"),
    "runtime.events": ("Event",),
    "errors": ("LegatoError",),
    "runtime.run": ("Result", "Run"),
    "runtime.session": ("Session",),
    "tools": ("ClientTool", "Secret", "Tool", "ToolContext", "tool"),
    "workflow.workflow": ("HandoffBuilder", "Workflow"),
}
"""The modules that public names are defined in."""

_MODULES = ("errors", "history", "models", "stores", "tools")
"""Modules that are attributes of the package, whether a program has imported them or not."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_IMPORTING = RLock()
"""Held while a name is imported. Modules import one another in circles, in msgspec too: threads that begin at different ends of one would
each wait for the other, and Python then gives one of them half a module, or an error."""

if not TYPE_CHECKING:  # a type checker would take any name for one that is found here

    def __getattr__(name: str) -> Any:
        if name not in _MODULES and name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with _IMPORTING:
            if name in _MODULES:
                return import_module(f"{__name__}.{name}")
            found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
