"""A log of effects and consents that is kept outside of all ledgers.

Tools log each effect at the moment it takes place; people log each consent before they give it. `check_effects` compares the two: every
effect of a call that needs approval has a consent of its own, given in that very session; nothing that was rejected takes place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from msgspec import Struct

from legato.core.child_ids import is_child_of
from legato.core.facts import AnyFact, CallRef, Opened
from legato.core.requests import Pending
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
    consents: dict[tuple[str, str], list[Consent]] = defaultdict(list)
    for consent in log.consents:
        consents[consent.session, consent.key].append(consent)
    effects: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for effect in log.effects:
        effects[effect.session, effect.key].append(effect)
    asked = {consent.key for consent in log.consents if consent.kind == "approval"}
    standing = [consent for consent in log.consents if consent.always and consent.permits]
    for (session, key), done in effects.items():
        given = consents[session, key]
        tool, where = done[0].tool, f"call {key.split(':')[-1]} in {session}"
        gated = tool in rules.gated or key in log.gated or key in asked
        repeatable = rules.idempotent is None or tool in rules.idempotent
        for rejected in given:
            if rejected.kind == "approval" and rejected.verdict == "reject" and rejected.confirmed:
                yield Violation("S2", f"{tool} took effect for {where}, which a person had rejected")
        for number, effect in enumerate(done, 1):
            permitting = [consent for consent in given if consent.permits and consent.time < effect.time]
            allowed = len(permitting) if gated else 1 + sum(consent.kind == "outcome" for consent in permitting)
            for each in standing:
                if (each.session, each.agent, each.tool) == (session, effect.agent, tool) and each.time < effect.time and each.key != key:
                    allowed += gated
                    permitting.append(each)
                    break
            if allowed < (1 if repeatable else number):
                what = f"took effect for {where} without consent" if not allowed else f"took effect {number} times for {where}"
                yield Violation("S2" if gated else "D2", f"{tool} {what}, with {len(permitting)} consents given there")
            elif gated and not any(_covers(consent, effect) for consent in permitting):
                yield Violation("S2", f"{tool} took effect for {where} with arguments that nobody had approved")


def _covers(consent: Consent, effect: Effect) -> bool:
    """Whether a consent is for these arguments. Those that a tool has by default need not be named."""
    if consent.always and consent.key != effect.key:
        return True
    return all(name in effect.arguments and effect.arguments[name] == value for name, value in consent.arguments.items())
