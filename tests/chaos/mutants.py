"""Bugs, on purpose, in workers that chaos visits. Each must be found by what the harness looks at; see `tests/engines/test_chaos.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from legato.core.groups import UserEntry
from legato.core.view import Request
from legato.engines.worker import Worker
from legato.errors import LedgerConflict
from legato.stores import PostgresStore
from tests.chaos import desk
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
            return await append(self, ledger, conflict.found_position, facts, **{**more, "born": ""})

    patch(PostgresStore, "append", append)


@mutant("a model is sent the user's last message twice")
def _(patch: Patch) -> None:
    before = Request.__dict__["entries"]

    def entries(self: Request) -> Any:
        found = list(before.fget(self))
        said = [entry for entry in found if isinstance(entry, UserEntry)]
        return iter([*found, *said[-1:]])

    patch(Request, "entries", property(entries))


@mutant("a tool is run a second time when it has ended")
def _(patch: Patch) -> None:
    before = desk.body

    async def body(ctx: Any, order: str) -> str:
        await before(ctx, order)
        return await before(ctx, order)

    patch(desk, "body", body)


@mutant("a reply is recorded as another than the model gave")
def _(patch: Patch) -> None:
    before = desk.Writing.reply

    async def reply(self: Any, *given: Any) -> Any:
        return replace(await before(self, *given), response_id="")

    patch(desk.Writing, "reply", reply)


@mutant("steps come to nothing, and say that all is well")
def _(patch: Patch) -> None:
    before = Worker._step

    async def step(self: Any, session: str, *given: Any) -> Any:
        if session.endswith("1"):
            from legato.engines.pace import Step

            return Step("waiting")
        return await before(self, session, *given)

    patch(Worker, "_step", step)
