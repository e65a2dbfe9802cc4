"""How a law book is written. May know: nothing but data. Decides: in which order a request is judged, and when judging stops.

A law book holds one *clause* per rule of a provider. A clause says what the rule is, how sure we are of it (its grade) and when it
was last seen, and has one short function that finds what breaks it:

    book = Book("responses")
    PAIRING = book.phase("calls and their outputs")

    @book.law("T1", "Every function call has its output.", PAIRING, grade="A", seen="2026-11")
    def every_call_has_its_output(case):
        for call in case.unanswered:
            yield Fault(f"No tool output found for function call {call.id}.", param="input", path=call.path)

Providers judge in *phases* and answer with the first fault they find. `judge` gives the complaints in that order, all of the first
phase that has any: what comes after it takes for granted what came before, so its complaints would be noise.

Grades: A seen on the wire; B quoted word for word in two or more independent reports; C one report, or a provider's document;
D inferred. A clause that is not certain is governed by a *switch*: a field of the book's profile, which turns it on or off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

Grade: TypeAlias = Literal["A", "B", "C", "D"]


class Clause(Struct, frozen=True):
    """One rule of one provider."""

    id: str
    rule: str  # a sentence that is true of every request that is accepted
    grade: Grade
    seen: str  # "2026-11"
    phase: str
    status: int = 400
    code: str | None = None
    switch: str = ""  # the field of the profile that turns it on; empty: always in force
    permits: bool = False  # it says what is allowed; nothing can break it


class Fault(Struct, frozen=True):
    """What a law found. `path` is where the offending item stands; `code`, `status` and `type` only where the clause's do not fit."""

    message: str
    param: str | None = None
    path: str = ""
    code: str | None = None
    status: int = 0
    type: str = ""


class Complaint(Struct, frozen=True):
    """A clause and how it was broken: everything the provider would answer with."""

    clause: Clause
    message: str
    status: int
    type: str
    param: str | None
    code: str | None
    path: str

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"[{self.clause.id}] {self.status} {self.message}{where}"


class HasProfile(Protocol):
    """What a book judges: anything that carries the profile whose switches apply."""

    @property
    def profile(self) -> Any:
        """The switches."""
        ...


CaseT = TypeVar("CaseT", bound=HasProfile)
Finder: TypeAlias = Callable[..., Iterable[Fault]]


class Phase:
    """Laws that are judged together. With `each`, subject by subject: all laws about the first before any about the second."""

    def __init__(self, name: str, each: Callable[[Any], Iterable[Any]] | None = None) -> None:
        self.name = name
        self.each = each
        self.laws: list[tuple[Clause, Finder]] = []
        self._known: tuple[Any, list[tuple[Clause, Finder]]] = (None, [])

    def in_force(self, profile: Any) -> list[tuple[Clause, Finder]]:
        """The laws that a profile's switches leave on. Most requests are judged by the profile that the last one was judged by."""
        known, laws = self._known
        if known is not profile:
            laws = [(clause, find) for clause, find in self.laws if not clause.switch or getattr(profile, clause.switch)]
            self._known = (profile, laws)
        return laws

    def judge(self, case: Any) -> Iterator[Complaint]:
        """What this phase complains about. A law about a subject is called with the case and the subject."""
        laws = self.in_force(case.profile)
        for subject in self.each(case) if self.each else ((),):
            arguments = (case, subject) if self.each else (case,)
            for clause, find in laws:
                for fault in find(*arguments):
                    yield Complaint(
                        clause,
                        fault.message,
                        fault.status or clause.status,
                        fault.type or "invalid_request_error",
                        fault.param,
                        fault.code or clause.code,
                        fault.path or fault.param or "",
                    )

    def __repr__(self) -> str:
        return f"<phase {self.name!r}: {len(self.laws)} laws>"


class Book(Generic[CaseT]):
    """The rules of one API, in the order in which it complains."""

    def __init__(self, api: str) -> None:
        self.api = api
        self.phases: list[Phase] = []
        self.clauses: dict[str, Clause] = {}

    def phase(self, name: str, each: Callable[[CaseT], Iterable[Any]] | None = None) -> Phase:
        """The next phase."""
        phase = Phase(name, each)
        self.phases.append(phase)
        return phase

    def law(
        self,
        id: str,
        rule: str,
        phase: Phase,
        *,
        grade: Grade,
        seen: str,
        status: int = 400,
        code: str | None = None,
        switch: str = "",
    ) -> Callable[[Finder], Finder]:
        """Write a clause down; the decorated function yields a `Fault` wherever it is broken."""

        def write(find: Finder) -> Finder:
            phase.laws.append((self._write(Clause(id, rule, grade, seen, phase.name, status, code, switch)), find))
            return find

        return write

    def permits(self, id: str, rule: str, *, grade: Grade, seen: str, phase: Phase) -> None:
        """Write down what is accepted although one might think that it is not."""
        self._write(Clause(id, rule, grade, seen, phase.name, 200, permits=True))

    def _write(self, clause: Clause) -> Clause:
        assert clause.id not in self.clauses, f"clause {clause.id} is written twice"
        self.clauses[clause.id] = clause
        return clause

    def judge(self, case: CaseT, phases: Iterable[Phase] = ()) -> Iterator[Complaint]:
        """The complaints about a request, in the provider's order; nothing if it is legal. `phases`: only these are judged."""
        for phase in phases or self.phases:
            found = False
            for complaint in phase.judge(case):
                found = True
                yield complaint
            if found:
                return

    def __repr__(self) -> str:
        return f"<law book of {self.api}: {len(self.clauses)} clauses>"
