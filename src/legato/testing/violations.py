"""What the checkers speak of: promises that were broken, what tools did, what a definition says. Decides: nothing."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from legato.core.workflow_graph import Limits
from legato.tools import Tool
from legato.workflow.agent_as_tool import workflow_of
from legato.workflow.workflow import Workflow


class Violation(Struct, frozen=True):
    """A promise that was broken: its id and how."""

    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"

    def __repr__(self) -> str:
        return f"Violation({self})"


class Deed(Struct, frozen=True):
    """What a tool did: under which key, in which session and attempt, how many facts the ledger had at that moment, and its birth name."""

    key: str
    tool: str
    session: str = ""
    attempt: int = 0
    facts: int = -1
    born: str = ""


class Rules(Struct, frozen=True):
    """What the definition says, as far as promises depend on it."""

    idempotent: frozenset[str] | None = None
    """Tools that may be started again unasked; None: not known."""
    gated: frozenset[str] = frozenset()
    """Tools that always need approval."""
    edges: frozenset[tuple[str, str]] | None = None
    """Handoffs that are allowed; None: not known."""
    limits: Limits | None = None
    """Where a run pauses and asks; None: not known."""

    @classmethod
    def of(cls, workflow: Workflow) -> Rules:
        """The rules of a workflow. Those of its tools hold for the agents that work as tools too."""
        definition = workflow.definition
        tools = list(_tools(workflow))
        return cls(
            frozenset(tool.name for tool in tools if tool.idempotent),
            frozenset(tool.name for tool in tools if tool.needs_approval is True),
            frozenset(definition.edges),
            definition.graph.limits,
        )

    def of_tools(self) -> Rules:
        """What holds in the conversations of agents that work as tools: they have edges and limits of their own."""
        return Rules(self.idempotent, self.gated)


def _tools(workflow: Workflow) -> Iterator[Tool]:
    for agent in workflow.definition.agents.values():
        for tool in agent.tools.values():
            yield tool
            if (nested := workflow_of(tool)) is not None:
                yield from _tools(nested)
