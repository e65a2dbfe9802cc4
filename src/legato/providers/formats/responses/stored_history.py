"""The history that the provider stores, and the point from which a request continues it.

A request can continue a stored reply if two things hold. The digest of the stored history (`ModelReplied.stored_digest`) equals that of
a prefix of the history to be sent. And every call in it has the id that it would have in a request: the provider knows its own calls by
the ids that it gave them, and all others by the ids they were sent with. A chain with an id that is repeated or unusable is abandoned;
the history that is then sent by value can be continued again.
"""

from __future__ import annotations

from msgspec import Struct

from legato.core.facts import ModelReplied, Reasoning
from legato.core.groups import Group
from legato.core.view import ModelRequest
from legato.providers.formats.comparable_history import extend_digest, make_initial_digest
from legato.providers.formats.incremental_encoder import IncrementalEncoder, get_cached_encoder
from legato.providers.formats.loss_reasons import REASONING_REFUSED_MARK
from legato.providers.formats.request_options import RequestOptions


class ContinuationPoint(Struct, frozen=True):
    """The point from which a request continues: the beginning, a response, or a conversation.

    The provider stores the first `group_count` groups of the view. `open_reply` is the last of them if its calls have outputs, which are
    not stored.
    """

    group_count: int = 0
    response_id: str | None = None
    conversation_id: str | None = None
    open_reply: Group | None = None

    @property
    def base_id(self) -> str:
        """The id of the response or conversation; empty if there is none."""
        return self.response_id or self.conversation_id or ""


class _StoredReply(Struct, frozen=True):
    """A reply that the provider stores with all history before it: the first `group_count` groups of the view, the reply being the last."""

    response_id: str
    position: int
    group_count: int


class StoredHistory(IncrementalEncoder):
    """The digest of a view's history, and the stored replies in it that a request can continue."""

    def __init__(self, origin: str, summary: str) -> None:
        self._initial_digest = make_initial_digest(summary)
        super().__init__(origin)

    def reset(self) -> None:
        self._added_group_count = 0
        self._usable_ids: dict[str, bool] = {}  # by response or conversation: True if all its calls have the ids they are sent with
        self.digest = self._initial_digest
        self.positions_with_own_ids: set[int] = set()
        """The positions of groups whose calls get ids made by Legato."""
        self.newest_reply: _StoredReply | None = None
        self.newest_by_conversation: dict[str, _StoredReply] = {}
        """The newest reply of each conversation, the newest last."""

    def add_group(self, group: Group, use_own_ids: bool, request: ModelRequest) -> None:
        self._added_group_count += 1
        if use_own_ids:
            self.positions_with_own_ids.add(group.position)
        with_reply, self.digest = extend_digest(self.digest, group)
        fact = group.fact
        if fact is not None and fact.stored and fact.stored_digest and fact.origin == self.origin:
            is_confirmed = fact.stored_digest.removesuffix(f" {REASONING_REFUSED_MARK}") == with_reply and not _ends_in_reasoning(fact)
            self._add_stored_reply(group, fact, not use_own_ids, is_confirmed, fact.base in request.conversation_ends)

    def _add_stored_reply(self, group: Group, fact: ModelReplied, has_usable_ids: bool, is_confirmed: bool, in_conversation: bool) -> None:
        id = fact.base if in_conversation else fact.response_id
        has_usable_ids = has_usable_ids and self._usable_ids.get(fact.base, in_conversation or not fact.base)
        self._usable_ids[id] = has_usable_ids
        usable = _StoredReply(fact.response_id, group.position, self._added_group_count) if is_confirmed and has_usable_ids else None
        if in_conversation:
            self.newest_by_conversation.pop(id, None)
            if usable is not None:
                self.newest_by_conversation[id] = usable
        elif usable is not None and id:
            self.newest_reply = usable


def _ends_in_reasoning(fact: ModelReplied) -> bool:
    """Return True if a reply ends with reasoning."""
    return bool(fact.items) and isinstance(fact.items[-1], Reasoning)


def read_stored_history(request: ModelRequest, origin: str) -> StoredHistory:
    """Return the history of a request's view, and what the provider stores of it."""
    dependencies = (origin, request.summary)
    return get_cached_encoder(request, "stored history", dependencies, lambda: StoredHistory(*dependencies))


def find_continuation_point(request: ModelRequest, options: RequestOptions, history: StoredHistory) -> ContinuationPoint:
    """Return the point from which this request can continue the stored history."""
    conversation = request.conversation or None if options.memory == "conversation" else None
    reply = history.newest_by_conversation.get(conversation) if conversation else history.newest_reply
    if reply is None:
        return ContinuationPoint(conversation_id=conversation)
    group = request.groups[reply.group_count - 1]
    response_id = reply.response_id if conversation is None else None
    return ContinuationPoint(reply.group_count, response_id, conversation, group if group.calls else None)


def find_usable_conversation(request: ModelRequest, origin: str) -> str:
    """Return the newest conversation of the provider that this request can continue; empty if a new one is needed."""
    for conversation, reply in reversed(read_stored_history(request, origin).newest_by_conversation.items()):
        # A conversation only grows: it can be continued if its last reply is in the view, after the same history as is stored.
        if request.conversation_ends.get(conversation) == reply.position >= request.ledger_start:
            return conversation
    return ""
