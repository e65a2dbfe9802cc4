"""The model requests behind recorded replies, rebuilt from the ledger alone.

`legato.inspection` shows them to people, with secrets masked, and compares them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from legato.core.facts import ModelReplied
from legato.core.state import State
from legato.core.turn_context import TurnContext, decode_turn_context
from legato.core.view import ModelRequest, build_past_request
from legato.core.visibility_explanation import GroupExplanation, explain_groups
from legato.errors import BadInput
from legato.runtime.ledger import fold_in_slices

if TYPE_CHECKING:
    from legato.runtime.session import Session


async def rebuild_request(session: Session, call: int) -> ModelRequest:
    """Return the exact request behind a reply."""
    fact, turn_context, state = await _read_reply(session, call)
    request = build_past_request(state, turn_context, fact)
    if not state.has_attachments:
        return request
    digests = {digest for group in request.groups for digest in group.content_digests}
    if not digests:
        return request
    return replace(request, contents={digest: await session.store.content(session.id, digest) for digest in digests})


async def explain_request(session: Session, call: int) -> list[GroupExplanation]:
    """Return every group of the conversation up to a reply, and why the reply's request contained it or not."""
    fact, turn_context, state = await _read_reply(session, call)
    erased = dict(session.state.redactions.facts)  # a copy, because the thread may share nothing that changes
    return await asyncio.to_thread(explain_groups, state, turn_context.history, fact.agent, fact.kept_groups, erased)


async def _read_reply(session: Session, call: int) -> tuple[ModelReplied, TurnContext, State]:
    """Return a reply, its turn context, and the state that its request saw."""
    await session.refresh()
    replies = [fact for fact in session.state.facts if isinstance(fact, ModelReplied)]
    fact = replies[resolve_reply_index(session, call)]
    turn_context = decode_turn_context(await session.store.content(session.id, fact.context_digest))
    return fact, turn_context, await fold_in_slices(session.state.facts[: fact.upto + 1], session.id)


def resolve_reply_index(session: Session, call: int) -> int:
    """Return the index of a reply from 0, for an index that may be negative; `BadInput` if there is no such reply."""
    if isinstance(call, bool) or not isinstance(call, int):
        raise BadInput("a call is named by the number of its reply", found=repr(call)[:80], do="write 0 for the first, or -1 for the last")
    count = session.state.reply_count
    if not -count <= call < count:
        raise BadInput(f"session {session.id!r} has {count} replies", found=f"call {call}"[:80], do="choose one of them: the first is 0")
    return call % count
