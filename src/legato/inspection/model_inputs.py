"""The exact inputs of recorded model requests, rebuilt from a ledger, several in one pass.

A reply records the last position that its request had seen. So a request is rebuilt from the fold of the facts up to there. Those positions
never decrease from one reply to the next, so one growing fold serves all replies.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import ModelReplied
from legato.core.groups import Group
from legato.core.state import State
from legato.core.turn_context import TurnContext, decode_turn_context
from legato.core.view import ModelRequest, build_past_request
from legato.core.visibility_explanation import GroupExplanation, Visibility, explain_groups
from legato.inspection.secret_masks import mask_group, mask_request
from legato.inspection.sent_bodies import SentBody, encode_sent_request, mask_sent_body
from legato.runtime.ledger import apply_in_slices
from legato.runtime.session import Session


class ModelInput(Struct, frozen=True):
    """The model input behind reply number `n`.

    `masked_request` and `groups` have digests in place of secrets and may be shown to people; `exact_request` is what the model received.
    """

    n: int
    position: int
    fact: ModelReplied
    masked_request: ModelRequest
    exact_request: ModelRequest
    groups: list[GroupExplanation]

    @property
    def visible_groups(self) -> dict[int, Visibility]:
        """The visible groups of the conversation, by position."""
        return {each.group.position: each.visibility for each in self.groups if each.visibility != "no"}

    def encode_body(self) -> SentBody:
        """Encode the masked request. The digest that was recorded with the reply is checked against the exact one."""
        return mask_sent_body(encode_sent_request(self.exact_request, self.fact), self.exact_request, self.masked_request)


def list_replies(session: Session) -> list[tuple[int, ModelReplied]]:
    """Return the replies of a session, each with its position."""
    return [(position, fact) for position, fact in enumerate(session.state.facts) if isinstance(fact, ModelReplied)]


async def rebuild_model_inputs(session: Session, numbers: Iterable[int]) -> dict[int, ModelInput]:
    """Rebuild the model inputs of the replies with these numbers, counted from 0."""
    state, facts, graph = State(session_id=session.id), session.facts, session.workflow.definition.graph
    replies, reader = list_replies(session), ContentReader(session)
    masked_groups: dict[int, Group] = {}
    inputs: dict[int, ModelInput] = {}
    for n in sorted(set(numbers)):
        position, fact = replies[n]
        await apply_in_slices(state, facts[state.length : fact.upto + 1])
        turn_context = await reader.read_turn_context(fact.context_digest)
        exact = await reader.attach_contents(build_past_request(state, turn_context, fact))
        erased = dict(session.state.redactions.facts)
        groups = await asyncio.to_thread(explain_groups, state, turn_context.history, fact.agent, fact.kept_groups, erased)
        groups = [replace(each, group=mask_group(each.group, graph, masked_groups)) if each.group.calls else each for each in groups]
        inputs[n] = ModelInput(n, position, fact, mask_request(exact, graph, masked_groups), exact, groups)
    return inputs


class ContentReader:
    """Reads the contents that a session's facts refer to by digest, each once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn_contexts: dict[str, TurnContext] = {}
        self._bytes: dict[str, bytes] = {}

    async def read(self, digest: str) -> bytes:
        """Return the bytes of this digest."""
        if digest not in self._bytes:
            self._bytes[digest] = await self._session.store.content(self._session.id, digest)
        return self._bytes[digest]

    async def read_turn_context(self, digest: str) -> TurnContext:
        """Return the turn context of this digest."""
        if digest not in self._turn_contexts:
            self._turn_contexts[digest] = decode_turn_context(await self.read(digest))
        return self._turn_contexts[digest]

    async def attach_contents(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the bytes of its pictures and files."""
        digests = {digest for group in request.groups for digest in group.content_digests}
        return replace(request, contents={digest: await self.read(digest) for digest in digests}) if digests else request


def render_body(body: bytes, contents: Mapping[str, bytes]) -> str:
    """Return a body as text, with a placeholder for the bytes of each picture and file."""
    text = body.decode()
    for digest, data in contents.items():
        text = text.replace(b64encode(data).decode(), f"[{len(data)} bytes, digest {digest}]")
    return text
