"""Where a request goes on. May know: sessions, and how responses are named. Decides: in which session it is said, and what is its answer.

A response is named by a session and a position: it is what was recorded after that, until the session rested. So nothing is kept beside
the ledger. To go on after a response is to go on in its session, if nobody said or decided anything there since; and else to fork it there,
which is what a chain of responses means: the other branch stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing, suppress

from msgspec import Struct
from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import NO_OPTIONS, AnyFact, Call, CallPaused, Decided, GuardrailJudged, MessageReceived, ModelReplied, RunOptions
from legato.core.run_options import NO_DEFINITIONS, RunDefinitions, decode_definitions
from legato.core.state import State
from legato.engines.contract import Submitted
from legato.errors import LedgerConflict, LedgerExists, UnknownLedger
from legato.runtime.clock import fresh_name
from legato.runtime.session import Session
from legato.server.answering import Refused
from legato.server.naming import decode_session, encode_session, mark, meant
from legato.server.openai.asked import Answer, Ask
from legato.server.openai.client_options import ClientOptions
from legato.server.openai.content import Item
from legato.server.openai.errors import Wrong
from legato.server.openai.item_ids import RecordedItems
from legato.server.serving import Serving
from legato.server.telling import Rested, first_rest, is_input, moments
from legato.tools import tool_content
from legato.workflow.workflow import Workflow

_NAMED = re.compile(r"(?:resp_|chatcmpl-)([0-9a-f]{8})_(0|[1-9][0-9]{0,8})_([A-Za-z0-9_-]{2,2200})", re.ASCII)
_ALTCHARS = b"-_"


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
        facts, first = self.session.state.facts, self.after
        parts = _part_key(getattr(facts[first], "key", ""), "")
        for at in range(self.after - 1, -1, -1):
            fact = facts[at]
            if isinstance(fact, Decided) and fact.key.startswith(parts):
                first = at
            elif is_input(fact):
                break
        return first

    @property
    def options(self) -> RunOptions:
        """The client's options of the run."""
        state, fact = self.session.state, self.session.state.facts[self.after]
        if isinstance(fact, MessageReceived):
            return fact.options or NO_OPTIONS
        return state.options_at(self.after)

    async def definitions(self) -> RunDefinitions:
        """The client's tools, and the schema of the answer that it wants."""
        digest = self.options.digest
        return decode_definitions(await self.session.store.content(self.session.id, digest)) if digest else NO_DEFINITIONS

    def failure(self, rest: Rested) -> tuple[str, str]:
        """The code and the words of the error that this response ends with; empty if it ends with an answer.

        An answer in another format than was asked for is none. People may be asked about it in the session; a client is told at once.
        """
        if rest.error:
            return "model_failed", rest.error
        if not self.options.judged or rest.status == "cancelled":
            return "", ""
        if about := next((request for request in rest.pending if request.limit == "output"), None):
            return "output_not_accepted", about.prompt
        replies = self._find_answers(rest.length) if not rest.pending else []
        if replies and self.session.state.options_of(replies[-1]).digest != self.options.digest:
            words = "another message came in this session, and both were answered at once, without what this request asked for"
            return "output_not_accepted", words
        if rest.status == "terminated" and not rest.pending and not replies:
            return "output_not_accepted", "the conversation ended before it had what this request asked for"
        return "", ""

    def _find_answers(self, length: int) -> list[int]:
        """Find the replies that answer what was given here: not what was said before or, once this has its answer, after it."""
        facts, first = self.session.state.facts, self.after + 1
        rejected = {fact.position for fact in facts[first:] if isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop}
        later = next((at for at in range(first, length) if isinstance(facts[at], MessageReceived)), length)
        found: list[int] = []
        for at in range(first, length):
            fact = facts[at]
            if isinstance(fact, ModelReplied) and fact.upto >= self.after and at not in rejected and (fact.upto < later or not found):
                found += [] if any(isinstance(item, Call) for item in fact.items) else [at]
        return found

    def has_in_answer(self, position: int, length: int) -> bool:
        """Tell whether the words at a position are in the answer, as far as the ledger goes that has so many facts.

        All are, unless a format was asked for: then only the last reply that answers what was given here is, if it was requested in this
        format. What agents say beside calls is left out, and so is what they say to others who speak in the session meanwhile.
        """
        if not self.options.typed:
            return True
        state = self.session.state
        fact = state.facts[position]
        if isinstance(fact, ModelReplied):
            return self._find_answers(length)[-1:] == [position] and state.options_of(position).digest == self.options.digest
        return not isinstance(fact, GuardrailJudged) or fact.position >= self.after

    def name(self, prefix: str = "resp_") -> str:
        """Its id."""
        return f"{prefix}{mark(self.session.state, self.after)}_{self.after}_{encode_session(self.session.id, _ALTCHARS)}"

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
    if found and (id := decode_session(found[3], _ALTCHARS)):
        session = serving.drivable(await serving.session(id))
        turn = Turn(session, int(found[2]), int(found[2]) + 1)
        if _begins_one(session.state.facts, turn.after) and turn.name(name[: found.start(1)]) == name:
            return turn
    raise UnknownLedger(f"there is no response {name[:200]!r}")


def _begins_one(facts: Sequence[AnyFact], position: int) -> bool:
    """Whether a response may be named by this position: by something that was given here, or to a conversation that a call waits for."""
    return position < len(facts) and (is_input(facts[position]) or any(isinstance(each, CallPaused) for each in facts[: position + 1]))


async def response_named(serving: Serving, name: str) -> Turn:
    """Find the response of this id; refused with 404 if there is none."""
    try:
        return await turn_named(serving, name)
    except UnknownLedger as unknown:
        raise Wrong("response_id", unknown.summary, code="response_not_found", status=404) from None


def workflow_named(serving: Serving, model: str, param: str = "model") -> Workflow:
    """The workflow that a client takes for a model."""
    if model not in serving.workflows:
        served = ", ".join(serving.workflows)
        raise Wrong(param, f"the model {model[:100]!r} does not exist", code="model_not_found", status=404, expected=served)
    return serving.workflows[model]


async def begun(serving: Serving, ask: Ask) -> Turn:
    """Say and decide what is asked for, where it belongs."""
    workflow = workflow_named(serving, ask.model)
    ask.options.check(workflow)
    if ask.previous:
        before = await _find_previous(serving, workflow, ask)
        _find_positions(before.session, ask.recorded)
        return await _after(serving, workflow, await _with_new_answers(serving, before.session, ask), before)
    if ask.session:
        session = await _there(serving, ask.session)
        if session is None:
            if ask.recorded:
                raise _unknown_item(ask.recorded[-1], ask.session)
            return await _given(serving.begin(workflow.name, ask.session), ask)
        if ask.retried and not ask.key:
            raise _perhaps_twice()
        owned = _of(session, workflow, "metadata")
        _find_positions(owned, ask.recorded)
        return await _given(owned, await _with_new_answers(serving, owned, ask))
    if ask.account and not await _is_here(serving, workflow, ask.recorded):
        ask = replace(ask, message=ask.account, answers=(), recorded=())
    if ask.recorded:
        before = await _find_latest(serving, workflow, ask.recorded)
        return await _after(serving, workflow, await _with_new_answers(serving, before.session, ask), before)
    return await _given(serving.begin(workflow.name, derived_session_id(workflow, ask.key)), ask)


async def _find_previous(serving: Serving, workflow: Workflow, ask: Ask) -> Turn:
    try:
        before = await turn_named(serving, ask.previous)
    except UnknownLedger as unknown:
        raise Wrong("previous_response_id", unknown.summary, code="previous_response_not_found") from None
    _of(before.session, workflow, "previous_response_id")
    return before


async def _find_latest(serving: Serving, workflow: Workflow, items: Sequence[Item]) -> Turn:
    """Find the response that has the latest of these items, in the session that the last of them names."""
    last = items[-1]
    found = await _there(serving, last.id.session) if last.id else None
    if found is None:
        raise _unknown_item(last, last.id.session if last.id else "")
    session = _of(found, workflow, "input")
    facts, position = session.state.facts, max(_find_positions(session, items))
    upto = position if position >= 0 else len(facts) - 1  # what is asked about no call of this ledger is asked where it ends
    after = next((at for at in range(upto, -1, -1) if is_input(facts[at])), len(facts) - 1)
    return Turn(session, after, after + 1)


async def _is_here(serving: Serving, workflow: Workflow, items: Sequence[Item]) -> bool:
    """Tell whether a session of the workflow has all of these items."""
    id = items[-1].id
    session = await _there(serving, id.session) if id else None
    if not isinstance(session, Submitted) or session.workflow.name != workflow.name:
        return False
    ledger = RecordedItems(session.state)
    return all(item.id is not None and ledger.find(item.id) is not None for item in items)


def _find_positions(session: Session, items: Sequence[Item]) -> list[int]:
    """Find the positions of these items in a session; refused if it has not all of them."""
    ledger, positions = RecordedItems(session.state), []
    for item in items:
        position = ledger.find(item.id) if item.id else None
        if position is None:
            raise _unknown_item(item, session.id)
        positions.append(position)
    return positions


def _unknown_item(item: Item, session: str) -> Wrong:
    do = "send items of one conversation, with the ids that they came with"
    return Wrong(item.param, f"this names no item of session {session!r}", code="item_not_found", do=do)


async def _with_new_answers(serving: Serving, session: Submitted, ask: Ask) -> Ask:
    """Leave out answers that were given before and are sent along with what is new."""
    pending = {request.id for request in session.pending}
    ledgers: list[RecordedItems] = []
    new: list[Answer] = []
    for answer in ask.answers:
        delivered = bool(ask.key) and _part_key(ask.key, answer.number) in session.state.keys
        if answer.id is not None and answer.id.request_id not in pending and not delivered:
            ledgers = ledgers or [RecordedItems(state) for state in await _family_states(serving, session)]
            if any(_is_same(answer, ledger.find_answer(answer.id)) for ledger in ledgers):
                continue
        new.append(answer)
    return replace(ask, answers=tuple(new)) if new or ask.message else ask


async def _family_states(serving: Serving, session: Session) -> list[State]:
    """Read the states of a session and of its child sessions."""
    children = [await _there(serving, each.ledger) for each in await serving.store.children(session.id)]
    return [session.state, *(child.state for child in children if child is not None)]


def _is_same(answer: Answer, given: Decided | None) -> bool:
    """True if a request was answered so before."""
    same = given is not None and given.verdict == answer.verdict
    return same and (answer.verdict != "answer" or given is None or given.output == tool_content(answer.value)[0])


async def _after(serving: Serving, workflow: Workflow, ask: Ask, before: Turn) -> Turn:
    """Go on after another response."""
    session = before.session
    while True:
        if ask.answers or ask.key in session.state.keys:  # what is pending is pending here, whatever else was said since
            return await _given(session, ask)
        end = await before.end()
        if end < session.state.length:
            return await _branched(serving, before, end, workflow, ask)
        with suppress(LedgerConflict):  # somebody was first: look again
            return await _given(session, ask, expected=end)


async def _branched(serving: Serving, before: Turn, at: int, workflow: Workflow, ask: Ask) -> Turn:
    if ask.retried and not ask.key:
        raise _perhaps_twice()
    id = derived_session_id(workflow, ask.key, before.name()) or f"{workflow.name[:40]}-{fresh_name()[:8]}"
    with suppress(LedgerExists):  # it was made by the same delivery, which came before
        await before.session.fork(at, id)
    return await _given(serving.drivable(await serving.session(id)), ask)


async def _given(session: Submitted, ask: Ask, expected: int | None = None) -> Turn:
    key = ask.key or fresh_name()
    known = (await session.refresh()).state.keys.get(key)
    if ask.answers and not ask.message and known is None:
        _check_kept_options(session, ask)
    for answer in ask.answers:
        part = _part_key(key, answer.number) if ask.message or answer is not ask.answers[-1] else key
        await _decide(session, answer, part, ask.options)
    if ask.message:
        asked = ask.options
        await session.say(
            ask.message, key, expected, tools=asked.tools, output_schema=asked.output_schema, tool_required=asked.tool_required
        )
    state = session.state
    after = state.keys.get(key, state.length - 1)  # the question was perhaps one of a conversation that this one waits for
    if known is not None and session.status == "failed":
        await session.wake()  # who sends it again wants it tried again
        return Turn(session, after, state.length + 1)
    return Turn(session, after, after + 1)


def _check_kept_options(session: Session, ask: Ask) -> None:
    """Refuse tools and a format that come with answers which keep those in force: approvals, and answers to agents that work as tools."""
    asked, now = ask.options.recorded, session.state.run_options
    own = {request.id for request in session.pending if request.session == session.id}
    if any(answer.verdict == "answer" and meant(answer.request).id in own for answer in ask.answers):
        return
    if asked == NO_OPTIONS or (asked.digest == now.digest and (now.required or not asked.required)):
        return
    raise Wrong(
        "tools" if asked.tools else ask.options.format_param,
        "this answer goes on with the tools and the format that were asked for before, and these are others",
        do="send the same, or none, with it; a message may bring others",
    )


def _part_key(key: str, number: int | str) -> str:
    """The key of one of several answers that are given at once. No key that comes in a header is like it."""
    return f"{key}\n{number}"


async def _decide(session: Submitted, answer: Answer, key: str, asked: ClientOptions) -> None:
    request = meant(answer.request)
    match answer.verdict:
        case "approve":
            await session.approve(request, key=key)
        case "reject":
            await session.reject(request, answer.words, key=key)
        case "answer":
            await session.answer(
                request,
                answer.value,
                key=key,
                tools=asked.tools,
                output_schema=asked.output_schema,
                tool_required=asked.tool_required,
            )


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


def derived_session_id(workflow: Workflow, key: str, base: str = "") -> str:
    """The id of a session that is made for a delivery: the same for the same key, so that it is made once. Empty without a key."""
    return f"{workflow.name[:40]}-{digest_bytes(f'{base} {key}'.encode())[:16]}" if key else ""


def _perhaps_twice() -> Refused:
    return Refused(
        409,
        "perhaps_delivered",
        "this was sent before, and nobody can tell whether it was heard then",
        do="look into the session; and send an Idempotency-Key with each request, so that what is sent again is said once",
    )
