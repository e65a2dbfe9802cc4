"""The handoff builder under the framework's names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from legato.compat.agent_framework.agents import Agent, resolve_agent_id
from legato.compat.agent_framework.checkpoints import CheckpointStorage
from legato.compat.agent_framework.message_conversion import convert_message
from legato.compat.agent_framework.messages import Message
from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.compat.agent_framework.workflow import Workflow
from legato.core.messages import Message as NativeMessage
from legato.errors import BuildError
from legato.runtime.definition import call_user_code
from legato.workflow.builder import HandoffBuilder as NativeBuilder

TerminationCondition: TypeAlias = Callable[[list[Message]], bool | Awaitable[bool]]


@mirrors("HandoffBuilder")
class HandoffBuilder:
    """Collects who takes part and who may hand over to whom; `build()` makes the workflow, with its first conversation."""

    def __init__(
        self,
        *,
        name: str | None = None,
        participants: Sequence[Agent] | None = None,
        description: str | None = None,
        checkpoint_storage: CheckpointStorage | None = None,
        termination_condition: TerminationCondition | None = None,
    ) -> None:
        self._native = NativeBuilder(name=name or "Handoff", description=description or "")
        self._names: list[str] = []
        self._edges: dict[tuple[str, str], str | None] = {}
        self._storage = checkpoint_storage
        if termination_condition is not None:
            self.with_termination_condition(termination_condition)
        self.participants(participants or ())

    def participants(self, participants: Sequence[Agent]) -> HandoffBuilder:
        """Set the agents of the workflow; the first one starts unless `with_start_agent` names another."""
        for agent in participants:
            if not isinstance(agent, Agent):
                raise BuildError("a participant is an Agent", found=repr(agent)[:80], do="make it with client.as_agent(...)")
            agent.works_for_others("in a workflow")
            self._native.participants([agent.native])
            self._names.append(resolve_agent_id(agent))
        return self

    def with_start_agent(self, agent: Agent | str) -> HandoffBuilder:
        self._native.with_start_agent(_name(agent))
        return self

    set_coordinator = with_start_agent  # what it was called before

    def add_handoff(
        self, source: Agent | str, targets: Sequence[Agent | str] | Agent | str, *, description: str | None = None
    ) -> HandoffBuilder:
        """Let `source` hand over to `targets`. Given again, the new description counts."""
        for target in [targets] if isinstance(targets, (Agent, str)) else targets:
            self._edges[_name(source), _name(target)] = description
        return self

    def enable_return_to_previous(self, enabled: bool = True) -> HandoffBuilder:
        """Send the user's next message to the agent that last had control, or (False) to the start agent."""
        self._native.with_next_turn("sticky" if enabled else "start")
        return self

    def with_autonomous_mode(
        self,
        *,
        agents: Sequence[Agent | str] | None = None,
        prompts: Mapping[str, str] | None = None,
        turn_limits: Mapping[str, int] | None = None,
    ) -> HandoffBuilder:
        """Agents (all, by default) that are told to go on when they answer without handing over."""
        self._native.with_autonomous_mode([_name(agent) for agent in agents] if agents else None, prompts, turn_limits)
        return self

    def with_termination_condition(self, termination_condition: TerminationCondition) -> HandoffBuilder:
        """A function of the conversation's messages that says when it is over."""

        async def over(messages: list[NativeMessage]) -> bool:
            return bool(await call_user_code(termination_condition, [convert_message(message) for message in messages]))

        self._native.with_termination_condition(over)
        return self

    def with_checkpointing(self, checkpoint_storage: CheckpointStorage) -> HandoffBuilder:
        """Set the storage of the conversations."""
        if not isinstance(checkpoint_storage, CheckpointStorage):
            raise BuildError(
                "with_checkpointing takes a checkpoint storage of legato.compat.agent_framework",
                found=type(checkpoint_storage).__name__,
                do="write FileCheckpointStorage(folder), or CheckpointStorage(store) for a store of Legato's",
            )
        self._storage = checkpoint_storage
        return self

    def build(self) -> Workflow:
        """The workflow; or a `BuildError` that lists everything that cannot work."""
        for (source, target), description in self._edges.items():
            self._native.add_handoff(source, [target], description)
        if self._edges:  # an agent without a way out is allowed there: it is meant to keep the conversation
            for name in self._names:
                if not any(source == name for source, _ in self._edges):
                    self._native.add_handoff(name, [])
        if self._storage is not None:
            self._native.with_checkpointing(self._storage.store)
        return Workflow(self._native.build(), self._storage)


def _name(agent: Agent | str) -> str:
    return agent if isinstance(agent, str) else resolve_agent_id(agent)
