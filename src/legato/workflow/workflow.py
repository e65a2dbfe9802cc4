"""Workflows: immutable definitions of agents, handoffs and limits, from which sessions are opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from legato.core.argument_checks import require_function
from legato.core.workflow_graph import find_problems, render_mermaid
from legato.errors import BadInput
from legato.runtime.clock import new_id
from legato.runtime.definition import AgentDefinition, Middleware, WorkflowDefinition
from legato.runtime.run import Result, Run
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.workflow.agent_as_tool import replace_workflow_of_tool

if TYPE_CHECKING:
    from legato.runtime.instrumentation import Instrumentation


class Workflow:
    """An immutable definition of agents, their handoffs and when to stop. It has no conversation, and serves any number of sessions."""

    def __init__(self, definition: WorkflowDefinition, store: Store | None, description: str, allowed_dead_ends: tuple[str, ...]) -> None:
        self.definition = definition
        self.description = description
        self._configured_store = store
        self._store: Store = store if store is not None else MemoryStore()
        self._allowed_dead_ends = allowed_dead_ends

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self.definition.graph.name

    @property
    def agents(self) -> list[str]:
        """The names of the agents."""
        return list(self.definition.graph.agents)

    @property
    def store(self) -> Store | None:
        """The store that the workflow was built with. None: sessions that name no store live in memory."""
        return self._configured_store

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: {', '.join(self.agents)}>"

    def session(self, id: str | None = None, store: Store | None = None, context: Any = None) -> Session:
        """Return a handle on a conversation, which need not exist yet. Without an id it gets a new one.

        Without any store it lives in memory: with an id as long as this workflow object, otherwise as long as its handle.
        """
        if id is None:
            # No other handle can open it, so without a store it lives as long as this handle.
            return Session(self, new_id(), store or self._configured_store or MemoryStore(), context)
        return Session(self, id, store or self._store, context)

    def run(self, message: Any, session_id: str | None = None, stream: bool = False) -> Run:
        """Send a message in a session (by default a new one), and drive it: await the result, or iterate over events."""
        return self.session(session_id).run(message, stream=stream)

    def run_sync(self, message: Any, session_id: str | None = None) -> Result:
        """Run like `run`, and return the result; for scripts without an event loop."""

        async def run() -> Result:
            return await self.run(message, session_id)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run())
        raise BadInput("run_sync cannot be used where an event loop runs", do="write `await workflow.run(...)`")

    def load(
        self,
        text: str,
        context: Any = None,
        *,
        id: str | None = None,
        store: Store | None = None,
        deserialize_context: Callable[[Any], Any] | None = None,
        verify_with: bytes | None = None,
        move: bool = False,
    ) -> Session:
        """Return the session that `session.to_string()` wrote, as a copy in this workflow's store (or in `store`).

        A copy requests again what was approved or granted in the original session and has not happened yet, because the original may
        continue too. With `move=True` you assert that it will not: approvals and granted limits stay valid. Never move one text twice.
        """
        from legato.runtime.transfer import decode_session  # imports hmac and base64, which nothing else needs

        decoded = {**decode_session(text, self.name, verify_with), "move": bool(move)}
        if context is None and decoded["has_context"]:
            if deserialize_context is None:
                raise BadInput("the text contains a context", do="pass deserialize_context=..., or context=... in its place")
            context = require_function("deserialize_context", deserialize_context)(decoded["context"])
        return Session(self, id or decoded["session"], store or self._store, context, decoded)

    def with_middleware(self, *middleware: Middleware) -> Workflow:
        """Return this workflow with middleware innermost around every agent's model and tools: for logs, measurements and tests.

        Agents that work as tools get it too.
        """
        agents = self._replace_tool_workflows(lambda child: child.with_middleware(*middleware))
        wrapped = {name: replace(agent, middleware=(*agent.middleware, *middleware)) for name, agent in agents.items()}
        return self.replace_agents(wrapped)

    def with_instrumentation(self, instrumentation: Instrumentation) -> Workflow:
        """Return this workflow with instrumentation of its drivers, and of agents that work as tools; see `legato.telemetry`."""
        agents = self._replace_tool_workflows(lambda child: child.with_instrumentation(instrumentation))
        definition = replace(self.definition, agents=agents, instrumentation=instrumentation)
        return Workflow(definition, self._configured_store, self.description, self._allowed_dead_ends)

    def _replace_tool_workflows(self, make: Callable[[Workflow], Workflow]) -> dict[str, AgentDefinition]:
        """Return the agents with the workflows that work as their tools replaced by what `make` returns for them."""
        return {
            name: replace(agent, tools={each.name: replace_workflow_of_tool(each, make) for each in agent.tools.values()})
            for name, agent in self.definition.agents.items()
        }

    def replace_agents(self, agents: Mapping[str, AgentDefinition]) -> Workflow:
        """Return this workflow with other agent definitions: to wrap models and tools, not to change the graph."""
        return Workflow(replace(self.definition, agents=agents), self._configured_store, self.description, self._allowed_dead_ends)

    def graph(self) -> str:
        """Return the handoff graph as a Mermaid diagram."""
        return render_mermaid(self.definition.graph)

    def check(self) -> list[str]:
        """Return the problems of this definition; none for a workflow that `HandoffBuilder` has built."""
        return find_problems(self.definition.graph, self._allowed_dead_ends)
