"""One run: servers, workers, people and the monkey together, until every conversation has ended; then everything is judged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.runtime import Runtime, TelemetryConfig

from legato.engines import engine_at
from legato.stores import PostgresStore
from legato.testing.postgres import postgres_server
from legato.testing.promises import Violation
from tests.chaos.book import Book
from tests.chaos.judging import Judgement, judge, spread
from tests.chaos.monkey import DECK, Monkey
from tests.chaos.people import Crowd
from tests.engines.servers import RestateServer, Server, TemporalServer

ENGINES: dict[str, type[Server]] = {"temporal": TemporalServer, "restate": RestateServer}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    engine: str
    seed: int = 0
    conversations: int = 200
    turns: int = 20
    minutes: float = 15.0
    """After which conversations that have not ended are taken for lost."""
    calm: float = 60.0
    """Seconds in which nothing happens in any conversation, after which likewise."""
    deck: Sequence[str] = tuple(DECK)
    rounds: int = 1_000_000
    """How often the deck is dealt."""
    pause: tuple[float, float] = (1.5, 4.5)
    acts: int = 80
    """Between two blows, at least and at most so many seconds, and so many models and tools."""
    durable: bool = True
    """Whether Postgres waits for the disk, as it does in production."""
    mutant: str = ""
    """A bug that the workers have."""


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    seconds: float = 0.0
    folder: str = ""
    done: Counter[str] = field(default_factory=Counter)
    blows: Counter[str] = field(default_factory=Counter)
    judged: Judgement = field(default_factory=Judgement)

    @property
    def broken(self) -> list[Violation]:
        return self.judged.broken

    def __str__(self) -> str:
        counts, plan = self.judged.counts, self.plan
        twice = "" if any(each.promise == "D2" for each in self.broken) else ": none was"
        lines = [
            f"{plan.engine}, seed {plan.seed}: {self.done['ended']:,} of {plan.conversations:,} conversations of {plan.turns} turns ended,"
            f" in {self.seconds:,.0f} s; {len(self.broken) or 'no'} promise{'s' if len(self.broken) > 1 else ''} broken",
            f"  ledgers    {counts['facts']:,} facts: {counts['MessageReceived']:,} messages, {counts['ModelReplied']:,} replies,"
            f" {counts['HandedOff']:,} handoffs, {counts['CallStarted']:,} starts of tools,"
            f" {counts['decided: approval']:,} approvals, {counts['decided: result']:,} deferred results",
            f"  beside     models asked {counts['models asked']:,} times, {counts['tools begun']:,} bodies of tools begun,"
            f" {counts['tools begun that may not be twice']:,} of them of tools that may not be started twice{twice}",
            f"  blows      {', '.join(f'{kind} {times}' for kind, times in sorted(self.blows.items())) or 'none'}",
            f"  people     {', '.join(f'{what} {times}' for what, times in sorted(self.done.items()) if what != 'ended')}",
            f"  attempts   lost {counts['CallLost']}, questions about unknown outcomes {counts['decided: outcome']}, late outcomes"
            f" {counts['late outcomes']}, zombies that went on by themselves {counts['zombies that went on by themselves']}",
            *(f"  takeovers  {kind}: {spread(seconds)}" for kind, seconds in sorted(self.judged.taken_over.items())),
        ]
        lines += [f"  BROKEN     {violation}" for violation in self.broken[:20]]
        if self.broken:
            lines.append(f"  what the workers said, and the book, is in {self.folder}")
        return "\n".join(lines)


def run(plan: Plan, progress: Progress = lambda line: None) -> Report:
    """Make a run."""
    quiet()
    folder = tempfile.mkdtemp(prefix=f"legato-chaos-{plan.engine}-")
    server = ENGINES[plan.engine](Path(folder))
    with postgres_server(durable=plan.durable) as postgres:
        try:
            server.start()
            address = server.address_of(f"chaos{plan.seed}")
            book = Book(Path(folder) / "book")
            monkey = Monkey(server, postgres, address, postgres.dsn, Path(folder), book, plan.seed)
            monkey.deck, monkey.pause, monkey.acts, monkey.mutant = list(plan.deck), plan.pause, plan.acts, plan.mutant
            report = Report(plan, folder=folder)
            try:
                asyncio.run(_run(report, monkey, progress))
            finally:
                monkey.end()
        finally:
            server.kill()
    if not report.broken:
        shutil.rmtree(folder, ignore_errors=True)
    return report


async def _run(report: Report, monkey: Monkey, progress: Progress) -> None:
    plan, began = report.plan, time.monotonic()
    async with PostgresStore(monkey.dsn, pool_size=12) as store, engine_at(monkey.address) as engine:
        await store.list()  # so that there is a schema before anybody races for it under fire
        monkey.start()
        crowd = Crowd(engine, store, monkey.book, plan.seed, plan.turns)
        names = [f"c{number:03}" for number in range(plan.conversations)]
        talking = [asyncio.create_task(crowd.talk(name)) for name in names]
        raging = asyncio.create_task(monkey.rage(plan.rounds))
        try:
            while not all(task.done() for task in talking):
                await asyncio.wait(talking, timeout=10)
                report.seconds = time.monotonic() - began
                progress(_line(report, crowd, monkey))
                calm = time.monotonic() - crowd.moved
                if report.seconds > 60 * plan.minutes or calm > plan.calm:
                    report.judged.say("D4", f"{sum(not task.done() for task in talking)} conversations did not end")
                    break
        finally:
            raging.cancel()
            for task in talking:
                task.cancel()
            ended = await asyncio.gather(raging, *talking, return_exceptions=True)
        report.seconds = time.monotonic() - began
        report.done, report.done["ended"] = crowd.done, len(crowd.ended)
        report.blows = Counter(blow.kind for blow in monkey.blows)
        progress("judging ...")
        unended = report.judged.broken
        report.judged = await judge(store, engine, monkey.book, monkey.blows, plan.seed, names, plan.turns)
        report.judged.broken[:0] = unended
        for what in crowd.broken:
            report.judged.say("people", what)
        for error in ended:
            if isinstance(error, Exception):
                report.judged.say("harness", repr(error))


def _line(report: Report, crowd: Crowd, monkey: Monkey) -> str:
    blows = Counter(blow.kind for blow in monkey.blows)
    spent = ", ".join(f"{kind} {times}" for kind, times in sorted(blows.items()))
    ended = f"{len(crowd.ended)}/{report.plan.conversations} ended"
    return f"{report.plan.engine} {report.seconds:4.0f} s  {ended}  {spent}  outcomes asked {crowd.done['outcome answered']}"


def quiet() -> None:
    """That servers cannot be reached is the point here; people need not read it a thousand times."""
    logging.getLogger("legato.worker").setLevel(logging.ERROR)
    with contextlib.suppress(RuntimeError):  # it was said before
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
