"""What may go back to the model that made it. May know: recorded replies. Decides: which thinking is sent again.

A model with preserved thinking binds a block to everything that stood before it: `system`, `tools`, and all earlier blocks, other
thinking among them. So with every reply the digest of all that was sent for it is recorded (`ModelReplied.held`); a later request may send
its thinking exactly if what stands before it there has the same digest. Another agent's frame has another one, and so has a changed
history; when control comes back to an agent in an unchanged frame, its own blocks fit again.

After the provider refused thinking, the reply to the same request without any is marked: no thinking from before it goes out again.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from legato.core.facts import Call, Reasoning
from legato.core.groups import AssistantEntry, Group
from legato.providers.formats.losses import BARE, FOREIGN, REFUSED, UNWANTED
from legato.providers.rules.anthropic.generations import generation

MOVED = "it is bound to what the model was told before it, and that is not the same here"


def binds(model: str) -> bool:
    """Whether a model's thinking must be taken to be bound to what stood before it. Models up to Claude 5 are known not to bind.

    >>> binds("claude-opus-5-5"), binds("claude-sonnet-4-5-20250929"), binds("claude-sonnet-5"), binds("a-model-of-somebody-else")
    (True, False, False, True)
    """
    made = generation(model)
    return made is None or made >= (5, 1)


class Section(Struct, frozen=True):
    """Blocks of one role, joined, without the brackets. `first`: the type of the first of them; `digest`: of all of them."""

    role: str
    body: bytes
    first: str
    digest: bytes


class Talk:
    """The messages as they are joined. Sections of one role in a row are one message; a reply always follows the user."""

    def __init__(self, frame: bytes, stand_in: Section) -> None:
        self._now = blake2b(frame, digest_size=16)
        self._stand_in = stand_in
        self._role = ""
        self._pieces: list[bytes] = []
        self._firsts: list[list[str]] = []  # of each message, the types that its sections begin with

    def add(self, section: Section) -> None:
        """The next blocks."""
        if section.role == self._role == "user":
            self._pieces.append(b",")
            self._firsts[-1].append(section.first)
        else:
            if section.role == "assistant" and self._role != "user":
                self.add(self._stand_in)
            self._pieces.append(_OPENINGS[self._role, section.role])
            self._firsts.append([section.first])
            self._role = section.role
        self._pieces.append(section.body)
        self._now.update(section.digest)

    def before_a_reply(self) -> str:
        """The digest of all that stands before a reply at this place."""
        now = self._now.copy()
        if self._role != "user":
            now.update(self._stand_in.digest)
        return now.hexdigest()

    @property
    def open_loop(self) -> str:
        """The type of the block that begins the loop of tools in which the conversation stands; empty: it stands in none."""
        first = ""
        answered = len(self._firsts) - 1 if self._role == "user" else 0
        while answered > 0 and "tool_result" in self._firsts[answered]:
            first = self._firsts[answered - 1][0]
            answered -= 2
        return first

    def body(self, head: bytes) -> bytes:
        """All messages between a head and the end of the request. The user speaks last, if only by a stand-in."""
        last = () if self._role == "user" else (_OPENINGS[self._role, "user"], self._stand_in.body)
        return b"".join((head, *self._pieces, *last, b"]}]}"))


_OPENINGS = {
    (before, role): (b"]}," if before else b"") + b'{"role":"%b","content":[' % role.encode()
    for before, role in (("", "user"), ("user", "assistant"), ("assistant", "user"))
}


class Replay(Struct, frozen=True):
    """Says of each reply in one view why its thinking does not go back, if it does not.

    `wanted`: thinking is to be sent back at all; `allowed`: the provider has not just refused it. `reuse`: nor the container of its code.
    """

    origin: str
    model: str
    wanted: bool
    allowed: bool
    reuse: bool = True

    def of(self, group: Group, before: str, own: bool, refused: float) -> tuple[str, bool]:
        """Why the thinking of a reply does not go back (empty: it does), and whether the rest can go back as it came: it was made
        here, with the same before it. `refused`: what was thought before this position was refused already."""
        fact = group.fact
        if fact is None or fact.origin != self.origin:
            return FOREIGN, False
        unmoved = fact.held.startswith(before)
        if not self.wanted:
            return UNWANTED, unmoved
        if not self.allowed or group.position < refused:
            return REFUSED, unmoved
        if binds(self.model) and (not unmoved or (own and _thinks_after_a_call(group))):
            return MOVED, unmoved
        return "", unmoved


def _thinks_after_a_call(group: Group) -> bool:
    """Whether thinking stands after a call, whose id is a part of what it is bound to."""
    items = next((entry.items for entry in group.entries if isinstance(entry, AssistantEntry)), ())
    called = False
    for item in items:
        called = called or isinstance(item, Call)
        if called and isinstance(item, Reasoning):
            return True
    return False


def told(digest: str, bare: bool) -> str:
    """What a request is remembered by: the digest of all that it tells, and whether thinking had to be left out."""
    return f"{digest} {BARE}" if bare else digest
