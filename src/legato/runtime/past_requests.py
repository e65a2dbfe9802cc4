"""The requests behind replies, from the ledger alone. May know: sessions. Decides: which reply is meant, and what its request needs.

What is shown of them to people, with secrets hidden and compared with one another, is in `shown`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from legato.core.explanation import Explained, explained
from legato.core.facts import ModelReplied
from legato.core.state import State
from legato.core.turn_context import Frame, decode_frame
from legato.core.view import Request, request_seen
from legato.errors import BadInput
from legato.runtime.ledger import fold_in_slices

if TYPE_CHECKING:
    from legato.runtime.session import Session


async def request_behind(session: Session, call: int) -> Request:
    """The exact request behind a reply."""
    fact, frame, state = await _behind(session, call)
    request = request_seen(state, frame, fact)
    if not state.pictured:
        return request
    named = {digest for group in request.groups for digest in group.contents_named}
    return replace(request, contents={digest: await session.store.content(session.id, digest) for digest in named}) if named else request


async def explained_behind(session: Session, call: int) -> list[Explained]:
    """Every group of the conversation up to a reply, and why its request had it or not."""
    fact, frame, state = await _behind(session, call)
    erased = dict(session.state.erasures.facts)  # the thread has all that it looks at to itself
    return await asyncio.to_thread(explained, state, frame.history, fact.agent, fact.kept, erased)


async def _behind(session: Session, call: int) -> tuple[ModelReplied, Frame, State]:
    """A reply, the frame that it was made in, and the state that its request saw."""
    await session.refresh()
    answered = [fact for fact in session.state.facts if isinstance(fact, ModelReplied)]
    fact = answered[numbered(session, call)]
    frame = decode_frame(await session.store.content(session.id, fact.frame))
    return fact, frame, await fold_in_slices(session.state.facts[: fact.upto + 1], session.id)


def numbered(session: Session, call: int) -> int:
    """The number of a reply, which may be counted from the end; `BadInput` if there is none."""
    if isinstance(call, bool) or not isinstance(call, int):
        raise BadInput("a call is named by the number of its reply", found=repr(call)[:80], do="write 0 for the first, or -1 for the last")
    count = session.state.replies
    if not -count <= call < count:
        raise BadInput(f"session {session.id!r} has {count} replies", found=f"call {call}"[:80], do="choose one of them: the first is 0")
    return call % count
