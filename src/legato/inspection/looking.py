"""Model calls, looked at again. May know: sessions, frames, wires. Decides: how requests are rebuilt from a ledger, several in one pass.

A reply says what its request saw: all up to a position. So requests are rebuilt from the fold of the facts up to there, and since no
reply saw less than the one before it, one fold that grows serves all of them.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from legato.core.explanation import Explained, Mark, explained
from legato.core.facts import ModelReplied
from legato.core.groups import Group
from legato.core.state import State
from legato.core.turn_context import Frame, decode_frame
from legato.core.view import Request, request_seen
from legato.inspection.hiding import hidden_group, shown_seen
from legato.inspection.wired import Wired, sent, shown_sent
from legato.runtime.ledger import apply_in_slices
from legato.runtime.session import Session


class Look(Struct, frozen=True):
    """A reply's call. `request` and `told` may be shown: they have digests in place of secrets; `exact` is as it was."""

    n: int
    position: int
    fact: ModelReplied
    request: Request
    exact: Request
    told: list[Explained]

    @property
    def marks(self) -> dict[int, Mark]:
        """What of the conversation was shown, by position."""
        return {each.group.position: each.shown for each in self.told if each.shown != "no"}

    def wired(self) -> Wired:
        """The request as bytes: proved as it was, and shown without secrets."""
        return shown_sent(sent(self.exact, self.fact), self.exact, self.request)


def replies(session: Session) -> list[tuple[int, ModelReplied]]:
    """The replies of a session, each with its position."""
    return [(position, fact) for position, fact in enumerate(session.state.facts) if isinstance(fact, ModelReplied)]


async def looks(session: Session, numbers: Iterable[int]) -> dict[int, Look]:
    """The calls of these numbers, rebuilt."""
    state, facts, graph = State(session=session.id), session.facts, session.workflow.definition.graph
    found, known = replies(session), Contents(session)
    hidden: dict[int, Group] = {}
    looked: dict[int, Look] = {}
    for n in sorted(set(numbers)):
        position, fact = found[n]
        await apply_in_slices(state, facts[state.length : fact.upto + 1])
        frame = await known.frame(fact.frame)
        exact = await known.add_to(request_seen(state, frame, fact))
        erased = dict(session.state.erasures.facts)
        told = await asyncio.to_thread(explained, state, frame.history, fact.agent, fact.kept, erased)
        told = [replace(each, group=hidden_group(each.group, graph, hidden)) if each.group.calls else each for each in told]
        looked[n] = Look(n, position, fact, shown_seen(exact, graph, hidden), exact, told)
    return looked


class Contents:
    """What requests of a session name and its ledger does not hold, each read once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._frames: dict[str, Frame] = {}
        self._bytes: dict[str, bytes] = {}

    async def read(self, digest: str) -> bytes:
        """The bytes of this digest."""
        if digest not in self._bytes:
            self._bytes[digest] = await self._session.store.content(self._session.id, digest)
        return self._bytes[digest]

    async def frame(self, digest: str) -> Frame:
        """The frame of this digest."""
        if digest not in self._frames:
            self._frames[digest] = decode_frame(await self.read(digest))
        return self._frames[digest]

    async def add_to(self, request: Request) -> Request:
        """The request with the bytes of its pictures and files."""
        named = {digest for group in request.groups for digest in group.contents_named}
        return replace(request, contents={digest: await self.read(digest) for digest in named}) if named else request


def readable(body: bytes, contents: Mapping[str, bytes]) -> str:
    """A request as text that people read: where the bytes of a picture or file stand, what they are."""
    text = body.decode()
    for digest, kept in contents.items():
        text = text.replace(b64encode(kept).decode(), f"[{len(kept)} bytes, digest {digest}]")
    return text
