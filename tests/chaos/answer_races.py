"""Races of answers: four processes answer the same request at the same moment, differently.

Workers of an engine have driven the conversations to the request, and continue them meanwhile. Exactly one answer wins each time. The tool
runs as the winning answer says, and does not start before.
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
from legato.engines import open_engine
from legato.errors import LegatoError, NotPending
from legato.stores import PostgresStore
from legato.stores.contract import Store
from legato.testing.postgres import postgres_server
from legato.testing.promise_checks import Violation, check_promises
from legato.testing.scripted_users import Verdict, give_answer
from tests.chaos.activity_log import ActivityLog
from tests.chaos.chaos_run import ENGINES, Progress, silence_logs
from tests.chaos.desk import desk
from tests.chaos.monkey import ChaosMonkey
from tests.chaos.mutants import MUTANTS
from tests.chaos.result_checks import RULES
from tests.sim.mutants import apply_mutant

VERDICTS: tuple[Verdict, ...] = ("approve", ("reject", "no"), ("edit", {"order": "this"}), ("edit", {"order": "that"}))
"""The answer of each process; all of them are valid."""
EXPECTED_ORDERS = ("m00-refund", None, "this", "that")
"""The order with which the tool is started if that answer wins; None: it is not started."""


@dataclass
class RaceReport:
    """The report of races."""

    engine: str
    races: int
    seconds: float = 0.0
    wins: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def __str__(self) -> str:
        won = ", ".join(f"{verdict} {times}" for verdict, times in sorted(self.wins.items()))
        lines = [
            f"{self.engine}: {self.races:,} answers raced by {len(VERDICTS)} processes in {self.seconds:,.0f} s,"
            f" {len(self.violations) or 'no'} promise{'s' if len(self.violations) > 1 else ''} broken; won: {won}"
        ]
        return "\n".join([*lines, *(f"  BROKEN     {violation}" for violation in self.violations[:20])])


def run_races(engine: str, races: int, progress: Progress = lambda line: None, mutant: str = "") -> RaceReport:
    """Run races. `mutant` names a deliberate bug of the answering processes."""
    silence_logs()
    report = RaceReport(engine, races)
    with tempfile.TemporaryDirectory(prefix=f"legato-races-{engine}-") as folder, postgres_server() as postgres:
        server = ENGINES[engine](Path(folder))
        server.start()
        log = ActivityLog(Path(folder) / "activity_log")
        monkey = ChaosMonkey(server, postgres, server.engine_url("races"), postgres.dsn, Path(folder), log, 0)
        try:
            asyncio.run(_prepare_and_run(report, monkey, mutant, progress))
        finally:
            monkey.kill_workers()
            server.kill()
    return report


async def _prepare_and_run(report: RaceReport, monkey: ChaosMonkey, mutant: str, progress: Progress) -> None:
    names = [f"r{number:04}" for number in range(report.races)]
    async with PostgresStore(monkey.dsn) as store, open_engine(monkey.engine_url) as engine:
        await store.list()
        monkey.start()

        async def bring_to_request(name: str) -> None:
            async with semaphore:
                await engine.session(desk, name, store).run("m00 triage refund")

        semaphore = asyncio.Semaphore(20)
        await asyncio.wait_for(asyncio.gather(*map(bring_to_request, names)), 60 + report.races)
        progress(f"{report.engine}: {report.races:,} conversations wait for an answer")
        began = time.monotonic()
        ends = await asyncio.to_thread(_run_racers, monkey, names, mutant)
        report.seconds = time.monotonic() - began
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(_wait_for_end(engine.session(desk, name, store), store) for name in names)), 60)
        monkey.activity_log.read()
        for number, name in enumerate(names):
            await _check_race(report, store, monkey.activity_log, name, [results[number] for _, results in sorted(ends)])


async def _wait_for_end(session: Any, store: Store) -> None:
    """Wait until workers have finished a conversation; unreadable ledgers are left to the checks."""
    with contextlib.suppress(LegatoError):
        while (await session.refresh()).status != "waiting":
            await store.wait(session.id, session.state.length, 2.0)


async def _check_race(report: RaceReport, store: Store, log: ActivityLog, name: str, ends: list[str]) -> None:
    def say(promise: str, what: str) -> None:
        report.violations.append(Violation(promise, f"{name}: {what}"))

    facts = list(await store.read(name))
    for violation in check_promises(facts, rules=RULES, session=name):
        say(violation.promise, violation.description)
    decided = [fact for fact in facts if isinstance(fact, Decided)]
    for number, end in enumerate(ends):
        if end not in ("won", "lost"):
            say("D3", f"the process that answered {VERDICTS[number]} got {end[:100]}")
    winners = [number for number, end in enumerate(ends) if end == "won"]
    if len(winners) != 1 or [fact.verdict for fact in decided] != [_verdict_name(winners[0])]:
        results = [VERDICTS[number] for number in winners]
        say("D3", f"those who said {results} were told that they won; recorded is {[fact.verdict for fact in decided]}")
        return
    [winner] = winners
    report.wins[f"process {winner + 1} ({_verdict_name(winner)})"] += 1
    order = EXPECTED_ORDERS[winner]
    kinds = [type(fact) for fact in facts if isinstance(fact, (ApprovalChecked, Decided, CallStarted))]
    if kinds != [ApprovalChecked, Decided, *([] if order is None else [CallStarted])]:
        say("S2", f"a tool started at another time than after the answer: {[kind.__name__ for kind in kinds]}")
    starts = [line for lines in log.started_tools.values() for line in lines if line["session"] == name]
    if [line["order"] for line in starts] != ([] if order is None else [order]):
        say("D2", f"after {VERDICTS[winner]} the tool was begun with {[line['order'] for line in starts]}")
    if any(line["time"] * 1000 < decided[0].at for line in starts):
        say("S2", "the tool was started before the answer")


def _verdict_name(number: int) -> str:
    verdict = VERDICTS[number]
    return verdict if isinstance(verdict, str) else verdict[0] if verdict else ""


def _run_racers(monkey: ChaosMonkey, names: list[str], mutant: str) -> list[tuple[int, dict[int, str]]]:
    """Return, for each process, how each race ended for it."""
    processes = multiprocessing.get_context("spawn")
    together = processes.Barrier(len(VERDICTS))
    results = processes.Queue()
    racers = [
        processes.Process(target=_run_racer, args=(monkey.dsn, monkey.engine_url, names, number, together, results, mutant))
        for number in range(len(VERDICTS))
    ]
    for racer in racers:
        racer.start()
    try:
        return [results.get(timeout=60 + len(names)) for _ in racers]
    finally:
        for racer in racers:  # the results are in the queue
            racer.kill()
            racer.join()


def _run_racer(dsn: str, address: str, names: list[str], number: int, together: Barrier, results: Any, mutant: str) -> None:
    silence_logs()
    with apply_mutant(mutant, MUTANTS) if mutant else contextlib.nullcontext():
        ends = asyncio.run(_answer_all(dsn, address, names, VERDICTS[number], together.wait))
    results.put((number, ends))


async def _answer_all(dsn: str, address: str, names: list[str], verdict: Verdict, together: Callable[[], object]) -> dict[int, str]:
    results = {}
    async with PostgresStore(dsn, pool_size=2) as store, open_engine(address) as engine:
        for number, name in enumerate(names):
            session = engine.session(desk, name, store)
            request = (await session.refresh()).pending[0]
            together()
            try:
                await give_answer(session, request, verdict)
                results[number] = "won"
            except NotPending:
                results[number] = "lost"
            except LegatoError as error:  # a late answer must raise NotPending
                results[number] = repr(error)
    return results
