"""A log of effects and consents, kept outside all ledgers.

Tools log each effect at the moment it takes place, and users log each consent before they send it. `check_effects` compares the two: every
effect of a call that needs approval must have its own consent, given in the same session, and no rejected call has an effect.
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
from legato.testing.violations import Violation, WorkflowRules
from legato.tools import ToolContext


class ToolEffect(Struct, frozen=True):
    """The effect of a tool. `key` is the idempotency key of its call; `time` counts the entries of the log."""

    session: str
    key: str
    agent: str
    tool: str
    arguments: Mapping[str, object]
    time: int


class Consent(Struct):
    """A user's answer to an approval or outcome request.

    `time` is the time of sending, so an effect may follow before the answer is confirmed.
    """

    session: str
    key: str
    agent: str
    tool: str
    kind: str
    verdict: str
    arguments: Mapping[str, object]
    is_standing: bool
    time: int
    is_confirmed: bool = False
    is_refused: bool = False

    @property
    def is_permission(self) -> bool:
        """True if it may permit an effect. An answer that was neither confirmed nor refused may have been recorded."""
        return self.verdict in ("approve", "edit") and not self.is_refused


LogEntry = TypeVar("LogEntry", ToolEffect, Consent)


class EffectLog:
    """The effects of tools and the consents of users, as logged by themselves."""

    def __init__(self) -> None:
        self.effects: list[ToolEffect] = []
        self.consents: list[Consent] = []
        self.keys_needing_approval: set[str] = set()
        """The idempotency keys of calls that an approval policy found to need approval."""
        self._clock = count(1)
        self._old_ids: dict[str, str] = {}  # the id of a moved session -> its id before

    def add_effect(self, context: ToolContext[Any]) -> None:
        """Log the effect of a call."""
        session = self._find_original_id(context.session_id)
        call = context.call
        self.effects.append(ToolEffect(session, context.idempotency_key, context.agent, call.tool, dict(call.arguments), next(self._clock)))

    def add_consent(
        self, request: Pending, key: str, verdict: str, arguments: Mapping[str, object] | None = None, is_standing: bool = False
    ) -> Consent:
        """Log an answer that is about to be sent. Set `is_confirmed` or `is_refused` of the returned entry afterwards."""
        session = self._find_original_id(request.session)
        approved = request.arguments if arguments is None else arguments
        consent = Consent(session, key, request.agent, request.tool, request.kind, verdict, approved, is_standing, next(self._clock))
        self.consents.append(consent)
        return consent

    def record_move(self, old: str, new: str) -> None:
        """Log that a session was moved with its child sessions, and its consents with it."""
        if old != new:
            self._old_ids[new] = self._find_original_id(old)

    def _find_original_id(self, session: str) -> str:
        for new, old in self._old_ids.items():
            if session == new or is_child_of(session, new):
                return old + session[len(new) :]
        return session


def find_idempotency_key(facts: list[AnyFact], call: CallRef) -> str:
    """Return the idempotency key of a call: the id of its ledger when the call was recorded, and its place in the ledger."""
    ledger_ids = [fact.ledger_id for fact in facts[: call.position] if isinstance(fact, Opened)]
    return f"{ledger_ids[-1] if ledger_ids else ''}:{call}"


def check_effects(log: EffectLog, rules: WorkflowRules) -> Iterator[Violation]:
    """Yield effects without their own consent, effects that took place twice, and effects of rejected calls."""
    consents, effects = _group_by_call(log.consents), _group_by_call(log.effects)
    requested_keys = {consent.key for consent in log.consents if consent.kind == "approval"}
    standing = [consent for consent in log.consents if consent.is_standing and consent.is_permission]
    for call, call_effects in effects.items():
        tool, key = call_effects[0].tool, call[1]
        needs_approval = tool in rules.tools_needing_approval or key in log.keys_needing_approval or key in requested_keys
        is_repeatable = rules.idempotent_tools is None or tool in rules.idempotent_tools
        yield from _check_not_rejected(call_effects[0], consents[call])
        for number, effect in enumerate(call_effects, 1):
            yield from _check_effect(effect, 1 if is_repeatable else number, needs_approval, consents[call], standing)


def _group_by_call(entries: Iterable[LogEntry]) -> dict[tuple[str, str], list[LogEntry]]:
    """Group log entries by the session and the idempotency key of their call."""
    groups: dict[tuple[str, str], list[LogEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.session, entry.key].append(entry)
    return groups


def _check_effect(
    effect: ToolEffect, number: int, needs_approval: bool, consents: list[Consent], standing: list[Consent]
) -> Iterator[Violation]:
    """Check that enough consents precede the `number`-th effect of a call.

    As many are needed as there are effects: consents for the call, or a standing approval. Without a need for approval, one effect is free.
    """
    earlier = [consent for consent in consents if consent.is_permission and consent.time < effect.time]
    standing_approval = next((consent for consent in standing if _is_in_force_for(consent, effect)), None)
    if needs_approval:
        allowed = len(earlier) + (standing_approval is not None)
    else:
        allowed = 1 + sum(consent.kind == "outcome" for consent in earlier)
    permissions = [*earlier, standing_approval] if standing_approval is not None else earlier
    if allowed < number:
        call = _describe_call(effect)
        problem = f"took effect for {call} without consent" if not allowed else f"took effect {number} times for {call}"
        yield Violation("S2" if needs_approval else "D2", f"{effect.tool} {problem}, with {len(permissions)} consents given there")
    elif needs_approval and not any(_covers_arguments(consent, effect) for consent in permissions):
        yield Violation("S2", f"{effect.tool} took effect for {_describe_call(effect)} with arguments that were never approved")


def _describe_call(effect: ToolEffect) -> str:
    return f"call {effect.key.split(':')[-1]} in {effect.session}"


def _check_not_rejected(effect: ToolEffect, consents: list[Consent]) -> Iterator[Violation]:
    """Check that no user rejected the call."""
    for consent in consents:
        if consent.kind == "approval" and consent.verdict == "reject" and consent.is_confirmed:
            yield Violation("S2", f"{effect.tool} took effect for {_describe_call(effect)}, which a user had rejected")


def _is_in_force_for(consent: Consent, effect: ToolEffect) -> bool:
    """Return True if a standing approval, given earlier for another call, applies to this agent's tool in this session."""
    is_same_tool = (consent.session, consent.agent, consent.tool) == (effect.session, effect.agent, effect.tool)
    return is_same_tool and consent.time < effect.time and consent.key != effect.key


def _covers_arguments(consent: Consent, effect: ToolEffect) -> bool:
    """Return True if a consent is for these arguments. Default values need not be named."""
    if consent.is_standing and consent.key != effect.key:
        return True
    return all(name in effect.arguments and effect.arguments[name] == value for name, value in consent.arguments.items())
