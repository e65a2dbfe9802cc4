"""What of a conversation the provider provably holds. May know: recorded replies. Decides: where a request may go on from.

A reply that the provider stored can be gone on from if the sequence it holds (`ModelReplied.held`) is exactly how the sequence to be sent
begins, and if every call that it holds has the id that it would have in a request: the provider knows its own calls by the ids that
it gave them, and all others by those that they were sent with. A chain in which an id comes twice, or cannot be used, is left; what
is sent by value in its place can be gone on from again.
"""

from __future__ import annotations

from msgspec import Struct

from legato.core.facts import ModelReplied, Reasoning
from legato.core.groups import Group
from legato.core.view import Request
from legato.providers.formats.course import Course, course_of
from legato.providers.formats.losses import BARE
from legato.providers.formats.options import Options
from legato.providers.formats.sequence import after, opening


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


class _Link(Struct, frozen=True):
    """A reply that the provider keeps, its position, and how many groups of the view the provider holds with it: the last is the reply."""

    response: str
    position: int
    groups: int


class Proof(Course):
    """All that a view says, and the replies in it that can be gone on from."""

    def __init__(self, origin: str, summary: str) -> None:
        self._opening = opening(summary)
        super().__init__(origin)

    def begin(self) -> None:
        self._count = 0
        self._sound: dict[str, bool] = {}  # by response or conversation: whether the ids of all calls in it are as they would be sent
        self.told = self._opening
        self.own: set[int] = set()
        """The positions of groups whose calls get ids of ours."""
        self.newest: _Link | None = None
        self.conversations: dict[str, _Link] = {}
        """The newest reply of each conversation, the newest last."""

    def add(self, group: Group, own: bool, request: Request) -> None:
        self._count += 1
        if own:
            self.own.add(group.position)
        said, self.told = after(self.told, group)
        fact = group.fact
        if fact is not None and fact.stored and fact.held and fact.origin == self.origin:
            proved = fact.held.removesuffix(f" {BARE}") == said and not _stands_alone(fact)
            self._link(group, fact, not own, proved, fact.base in request.conversations)

    def _link(self, group: Group, fact: ModelReplied, sound: bool, proved: bool, in_conversation: bool) -> None:
        kept_as = fact.base if in_conversation else fact.response_id
        sound = sound and self._sound.get(fact.base, in_conversation or not fact.base)
        self._sound[kept_as] = sound
        usable = _Link(fact.response_id, group.position, self._count) if proved and sound else None
        if in_conversation:
            self.conversations.pop(kept_as, None)
            if usable is not None:
                self.conversations[kept_as] = usable
        elif usable is not None and kept_as:
            self.newest = usable


def _stands_alone(fact: ModelReplied) -> bool:
    """Whether a reply ended in its reasoning."""
    return bool(fact.items) and isinstance(fact.items[-1], Reasoning)


def proof_of(request: Request, origin: str) -> Proof:
    """What a request is to say, and what of it the provider may hold."""
    about = (origin, request.summary)
    return course_of(request, "proof", about, lambda: Proof(*about))


def past_of(request: Request, options: Options, proof: Proof) -> Past:
    """The past that this request may have."""
    conversation = request.conversation or None if options.memory == "conversation" else None
    link = proof.conversations.get(conversation) if conversation else proof.newest
    if link is None:
        return Past(conversation=conversation)
    group = request.groups[link.groups - 1]
    return Past(link.groups, link.response if conversation is None else None, conversation, group if group.calls else None)


def usable_conversation(request: Request, origin: str) -> str:
    """The provider's conversation that this request can go on in: the newest whose last reply the view proves. Empty: a new one is due."""
    for conversation, link in reversed(proof_of(request, origin).conversations.items()):
        # A conversation only grows: it is of use where its very last reply stands in the view, and all before it as it is held.
        if request.conversations.get(conversation) == link.position >= request.since:
            return conversation
    return ""
