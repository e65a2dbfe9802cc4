"""The chaos monkey: it kills and stops workers and servers at random.

There are two workers, a Postgres server and an engine's server. Killed processes are started again, as any platform would do. A stopped
worker resumes later, when its leases have ended and the engine has given its steps to the other worker.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from legato.testing.postgres import PostgresServer
from tests.chaos.activity_log import ActivityLog
from tests.chaos.desk import NON_IDEMPOTENT_TOOLS
from tests.engines.servers import Process, Server, wait_until

FAULT_KINDS = ["worker killed"] * 6 + ["worker stopped"] * 3 + ["postgres killed"] * 2 + ["server killed"] * 2
HANG_S = (6.0, 9.0)
"""The range of seconds that a worker hangs: longer than a lease (2) and than an engine's timeout (Temporal 2, Restate 3)."""

MAX_PAUSE_S = 20.0


@dataclass
class Fault:
    """An injected fault: its kind, the worker's process id (0: a server), its start and its end (0: for good)."""

    kind: str
    worker: int
    started_at: float
    ended_at: float = 0.0


@dataclass
class ChaosMonkey:
    """Starts workers, and injects faults into workers and servers."""

    server: Server
    postgres: PostgresServer
    engine_url: str
    dsn: str
    folder: Path
    activity_log: ActivityLog
    seed: int
    fault_kinds: list[str] = field(default_factory=lambda: list(FAULT_KINDS))
    pause: tuple[float, float] = (1.5, 4.5)
    """The range of seconds between two faults."""
    min_activities: int = 80
    """The least number of activities between two faults, so that a slow machine does more than recover; waits `MAX_PAUSE_S` at most."""
    mutant: str = ""
    faults: list[Fault] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    _stopped: set[int] = field(default_factory=set)

    def start(self, count: int = 2) -> None:
        """Start the workers."""
        self.workers = [self._start_worker() for _ in range(count)]
        for worker in self.workers:
            wait_until(lambda worker=worker: " serves " in worker.output or worker.exit_code is not None, 60, "the worker")  # type: ignore[misc]
            assert worker.exit_code is None, worker.output

    def _start_worker(self) -> Process:
        command = [sys.executable, "-m", "tests.chaos.worker_process", self.engine_url, self.dsn, *([self.mutant] if self.mutant else [])]
        log = self.folder / f"worker-{time.monotonic_ns()}.log"
        return Process(command, log, {"LEGATO_CHAOS_LOG": str(self.folder / "activity_log")})

    async def inject_faults(self, rounds: int = 1_000_000) -> None:
        """Inject one fault after another, in rounds of all fault kinds in random order."""
        dice = Random(f"{self.seed} monkey")
        hanging: set[asyncio.Task[None]] = set()
        try:
            for _ in range(rounds):
                dice.shuffle(self.fault_kinds)
                for kind in list(self.fault_kinds):
                    await self._pause(dice)
                    self._replace_dead_workers()
                    match kind:
                        case "worker killed":
                            await self._kill(dice)
                        case "worker stopped":
                            if not self._stopped:
                                hanging.add(asyncio.create_task(self._stop(dice)))
                        case "postgres killed":
                            await self._restart(kind, self.postgres, dice)
                        case "server killed":
                            await self._restart(kind, self.server, dice)
            await asyncio.gather(*hanging)
        finally:
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            await asyncio.to_thread(self.repair)

    async def _pause(self, dice: Random) -> None:
        target, end = self.activity_log.started_count + self.min_activities, time.monotonic() + MAX_PAUSE_S
        await asyncio.sleep(dice.uniform(*self.pause))
        self.activity_log.read()
        while self.activity_log.started_count < target and time.monotonic() < end:
            await asyncio.sleep(0.1)
            self.activity_log.read()

    def repair(self) -> None:
        """Start and resume everything that is down, so that all conversations can end."""
        for worker in self.workers:
            if worker.pid in self._stopped:
                worker.signal(signal.SIGCONT)
        self._stopped.clear()
        if self.server.process is None:
            self.server.start()
        self.postgres.start()
        self._replace_dead_workers()

    def kill_workers(self) -> None:
        """Kill all workers."""
        for worker in self.workers:
            worker.kill()

    def _replace_dead_workers(self) -> None:
        for index, worker in enumerate(self.workers):
            if worker.exit_code is not None:
                self.faults.append(Fault("worker ended by itself", worker.pid, time.time()))
                self.workers[index] = self._start_worker()

    async def _wait_for_moment(self, worker: Process, dice: Random) -> None:
        """Half of the time, wait until the worker runs a tool that must not be started twice."""
        end = time.monotonic() + 2
        if dice.random() < 0.5:
            while time.monotonic() < end:
                self.activity_log.read()
                if self.activity_log.is_in_tool(worker.pid, NON_IDEMPOTENT_TOOLS):
                    return
                await asyncio.sleep(0.005)

    async def _kill(self, dice: Random) -> None:
        index = dice.choice([index for index, worker in enumerate(self.workers) if worker.pid not in self._stopped])
        victim = self.workers[index]
        await self._wait_for_moment(victim, dice)
        self.faults.append(Fault("worker killed", victim.pid, time.time()))
        victim.kill()
        self.workers[index] = self._start_worker()

    async def _stop(self, dice: Random) -> None:
        victim = dice.choice(self.workers)
        self._stopped.add(victim.pid)
        await self._wait_for_moment(victim, dice)
        if victim.exit_code is not None:
            self._stopped.discard(victim.pid)
            return
        fault = Fault("worker stopped", victim.pid, time.time())
        self.faults.append(fault)
        victim.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(dice.uniform(*HANG_S))
        finally:
            fault.ended_at = time.time()
            victim.signal(signal.SIGCONT)
            self._stopped.discard(victim.pid)

    async def _restart(self, kind: str, server: PostgresServer | Server, dice: Random) -> None:
        fault = Fault(kind, 0, time.time())
        self.faults.append(fault)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(dice.choice((0.1, 0.5, 1.0, 3.0)))
        await asyncio.to_thread(server.start)
        fault.ended_at = time.time()
