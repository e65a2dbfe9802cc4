"""Rule sets: the rules of a provider's API as data, each with a function that finds what breaks it.

A rule says what is true of every accepted request, how good the evidence is (its grade) and when it was last confirmed:

    RULES = RuleSet("responses")
    CALLS = RULES.add_phase("calls and their outputs")

    @RULES.rule("T1", "Every function call has its output.", CALLS, grade="A", as_of="2026-11")
    def every_call_has_its_output(context):
        for call in context.unanswered_calls:
            yield Finding(f"No tool output found for function call {call.id}.", param="input", path=call.path)

Providers check a request in *phases* and answer with the first violation. `RuleSet.check` yields violations in that order: all those of
the first phase that has any. Later phases take for granted what earlier ones checked, so their violations would be noise.

Evidence grades: A seen on the wire; B quoted word for word in two or more independent reports; C one report, or a provider's document;
D inferred. A rule that is not certain has a *switch*: a field of the API's switches, which turns it on or off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

EvidenceGrade: TypeAlias = Literal["A", "B", "C", "D"]


class ProviderRule(Struct, frozen=True):
    """One rule of one provider."""

    id: str
    statement: str  # a sentence that is true of every accepted request
    grade: EvidenceGrade
    as_of: str  # the month of the newest evidence: "2026-11"
    phase: str
    status: int = 400
    code: str | None = None
    switch: str = ""  # the field of the API's switches that turns it on; empty: always in force
    is_permission: bool = False  # it says what is accepted; no request can break it


class Finding(Struct, frozen=True):
    """The details of one violation, as a rule's function yields them.

    `path` is the place of the offending value. `code`, `status` and `type` are set only where they differ from the rule's.
    """

    message: str
    param: str | None = None
    path: str = ""
    code: str | None = None
    status: int = 0
    type: str = ""


class ShapeFinding(Struct, frozen=True):
    """A finding about the shape of a field, and the id of the rule that it breaks."""

    rule_id: str
    finding: Finding


class RuleViolation(Struct, frozen=True):
    """A broken rule, with everything that the provider would answer."""

    rule: ProviderRule
    message: str
    status: int
    type: str
    param: str | None
    code: str | None
    path: str

    def __str__(self) -> str:
        place = f" at {self.path}" if self.path else ""
        return f"[{self.rule.id}] {self.status} {self.message}{place}"


class HasSwitches(Protocol):
    """A request context: anything that carries the switches in force."""

    @property
    def switches(self) -> Any:
        """The switches in force."""
        ...


ContextT = TypeVar("ContextT", bound=HasSwitches)
RuleCheck: TypeAlias = Callable[..., Iterable[Finding]]
"""A rule's function. It takes the request context, and the subject if its phase has subjects."""


class Phase:
    """Rules that are checked together.

    With `find_subjects`, subject by subject: all rules about the first subject come before any about the second.
    """

    def __init__(self, name: str, find_subjects: Callable[[Any], Iterable[Any]] | None = None) -> None:
        self.name = name
        self.find_subjects = find_subjects
        self.rules: list[tuple[ProviderRule, RuleCheck]] = []
        self._cached: tuple[Any, list[tuple[ProviderRule, RuleCheck]]] = (None, [])

    def select_rules(self, switches: Any) -> list[tuple[ProviderRule, RuleCheck]]:
        """Return the rules that the switches leave on. The last selection is cached: most requests share their switches."""
        cached_for, rules = self._cached
        if cached_for is not switches:
            rules = [(rule, find) for rule, find in self.rules if not rule.switch or getattr(switches, rule.switch)]
            self._cached = (switches, rules)
        return rules

    def check(self, context: Any) -> Iterator[RuleViolation]:
        """Yield the violations of this phase's rules."""
        rules = self.select_rules(context.switches)
        for subject in self.find_subjects(context) if self.find_subjects else ((),):
            arguments = (context, subject) if self.find_subjects else (context,)
            for rule, find in rules:
                for finding in find(*arguments):
                    yield RuleViolation(
                        rule,
                        finding.message,
                        finding.status or rule.status,
                        finding.type or "invalid_request_error",
                        finding.param,
                        finding.code or rule.code,
                        finding.path or finding.param or "",
                    )

    def __repr__(self) -> str:
        return f"<phase {self.name!r}: {len(self.rules)} rules>"


class RuleSet(Generic[ContextT]):
    """The rules of one API, in the order in which the provider checks them."""

    def __init__(self, api: str) -> None:
        self.api = api
        self.phases: list[Phase] = []
        self.by_id: dict[str, ProviderRule] = {}

    def add_phase(self, name: str, find_subjects: Callable[[ContextT], Iterable[Any]] | None = None) -> Phase:
        """Add a phase after those that are there."""
        phase = Phase(name, find_subjects)
        self.phases.append(phase)
        return phase

    def rule(
        self,
        id: str,
        statement: str,
        phase: Phase,
        *,
        grade: EvidenceGrade,
        as_of: str,
        status: int = 400,
        code: str | None = None,
        switch: str = "",
    ) -> Callable[[RuleCheck], RuleCheck]:
        """Add a rule. The decorated function yields a `Finding` for each violation."""

        def register(find: RuleCheck) -> RuleCheck:
            phase.rules.append((self._add(ProviderRule(id, statement, grade, as_of, phase.name, status, code, switch)), find))
            return find

        return register

    def add_shape_rule(
        self, phase: Phase, id: str, statement: str, *, grade: EvidenceGrade, as_of: str, code: str | None = None, switch: str = ""
    ) -> None:
        """Add a rule to a phase whose subjects are `ShapeFinding`s: it takes those that name its id."""

        def find(context: ContextT, subject: ShapeFinding) -> Iterable[Finding]:
            return (subject.finding,) if subject.rule_id == id else ()

        self.rule(id, statement, phase, grade=grade, as_of=as_of, code=code, switch=switch)(find)

    def add_permission(self, id: str, statement: str, *, grade: EvidenceGrade, as_of: str, phase: Phase) -> None:
        """Add a statement about what is accepted, although one might expect a refusal."""
        self._add(ProviderRule(id, statement, grade, as_of, phase.name, 200, is_permission=True))

    def _add(self, rule: ProviderRule) -> ProviderRule:
        assert rule.id not in self.by_id, f"two rules have the id {rule.id}"
        self.by_id[rule.id] = rule
        return rule

    def check(self, context: ContextT, phases: Iterable[Phase] = ()) -> Iterator[RuleViolation]:
        """Yield the violations of a request in the provider's order; none if it is legal. `phases`: check only these."""
        for phase in phases or self.phases:
            has_violations = False
            for violation in phase.check(context):
                has_violations = True
                yield violation
            if has_violations:
                return

    def __repr__(self) -> str:
        return f"<rule set of {self.api}: {len(self.by_id)} rules>"
