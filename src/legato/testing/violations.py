"""The types that the checkers share: violations of promises, executions of tools, and the rules of a workflow."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from legato.core.limits import Limits
from legato.tools import Tool
from legato.workflow.agent_as_tool import find_tool_workflow
from legato.workflow.workflow import Workflow


class Violation(Struct, frozen=True):
    """A broken promise: its id, and how it was broken."""

    promise: str
    description: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.description}"

    def __repr__(self) -> str:
        return f"Violation({self})"


class ToolExecution(Struct, frozen=True):
    """One execution of a tool. `key` is the idempotency key of its call."""

    key: str
    tool: str
    session: str = ""
    attempt: int = 0
    ledger_length: int = -1
    """The number of facts in the ledger at that time; -1: unknown."""
    ledger_id: str = ""


class WorkflowRules(Struct, frozen=True):
    """The parts of a workflow's definition on which promises depend."""

    idempotent_tools: frozenset[str] | None = None
    """Tools that may be started again without asking a person; None: unknown."""
    tools_needing_approval: frozenset[str] = frozenset()
    """Tools that always need approval."""
    allowed_handoffs: frozenset[tuple[str, str]] | None = None
    """Pairs of source and target agent; None: unknown."""
    limits: Limits | None = None
    """The limits at which a run pauses; None: unknown."""

    @classmethod
    def from_workflow(cls, workflow: Workflow) -> WorkflowRules:
        """Return the rules of a workflow. The tools of agents that work as its tools are included."""
        definition = workflow.definition
        tools = list(_list_tools(workflow))
        return cls(
            frozenset(tool.name for tool in tools if tool.idempotent),
            frozenset(tool.name for tool in tools if tool.needs_approval is True),
            frozenset(definition.edges),
            definition.graph.limits,
        )

    def for_child_sessions(self) -> WorkflowRules:
        """Return the rules for child sessions, which have handoffs and limits of their own."""
        return WorkflowRules(self.idempotent_tools, self.tools_needing_approval)


def _list_tools(workflow: Workflow) -> Iterator[Tool]:
    for agent in workflow.definition.agents.values():
        for tool in agent.tools.values():
            yield tool
            if (nested := find_tool_workflow(tool)) is not None:
                yield from _list_tools(nested)
