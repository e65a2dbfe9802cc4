"""Real kills: SIGKILL at random moments and a restart, until the story is over. Then every promise is checked on the file.

The moment of a kill is a number of acknowledged appends and a delay after them, so a process gets equally far on slow and fast machines.

Starting an interpreter takes longer than a process lives here. So the killed processes are forked from this process, which has imported
everything, and has no threads and no open stores.
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
from legato.testing.promise_checks import Violation, WorkflowRules, check_promises
from tests.crash import killed_program

MAX_PROCESSES = 400
"""A story that needs more processes than this makes no progress."""

MAX_APPENDS = 8
"""A process is killed soon after fewer acknowledged appends than this."""


@dataclass
class KillReport:
    """Counts of the kills and of what was recorded, and the violations found, each with its seed."""

    stories: int = 0
    kills: int = 0
    processes: int = 0
    acknowledged: int = 0
    facts: int = 0
    effects: int = 0
    last_facts: dict[str, int] = field(default_factory=dict)
    violations: list[tuple[int, Violation]] = field(default_factory=list)

    def __str__(self) -> str:
        counts = (
            f"{self.kills:,} kills in {self.stories:,} stories ({self.processes:,} processes), {self.acknowledged:,} acknowledged appends, "
            f"{self.facts:,} facts, {self.effects:,} effects: "
            f"{len(self.violations) or 'no'} violation{'s' if len(self.violations) > 1 else ''}"
        )
        return "\n".join([counts, *(f"  seed {seed}: {violation}" for seed, violation in self.violations[:20])])


def run_kills(kills: int, seed: int = 0, progress: Callable[[KillReport], None] | None = None) -> KillReport:
    """Run the story of `killed_program` again and again until so many processes were killed."""
    report = KillReport()
    gc.collect()
    gc.freeze()  # garbage collection in a forked child would copy the memory
    while report.kills < kills:
        _run_story(seed + report.stories, report, kills)
        report.stories += 1
        if progress is not None:
            progress(report)
    gc.unfreeze()
    return report


def _run_story(seed: int, report: KillReport, max_kills: int) -> None:
    rng = Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="legato-kill-", dir=_find_memory_folder()))
    acknowledged: list[str] = []
    try:
        for _ in range(MAX_PROCESSES):
            # Most processes die early, some late enough to make progress: a story has about 40 appends and takes 60 ms.
            appends = rng.randrange(MAX_APPENDS) if report.kills < max_kills else None
            report.processes += 1
            if _run_process(folder, appends, rng.choice((0, 0.001, 0.005)) * rng.random(), acknowledged, report):
                break
        else:
            report.violations.append((seed, Violation("D4", f"the story is not over after {MAX_PROCESSES} processes")))
        report.violations += [(seed, violation) for violation in asyncio.run(_check_ledger(folder, acknowledged, report))]
    finally:
        shutil.rmtree(folder)


def _find_memory_folder() -> str | None:
    """Return a folder in memory, if there is one: faster than a disk, and enough, because only processes die here, not the machine."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run_process(folder: Path, appends: int | None, delay: float, acknowledged: list[str], report: KillReport) -> bool:
    """Run one process, and kill it `delay` seconds after so many acknowledged appends (None: never). Return True if the story is over."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            killed_program.main(str(folder), str(write))
            status = 0
        except BaseException as error:
            os.write(write, f"error {error!r}\n".encode())
        finally:
            os._exit(status)
    os.close(write)
    text = b""
    is_killed = False
    while True:
        if appends is not None and not is_killed and text.count(b"\n") >= appends:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            is_killed = True
        piece = os.read(read, 65536)
        if not piece:
            break
        text += piece
    os.close(read)
    _, status = os.waitpid(child, 0)
    lines = text.decode().splitlines()
    acknowledged += [line for line in lines if line[0].isdigit()]
    errors = [line for line in lines if line.startswith("error")]
    report.violations += [(-1, Violation("error", line)) for line in errors]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        report.kills += 1
        last = acknowledged[-1].split(" ")[2] if acknowledged else "none"
        report.last_facts[last] = report.last_facts.get(last, 0) + 1
    return bool(lines and lines[-1] == "over") or bool(errors)


async def _check_ledger(folder: Path, acknowledged: list[str], report: KillReport) -> list[Violation]:
    async with SQLiteStore(folder / "ledger.db") as store:
        facts = await store.read(killed_program.SESSION)
    effects = [tuple(line.split(" ")) for line in (folder / killed_program.EFFECTS_FILE).read_text().splitlines()]
    report.facts += len(facts)
    report.effects += len(effects)
    report.acknowledged += len(acknowledged)
    rules = WorkflowRules(killed_program.IDEMPOTENT_TOOLS, killed_program.TOOLS_NEEDING_APPROVAL)
    violations = check_promises(facts, (), [(key, effect) for key, effect in effects], rules=rules)
    names = [type(fact).__name__ for fact in facts]
    for line in acknowledged:
        start, end, recorded = line.split(" ")
        if names[int(start) : int(end)] != recorded.split(","):
            description = f"{recorded} was acknowledged at {start}; the ledger has {names[int(start) : int(end)]}"
            violations.append(Violation("D1", description))
    violations += _check_story(facts, effects)
    return violations


def _check_story(facts: list[AnyFact] | object, effects: list[tuple[str, ...]]) -> list[Violation]:
    assert isinstance(facts, list | tuple)
    violations = []
    messages = [fact.content for fact in facts if isinstance(fact, MessageReceived)]
    if messages != killed_program.MESSAGES:
        violations.append(Violation("C1", f"the user's messages are {messages}"))
    replies = [fact for fact in facts if isinstance(fact, ModelReplied)]
    if not replies or replies[-1].items[0].text != "You are welcome.":  # type: ignore[union-attr]
        violations.append(Violation("D4", "the story has no end"))
    for key in {key for key, _ in effects}:
        repeated = [effect for each, effect in effects if each == key and not effect.startswith("look_up")]
        if len(repeated) > 1:
            violations.append(Violation("D2", f"{repeated[0]} took effect {len(repeated)} times"))
    return violations


if __name__ == "__main__":
    print(run_kills(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
