"""The turn of a session that belongs to a response: finding it, and starting a new one with the input of a request.

A response is identified by a session and the position of its input: its output is everything recorded after that, until the session was
idle. So nothing is stored besides the ledger. A request that continues a response goes to the same session if it had no other input since.
Otherwise the session is forked after the response, and its other branch stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing, suppress

from msgspec import Struct
from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import (
    NO_OPTIONS,
    AnyFact,
    Call,
    CallPaused,
    Decided,
    GuardrailJudged,
    MessageReceived,
    ModelReplied,
    RunOptions,
    TerminationJudged,
)
from legato.core.run_definitions import NO_DEFINITIONS, RunDefinitions, decode_definitions
from legato.core.state import State
from legato.engines.engine import EngineSession
from legato.errors import LedgerConflict, LedgerExists, UnknownLedger
from legato.runtime.clock import new_id
from legato.runtime.session import Session
from legato.server.http_errors import RequestRefused
from legato.server.moments import Rested, first_rest, is_input, moments
from legato.server.openai.client_options import ClientOptions
from legato.server.openai.errors import InvalidRequest
from legato.server.openai.input_items import ClientItem
from legato.server.openai.item_ids import RecordedItems
from legato.server.openai.parsed_requests import ParsedRequest, RequestAnswer
from legato.server.protocol_ids import decode_request_name, decode_session_id, encode_session_id, ledger_mark
from legato.server.session_registry import SessionRegistry
from legato.tools import tool_content
from legato.workflow.workflow import Workflow

_RESPONSE_ID = re.compile(r"(?:resp_|chatcmpl-)([0-9a-f]{8})_(0|[1-9][0-9]{0,8})_([A-Za-z0-9_-]{2,2200})", re.ASCII)
_ALTCHARS = b"-_"


class ResponseTurn(Struct, frozen=True):
    """A turn of a session: the input of one request, and everything recorded for it until the session is idle.

    `last_input` is the position of the input, or of its last part. The turn ends when the session is idle with `min_length` facts or more.
    """

    session: EngineSession
    last_input: int
    min_length: int

    @property
    def created_at(self) -> int:
        """The time of the input, in seconds since the epoch."""
        return self.session.state.facts[self.last_input].at // 1000

    @property
    def first_input(self) -> int:
        """The position of the first part of the input. Several answers of one request have related keys."""
        facts, first = self.session.state.facts, self.last_input
        key_prefix = _answer_key(getattr(facts[first], "key", ""), "")
        for at in range(self.last_input - 1, -1, -1):
            fact = facts[at]
            if isinstance(fact, Decided) and fact.key.startswith(key_prefix):
                first = at
            elif is_input(fact):
                break
        return first

    @property
    def options(self) -> RunOptions:
        """The client's options of the run."""
        state, fact = self.session.state, self.session.state.facts[self.last_input]
        if isinstance(fact, MessageReceived):
            return fact.options or NO_OPTIONS
        return state.options_at(self.last_input)

    async def definitions(self) -> RunDefinitions:
        """Read the client's tools, and the schema of the requested answer."""
        digest = self.options.digest
        return decode_definitions(await self.session.store.content(self.session.id, digest)) if digest else NO_DEFINITIONS

    def find_failure(self, rest: Rested) -> tuple[str, str]:
        """Return the code and text of the error that ends this response; empty if it ends with an answer.

        A reply that does not have the requested format is an error for the client, even if it is a pending request in the session.
        """
        if rest.error:
            return "model_failed", rest.error
        if not self.options.needs_reply_check or rest.status == "cancelled":
            return "", ""
        if request := next((request for request in rest.pending if request.limit == "output"), None):
            return "output_not_accepted", request.prompt
        replies = self._find_answers(rest.length) if not rest.pending else []
        if replies and self.session.state.options_of_reply(replies[-1]).digest != self.options.digest:
            words = "another message arrived in this session, and both were answered together, without the format of this request"
            return "output_not_accepted", words
        if rest.status == "terminated" and not rest.pending and not replies:
            return "output_not_accepted", "the conversation ended before it had an answer in the format of this request"
        return "", ""

    def _find_answers(self, length: int) -> list[int]:
        """Find the replies to this input: not replies requested before it or, once it has an answer, after a later message."""
        facts, first = self.session.state.facts, self.last_input + 1
        rejected = {fact.position for fact in facts[first:] if isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop}
        later = next((at for at in range(first, length) if isinstance(facts[at], MessageReceived)), length)
        answers: list[int] = []
        for at in range(first, length):
            fact = facts[at]
            if (
                isinstance(fact, ModelReplied)
                and fact.upto >= self.last_input
                and at not in rejected
                and (fact.upto < later or not answers)
            ):
                answers += [] if any(isinstance(item, Call) for item in fact.items) else [at]
        return answers

    def is_in_answer(self, position: int, length: int) -> bool:
        """Return True if the text at a position is part of the answer, as of the first `length` facts.

        Without a requested format, all text is. With one, only the last reply to this input is, and only if it was requested in this
        format. Text beside calls, and replies to other messages in the session, are left out.
        """
        if not self.options.typed:
            return True
        state = self.session.state
        fact = state.facts[position]
        if isinstance(fact, ModelReplied):
            return self._find_answers(length)[-1:] == [position] and state.options_of_reply(position).digest == self.options.digest
        return not isinstance(fact, (GuardrailJudged, TerminationJudged)) or fact.position >= self.last_input

    def response_id(self, prefix: str = "resp_") -> str:
        """Return the id of the response."""
        mark, session = ledger_mark(self.session.state, self.last_input), encode_session_id(self.session.id, _ALTCHARS)
        return f"{prefix}{mark}_{self.last_input}_{session}"

    async def wait_until_idle(self) -> Rested:
        """Wait until the turn has ended, and return how."""
        async with aclosing(moments(self.session, self.first_input, self.min_length)) as stream:
            return [moment async for moment in stream if isinstance(moment, Rested)][-1]

    async def find_end(self) -> int:
        """Return the number of facts up to the end of this turn: all facts, unless there was other input after the session was idle."""
        facts = self.session.state.facts
        if not any(map(is_input, facts[self.last_input + 1 :])):
            return len(facts)
        rest = await first_rest(self.session, self.last_input) or len(facts)
        return next((at for at in range(rest, len(facts)) if is_input(facts[at])), len(facts))


async def find_turn(registry: SessionRegistry, response_id: str) -> ResponseTurn:
    """Find the turn of a response; raises `UnknownLedger` if there is no such response."""
    match = _RESPONSE_ID.fullmatch(response_id)
    if match and (id := decode_session_id(match[3], _ALTCHARS)):
        session = registry.require_drivable(await registry.find_session(id))
        turn = ResponseTurn(session, int(match[2]), int(match[2]) + 1)
        if _can_start_response(session.state.facts, turn.last_input) and turn.response_id(response_id[: match.start(1)]) == response_id:
            return turn
    raise UnknownLedger(f"there is no response {response_id[:200]!r}")


def _can_start_response(facts: Sequence[AnyFact], position: int) -> bool:
    """Return True if this position is input, or if a paused call could have got input in a child session."""
    return position < len(facts) and (is_input(facts[position]) or any(isinstance(each, CallPaused) for each in facts[: position + 1]))


async def find_turn_or_404(registry: SessionRegistry, response_id: str) -> ResponseTurn:
    """Find the turn of a response; refused with 404 if there is no such response."""
    try:
        return await find_turn(registry, response_id)
    except UnknownLedger as unknown:
        raise InvalidRequest("response_id", unknown.summary, code="response_not_found", status=404) from None


def find_workflow(registry: SessionRegistry, model: str, param: str = "model") -> Workflow:
    """Return the workflow that clients name as a model."""
    if model not in registry.workflows:
        names = ", ".join(registry.workflows)
        raise InvalidRequest(param, f"the model {model[:100]!r} does not exist", code="model_not_found", status=404, expected=names)
    return registry.workflows[model]


async def start_turn(registry: SessionRegistry, parsed: ParsedRequest) -> ResponseTurn:
    """Submit the input of a request to the session that it belongs to."""
    workflow = find_workflow(registry, parsed.model)
    parsed.options.check(workflow)
    if parsed.previous_response_id:
        previous = await _find_previous(registry, workflow, parsed)
        _find_positions(previous.session, parsed.recorded_items)
        return await _continue_after(registry, workflow, await _without_delivered_answers(registry, previous.session, parsed), previous)
    if parsed.session_id:
        session = await _find_session(registry, parsed.session_id)
        if session is None:
            if parsed.recorded_items:
                raise _unknown_item(parsed.recorded_items[-1], parsed.session_id)
            return await _submit(registry.create_session(workflow.name, parsed.session_id), parsed)
        if parsed.is_retry and not parsed.key:
            raise _possible_duplicate()
        owned = _require_workflow(session, workflow, "metadata")
        _find_positions(owned, parsed.recorded_items)
        return await _submit(owned, await _without_delivered_answers(registry, owned, parsed))
    if parsed.client_transcript and not await _has_items(registry, workflow, parsed.recorded_items):
        parsed = replace(parsed, message=parsed.client_transcript, answers=(), recorded_items=())
    if parsed.recorded_items:
        previous = await _find_latest(registry, workflow, parsed.recorded_items)
        return await _continue_after(registry, workflow, await _without_delivered_answers(registry, previous.session, parsed), previous)
    return await _submit(registry.create_session(workflow.name, derive_session_id(workflow, parsed.key)), parsed)


async def _find_previous(registry: SessionRegistry, workflow: Workflow, parsed: ParsedRequest) -> ResponseTurn:
    try:
        previous = await find_turn(registry, parsed.previous_response_id)
    except UnknownLedger as unknown:
        raise InvalidRequest("previous_response_id", unknown.summary, code="previous_response_not_found") from None
    _require_workflow(previous.session, workflow, "previous_response_id")
    return previous


async def _find_latest(registry: SessionRegistry, workflow: Workflow, items: Sequence[ClientItem]) -> ResponseTurn:
    """Find the turn with the latest of these items, in the session of the last one."""
    last = items[-1]
    named_session = await _find_session(registry, last.item_id.session_id) if last.item_id else None
    if named_session is None:
        raise _unknown_item(last, last.item_id.session_id if last.item_id else "")
    session = _require_workflow(named_session, workflow, "input")
    facts, position = session.state.facts, max(_find_positions(session, items))
    upto = position if position >= 0 else len(facts) - 1  # requests without a position, as of limits, are at the end
    last_input = next((at for at in range(upto, -1, -1) if is_input(facts[at])), len(facts) - 1)
    return ResponseTurn(session, last_input, last_input + 1)


async def _has_items(registry: SessionRegistry, workflow: Workflow, items: Sequence[ClientItem]) -> bool:
    """Return True if a session of the workflow has all of these items."""
    id = items[-1].item_id
    session = await _find_session(registry, id.session_id) if id else None
    if not isinstance(session, EngineSession) or session.workflow.name != workflow.name:
        return False
    ledger = RecordedItems(session.state)
    return all(item.item_id is not None and ledger.find(item.item_id) is not None for item in items)


def _find_positions(session: Session, items: Sequence[ClientItem]) -> list[int]:
    """Find the positions of items in a session; refused if one of them is missing."""
    ledger, positions = RecordedItems(session.state), []
    for item in items:
        position = ledger.find(item.item_id) if item.item_id else None
        if position is None:
            raise _unknown_item(item, session.id)
        positions.append(position)
    return positions


def _unknown_item(item: ClientItem, session: str) -> InvalidRequest:
    do = "send items of one conversation, with their original ids"
    return InvalidRequest(item.param, f"session {session!r} has no such item", code="item_not_found", do=do)


async def _without_delivered_answers(registry: SessionRegistry, session: EngineSession, parsed: ParsedRequest) -> ParsedRequest:
    """Leave out answers that were recorded before and are only sent again."""
    pending = {request.id for request in session.pending}
    ledgers: list[RecordedItems] = []
    new: list[RequestAnswer] = []
    for answer in parsed.answers:
        is_delivered = bool(parsed.key) and _answer_key(parsed.key, answer.number) in session.state.delivery_keys
        if answer.item_id is not None and answer.item_id.request_id not in pending and not is_delivered:
            ledgers = ledgers or [RecordedItems(state) for state in await _session_tree_states(registry, session)]
            if any(_is_same_answer(answer, ledger.find_answer(answer.item_id)) for ledger in ledgers):
                continue
        new.append(answer)
    return replace(parsed, answers=tuple(new)) if new or parsed.message else parsed


async def _session_tree_states(registry: SessionRegistry, session: Session) -> list[State]:
    """Read the states of a session and of its child sessions."""
    children = [await _find_session(registry, each.ledger) for each in await registry.store.children(session.id)]
    return [session.state, *(child.state for child in children if child is not None)]


def _is_same_answer(answer: RequestAnswer, decided: Decided | None) -> bool:
    """Return True if the recorded answer is the same."""
    is_same = decided is not None and decided.verdict == answer.verdict
    return is_same and (answer.verdict != "answer" or decided is None or decided.output == tool_content(answer.value)[0])


async def _continue_after(registry: SessionRegistry, workflow: Workflow, parsed: ParsedRequest, previous: ResponseTurn) -> ResponseTurn:
    """Submit the input after another response, in its session or in a fork."""
    session = previous.session
    while True:
        if parsed.answers or parsed.key in session.state.delivery_keys:  # pending requests are answered here, whatever came since
            return await _submit(session, parsed)
        end = await previous.find_end()
        if end < session.state.length:
            return await _continue_in_fork(registry, previous, end, workflow, parsed)
        with suppress(LedgerConflict):  # another process appended facts first: check again
            return await _submit(session, parsed, expected_length=end)


async def _continue_in_fork(
    registry: SessionRegistry, previous: ResponseTurn, at: int, workflow: Workflow, parsed: ParsedRequest
) -> ResponseTurn:
    if parsed.is_retry and not parsed.key:
        raise _possible_duplicate()
    id = derive_session_id(workflow, parsed.key, previous.response_id()) or f"{workflow.name[:40]}-{new_id()[:8]}"
    with suppress(LedgerExists):  # created by an earlier delivery of this request
        await previous.session.fork(at, id)
    return await _submit(registry.require_drivable(await registry.find_session(id)), parsed)


async def _submit(session: EngineSession, parsed: ParsedRequest, expected_length: int | None = None) -> ResponseTurn:
    key = parsed.key or new_id()
    recorded_at = (await session.refresh()).state.delivery_keys.get(key)
    if parsed.answers and not parsed.message and recorded_at is None:
        _check_kept_options(session, parsed)
    for answer in parsed.answers:
        answer_key = _answer_key(key, answer.number) if parsed.message or answer is not parsed.answers[-1] else key
        await _submit_answer(session, answer, answer_key, parsed.options)
    if parsed.message:
        options = parsed.options
        await session.say(
            parsed.message,
            key,
            expected_length,
            tools=options.tools,
            output_schema=options.output_schema,
            tool_required=options.tool_required,
        )
    state = session.state
    last_input = state.delivery_keys.get(key, state.length - 1)  # an answer may have been recorded in a child session
    if recorded_at is not None and session.status == "failed":
        await session.wake()  # sending a request again retries a failed one
        return ResponseTurn(session, last_input, state.length + 1)
    return ResponseTurn(session, last_input, last_input + 1)


def _check_kept_options(session: Session, parsed: ParsedRequest) -> None:
    """Refuse tools and a format that come with answers that keep the current ones: approvals, and answers to child sessions."""
    requested, current = parsed.options.run_options, session.state.run_options
    own = {request.id for request in session.pending if request.session == session.id}
    if any(answer.verdict == "answer" and decode_request_name(answer.request).id in own for answer in parsed.answers):
        return
    if requested == NO_OPTIONS or (requested.digest == current.digest and (current.required or not requested.required)):
        return
    raise InvalidRequest(
        "tools" if requested.tools else parsed.options.format_param,
        "this answer continues a run with other tools or another format",
        do="send the same ones, or none; a new message may change them",
    )


def _answer_key(key: str, number: int | str) -> str:
    """Return the key of one of several answers in a request. Keys from headers cannot have this form."""
    return f"{key}\n{number}"


async def _submit_answer(session: EngineSession, answer: RequestAnswer, key: str, options: ClientOptions) -> None:
    request = decode_request_name(answer.request)
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
                tools=options.tools,
                output_schema=options.output_schema,
                tool_required=options.tool_required,
            )


async def _find_session(registry: SessionRegistry, id: str) -> Session | None:
    try:
        return await registry.find_session(id)
    except UnknownLedger:
        return None


def _require_workflow(session: Session, workflow: Workflow, param: str) -> EngineSession:
    if not isinstance(session, EngineSession) or session.workflow.name != workflow.name:
        owner = session.state.workflow
        raise InvalidRequest(param, f"the session belongs to {owner!r}, not to {workflow.name!r}", do=f"use the model {owner!r}")
    return session


def derive_session_id(workflow: Workflow, key: str, base: str = "") -> str:
    """Return the id of a session created for a delivery: the same for the same key, so that it is created once. Empty without a key."""
    return f"{workflow.name[:40]}-{digest_bytes(f'{base} {key}'.encode())[:16]}" if key else ""


def _possible_duplicate() -> RequestRefused:
    return RequestRefused(
        409,
        "perhaps_delivered",
        "this request is a retry without a key, and the first attempt may have been recorded",
        do="check the session; send an Idempotency-Key with each request, so that retries are recorded once",
    )
