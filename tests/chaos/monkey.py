"""What goes wrong. May know: processes. Decides: by dice, what dies or hangs next, when, and for how long.

Two workers, a Postgres server and an engine's server. Whoever is killed is started again, as any platform would; a worker that was stopped
comes back by itself as a zombie, when its leases are over and the engine has given its steps to the other one.
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
from tests.chaos.book import Book
from tests.chaos.desk import ONCE
from tests.engines.servers import Process, Server, until

DECK = ["worker killed"] * 6 + ["worker stopped"] * 3 + ["postgres killed"] * 2 + ["server killed"] * 2
GIVEN_UP = (6.0, 9.0)
"""Seconds that a worker hangs: more than a lease (2) and what an engine allows it (Temporal 2, Restate 3)."""

LONGEST = 20.0


@dataclass
class Blow:
    """Something that went wrong: what, to whom (0: a server), from when until when (0: for good)."""

    kind: str
    worker: int
    at: float
    until: float = 0.0


@dataclass
class Monkey:
    """Workers, and what is done to them."""

    server: Server
    postgres: PostgresServer
    address: str
    dsn: str
    folder: Path
    book: Book
    seed: int
    deck: list[str] = field(default_factory=lambda: list(DECK))
    pause: tuple[float, float] = (1.5, 4.5)
    """Seconds between blows, at least and at most ..."""
    acts: int = 80
    """... and so many models and tools, lest a slow machine do nothing but recover; but not for longer than `LONGEST`."""
    mutant: str = ""
    blows: list[Blow] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    _stopped: set[int] = field(default_factory=set)

    def start(self, many: int = 2) -> None:
        """Start the workers."""
        self.workers = [self._worker() for _ in range(many)]
        for worker in self.workers:
            until(lambda worker=worker: " serves " in worker.said or worker.code is not None, 60, "the worker")  # type: ignore[misc]
            assert worker.code is None, worker.said

    def _worker(self) -> Process:
        command = [sys.executable, "-m", "tests.chaos.worker", self.address, self.dsn, *([self.mutant] if self.mutant else [])]
        log = self.folder / f"worker-{time.monotonic_ns()}.log"
        return Process(command, log, {"LEGATO_CHAOS_BOOK": str(self.folder / "book")})

    async def rage(self, rounds: int = 1_000_000) -> None:
        """Deal one blow after another, from a deck that is shuffled anew whenever it is used up."""
        dice = Random(f"{self.seed} monkey")
        hanging: set[asyncio.Task[None]] = set()
        try:
            for _ in range(rounds):
                dice.shuffle(self.deck)
                for kind in list(self.deck):
                    await self._breathe(dice)
                    self._replace_the_dead()
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
            await asyncio.to_thread(self.mend)

    async def _breathe(self, dice: Random) -> None:
        enough, end = self.book.many + self.acts, time.monotonic() + LONGEST
        await asyncio.sleep(dice.uniform(*self.pause))
        self.book.read()
        while self.book.many < enough and time.monotonic() < end:
            await asyncio.sleep(0.1)
            self.book.read()

    def mend(self) -> None:
        """Whatever is down comes up, so that everything can end."""
        for worker in self.workers:
            if worker.pid in self._stopped:
                worker.signal(signal.SIGCONT)
        self._stopped.clear()
        if self.server.process is None:
            self.server.start()
        self.postgres.start()
        self._replace_the_dead()

    def end(self) -> None:
        """No more workers."""
        for worker in self.workers:
            worker.kill()

    def _replace_the_dead(self) -> None:
        for index, worker in enumerate(self.workers):
            if worker.code is not None:
                self.blows.append(Blow("worker ended by itself", worker.pid, time.time()))
                self.workers[index] = self._worker()

    async def _moment(self, worker: Process, dice: Random) -> None:
        """Half of the time, wait until the worker is in the middle of something that may not be done twice."""
        end = time.monotonic() + 2
        if dice.random() < 0.5:
            while time.monotonic() < end:
                self.book.read()
                if self.book.in_tool(worker.pid, ONCE):
                    return
                await asyncio.sleep(0.005)

    async def _kill(self, dice: Random) -> None:
        index = dice.choice([index for index, worker in enumerate(self.workers) if worker.pid not in self._stopped])
        victim = self.workers[index]
        await self._moment(victim, dice)
        self.blows.append(Blow("worker killed", victim.pid, time.time()))
        victim.kill()
        self.workers[index] = self._worker()

    async def _stop(self, dice: Random) -> None:
        victim = dice.choice(self.workers)
        self._stopped.add(victim.pid)
        await self._moment(victim, dice)
        if victim.code is not None:
            self._stopped.discard(victim.pid)
            return
        blow = Blow("worker stopped", victim.pid, time.time())
        self.blows.append(blow)
        victim.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(dice.uniform(*GIVEN_UP))
        finally:
            blow.until = time.time()
            victim.signal(signal.SIGCONT)
            self._stopped.discard(victim.pid)

    async def _restart(self, kind: str, server: PostgresServer | Server, dice: Random) -> None:
        blow = Blow(kind, 0, time.time())
        self.blows.append(blow)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(dice.choice((0.1, 0.5, 1.0, 3.0)))
        await asyncio.to_thread(server.start)
        blow.until = time.time()
