"""Real kills: SIGKILL at random moments, a restart, until the story is over; then every promise is checked on the file.

A moment is counted in acknowledged appends, and then in time: a slow machine gets as far in a life as a fast one.

Starting an interpreter costs more than a life lasts, so victims are forked from a process that has imported everything (a zygote),
and that has no thread and no open store of its own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from legato.core.facts import AnyFact, MessageReceived, ModelReplied
from legato.stores import SQLiteStore
from legato.testing.promises import Rules, Violation, check_promises
from tests.crash import victim

LIVES = 400
"""A story that needs more lives than this makes no progress."""

MOST_APPENDS = 8
"""A life ends soon after fewer acknowledged appends than this."""


@dataclass
class KillReport:
    stories: int = 0
    kills: int = 0
    lives: int = 0
    acknowledged: int = 0
    facts: int = 0
    deeds: int = 0
    moments: dict[str, int] = field(default_factory=dict)
    violations: list[tuple[int, Violation]] = field(default_factory=list)

    def __str__(self) -> str:
        counts = (
            f"{self.kills:,} kills in {self.stories:,} stories ({self.lives:,} lives), {self.acknowledged:,} acknowledged appends, "
            f"{self.facts:,} facts, {self.deeds:,} deeds: {len(self.violations) or 'no'} violation{'s' if len(self.violations) > 1 else ''}"
        )
        return "\n".join([counts, *(f"  seed {seed}: {violation}" for seed, violation in self.violations[:20])])


def kill_until(kills: int, seed: int = 0, progress: Callable[[KillReport], None] | None = None) -> KillReport:
    """Tell the victim's story again and again until so many lives were ended by SIGKILL."""
    report = KillReport()
    gc.collect()
    gc.freeze()  # a forked child need not copy what it never looks at
    story = seed
    while report.kills < kills:
        _tell(story, report, kills)
        story += 1
        report.stories += 1
        if progress is not None:
            progress(report)
    gc.unfreeze()
    return report


def _tell(seed: int, report: KillReport, most: int) -> None:
    dice = Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="legato-kill-", dir=_fast()))
    told: list[str] = []
    try:
        for _ in range(LIVES):
            # Most lives are short, some long enough to get somewhere: a story has about 40 appends and takes 60 ms.
            appends = dice.randrange(MOST_APPENDS) if report.kills < most else None
            report.lives += 1
            if _live(folder, appends, dice.choice((0, 0.001, 0.005)) * dice.random(), told, report):
                break
        else:
            report.violations.append((seed, Violation("D4", f"{LIVES} lives, and the story is not over")))
        report.violations += [(seed, violation) for violation in asyncio.run(_check(folder, told, report))]
    finally:
        shutil.rmtree(folder)


def _fast() -> str | None:
    """What is acknowledged must survive the process, not the machine: memory is as good as a disk here, and quicker."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _live(folder: Path, appends: int | None, delay: float, told: list[str], report: KillReport) -> bool:
    """One life, killed so many seconds after so many acknowledged appends; None: it lives on. True if the story is over."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            victim.main(str(folder), str(write))
            status = 0
        except BaseException as error:
            os.write(write, f"error {error!r}\n".encode())
        finally:
            os._exit(status)
    os.close(write)
    text = b""
    killed = False
    while True:
        if appends is not None and not killed and text.count(b"\n") >= appends:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            killed = True
        piece = os.read(read, 65536)
        if not piece:
            break
        text += piece
    os.close(read)
    _, status = os.waitpid(child, 0)
    lines = text.decode().splitlines()
    told += [line for line in lines if line[0].isdigit()]
    errors = [line for line in lines if line.startswith("error")]
    report.violations += [(-1, Violation("error", line)) for line in errors]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        report.kills += 1
        moment = told[-1].split(" ")[2] if told else "nothing"
        report.moments[moment] = report.moments.get(moment, 0) + 1
    return bool(lines and lines[-1] == "over") or bool(errors)


async def _check(folder: Path, told: list[str], report: KillReport) -> list[Violation]:
    async with SQLiteStore(folder / "ledger.db") as store:
        facts = await store.read(victim.SESSION)
    deeds = [tuple(line.split(" ")) for line in (folder / "deeds").read_text().splitlines()]
    report.facts += len(facts)
    report.deeds += len(deeds)
    report.acknowledged += len(told)
    rules = Rules(victim.IDEMPOTENT, victim.GATED)
    broken = check_promises(facts, (), [(key, what) for key, what in deeds], rules=rules)
    names = [type(fact).__name__ for fact in facts]
    for line in told:
        start, end, recorded = line.split(" ")
        if names[int(start) : int(end)] != recorded.split(","):
            broken.append(Violation("D1", f"{recorded} was acknowledged at {start}; the ledger has {names[int(start) : int(end)]}"))
    broken += _told_well(facts, deeds)
    return broken


def _told_well(facts: list[AnyFact] | object, deeds: list[tuple[str, ...]]) -> list[Violation]:
    assert isinstance(facts, list | tuple)
    broken = []
    said = [fact.content for fact in facts if isinstance(fact, MessageReceived)]
    if said != victim.MESSAGES:
        broken.append(Violation("C1", f"the user said {said}"))
    last = [fact for fact in facts if isinstance(fact, ModelReplied)]
    if not last or last[-1].items[0].text != "You are welcome.":  # type: ignore[union-attr]
        broken.append(Violation("D4", "the story has no end"))
    for key in {key for key, _ in deeds}:
        times = [what for each, what in deeds if each == key and not what.startswith("look_up")]
        if len(times) > 1:
            broken.append(Violation("D2", f"{times[0]} was done {len(times)} times"))
    return broken


if __name__ == "__main__":
    print(kill_until(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
