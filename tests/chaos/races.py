"""Answers that are raced. Four processes, two for each of two machines, answer the same question at the same moment and differently.

Workers of an engine brought the conversations to where they ask, and go on with them meanwhile. Exactly one answer wins each time; what
runs afterwards is what the winner said, and nothing of it began before.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from legato.core.facts import ApprovalChecked, CallStarted, Decided
from legato.engines import engine_at
from legato.errors import LegatoError, NotPending
from legato.stores import PostgresStore
from legato.stores.contract import Store
from legato.testing.people import Verdict, give
from legato.testing.postgres import postgres_server
from legato.testing.promises import Violation, check_promises
from tests.chaos.book import Book
from tests.chaos.desk import desk
from tests.chaos.judging import RULES
from tests.chaos.monkey import Monkey
from tests.chaos.mutants import MUTANTS
from tests.chaos.running import ENGINES, Progress, quiet
from tests.sim.mutants import applied

VERDICTS: tuple[Verdict, ...] = ("approve", ("reject", "no"), ("edit", {"order": "this"}), ("edit", {"order": "that"}))
"""What each of the processes says: all of it may be said."""
BEGUN = ("m00-refund", None, "this", "that")
"""What the tool is begun with if that wins; None: it is not."""


@dataclass
class Raced:
    """What came of it."""

    engine: str
    races: int
    seconds: float = 0.0
    won: Counter[str] = field(default_factory=Counter)
    broken: list[Violation] = field(default_factory=list)

    def __str__(self) -> str:
        won = ", ".join(f"{verdict} {times}" for verdict, times in sorted(self.won.items()))
        lines = [
            f"{self.engine}: {self.races:,} answers raced by {len(VERDICTS)} processes in {self.seconds:,.0f} s,"
            f" {len(self.broken) or 'no'} promise{'s' if len(self.broken) > 1 else ''} broken; won: {won}"
        ]
        return "\n".join([*lines, *(f"  BROKEN     {violation}" for violation in self.broken[:20])])


def race(engine: str, races: int, progress: Progress = lambda line: None, mutant: str = "") -> Raced:
    """So many races. With a mutant, those who answer have that bug."""
    quiet()
    found = Raced(engine, races)
    with tempfile.TemporaryDirectory(prefix=f"legato-races-{engine}-") as folder, postgres_server() as postgres:
        server = ENGINES[engine](Path(folder))
        server.start()
        book = Book(Path(folder) / "book")
        monkey = Monkey(server, postgres, server.address_of("races"), postgres.dsn, Path(folder), book, 0)
        try:
            asyncio.run(_race(found, monkey, mutant, progress))
        finally:
            monkey.end()
            server.kill()
    return found


async def _race(found: Raced, monkey: Monkey, mutant: str, progress: Progress) -> None:
    names = [f"r{number:04}" for number in range(found.races)]
    async with PostgresStore(monkey.dsn) as store, engine_at(monkey.address) as engine:
        await store.list()
        monkey.start()

        async def asked(name: str) -> None:
            async with at_once:
                await engine.session(desk, name, store).run("m00 triage refund")

        at_once = asyncio.Semaphore(20)
        await asyncio.wait_for(asyncio.gather(*map(asked, names)), 60 + found.races)
        progress(f"{found.engine}: {found.races:,} conversations wait for an answer")
        began = time.monotonic()
        ends = await asyncio.to_thread(_raced, monkey, names, mutant)
        found.seconds = time.monotonic() - began
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(_waits(engine.session(desk, name, store), store) for name in names)), 60)
        monkey.book.read()
        for number, name in enumerate(names):
            await _judge(found, store, monkey.book, name, [told[number] for _, told in sorted(ends)])


async def _waits(session: Any, store: Store) -> None:
    """Until workers have gone on to the end; what can no longer be read is for the judge."""
    with contextlib.suppress(LegatoError):
        while (await session.refresh()).status != "waiting":
            await store.wait(session.id, session.state.length, 2.0)


async def _judge(found: Raced, store: Store, book: Book, name: str, ends: list[str]) -> None:
    def say(promise: str, what: str) -> None:
        found.broken.append(Violation(promise, f"{name}: {what}"))

    facts = list(await store.read(name))
    for violation in check_promises(facts, rules=RULES, session=name):
        say(violation.promise, violation.what)
    decided = [fact for fact in facts if isinstance(fact, Decided)]
    for number, end in enumerate(ends):
        if end not in ("won", "lost"):
            say("D3", f"who gave {VERDICTS[number]} was told {end[:100]}")
    winners = [number for number, end in enumerate(ends) if end == "won"]
    if len(winners) != 1 or [fact.verdict for fact in decided] != [_name(winners[0])]:
        told = [VERDICTS[number] for number in winners]
        say("D3", f"those who said {told} were told that they won; recorded is {[fact.verdict for fact in decided]}")
        return
    [winner] = winners
    found.won[f"process {winner + 1} ({_name(winner)})"] += 1
    order = BEGUN[winner]
    kinds = [type(fact) for fact in facts if isinstance(fact, (ApprovalChecked, Decided, CallStarted))]
    if kinds != [ApprovalChecked, Decided, *([] if order is None else [CallStarted])]:
        say("S2", f"a tool started at another time than after the answer: {[kind.__name__ for kind in kinds]}")
    begun = [line for lines in book.begun.values() for line in lines if line["session"] == name]
    if [line["order"] for line in begun] != ([] if order is None else [order]):
        say("D2", f"after {VERDICTS[winner]} the tool was begun with {[line['order'] for line in begun]}")
    if any(line["time"] * 1000 < decided[0].at for line in begun):
        say("S2", "the tool began before anybody had answered")


def _name(number: int) -> str:
    verdict = VERDICTS[number]
    return verdict if isinstance(verdict, str) else verdict[0] if verdict else ""


def _raced(monkey: Monkey, names: list[str], mutant: str) -> list[tuple[int, dict[int, str]]]:
    """For each process, how each race ended, as it was told."""
    processes = multiprocessing.get_context("spawn")
    together = processes.Barrier(len(VERDICTS))
    told = processes.Queue()
    racers = [
        processes.Process(target=_racer, args=(monkey.dsn, monkey.address, names, number, together, told, mutant))
        for number in range(len(VERDICTS))
    ]
    for racer in racers:
        racer.start()
    try:
        return [told.get(timeout=60 + len(names)) for _ in racers]
    finally:
        for racer in racers:  # those who have told have nothing else to do
            racer.kill()
            racer.join()


def _racer(dsn: str, address: str, names: list[str], number: int, together: Barrier, told: Any, mutant: str) -> None:
    quiet()
    with applied(mutant, MUTANTS) if mutant else contextlib.nullcontext():
        ends = asyncio.run(_answering(dsn, address, names, VERDICTS[number], together.wait))
    told.put((number, ends))


async def _answering(dsn: str, address: str, names: list[str], verdict: Verdict, together: Callable[[], object]) -> dict[int, str]:
    told = {}
    async with PostgresStore(dsn, pool_size=2) as store, engine_at(address) as engine:
        for number, name in enumerate(names):
            session = engine.session(desk, name, store)
            request = (await session.refresh()).pending[0]
            together()
            try:
                await give(session, request, verdict)
                told[number] = "won"
            except NotPending:
                told[number] = "lost"
            except LegatoError as error:  # nobody who is late should be told anything else
                told[number] = repr(error)
    return told
