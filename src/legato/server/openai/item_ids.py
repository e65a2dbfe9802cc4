"""Ids of items in OpenAI's APIs. Each names a session and a place in its ledger. Pure.

Clients send items back, by reference or whole. An item with such an id is the one that the ledger has, whatever else the client says of
it, so nothing that comes back is compared with what was said, and nothing is recorded twice.

An id is a prefix, the mark of the ledger that recorded the item, its place there, and the session, parted by underscores:

    msg_1f0c9a3e_r2_ZGVzaw          what the third reply says (`r2v1`: words that were withdrawn)
    msg_1f0c9a3e_7_ZGVzaw           a user's message, or a guardrail's words, at position 7
    mcpa_..., fco_...               an answer at a position: to a request for approval, or for a result
    mcp_1f0c9a3e_4.1_ZGVzaw         the call that is item 1 of the reply at position 4
    mcpr_1f0c9a3e_9b2d5a10-approval-4.1_<digest>_ZGVzaw     a request to approve it
    fc_..., call_...                a request for its result, and what that is answered with

A branch shares the ledger of its origin up to where it began: there an item has the mark of the origin in both sessions.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from msgspec import Struct

from legato.core.facts import Call, CallRef, Decided, GuardrailJudged, MessageReceived, ModelReplied
from legato.core.pending_requests import Pending, call_of_request, call_request_id
from legato.core.state import State
from legato.runtime.event_cursor import birthmark
from legato.server.naming import bound, decode_session, encode_session, mark, request_named

_ALTCHARS = b"-."

_ITEM_ID = re.compile(r"(msg|mcp|mcpr|mcpa|fc|fco|call)_([0-9a-f]{8})_(.{1,500})_([A-Za-z0-9.-]{2,2200})", re.ASCII | re.DOTALL)
_NUMBER = r"(0|[1-9][0-9]{0,8})"
_REPLY = re.compile(rf"r{_NUMBER}(?:v[0-9]{{1,9}})?", re.ASCII)
_POSITION = re.compile(_NUMBER, re.ASCII)
_CALL = re.compile(rf"{_NUMBER}\.{_NUMBER}", re.ASCII)


class ItemId(Struct, frozen=True, kw_only=True):
    """An id, read: one of `reply`, `position`, `call` and `request`, in a session whose ledger had this mark then."""

    session: str
    ledger: str
    reply: int = -1
    position: int = -1
    call: CallRef | None = None
    request: str = ""
    """A request together with the digest of what it asks about; see `naming.meant`."""

    @property
    def is_output(self) -> bool:
        """True if it names something that was recorded. A request is none: it waits."""
        return not self.request

    @property
    def request_id(self) -> str:
        """The id of the request in its session, without the digest."""
        return self.request.rpartition("_")[0]


def reply_item_id(state: State, session: str, reply: int, position: int = -1, withdrawn: int = 0) -> str:
    """The id of what a reply says, known before it is recorded (`position` is -1); `reply` is -1 for other recorded words.

    `withdrawn` counts how often the reply was begun and broke off before.
    """
    place = f"r{reply}{f'v{withdrawn}' if withdrawn else ''}" if reply >= 0 else str(position)
    return _write("msg", mark(state, position) if position >= 0 else birthmark(state.ledger), place, session)


def given_item_id(prefix: Literal["msg", "mcpa", "fco"], state: State, session: str, position: int) -> str:
    """The id of what was given to the session at a position: a message, or an answer."""
    return _write(prefix, mark(state, position), str(position), session)


def call_item_id(state: State, session: str, call: CallRef) -> str:
    """The id of a call that has its output."""
    return _write("mcp", mark(state, call.position), str(call), session)


def request_item_id(prefix: Literal["mcpr", "fc", "call"], state: State, session: str, request: Pending, length: int) -> str:
    """The id of a request that was made when the ledger had so many facts."""
    return _write(prefix, mark(state, length - 1), bound(request), session)


def approval_item_id(state: State, session: str, call: CallRef) -> str | None:
    """The id of the request by which somebody approved or rejected a call; None if nobody did."""
    known = state.call(call)
    for at in known.decisions if known is not None else ():
        fact = state.facts[at]
        if isinstance(fact, Decided) and fact.kind == "approval" and fact.from_outside:
            id = call_request_id(state.name_at(at), "approval", call)
            return request_item_id("mcpr", state, session, request_named(id, fact.digest), at)
    return None


def read_item_id(text: object) -> ItemId | None:
    """Read an id; None if it is no id of ours. `RecordedItems` says whether such an item exists."""
    found = _ITEM_ID.fullmatch(text) if isinstance(text, str) else None
    session = decode_session(found[4], _ALTCHARS) if found else ""
    if found is None or not session:
        return None
    prefix, ledger, place = found[1], found[2], found[3]
    if prefix == "msg" and (reply := _REPLY.fullmatch(place)):
        return ItemId(session=session, ledger=ledger, reply=int(reply[1]))
    if prefix in ("msg", "mcpa", "fco") and _POSITION.fullmatch(place):
        return ItemId(session=session, ledger=ledger, position=int(place))
    if prefix == "mcp" and (call := _CALL.fullmatch(place)):
        return ItemId(session=session, ledger=ledger, call=CallRef(int(call[1]), int(call[2])))
    if prefix in ("mcpr", "fc", "call"):
        return ItemId(session=session, ledger=ledger, request=place)
    return None


class RecordedItems:
    """Finds the items that ids name in a ledger."""

    def __init__(self, state: State) -> None:
        self._state = state

    @cached_property
    def _replies(self) -> list[int]:
        return [at for at, fact in enumerate(self._state.facts) if isinstance(fact, ModelReplied)]

    @cached_property
    def _answers(self) -> dict[str, int]:
        """The positions of answers, by the beginnings of the ids of the requests that they were given to."""
        found: dict[str, int] = {}
        for at, fact in enumerate(self._state.facts):
            if isinstance(fact, Decided) and fact.from_outside:
                about = str(fact.call) if fact.call else fact.limit
                found[f"{self._state.name_at(at)[:8]}-{fact.kind}-{about}"] = at
        return found

    def find(self, item: ItemId) -> int | None:
        """Find the position of an item; None if this ledger has no such item.

        Of a request it is that of the answer it got or, without one, of the call that it asks about; -1 if neither is known here, as for
        a limit, or a call of a child session. Of the reply that comes next, which a client has begun to hear, it is the ledger's last.
        """
        if item.request:
            return self._find_request(item)
        state, position = self._state, item.call.position if item.call else item.position
        if item.reply == len(self._replies) and item.ledger == birthmark(state.ledger):
            return state.length - 1  # it is being said, or broke off and was never recorded
        if item.reply >= 0:
            position = self._replies[item.reply] if item.reply < len(self._replies) else -1
        if not 0 <= position < state.length or mark(state, position) != item.ledger:
            return None
        fact = state.facts[position]
        if item.call is not None:
            is_call = isinstance(fact, ModelReplied) and item.call.index < len(fact.items) and isinstance(fact.items[item.call.index], Call)
            return position if is_call else None
        return position if item.reply >= 0 or isinstance(fact, (MessageReceived, GuardrailJudged, Decided)) else None

    def find_answer(self, item: ItemId) -> Decided | None:
        """Find the answer from outside that a request of this ledger got."""
        answer = self._state.facts[at] if (at := self._answer_position(item)) >= 0 else None
        return answer if isinstance(answer, Decided) else None

    def _answer_position(self, item: ItemId) -> int:
        """-1 if there is none. The ids of requests about outcomes and limits count them, in what follows the last matching part."""
        name = item.request_id
        while name:
            if name in self._answers:
                return self._answers[name]
            name = name.rpartition("-")[0]
        return -1

    def _find_request(self, item: ItemId) -> int | None:
        state = self._state
        if all(birthmark(name) != item.ledger for _, name in state.names):
            return None
        if (answer := self._answer_position(item)) >= 0:
            return answer
        call = call_of_request(item.request_id)
        if call is None or not any(item.request_id.startswith(f"{name[:8]}-") for _, name in state.names):
            return -1
        return call.position if call.position < state.length and isinstance(state.facts[call.position], ModelReplied) else None


def _write(prefix: str, ledger: str, place: str, session: str) -> str:
    return f"{prefix}_{ledger}_{place}_{encode_session(session, _ALTCHARS)}"
