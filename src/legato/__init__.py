"""Legato: conversations in which LLM agents hand control to one another, and nothing is lost or repeated.

One append-only ledger owns the conversation; agents, checkpoints and requests are projections of it or positions in it.
"""

from legato import errors, history
from legato.agent import Agent, guardrail
from legato.core.facts import File, Image, Text, Usage
from legato.core.graph import Limits
from legato.core.messages import Message, file, image
from legato.core.requests import Pending
from legato.drive.definition import ContextProvider, Middleware, Provided, Turn
from legato.drive.events import Event
from legato.errors import LegatoError
from legato.run import Result, Run
from legato.session import Session
from legato.tools import ClientTool, Secret, Tool, ToolContext, tool
from legato.workflow import HandoffBuilder, Workflow

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
