"""The promises, checked on what really happened. May know: facts as they were recorded. Decides: whether a promise was broken.

Written apart from the code it judges: it reads raw facts by itself and uses neither the fold nor the plan nor the views, so that a
mistake there is seen here. (`fold` is called once, to prove that it accepts the ledger.)

>>> from legato.core.facts import Opened, Said
>>> check_promises([Opened(at=0, ledger="a", workflow="desk"), Said(at=1, content="hello", key="k"), Said(at=2, content="hi", key="k")])[0]
Violation(D6: the key 'k' was recorded twice, at 1 and 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.core.digest import digest_arguments
from legato.core.facts import (
    Answered,
    AnyFact,
    Call,
    CallRef,
    Cancelled,
    Compacted,
    Content,
    Decided,
    Gated,
    HandedOff,
    Judged,
    Lost,
    Opened,
    Prompted,
    Refusal,
    Returned,
    Said,
    Standing,
    Started,
    Words,
)
from legato.core.graph import Limits
from legato.core.groups import AssistantEntry, OutputEntry, UserEntry
from legato.core.history import Custom, Dialogue, Everything, Last, OwnTools, SinceHandoff, Summarised
from legato.core.messages import text_of
from legato.core.state import fold
from legato.core.view import Request
from legato.errors import LegatoError
from legato.models.base import Reply
from legato.testing.pauses import Landings, check_pauses
from legato.workflow import Workflow


class Violation(Struct, frozen=True):
    """A promise that was broken: its id and how."""

    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"

    def __repr__(self) -> str:
        return f"Violation({self})"


class Deed(Struct, frozen=True):
    """What a tool did: under which key, in which session and attempt, and how many facts the ledger had at that moment."""

    key: str
    tool: str
    session: str = ""
    attempt: int = 0
    facts: int = -1


Asked: TypeAlias = Request | tuple[Request, Reply | None]
"""A request that a model was sent; with what it replied (None: nothing), where that is known."""


class Rules(Struct, frozen=True):
    """What the definition says, as far as promises depend on it."""

    idempotent: frozenset[str] | None = None
    """Tools that may be started again unasked; None: not known."""
    gated: frozenset[str] = frozenset()
    """Tools that always need approval."""
    edges: frozenset[tuple[str, str]] | None = None
    """Handoffs that are allowed; None: not known."""
    limits: Limits | None = None
    """Where a run pauses and asks; None: not known."""

    @classmethod
    def of(cls, workflow: Workflow) -> Rules:
        """The rules of a workflow."""
        definition = workflow.definition
        tools = [tool for agent in definition.agents.values() for tool in agent.tools.values()]
        return cls(
            frozenset(tool.name for tool in tools if tool.idempotent),
            frozenset(tool.name for tool in tools if tool.needs_approval is True),
            frozenset(definition.edges),
            definition.graph.limits,
        )


def check_promises(
    facts: Sequence[AnyFact],
    requests: Iterable[Asked] = (),
    deeds: Iterable[Deed | tuple[str, str]] = (),
    *,
    rules: Rules | None = None,
    acknowledged: Iterable[tuple[int, Sequence[AnyFact]]] = (),
    session: str = "",
) -> list[Violation]:
    """Every promise that this ledger, and what was asked and done for it, breaks.

    `requests` are what models were sent for it, `deeds` what tools did (as `Deed`s, or the pairs of a `World`), `acknowledged` the
    appends that were confirmed, as positions and facts.
    """
    broken: list[Violation] = []
    reading = _Reading(facts, rules or Rules(), broken)
    reading.read()
    given: dict[str, tuple[Request, Reply]] = {}
    for each in requests:
        request, reply = each if isinstance(each, tuple) else (each, None)
        if not session or request.session == session:
            _check_request(reading, request, broken)
        if reply is not None and reply.response_id:
            given[reply.response_id] = request, reply
    if given:
        _check_replies(reading, given, broken)
    reading.check_deeds(deeds)
    broken += [Violation(promise, what) for promise, what in check_pauses(facts, reading.rules.limits)]
    for position, confirmed in acknowledged:
        if list(facts[position : position + len(confirmed)]) != list(confirmed):
            broken.append(Violation("D1", f"what was acknowledged at {position} is not there"))
    try:
        fold(facts, session)
    except LegatoError as error:
        broken.append(Violation("fold", f"the ledger cannot be folded: {error.summary}"))
    except Exception as error:
        broken.append(Violation("fold", f"the ledger cannot be folded: {error!r}"))
    return broken


class _CallRead:
    """What the raw facts say of one call."""

    def __init__(self, ref: CallRef, call: Call, reply: int, name: str) -> None:
        self.ref = ref
        self.tool = call.tool
        self.arguments = call.arguments
        self.reply = reply
        self.name = name  # of the ledger when the call was recorded
        self.gate: Gated | None = None
        self.approved = ""  # the digest that was approved
        self.cancelled = False
        self.decided: list[tuple[str, str, int]] = []  # kind, verdict, position
        self.starts: list[int] = []
        self.lost: list[int] = []
        self.settled: set[int] = set()  # attempts whose real outcome is recorded
        self.answers: list[tuple[int, Content | None]] = []  # position and content (None: any)

    @property
    def key(self) -> str:
        return f"{self.name}:{self.ref}"


class _Reading:
    def __init__(self, facts: Sequence[AnyFact], rules: Rules, broken: list[Violation]) -> None:
        self.facts = facts
        self.rules = rules
        self.broken = broken
        self.calls: dict[CallRef, _CallRead] = {}
        self.by_reply: dict[int, list[_CallRead]] = {}
        self.replies: dict[str, int] = {}  # response id -> position

    def say(self, promise: str, what: str) -> None:
        self.broken.append(Violation(promise, what))

    def read(self) -> None:
        """Walk once through the facts."""
        keys: dict[str, int] = {}
        name, latest = "", -1
        standing: set[Standing] = set()
        messages, stopped = Landings(), -1  # where it was last cancelled, until a reply follows
        for position, fact in enumerate(self.facts):
            kind = type(fact)
            unseen = messages.unseen
            messages.landed(position, fact)
            key = fact.key if isinstance(fact, (Said, Decided)) else ""
            if key:
                if key in keys:
                    self.say("D6", f"the key {key!r} was recorded twice, at {keys[key]} and {position}")
                keys[key] = position
            if kind is Opened:
                assert isinstance(fact, Opened)
                name = fact.ledger
                standing = set()
            elif isinstance(fact, Answered):
                open_calls = [call for call in self.by_reply.get(latest, ()) if not call.answers]
                if open_calls:
                    self.say("C3", f"the reply at {position} came before call {open_calls[0].ref} had its output")
                if stopped >= 0 and not any(stopped < message <= fact.upto for message in unseen):
                    self.say("D4", f"the reply at {position} came after a cancel, and the user had not spoken since")
                stopped = -1
                latest = position
                if fact.response_id:
                    if fact.response_id in self.replies:
                        self.say("C1", f"one reply was recorded twice, at {self.replies[fact.response_id]} and {position}")
                    self.replies[fact.response_id] = position
                made = [(CallRef(position, index), item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
                calls = self.by_reply[position] = [_CallRead(ref, item, position, name) for ref, item in made]
                self.calls.update((call.ref, call) for call in calls)
            elif isinstance(fact, Gated):
                if call := self._call(fact.call, position):
                    if call.gate is not None:
                        self.say("D3", f"call {call.ref} was gated twice")
                    call.gate = fact
            elif isinstance(fact, Decided):
                self._decided(position, fact, standing)
            elif isinstance(fact, Started):
                self._started(position, fact)
            elif isinstance(fact, Lost):
                if call := self._call(fact.call, position):
                    if call.answers or fact.attempt != len(call.starts):
                        self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} was lost, which was not open")
                    call.lost.append(fact.attempt)
            elif isinstance(fact, Returned):
                self._returned(position, fact)
            elif isinstance(fact, Judged):
                if fact.kind == "tool" and fact.stop and (call := self._call(CallRef(fact.position, fact.index), position)):
                    self._answer(call, position, None)
            elif isinstance(fact, HandedOff):
                self._handed_off(position, fact, latest)
            elif isinstance(fact, Cancelled):
                stopped = position
                for call in self.by_reply.get(latest, ()):
                    call.cancelled = True

    def _call(self, ref: CallRef | None, position: int) -> _CallRead | None:
        call = self.calls.get(ref) if ref is not None else None
        if call is None:
            self.say("D3", f"the fact at {position} is about call {ref}, which nobody made")
        return call

    def _answer(self, call: _CallRead, position: int, content: Content | None) -> None:
        if call.answers:
            self.say("D3", f"call {call.ref} ({call.tool}) got a second output at {position}; the first was at {call.answers[0][0]}")
        call.answers.append((position, content))

    def _decided(self, position: int, fact: Decided, standing: set[Standing]) -> None:
        if fact.kind == "standing" and fact.standing:
            standing.discard(fact.standing)
        if fact.kind in ("limit", "standing"):
            return
        call = self._call(fact.call, position)
        if call is None:
            return
        if call.answers:
            self.say("D3", f"at {position} call {call.ref} was decided, which was answered at {call.answers[0][0]}")
        before = sum(1 for kind, _, _ in call.decided if kind == fact.kind)
        if before and (fact.kind != "outcome" or before >= len(call.lost)):
            self.say("D3", f"the {fact.kind} of call {call.ref} was decided again at {position}")
        if fact.kind == "outcome" and len(call.starts) not in call.lost:
            self.say("D2", f"at {position} somebody decided the outcome of call {call.ref}, which was not lost")
        if fact.kind == "approval" and not (call.gate and call.gate.needed):
            self.say("S2", f"at {position} call {call.ref} was decided, which nobody had gated")
        if fact.digest != digest_arguments(call.arguments):
            self.say("S2", f"at {position} call {call.ref} was decided for other arguments")
        reply = self.facts[call.reply]
        agent = reply.agent if isinstance(reply, Answered) else ""
        if fact.by == "standing" and Standing(agent, call.tool) not in standing:
            self.say("S2", f"at {position} call {call.ref} was admitted by a standing approval that is not in force here")
        call.decided.append((fact.kind, fact.verdict, position))
        if fact.verdict == "answer":
            self._answer(call, position, fact.output)
        elif fact.verdict == "reject":
            self._answer(call, position, None)
        elif fact.kind == "approval":
            if fact.verdict == "edit":
                call.arguments = fact.arguments
            call.approved = digest_arguments(call.arguments)
            if fact.standing:
                standing.add(fact.standing)

    def _started(self, position: int, fact: Started) -> None:
        call = self._call(fact.call, position)
        if call is None:
            return
        if call.answers:
            self.say("D2", f"at {position} call {call.ref} was started, which was answered at {call.answers[0][0]}")
        if call.cancelled:
            self.say("D4", f"at {position} call {call.ref} was started, which had been cancelled")
        if fact.attempt != len(call.starts) + 1:
            self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} was started after {len(call.starts)} others")
        if call.starts:
            if len(call.starts) not in call.lost:
                self.say("D2", f"at {position} call {call.ref} was started while another attempt was open")
            since = call.starts[-1]
            asked = any(kind == "outcome" and verdict == "approve" and at > since for kind, verdict, at in call.decided)
            known = self.rules.idempotent
            if not asked and known is not None and call.tool not in known:
                self.say("D2", f"at {position} {call.tool}, which is not idempotent, was started again, and nobody asked for it")
        needed = call.tool in self.rules.gated or (call.gate is not None and call.gate.needed)
        if needed and not call.approved:
            self.say("S2", f"at {position} call {call.ref} of {call.tool} was started without approval")
        elif needed and fact.digest != call.approved:
            self.say("S2", f"at {position} call {call.ref} was started with other arguments than were approved")
        call.starts.append(position)

    def _returned(self, position: int, fact: Returned) -> None:
        call = self._call(fact.call, position)
        if call is None:
            return
        if fact.attempt > len(call.starts):
            self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} returned, which was never started")
        if not fact.attempt and fact.status == "ok":
            self.say("D2", f"at {position} call {call.ref} has a result, and it never ran")
        if fact.attempt and fact.status in ("ok", "error"):
            if fact.attempt in call.settled:
                self.say("D3", f"at {position} attempt {fact.attempt} of call {call.ref} has a second outcome")
            call.settled.add(fact.attempt)
        if not fact.late:
            self._answer(call, position, fact.output)

    def _handed_off(self, position: int, fact: HandedOff, latest: int) -> None:
        taken = self._call(fact.call, position)
        if taken is None:
            return
        if taken.reply != latest:
            self.say("D3", f"at {position} a handoff of an earlier reply was taken")
        if self.rules.edges is not None and (fact.source, fact.target) not in self.rules.edges:
            self.say("S3", f"at {position} {fact.source} handed to {fact.target}, which nobody allowed")
        if taken.cancelled:
            self.say("D4", f"at {position} a handoff was taken, which had been cancelled")
        if taken.gate and taken.gate.needed and not taken.approved:
            self.say("S2", f"at {position} a gated handoff was taken without approval")
        if taken.starts:
            self.say("D3", f"at {position} call {taken.ref} was taken as a handoff, and it ran as a tool")
        for call in self.by_reply.get(taken.reply, ()):
            if call is taken or not call.answers:
                if not call.tool.startswith("handoff_to_"):
                    self.say("C3", f"at {position} control passed before call {call.ref} of {call.tool} had its output")
                elif call.ref < taken.ref:
                    self.say("C3", f"at {position} handoff {taken.ref} was taken, though {call.ref} came first and nobody declined it")
                self._answer(call, position, None)
            elif call.ref < taken.ref and any(kind == "handoff" for kind, _, _ in call.decided):
                self.say("D3", f"at {position} two handoffs of one reply were taken")

    # -- deeds ----------------------------------------------------------------------------------------------------------

    def check_deeds(self, deeds: Iterable[Deed | tuple[str, str]]) -> None:
        """Whether every deed had its start before it, and no start led to two deeds."""
        by_key = {call.key: call for call in self.calls.values()}
        attempts: dict[tuple[str, str, int], int] = {}
        counted: dict[tuple[str, str], int] = {}
        for each in deeds:
            deed = each if isinstance(each, Deed) else Deed(*each)
            call = by_key.get(deed.key)
            if call is None:
                if isinstance(each, Deed):
                    self.say("D2", f"{deed.tool} ran for {deed.key}, of which the ledger knows nothing")
                continue
            if deed.attempt:
                starts = [at for at in call.starts[deed.attempt - 1 : deed.attempt] if deed.facts < 0 or at < deed.facts]
                if not starts:
                    self.say("D2", f"{deed.tool} ran as attempt {deed.attempt} of call {call.ref} before its start was recorded")
                slot = (deed.session, deed.key, deed.attempt)
                attempts[slot] = attempts.get(slot, 0) + 1
                if attempts[slot] == 2:
                    self.say("D2", f"attempt {deed.attempt} of call {call.ref} of {deed.tool} ran twice")
            else:
                pair = (deed.key, deed.tool)
                counted[pair] = counted.get(pair, 0) + 1
                if counted[pair] == len(call.starts) + 1:
                    self.say("D2", f"{deed.tool} was done {counted[pair]} times for call {call.ref}, started {len(call.starts)} times")


# -- what models were sent -----------------------------------------------------------------------------------------------

_Token: TypeAlias = tuple[str, Any]


def _expected(reading: _Reading, upto: int, agent: str) -> list[tuple[list[_Token], str, str]]:
    """The whole conversation up to a position, as groups of tokens, each with the agent that spoke and the one control passed to.

    A reply that was not accepted, and the objection to it, are for its own agent alone.
    """
    groups: list[tuple[list[_Token], str, str]] = []
    waiting: list[tuple[int, list[_Token]]] = []
    handed = {fact.call.position: fact.target for fact in reading.facts[: upto + 1] if isinstance(fact, HandedOff)}
    withheld = _not_let_pass(reading.facts[: upto + 1])
    refused: set[int] = set()
    objections: dict[int, str] = {}
    for position, fact in enumerate(reading.facts[: upto + 1]):
        if isinstance(fact, Judged) and fact.kind == "output" and fact.stop:
            about = reading.facts[fact.position]
            refused.add(fact.position)
            objections[position] = about.agent if isinstance(about, Answered) else ""
    for position, fact in enumerate(reading.facts[: upto + 1]):
        if isinstance(fact, Said):
            if position not in withheld:
                waiting.append((position, [("user", position)]))
        elif isinstance(fact, Prompted) or (isinstance(fact, Judged) and position in objections and objections[position] == agent):
            groups.append(([("synthetic", position)], "", ""))
        elif isinstance(fact, Answered):
            groups += [(tokens, "", "") for at, tokens in waiting if at <= fact.upto]
            waiting = [(at, tokens) for at, tokens in waiting if at > fact.upto]
            if position in refused and fact.agent != agent:
                continue
            reply: list[_Token] = [("reply", position)] if fact.items else []
            calls = reading.by_reply.get(position, ())
            groups.append((reply + [("output", call.ref) for call in calls], fact.agent, handed.get(position, "")))
    groups += [(tokens, "", "") for _, tokens in waiting]
    return groups


def _not_judged(facts: Sequence[AnyFact]) -> set[int]:
    """The messages that guardrails have yet to judge."""
    messages = Landings()
    for position, fact in enumerate(facts):
        messages.landed(position, fact)
    return messages.outside


def _not_let_pass(facts: Sequence[AnyFact]) -> set[int]:
    """The messages that guardrails withhold, or have yet to judge."""
    return _not_judged(facts) | {fact.position for fact in facts if isinstance(fact, Judged) and fact.kind == "input" and fact.stop}


def _check_request(reading: _Reading, request: Request, broken: list[Violation]) -> None:
    where = f"the request of {request.agent} that saw up to {request.upto}"
    facts = reading.facts
    if request.upto >= len(facts):
        broken.append(Violation("C1", f"{where} saw more than was recorded"))
        return
    waiting = _not_judged(facts[: request.upto + 1])
    if waiting:
        broken.append(Violation("C1", f"{where} was sent while the message at {min(waiting)} waited to be judged"))
    seen: list[_Token] = []
    open_calls: dict[CallRef, Call] = {}
    answered: set[CallRef] = set()
    for entry in request.entries:
        if isinstance(entry, UserEntry):
            if entry.position < 0:
                continue  # of the frame
            fact = facts[entry.position] if entry.position < len(facts) else None
            if isinstance(fact, Said) and not entry.synthetic:
                seen.append(("user", entry.position))
                if fact.content != entry.content:
                    broken.append(Violation("C1", f"{where} has other words for the message at {entry.position}"))
            else:
                seen.append(("synthetic", entry.position))
        elif isinstance(entry, AssistantEntry):
            seen.append(("reply", entry.position))
            fact = facts[entry.position] if entry.position < len(facts) else None
            whole = fact.items if isinstance(fact, Answered) else ()
            spoken = tuple(item for item in whole if isinstance(item, (Words, Refusal)))
            if entry.items not in (whole, spoken):
                broken.append(Violation("C2", f"{where} has other words for the reply at {entry.position}"))
            open_calls.update((CallRef(entry.position, index), item) for index, item in enumerate(entry.items) if isinstance(item, Call))
        else:
            assert isinstance(entry, OutputEntry)
            seen.append(("output", entry.ref))
            if entry.ref in answered:
                broken.append(Violation("C3", f"{where} has two outputs for call {entry.ref}"))
            elif entry.ref not in open_calls:
                broken.append(Violation("C3", f"{where} has an output for call {entry.ref}, which it does not show before it"))
            answered.add(entry.ref)
            _check_output(reading, request, entry, where, broken)
    if unanswered := [ref for ref in open_calls if ref not in answered]:
        broken.append(Violation("C3", f"{where} has no output for call {unanswered[0]}"))
    _compare(reading, request, seen, where, broken)


def _check_output(reading: _Reading, request: Request, entry: OutputEntry, where: str, broken: list[Violation]) -> None:
    call = reading.calls.get(entry.ref)
    answers = [(at, content) for at, content in call.answers if at <= request.upto] if call else []
    if not answers:
        broken.append(Violation("C2", f"{where} has an output for call {entry.ref} that was never recorded"))
        return
    _, content = answers[0]
    if content is not None and text_of(content) not in text_of(entry.content):
        broken.append(Violation("C2", f"{where} has another output for call {entry.ref} than was recorded"))


def _compare(reading: _Reading, request: Request, seen: list[_Token], where: str, broken: list[Violation]) -> None:
    groups = _expected(reading, request.upto, request.agent)
    policy = request.frame.history
    match policy:
        case Everything():
            pass
        case Dialogue() | OwnTools():
            groups = [_worded(reading, group, request.agent if isinstance(policy, OwnTools) else "") for group in groups]
        case Last(turns=turns):
            starts = [index for index, (tokens, _, _) in enumerate(groups) if tokens and tokens[0][0] == "user"]
            groups = groups[starts[-turns] :] if len(starts) >= turns else groups
        case SinceHandoff():
            arrivals = [index for index, (_, _, target) in enumerate(groups) if target == request.agent]
            groups = groups[arrivals[-1] :] if arrivals else groups
        case Summarised():
            compacted = [fact for fact in reading.facts[: request.upto + 1] if isinstance(fact, Compacted)]
            covered = [fact.upto for fact in compacted if fact.agent == request.agent]
            groups = [group for group in groups if not covered or not group[0] or _at(group[0][0]) > covered[-1]]
        case Custom():
            shown = set(seen)
            groups = [group for group in groups if group[0] and group[0][0] in shown]
    wanted = [token for tokens, _, _ in groups for token in tokens]
    if wanted == seen:
        return
    for kind, promise in (("user", "C1"), ("synthetic", "C1"), ("reply", "C2"), ("output", "C2")):
        want, have = [token for token in wanted if token[0] == kind], [token for token in seen if token[0] == kind]
        if lost := [token for token in want if token not in have]:
            broken.append(Violation(promise, f"{where} lacks the {kind} at {lost[0][1]}"))
            return
        if strange := [token for token in have if token not in want]:
            broken.append(Violation(promise, f"{where} has the {kind} at {strange[0][1]}, which does not belong there"))
            return
        if len(have) != len(set(have)):
            broken.append(Violation(promise, f"{where} has a {kind} twice"))
            return
    broken.append(Violation("C1", f"{where} has everything, but not in order: {seen} instead of {wanted}"))


def _worded(reading: _Reading, group: tuple[list[_Token], str, str], own: str) -> tuple[list[_Token], str, str]:
    tokens, agent, target = group
    if not tokens or tokens[0][0] != "reply" or (own and agent == own):
        return group
    fact = reading.facts[tokens[0][1]]
    spoken = isinstance(fact, Answered) and any(isinstance(item, (Words, Refusal)) and item.text for item in fact.items)
    return (tokens[:1] if spoken else [], agent, target)


def _at(token: _Token) -> int:
    return token[1].position if isinstance(token[1], CallRef) else int(token[1])


def _check_replies(reading: _Reading, given: Mapping[str, tuple[Request, Reply]], broken: list[Violation]) -> None:
    """Every recorded reply is one that a model gave, as it gave it, for what it was given for."""
    for position, fact in enumerate(reading.facts):
        if not isinstance(fact, Answered):
            continue
        if fact.response_id not in given:
            broken.append(Violation("D1", f"the reply at {position} was never given by a model"))
            continue
        request, reply = given[fact.response_id]
        if fact.items != reply.items:
            broken.append(Violation("D1", f"the reply at {position} is not what the model said"))
        if fact.upto != request.upto:
            broken.append(Violation("C1", f"the reply at {position} says that it saw up to {fact.upto}; it saw up to {request.upto}"))
        if fact.agent != request.agent or fact.frame != request.frame_digest:
            broken.append(Violation("C2", f"the reply at {position} is recorded for another agent or frame than was asked"))


def check_stream(events: Iterable[Any], facts: Sequence[AnyFact]) -> list[Violation]:
    """C6 for one observer: the pieces it was shown and that were not withdrawn are the words that were recorded."""
    broken: list[Violation] = []
    pieces: list[str] = []
    for event in events:
        if event.type == "output" and event.data.delta:
            pieces.append(event.data.text)
        elif event.type == "output_reset":
            pieces.clear()
        elif event.type == "message" and isinstance(fact := facts[event.position], Answered):  # a guardrail's words may come in between
            words = "".join(item.text for item in fact.items if isinstance(item, (Words, Refusal)))
            shown = "".join(pieces)
            if pieces and shown != words:
                broken.append(Violation("C6", f"a reader was shown {shown!r} for the reply at {event.position}, which says {words!r}"))
            pieces.clear()
    if pieces:
        broken.append(Violation("C6", f"a reader was left with {''.join(pieces)!r}, which was never recorded"))
    return broken
