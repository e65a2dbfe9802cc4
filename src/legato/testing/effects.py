"""A log of effects and consents that is kept outside of all ledgers.

Tools log each effect at the moment it takes place; people log each consent before they give it. `check_effects` compares the two: every
effect of a call that needs approval has a consent of its own, given in that very session; nothing that was rejected takes place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar

from msgspec import Struct

from legato.core.child_session_ids import is_child_of
from legato.core.facts import AnyFact, CallRef, Opened
from legato.core.pending_requests import Pending
from legato.testing.violations import Rules, Violation
from legato.tools import ToolContext


class Effect(Struct, frozen=True):
    """A tool's effect: in which session, under which idempotency key, of whose call, with which arguments, and when."""

    session: str
    key: str
    agent: str
    tool: str
    arguments: Mapping[str, object]
    time: int


class Consent(Struct):
    """A person's answer to an approval or outcome request. `time` is when it was sent, so an effect may follow before it is confirmed."""

    session: str
    key: str
    agent: str
    tool: str
    kind: str
    verdict: str
    arguments: Mapping[str, object]
    always: bool
    time: int
    confirmed: bool = False
    refused: bool = False

    @property
    def permits(self) -> bool:
        """Whether an effect may follow from it. An answer that was neither confirmed nor refused may have been recorded."""
        return self.verdict in ("approve", "edit") and not self.refused


Entry = TypeVar("Entry", Effect, Consent)


class EffectLog:
    """What tools did and what people allowed, as they say themselves."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.consents: list[Consent] = []
        self.gated: set[str] = set()
        """Keys of calls that an approval policy found to need approval."""
        self._clock = count(1)
        self._moved: dict[str, str] = {}  # the id of a moved session -> the id that it had

    def add_effect(self, context: ToolContext[Any]) -> None:
        """Note that the effect of a call takes place."""
        session = self._original(context.session_id)
        call = context.call
        self.effects.append(Effect(session, context.idempotency_key, context.agent, call.tool, dict(call.arguments), next(self._clock)))

    def add_consent(
        self, request: Pending, key: str, verdict: str, arguments: Mapping[str, object] | None = None, always: bool = False
    ) -> Consent:
        """Note that a person is about to answer; mark what this returns as `confirmed` or `refused`."""
        session = self._original(request.session)
        given = request.arguments if arguments is None else arguments
        consent = Consent(session, key, request.agent, request.tool, request.kind, verdict, given, always, next(self._clock))
        self.consents.append(consent)
        return consent

    def move(self, old: str, new: str) -> None:
        """A session was moved with its child sessions: what was allowed there is allowed here."""
        if old != new:
            self._moved[new] = self._original(old)

    def _original(self, session: str) -> str:
        for new, old in self._moved.items():
            if session == new or is_child_of(session, new):
                return old + session[len(new) :]
        return session


def call_key(facts: list[AnyFact], call: CallRef) -> str:
    """The idempotency key of a call: the name that its ledger had when the call was recorded, and its place."""
    names = [fact.ledger for fact in facts[: call.position] if isinstance(fact, Opened)]
    return f"{names[-1] if names else ''}:{call}"


def check_effects(log: EffectLog, rules: Rules) -> Iterator[Violation]:
    """Effects without a consent of their own, effects that took place twice, and effects of rejected calls."""
    consents, effects = _by_call(log.consents), _by_call(log.effects)
    asked = {consent.key for consent in log.consents if consent.kind == "approval"}
    standing = [consent for consent in log.consents if consent.always and consent.permits]
    for call, done in effects.items():
        tool, key = done[0].tool, call[1]
        gated = tool in rules.gated or key in log.gated or key in asked
        repeatable = rules.idempotent is None or tool in rules.idempotent
        yield from _check_rejected(done[0], consents[call])
        for number, effect in enumerate(done, 1):
            yield from _check_effect(effect, 1 if repeatable else number, gated, consents[call], standing)


def _by_call(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Entries of the log by the session and the key of their call."""
    found: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.session, entry.key].append(entry)
    return found


def _check_effect(effect: Effect, number: int, gated: bool, consents: list[Consent], standing: list[Consent]) -> Iterator[Violation]:
    """The `number`-th effect of a call needs as many consents before it: its own, or a standing one. Where none is needed, one is free."""
    given = [consent for consent in consents if consent.permits and consent.time < effect.time]
    general = next((consent for consent in standing if _stands_for(consent, effect)), None)
    allowed = len(given) + (general is not None) if gated else 1 + sum(consent.kind == "outcome" for consent in given)
    permitting = [*given, general] if general is not None else given
    if allowed < number:
        where = _place(effect)
        what = f"took effect for {where} without consent" if not allowed else f"took effect {number} times for {where}"
        yield Violation("S2" if gated else "D2", f"{effect.tool} {what}, with {len(permitting)} consents given there")
    elif gated and not any(_covers(consent, effect) for consent in permitting):
        yield Violation("S2", f"{effect.tool} took effect for {_place(effect)} with arguments that nobody had approved")


def _place(effect: Effect) -> str:
    return f"call {effect.key.split(':')[-1]} in {effect.session}"


def _check_rejected(effect: Effect, given: list[Consent]) -> Iterator[Violation]:
    """What a person rejected takes no effect."""
    for consent in given:
        if consent.kind == "approval" and consent.verdict == "reject" and consent.confirmed:
            yield Violation("S2", f"{effect.tool} took effect for {_place(effect)}, which a person had rejected")


def _stands_for(consent: Consent, effect: Effect) -> bool:
    """Whether a standing approval, given for another call before, is for the calls of this agent's tool in this session."""
    same = (consent.session, consent.agent, consent.tool) == (effect.session, effect.agent, effect.tool)
    return same and consent.time < effect.time and consent.key != effect.key


def _covers(consent: Consent, effect: Effect) -> bool:
    """Whether a consent is for these arguments. Those that a tool has by default need not be named."""
    if consent.always and consent.key != effect.key:
        return True
    return all(name in effect.arguments and effect.arguments[name] == value for name, value in consent.arguments.items())
