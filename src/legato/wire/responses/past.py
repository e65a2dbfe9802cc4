"""What of a conversation the provider provably holds. May know: recorded replies. Decides: where a request may go on from.

A reply that the provider stored can be gone on from if the sequence it holds (`Answered.held`) is exactly how the sequence to be sent
begins. The newest such reply is taken. Two held calls with one id could not be told apart: then everything goes by value. A reply that
ended in the middle of its reasoning is not gone on from: the provider wants to see what followed, and nothing did.
"""

from __future__ import annotations

from msgspec import Struct

from legato.core.facts import Answered, Call, Reasoning
from legato.core.groups import Group
from legato.core.view import Request
from legato.wire.losses import BARE
from legato.wire.options import Options
from legato.wire.sequence import held, sequence

LOOK_BACK = 8
"""How many replies of the provider are tried, the newest first: further back, what is to be sent is most of it anyway."""


class Past(Struct, frozen=True):
    """Where a request goes on from: nowhere, a response, or a conversation. `groups` of the view are held, the last one's outputs not."""

    groups: int = 0
    response: str | None = None
    conversation: str | None = None
    open_reply: Group | None = None

    @property
    def base(self) -> str:
        """The id that is sent."""
        return self.response or self.conversation or ""


def past_of(request: Request, options: Options, origin: str) -> Past:
    """The past that this request may have."""
    if options.memory == "inline":
        return Past()
    whole = sequence(request)
    conversation = request.conversation or None if options.memory == "conversation" else None
    for index, length in _stored_replies(request, origin, options, conversation):
        fact = request.groups[index].fact
        assert fact is not None
        if _digest(fact) == held(whole[:length]) and _one_id_each(request.groups[: index + 1]):
            group = request.groups[index]
            return Past(
                index + 1,
                fact.response_id if conversation is None else None,
                conversation,
                group if group.calls else None,
            )
    return Past(conversation=conversation)


def _stored_replies(request: Request, origin: str, options: Options, conversation: str | None) -> list[tuple[int, int]]:
    """The newest replies that the provider keeps: their places in the view, and how long the sequence is that ends with them."""
    found: list[tuple[int, int]] = []
    length = 1 if request.summary else 0
    for index, group in enumerate(request.groups):
        outputs = 1 if group.calls else 0
        fact = group.fact
        kept = fact is not None and fact.stored and fact.origin == origin and fact.held and _is_kept_in(fact, conversation, request)
        if fact is not None and kept and not _stands_alone(fact):
            found.append((index, length + 1))
        length += 1 + outputs
    return found[::-1][:LOOK_BACK]


def _is_kept_in(fact: Answered, conversation: str | None, request: Request) -> bool:
    """Whether a reply is held where the request goes on from: in that conversation, or, without one, by itself."""
    return fact.base == conversation if conversation else bool(fact.response_id) and fact.base not in request.conversations


def _stands_alone(fact: Answered) -> bool:
    """Whether a reply ended in its reasoning."""
    return bool(fact.items) and isinstance(fact.items[-1], Reasoning)


def _digest(fact: Answered) -> str:
    """What the provider holds after a reply, without the mark of a reply to a request that had to go without reasoning."""
    return fact.held.removesuffix(f" {BARE}")


def _one_id_each(groups: tuple[Group, ...]) -> bool:
    ids = [item.call_id for group in groups if group.fact for item in group.fact.items if isinstance(item, Call)]
    return len(set(ids)) == len(ids) and all(ids)


def usable_conversation(request: Request, origin: str) -> str:
    """The provider's conversation that this request can go on in: the newest whose last reply the view proves. Empty: a new one is due."""
    whole = sequence(request)
    length = 1 if request.summary else 0
    newest = ""
    for index, group in enumerate(request.groups):
        fact = group.fact
        # A conversation only grows: it is of use where its very last reply stands in the view, and all before it as it is held.
        ends_here = fact is not None and request.conversations.get(fact.base) == group.position and group.position >= request.since
        if fact is not None and ends_here and fact.origin == origin:
            proved = _digest(fact) == held(whole[: length + 1]) and _one_id_each(request.groups[: index + 1])
            newest = fact.base if proved and not _stands_alone(fact) else newest
        length += 1 + (1 if group.calls else 0)
    return newest
