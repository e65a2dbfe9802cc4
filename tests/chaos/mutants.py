"""Deliberate bugs of workers in chaos runs. The checks must find each of them; see `tests/engines/test_chaos.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.core.groups import UserEntry
from legato.core.view import ModelRequest
from legato.engines.retry_policy import NextStep
from legato.engines.worker import Worker
from legato.errors import LedgerConflict
from legato.stores import PostgresStore
from tests.sim import mutants as simulated
from tests.sim.mutants import Patch

RESTARTS = "a tool that is not idempotent is started again after its attempt was lost"

MUTANTS: dict[str, Callable[[Patch], None]] = {RESTARTS: simulated.MUTANTS[RESTARTS]}


def mutant(sentence: str) -> Callable[[Callable[[Patch], None]], None]:
    def register(make: Callable[[Patch], None]) -> None:
        MUTANTS[sentence] = make

    return register


@mutant("the store appends wherever the ledger ends, whatever position was expected")
def _(patch: Patch) -> None:
    before = PostgresStore.append

    async def append(self: Any, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        try:
            return await before(self, ledger, expected, facts, **more)
        except LedgerConflict as conflict:
            return await append(self, ledger, conflict.found_position, facts, **{**more, "ledger_id": ""})

    patch(PostgresStore, "append", append)


@mutant("a model is sent the user's first message twice")
def _(patch: Patch) -> None:
    before = ModelRequest.__dict__["entries"]

    def entries(self: ModelRequest) -> Any:
        found = list(before.fget(self))
        said = [entry for entry in found if isinstance(entry, UserEntry)]
        return iter([*said[:1], *found])

    patch(ModelRequest, "entries", property(entries))


@mutant("steps come to nothing, and say that all is well")
def _(patch: Patch) -> None:
    before = Worker._run_step

    async def run_step(self: Any, session: str, *arguments: Any) -> Any:
        return NextStep("waiting") if session.endswith("1") else await before(self, session, *arguments)

    patch(Worker, "_run_step", run_step)
