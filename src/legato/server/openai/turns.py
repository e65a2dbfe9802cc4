"""Where a request goes on. May know: sessions, and how responses are named. Decides: in which session it is said, and what is its answer.

A response is named by a session and a position: it is what was recorded after that, until the session rested. So nothing is kept beside
the ledger. To go on after a response is to go on in its session, if nobody said or decided anything there since; and else to fork it there,
which is what a chain of responses means: the other branch stays as it is.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from contextlib import aclosing, suppress

from msgspec import Struct

from legato.core.digest import digest_bytes
from legato.core.facts import AnyFact, Decided, Paused
from legato.drive.clock import fresh_name
from legato.engines.contract import Submitted
from legato.errors import LedgerConflict, LedgerExists, UnknownLedger
from legato.server.answering import Refused
from legato.server.naming import mark, meant
from legato.server.openai.asked import Answer, Ask
from legato.server.openai.errors import Wrong
from legato.server.serving import Serving
from legato.server.telling import Rested, first_rest, is_input, moments
from legato.session import Session
from legato.workflow import Workflow

_NAMED = re.compile(r"(?:resp_|chatcmpl-)([0-9a-f]{8})_(0|[1-9][0-9]{0,8})_([A-Za-z0-9_-]{2,2200})", re.ASCII)


class Turn(Struct, frozen=True):
    """A response: what is recorded in a session from what was given to it on, the last of it at `after`, until it rests with `until` facts
    or more."""

    session: Submitted
    after: int
    until: int

    @property
    def created(self) -> int:
        """When it was asked for, in seconds."""
        return self.session.state.facts[self.after].at // 1000

    @property
    def since(self) -> int:
        """Where it begins: several answers that were given at once have keys that say so."""
        state = self.session.state
        first = state.keys.get(_part_key(getattr(state.facts[self.after], "key", ""), 0), self.after)
        return first if first < self.after and isinstance(state.facts[first], Decided) else self.after

    def name(self, prefix: str = "resp_") -> str:
        """Its id."""
        session = base64.urlsafe_b64encode(self.session.id.encode()).decode().rstrip("=")
        return f"{prefix}{mark(self.session.state, self.after)}_{self.after}_{session}"

    async def rest(self) -> Rested:
        """Wait until it is over, and say how."""
        async with aclosing(moments(self.session, self.since, self.until)) as told:
            return [moment async for moment in told if isinstance(moment, Rested)][-1]

    async def end(self) -> int:
        """How many facts belong to it and to what came before: all, unless something was said or decided after it had come to rest."""
        facts = self.session.state.facts
        if not any(map(is_input, facts[self.after + 1 :])):
            return len(facts)
        rest = await first_rest(self.session, self.after) or len(facts)
        return next((at for at in range(rest, len(facts)) if is_input(facts[at])), len(facts))


async def turn_named(serving: Serving, name: str) -> Turn:
    """The response of this id; `UnknownLedger` if there is none."""
    found = _NAMED.fullmatch(name)
    try:
        id = base64.b64decode(found[3] + "=" * (-len(found[3]) % 4), altchars=b"-_", validate=True).decode() if found else ""
    except (binascii.Error, UnicodeDecodeError):
        id = ""
    if found and 0 < len(id) <= 400 and id.isprintable():
        session = serving.drivable(await serving.session(id))
        turn = Turn(session, int(found[2]), int(found[2]) + 1)
        if _begins_one(session.state.facts, turn.after) and turn.name(name[: found.start(1)]) == name:
            return turn
    raise UnknownLedger(f"there is no response {name[:200]!r}")


def _begins_one(facts: Sequence[AnyFact], position: int) -> bool:
    """Whether a response may be named by this position: by something that was given here, or to a conversation that a call waits for."""
    return position < len(facts) and (is_input(facts[position]) or any(isinstance(each, Paused) for each in facts[: position + 1]))


def workflow_named(serving: Serving, model: str) -> Workflow:
    """The workflow that a client takes for a model."""
    if model not in serving.workflows:
        served = ", ".join(serving.workflows)
        raise Wrong("model", f"the model {model[:100]!r} does not exist", code="model_not_found", status=404, expected=served)
    return serving.workflows[model]


async def begun(serving: Serving, ask: Ask) -> Turn:
    """Say and decide what is asked for, where it belongs."""
    workflow = workflow_named(serving, ask.model)
    if ask.previous:
        return await _after(serving, workflow, ask)
    if ask.session:
        session = await _there(serving, ask.session)
        if session is None:
            return await _given(serving.begin(workflow.name, ask.session), ask)
        if ask.retried and not ask.key:
            raise _perhaps_twice()
        return await _given(_of(session, workflow, "metadata"), ask)
    return await _given(serving.begin(workflow.name, _derived(workflow, ask)), ask)


async def _after(serving: Serving, workflow: Workflow, ask: Ask) -> Turn:
    """Go on after another response."""
    try:
        before = await turn_named(serving, ask.previous)
    except UnknownLedger as unknown:
        raise Wrong("previous_response_id", unknown.summary, code="previous_response_not_found") from None
    session = _of(before.session, workflow, "previous_response_id")
    while True:
        if ask.answers or ask.key in session.state.keys:  # what is pending is pending here, whatever else was said since
            return await _given(session, ask)
        end = await before.end()
        if end < session.state.length:
            return await _branched(serving, session, end, workflow, ask)
        with suppress(LedgerConflict):  # somebody was first: look again
            return await _given(session, ask, expected=end)


async def _branched(serving: Serving, session: Submitted, at: int, workflow: Workflow, ask: Ask) -> Turn:
    if ask.retried and not ask.key:
        raise _perhaps_twice()
    id = _derived(workflow, ask, ask.previous) or f"{workflow.name[:40]}-{fresh_name()[:8]}"
    with suppress(LedgerExists):  # it was made by the same delivery, which came before
        await session.fork(at, id)
    return await _given(serving.drivable(await serving.session(id)), ask)


async def _given(session: Submitted, ask: Ask, expected: int | None = None) -> Turn:
    key = ask.key or fresh_name()
    known = (await session.refresh()).state.keys.get(key)
    for number, answer in enumerate(ask.answers):
        await _decide(session, answer, _part_key(key, number) if ask.message or number < len(ask.answers) - 1 else key)
    if ask.message:
        await session.say(ask.message, key, expected)
    state = session.state
    after = state.keys.get(key, state.length - 1)  # the question was perhaps one of a conversation that this one waits for
    if known is not None and session.status == "failed":
        await session.wake()  # who sends it again wants it tried again
        return Turn(session, after, state.length + 1)
    return Turn(session, after, after + 1)


def _part_key(key: str, number: int) -> str:
    """The key of one of several answers that are given at once. No key that comes in a header is like it."""
    return f"{key}\n{number}"


async def _decide(session: Submitted, answer: Answer, key: str) -> None:
    request = meant(answer.request.removeprefix("mcpr_").removeprefix("call_"))
    match answer.verdict:
        case "approve":
            await session.approve(request, key=key)
        case "reject":
            await session.reject(request, answer.words, key=key)
        case "answer":
            await session.answer(request, answer.words, key=key)


async def _there(serving: Serving, id: str) -> Session | None:
    try:
        return await serving.session(id)
    except UnknownLedger:
        return None


def _of(session: Session, workflow: Workflow, param: str) -> Submitted:
    if not isinstance(session, Submitted) or session.workflow.name != workflow.name:
        owner = session.state.workflow
        raise Wrong(param, f"that session belongs to {owner!r}, not to {workflow.name!r}", do=f"ask for the model {owner!r}")
    return session


def _derived(workflow: Workflow, ask: Ask, base: str = "") -> str:
    """The id of a session that is made for a delivery: the same for the same key, so that it is made once."""
    return f"{workflow.name[:40]}-{digest_bytes(f'{base} {ask.key}'.encode())[:16]}" if ask.key else ""


def _perhaps_twice() -> Refused:
    return Refused(
        409,
        "perhaps_delivered",
        "this was sent before, and nobody can tell whether it was heard then",
        do="look into the session; and send an Idempotency-Key with each request, so that what is sent again is said once",
    )
