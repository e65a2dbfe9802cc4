"""Does a store keep its promises? May know: the contract. Decides: nothing else; it needs no test framework.

    report = await check_store(lambda name: SQLiteStore(folder / f"{name}.db"))
    report.raise_if_failed()

The checks themselves are in `store_checks`, each under the number of the contract's sentence that it proves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from typing import NamedTuple

from legato.testing.store_checks import CHECKS
from legato.testing.store_checks.place import Factory, Hooks, LeftOut, Place, Unmet

PATIENCE = 30.0  # seconds for one check: a store that hangs has failed it


class Checked(NamedTuple):
    """One check: the contract's number, the sentence it proves, and why it failed or was left out."""

    clause: int
    sentence: str
    reason: str = ""

    def __str__(self) -> str:
        because = f"\n       {self.reason}" if self.reason else ""
        return f"{self.clause:>3}. {self.sentence}{because}"


class Report(NamedTuple):
    """What came of all the checks."""

    passed: list[Checked]
    failed: list[Checked]
    skipped: list[Checked]

    @property
    def ok(self) -> bool:
        return not self.failed

    def raise_if_failed(self) -> None:
        if self.failed:
            raise AssertionError(f"this store does not keep its contract\n{self}")

    def __str__(self) -> str:
        groups = (("FAILED", self.failed), ("SKIPPED", self.skipped), ("PASSED", self.passed))
        lines = [f"{name} {len(checks)}\n" + "\n".join(map(str, checks)) for name, checks in groups if checks]
        return "\n".join(lines)


async def check_store(
    factory: Factory,
    *,
    processes: bool = True,
    persistent: bool = True,
    damage: Callable[[str], None] | None = None,
    fill: Callable[[str], AbstractContextManager[None]] | None = None,
    clauses: Container[int] = range(1, 17),
) -> Report:
    """Check a store against the contract in `legato.stores.contract`.

    `factory(name)` makes a store, or an awaitable of one, on the data called `name`: the same data for the same name, so that
    reopening and several handles can be checked. Every check uses a name of its own.

    `processes`: also check across processes. The factory must then be importable there (a function of a module, or a
    `functools.partial` of one), and a script that calls this needs `if __name__ == "__main__"`.
    `persistent=False`: the data do not outlive the last handle; the factory returns the same store for the same name.
    `damage(name)`: changes one byte of the stored text `flip me` in the data; nothing has them open. Without it, damage is not
    checked.
    `fill(name)`: a context manager within which the data cannot grow. Without it, a full disk is not checked.
    `clauses`: the numbers of the contract's sentences to check.
    """
    hooks = Hooks(processes, persistent, damage, fill)
    report = Report([], [], [])
    for number, (clause, sentence, check) in enumerate(CHECKS, 1):
        if clause not in clauses:
            continue
        place = Place(f"check-{number:02}", factory, hooks)
        try:
            async with asyncio.timeout(PATIENCE):
                try:
                    await check(place)
                finally:
                    await place.close()
        except LeftOut as reason:
            report.skipped.append(Checked(clause, sentence, str(reason)))
        except TimeoutError:
            report.failed.append(Checked(clause, sentence, f"not done after {PATIENCE:.0f} s"))
        except Unmet as reason:
            report.failed.append(Checked(clause, sentence, str(reason)))
        except Exception as error:
            report.failed.append(Checked(clause, sentence, f"{type(error).__name__}: {error}"))
        else:
            report.passed.append(Checked(clause, sentence))
    return report
