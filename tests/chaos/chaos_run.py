"""One chaos run: servers, workers, simulated users and faults together, until every conversation has ended; then the result checks."""

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

from legato.engines import open_engine
from legato.stores import PostgresStore
from legato.testing.postgres import postgres_server
from legato.testing.promise_checks import Violation
from tests.chaos.activity_log import ActivityLog
from tests.chaos.monkey import FAULT_KINDS, ChaosMonkey
from tests.chaos.result_checks import CheckResults, check_results, format_distribution
from tests.chaos.simulated_users import SimulatedUsers
from tests.engines.servers import RestateServer, Server, TemporalServer

ENGINES: dict[str, type[Server]] = {"temporal": TemporalServer, "restate": RestateServer}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ChaosPlan:
    """The parameters of a chaos run."""

    engine: str
    seed: int = 0
    conversations: int = 200
    turns: int = 20
    minutes: float = 15.0
    """The time after which conversations that have not ended count as lost."""
    idle_timeout_s: float = 60.0
    """The time without any activity after which conversations that have not ended count as lost."""
    fault_kinds: Sequence[str] = tuple(FAULT_KINDS)
    rounds: int = 1_000_000
    """How often all fault kinds are injected."""
    pause: tuple[float, float] = (1.5, 4.5)
    min_activities: int = 80
    """The least number of model requests and tool runs between two faults. `pause` is the range of seconds between them."""
    durable: bool = True
    """True if Postgres waits for the disk, as it does in production."""
    mutant: str = ""
    """The name of a deliberate bug of the workers."""


@dataclass
class ChaosReport:
    """The report of a chaos run."""

    plan: ChaosPlan
    seconds: float = 0.0
    folder: str = ""
    event_counts: Counter[str] = field(default_factory=Counter)
    fault_counts: Counter[str] = field(default_factory=Counter)
    results: CheckResults = field(default_factory=CheckResults)

    @property
    def violations(self) -> list[Violation]:
        return self.results.violations

    def __str__(self) -> str:
        counts, plan = self.results.counts, self.plan
        twice = "" if any(each.promise == "D2" for each in self.violations) else ": none was"
        lines = [
            f"{plan.engine}, seed {plan.seed}: {self.event_counts['ended']:,} of {plan.conversations:,} conversations"
            f" of {plan.turns} turns ended, in {self.seconds:,.0f} s;"
            f" {len(self.violations) or 'no'} promise{'s' if len(self.violations) > 1 else ''} broken",
            f"  ledgers    {counts['facts']:,} facts: {counts['MessageReceived']:,} messages, {counts['ModelReplied']:,} replies,"
            f" {counts['HandedOff']:,} handoffs, {counts['CallStarted']:,} starts of tools,"
            f" {counts['decided: approval']:,} approvals, {counts['decided: result']:,} deferred results",
            f"  log        {counts['model requests']:,} model requests, {counts['started tools']:,} started tool bodies,"
            f" {counts['started non-idempotent tools']:,} of them of tools that must not be started twice{twice}",
            f"  faults     {', '.join(f'{kind} {times}' for kind, times in sorted(self.fault_counts.items())) or 'none'}",
            f"  users      {', '.join(f'{what} {times}' for what, times in sorted(self.event_counts.items()) if what != 'ended')}",
            f"  attempts   lost {counts['CallLost']}, questions about unknown outcomes {counts['decided: outcome']}, late outcomes"
            f" {counts['late outcomes']}, stopped workers that continued by themselves {counts['continued by themselves']}",
            *(f"  takeovers  {kind}: {format_distribution(seconds)}" for kind, seconds in sorted(self.results.takeover_seconds.items())),
        ]
        lines += [f"  BROKEN     {violation}" for violation in self.violations[:20]]
        if self.violations:
            lines.append(f"  the workers' output and the activity log are in {self.folder}")
        return "\n".join(lines)


def run_chaos(plan: ChaosPlan, progress: Progress = lambda line: None) -> ChaosReport:
    """Run the plan and check the results."""
    silence_logs()
    folder = tempfile.mkdtemp(prefix=f"legato-chaos-{plan.engine}-")
    server = ENGINES[plan.engine](Path(folder))
    with postgres_server(durable=plan.durable) as postgres:
        try:
            server.start()
            address = server.engine_url(f"chaos{plan.seed}")
            log = ActivityLog(Path(folder) / "activity_log")
            monkey = ChaosMonkey(server, postgres, address, postgres.dsn, Path(folder), log, plan.seed)
            monkey.fault_kinds, monkey.pause, monkey.min_activities, monkey.mutant = (
                list(plan.fault_kinds),
                plan.pause,
                plan.min_activities,
                plan.mutant,
            )
            report = ChaosReport(plan, folder=folder)
            try:
                asyncio.run(_run(report, monkey, progress))
            finally:
                monkey.kill_workers()
        finally:
            server.kill()
    if not report.violations:
        shutil.rmtree(folder, ignore_errors=True)
    return report


async def _run(report: ChaosReport, monkey: ChaosMonkey, progress: Progress) -> None:
    plan, began = report.plan, time.monotonic()
    async with PostgresStore(monkey.dsn, pool_size=12) as store, open_engine(monkey.engine_url) as engine:
        await store.list()  # creates the schema before the faults begin
        monkey.start()
        users = SimulatedUsers(engine, store, monkey.activity_log, plan.seed, plan.turns)
        names = [f"c{number:03}" for number in range(plan.conversations)]
        conversations = [asyncio.create_task(users.talk(name)) for name in names]
        injecting = asyncio.create_task(monkey.inject_faults(plan.rounds))
        try:
            while not all(task.done() for task in conversations):
                await asyncio.wait(conversations, timeout=10)
                report.seconds = time.monotonic() - began
                progress(_format_progress(report, users, monkey))
                idle_seconds = time.monotonic() - users.last_activity_at
                if report.seconds > 60 * plan.minutes or idle_seconds > plan.idle_timeout_s:
                    report.results.add_violation("D4", f"{sum(not task.done() for task in conversations)} conversations did not end")
                    break
        finally:
            injecting.cancel()
            for task in conversations:
                task.cancel()
            outcomes = await asyncio.gather(injecting, *conversations, return_exceptions=True)
        report.seconds = time.monotonic() - began
        report.event_counts, report.event_counts["ended"] = users.event_counts, len(users.ended_sessions)
        report.fault_counts = Counter(fault.kind for fault in monkey.faults)
        progress("checking results ...")
        unfinished = report.results.violations
        report.results = await check_results(store, engine, monkey.activity_log, monkey.faults, plan.seed, names, plan.turns)
        report.results.violations[:0] = unfinished
        for problem in users.problems:
            report.results.add_violation("users", problem)
        for error in outcomes:
            if isinstance(error, Exception):
                report.results.add_violation("harness", repr(error))


def _format_progress(report: ChaosReport, users: SimulatedUsers, monkey: ChaosMonkey) -> str:
    faults = Counter(fault.kind for fault in monkey.faults)
    fault_summary = ", ".join(f"{kind} {times}" for kind, times in sorted(faults.items()))
    ended_summary = f"{len(users.ended_sessions)}/{report.plan.conversations} ended"
    outcomes = f"outcomes answered {users.event_counts['outcome answered']}"
    return f"{report.plan.engine} {report.seconds:4.0f} s  {ended_summary}  {fault_summary}  {outcomes}"


def silence_logs() -> None:
    """Silence the logs: unreachable servers are expected here."""
    logging.getLogger("legato.worker").setLevel(logging.ERROR)
    with contextlib.suppress(RuntimeError):  # it was set before
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
