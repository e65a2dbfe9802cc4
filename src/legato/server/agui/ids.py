"""Ids of messages, calls and subagents in AG-UI.

Ids are made from positions, so that a message has the same id while it is streamed, in a snapshot, and after a restart. A user's message
keeps the client's id, which is the key of its delivery.
"""

from __future__ import annotations

import re

from legato.core.facts import CallRef, HandedOff, MessageReceived
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.server.protocol_ids import ledger_mark

_LEGATO_ID = re.compile(r"([0-9a-f]{8})-(0|[1-9][0-9]{0,8})", re.ASCII)


def make_user_message_id(state: State, position: int, key: str) -> str:
    """Return the id of a user's message."""
    return key or f"{ledger_mark(state, position)}-{position}"


def is_message_recorded(state: State, id: str) -> bool:
    """Return True if the ledger has the message with this id, as its key or as an id made here."""
    return _find_message_position(state, id) >= 0


def is_redacted(state: State, id: str) -> bool:
    """Return True if the message with this id was redacted."""
    return _find_message_position(state, id) in state.redactions.facts


def _find_message_position(state: State, id: str) -> int:
    """Return the position of the message with this id; -1 if there is none."""
    match = _LEGATO_ID.fullmatch(id)
    at = state.delivery_keys[id] if id in state.delivery_keys else int(match[2]) if match else state.length
    if at >= state.length or not isinstance(state.facts[at], MessageReceived):
        return -1
    return at if id in state.delivery_keys or (match and ledger_mark(state, at) == match[1]) else -1


def make_agent_message_id(state: State, reply: int, position: int) -> str:
    """Return the id of an agent's message. A reply has it before it is recorded, by its number among all replies."""
    return f"{ledger_mark(state, position)}-r{reply}" if reply >= 0 else f"{ledger_mark(state, position)}-g{position}"


def make_call_id(state: State, call: CallRef) -> str:
    return f"{ledger_mark(state, call.position)}-c{call}"


def make_output_id(state: State, call: CallRef) -> str:
    return f"{make_call_id(state, call)}-output"


class SubagentTracker:
    """The agents in control, as AG-UI's subagents.

    The start agent is the AG-UI agent itself. Any other agent is a subagent, with a new id after each handoff.
    """

    def __init__(self, graph: WorkflowGraph) -> None:
        self._start = graph.start
        self._subagents: dict[str, str] = {}
        self.length = 0
        """The number of facts that were read."""

    def advance_to(self, state: State, length: int) -> SubagentTracker:
        """Read the facts up to this length."""
        for position in range(self.length, length):
            if isinstance(fact := state.facts[position], HandedOff):
                self._subagents[fact.target] = f"{ledger_mark(state, position)}-h{position}"
        self.length = max(self.length, length)
        return self

    def find_subagent(self, agent: str) -> str | None:
        """Return the current subagent id of an agent; None for the start agent and for guardrails."""
        return None if agent == self._start else self._subagents.get(agent)
