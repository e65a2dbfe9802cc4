"""Ids of items in OpenAI's APIs. Each identifies a session and a place in its ledger.

Clients send items back, by reference or whole. An item with such an id is the recorded one, whatever else the client sends with it: its
content is ignored, and nothing is recorded twice.

An id consists of a prefix, the mark of the ledger that recorded the item, its place there, and the session, separated by underscores:

    msg_1f0c9a3e_r2_ZGVzaw          the text of the third reply (`r2v1`: retracted text)
    msg_1f0c9a3e_7_ZGVzaw           a user's message, or a guardrail's message, at position 7
    mcpa_..., fco_...               an answer at a position: to an approval request, or to a request for a result
    mcp_1f0c9a3e_4.1_ZGVzaw         the call that is item 1 of the reply at position 4
    mcpr_1f0c9a3e_9b2d5a10-approval-4.1_<digest>_ZGVzaw     a request to approve it
    fc_..., call_...                a request for its result, and the id for answering it

A fork shares facts with its origin: items of these facts have the mark of the origin's ledger in both sessions.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from msgspec import Struct

from legato.core.facts import Call, CallRef, Decided, GuardrailJudged, MessageReceived, ModelReplied, TerminationJudged
from legato.core.pending_requests import Pending, make_call_request_id, parse_request_call
from legato.core.state import State
from legato.runtime.event_cursor import digest_ledger_id
from legato.server.protocol_ids import decode_session_id, encode_request_name, encode_session_id, ledger_mark, make_request_reference

_ALTCHARS = b"-."

_ITEM_ID = re.compile(r"(msg|mcp|mcpr|mcpa|fc|fco|call)_([0-9a-f]{8})_(.{1,500})_([A-Za-z0-9.-]{2,2200})", re.ASCII | re.DOTALL)
_NUMBER = r"(0|[1-9][0-9]{0,8})"
_REPLY = re.compile(rf"r{_NUMBER}(?:v[0-9]{{1,9}})?", re.ASCII)
_POSITION = re.compile(_NUMBER, re.ASCII)
_CALL = re.compile(rf"{_NUMBER}\.{_NUMBER}", re.ASCII)


class ItemId(Struct, frozen=True, kw_only=True):
    """A parsed id: one of `reply`, `position`, `call` and `request_name`, in a session whose ledger had this mark."""

    session_id: str
    ledger_mark: str
    reply: int = -1
    position: int = -1
    call: CallRef | None = None
    request_name: str = ""
    """The id of a request with the digest of its arguments; see `protocol_ids.encode_request_name`."""

    @property
    def names_recorded_item(self) -> bool:
        """True if the id is of something recorded. Requests are not recorded: they are pending."""
        return not self.request_name

    @property
    def request_id(self) -> str:
        """The id of the request, without the digest."""
        return self.request_name.rpartition("_")[0]


def make_reply_item_id(state: State, session: str, reply: int, position: int = -1, retracted: int = 0) -> str:
    """Return the id of a reply's text, also before it is recorded (`position` is -1). `reply` is -1 for recorded text of guardrails.

    `retracted` counts the earlier attempts at the reply whose text was retracted.
    """
    place = f"r{reply}{f'v{retracted}' if retracted else ''}" if reply >= 0 else str(position)
    return _format_item_id("msg", ledger_mark(state, position) if position >= 0 else digest_ledger_id(state.ledger_id), place, session)


def make_input_item_id(prefix: Literal["msg", "mcpa", "fco"], state: State, session: str, position: int) -> str:
    """Return the id of input to the session at a position: a message, or an answer."""
    return _format_item_id(prefix, ledger_mark(state, position), str(position), session)


def make_call_item_id(state: State, session: str, call: CallRef) -> str:
    """Return the id of a call that has its output."""
    return _format_item_id("mcp", ledger_mark(state, call.position), str(call), session)


def make_request_item_id(prefix: Literal["mcpr", "fc", "call"], state: State, session: str, request: Pending, length: int) -> str:
    """Return the id of a request that became pending when the ledger had `length` facts."""
    return _format_item_id(prefix, ledger_mark(state, length - 1), encode_request_name(request), session)


def find_approval_item_id(state: State, session: str, call: CallRef) -> str | None:
    """Return the id of the answered approval request of a call; None if there is none."""
    recorded_call = state.find_call(call)
    for at in recorded_call.decision_positions if recorded_call is not None else ():
        fact = state.facts[at]
        if isinstance(fact, Decided) and fact.kind == "approval" and fact.is_from_caller:
            id = make_call_request_id(state.ledger_id_at(at), "approval", call)
            return make_request_item_id("mcpr", state, session, make_request_reference(id, fact.digest), at)
    return None


def parse_item_id(text: object) -> ItemId | None:
    """Parse an id; None if this server made no such id. `RecordedItems` tells whether the item exists."""
    found = _ITEM_ID.fullmatch(text) if isinstance(text, str) else None
    session = decode_session_id(found[4], _ALTCHARS) if found else ""
    if found is None or not session:
        return None
    prefix, ledger, place = found[1], found[2], found[3]
    if prefix == "msg" and (reply := _REPLY.fullmatch(place)):
        return ItemId(session_id=session, ledger_mark=ledger, reply=int(reply[1]))
    if prefix in ("msg", "mcpa", "fco") and _POSITION.fullmatch(place):
        return ItemId(session_id=session, ledger_mark=ledger, position=int(place))
    if prefix == "mcp" and (call := _CALL.fullmatch(place)):
        return ItemId(session_id=session, ledger_mark=ledger, call=CallRef(int(call[1]), int(call[2])))
    if prefix in ("mcpr", "fc", "call"):
        return ItemId(session_id=session, ledger_mark=ledger, request_name=place)
    return None


class RecordedItems:
    """The items of a ledger, by their ids."""

    def __init__(self, state: State) -> None:
        self._state = state

    @cached_property
    def _reply_positions(self) -> list[int]:
        return [at for at, fact in enumerate(self._state.facts) if isinstance(fact, ModelReplied)]

    @cached_property
    def _answer_positions(self) -> dict[str, int]:
        """The positions of answers, by the beginnings of the ids of their requests."""
        found: dict[str, int] = {}
        for at, fact in enumerate(self._state.facts):
            if isinstance(fact, Decided) and fact.is_from_caller:
                about = str(fact.call) if fact.call else fact.limit
                found[f"{self._state.ledger_id_at(at)[:8]}-{fact.kind}-{about}"] = at
        return found

    def find(self, item: ItemId) -> int | None:
        """Find the position of an item; None if this ledger has no such item.

        The position of a request is that of its answer or, without one, of its call; -1 if this ledger has neither, as for a limit or a
        call of a child session. The position of the next reply, which may be streaming already, is the ledger's last position.
        """
        if item.request_name:
            return self._find_request(item)
        state, position = self._state, item.call.position if item.call else item.position
        if item.reply == len(self._reply_positions) and item.ledger_mark == digest_ledger_id(state.ledger_id):
            return state.length - 1  # it is streaming, or was retracted and never recorded
        if item.reply >= 0:
            position = self._reply_positions[item.reply] if item.reply < len(self._reply_positions) else -1
        if not 0 <= position < state.length or ledger_mark(state, position) != item.ledger_mark:
            return None
        fact = state.facts[position]
        if item.call is not None:
            is_call = isinstance(fact, ModelReplied) and item.call.index < len(fact.items) and isinstance(fact.items[item.call.index], Call)
            return position if is_call else None
        return position if item.reply >= 0 or isinstance(fact, (MessageReceived, GuardrailJudged, TerminationJudged, Decided)) else None

    def find_answer(self, item: ItemId) -> Decided | None:
        """Find the answer that a caller gave to a request of this ledger; None if there is none."""
        answer = self._state.facts[at] if (at := self._find_answer_position(item)) >= 0 else None
        return answer if isinstance(answer, Decided) else None

    def _find_answer_position(self, item: ItemId) -> int:
        """Find the position of the answer to a request; -1 if there is none.

        Ids of requests about outcomes and limits end with a count, which is removed part by part until the rest matches.
        """
        name = item.request_id
        while name:
            if name in self._answer_positions:
                return self._answer_positions[name]
            name = name.rpartition("-")[0]
        return -1

    def _find_request(self, item: ItemId) -> int | None:
        state = self._state
        if all(digest_ledger_id(name) != item.ledger_mark for _, name in state.ledger_ids):
            return None
        if (answer := self._find_answer_position(item)) >= 0:
            return answer
        call = parse_request_call(item.request_id)
        if call is None or not any(item.request_id.startswith(f"{name[:8]}-") for _, name in state.ledger_ids):
            return -1
        return call.position if call.position < state.length and isinstance(state.facts[call.position], ModelReplied) else None


def _format_item_id(prefix: str, ledger: str, place: str, session: str) -> str:
    return f"{prefix}_{ledger}_{place}_{encode_session_id(session, _ALTCHARS)}"
