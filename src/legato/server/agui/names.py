"""What things are called in AG-UI. May know: the state. Decides: the ids of messages, calls and agents' turns in control.

They are made from positions, so that a message has the same id while it is streamed, in a snapshot, and after a restart. A user's message
keeps the id that its client gave it: that is the key of its delivery.
"""

from __future__ import annotations

import re

from legato.core.facts import CallRef, HandedOff, MessageReceived
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.server.naming import mark

_OURS = re.compile(r"([0-9a-f]{8})-(0|[1-9][0-9]{0,8})", re.ASCII)


def said_id(state: State, position: int, key: str) -> str:
    """The id of what a user said."""
    return key or f"{mark(state, position)}-{position}"


def is_said(state: State, id: str) -> bool:
    """Whether the message of this id is in the ledger: by its key, or because we named it."""
    return _position(state, id) >= 0


def is_erased(state: State, id: str) -> bool:
    """Whether the words of the message of this id were erased."""
    return _position(state, id) in state.erasures.facts


def _position(state: State, id: str) -> int:
    """Where the message of this id stands; -1 if there is none."""
    found = _OURS.fullmatch(id)
    at = state.keys[id] if id in state.keys else int(found[2]) if found else state.length
    if at >= state.length or not isinstance(state.facts[at], MessageReceived):
        return -1
    return at if id in state.keys or (found and mark(state, at) == found[1]) else -1


def spoken_id(state: State, reply: int, position: int) -> str:
    """The id of what an agent says: a reply has it before it is recorded, by its number among all replies."""
    return f"{mark(state, position)}-r{reply}" if reply >= 0 else f"{mark(state, position)}-g{position}"


def call_id(state: State, call: CallRef) -> str:
    return f"{mark(state, call.position)}-c{call}"


def output_id(state: State, call: CallRef) -> str:
    return f"{call_id(state, call)}-output"


class Control:
    """Who has control, as AG-UI's subagents: the workflow's start agent is the agent itself; another one is a subagent, for as long as it
    has control by the same handoff."""

    def __init__(self, graph: Graph) -> None:
        self._start = graph.start
        self._by: dict[str, str] = {}
        self.taken = 0
        """How many facts were looked at."""

    def upto(self, state: State, length: int) -> Control:
        """Look at the facts before this position that were not looked at."""
        for position in range(self.taken, length):
            if isinstance(fact := state.facts[position], HandedOff):
                self._by[fact.target] = f"{mark(state, position)}-h{position}"
        self.taken = max(self.taken, length)
        return self

    def of(self, agent: str) -> str | None:
        """The subagent that this agent is now; None for the start agent, and for a guardrail."""
        return None if agent == self._start else self._by.get(agent)
