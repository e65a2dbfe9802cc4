"""The conformance check of stores, which needs no test framework.

    report = await check_store(lambda name: SQLiteStore(folder / f"{name}.db"))
    report.raise_if_failed()

The checks are in `store_checks`, each with the number of the rule in `legato.stores.contract` that it checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from typing import NamedTuple

from legato.testing.store_checks import CHECKS
from legato.testing.store_checks.check_environment import CheckEnvironment, CheckOptions, CheckSkipped, ContractBroken, StoreFactory

CHECK_TIMEOUT_S = 30.0
"""The time for one check. A store that hangs fails the check."""


class CheckResult(NamedTuple):
    """The result of one check: the number of the rule, what was checked, and why it failed or was skipped."""

    rule: int
    statement: str
    reason: str = ""

    def __str__(self) -> str:
        reason = f"\n       {self.reason}" if self.reason else ""
        return f"{self.rule:>3}. {self.statement}{reason}"


class ConformanceReport(NamedTuple):
    """The results of all checks."""

    passed: list[CheckResult]
    failed: list[CheckResult]
    skipped: list[CheckResult]

    @property
    def ok(self) -> bool:
        return not self.failed

    def raise_if_failed(self) -> None:
        if self.failed:
            raise AssertionError(f"this store breaks the contract of `legato.stores.contract`\n{self}")

    def __str__(self) -> str:
        groups = (("FAILED", self.failed), ("SKIPPED", self.skipped), ("PASSED", self.passed))
        lines = [f"{name} {len(checks)}\n" + "\n".join(map(str, checks)) for name, checks in groups if checks]
        return "\n".join(lines)


async def check_store(
    factory: StoreFactory,
    *,
    processes: bool = True,
    persistent: bool = True,
    damage: Callable[[str], None] | None = None,
    fill: Callable[[str], AbstractContextManager[None]] | None = None,
    rules: Container[int] = range(1, 17),
) -> ConformanceReport:
    """Check a store against the contract in `legato.stores.contract`.

    `factory(name)` returns a store, or an awaitable of one, on the data called `name`: the same data for the same name, so that
    reopening and several handles can be checked. Every check uses its own name.

    `processes`: also check across processes. The factory must then be importable there (a function of a module, or a
    `functools.partial` of one), and a script that calls this needs `if __name__ == "__main__"`.
    `persistent=False`: the data do not outlive the last handle; the factory returns the same store for the same name.
    `damage(name)`: changes one byte of the stored text `flip me`; no handle is open then. Without it, damage is not checked.
    `fill(name)`: a context manager during which the data cannot grow. Without it, a full disk is not checked.
    `rules`: the numbers of the contract's rules to check.
    """
    options = CheckOptions(processes, persistent, damage, fill)
    report = ConformanceReport([], [], [])
    for number, (rule, statement, check) in enumerate(CHECKS, 1):
        if rule not in rules:
            continue
        environment = CheckEnvironment(f"check-{number:02}", factory, options)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                try:
                    await check(environment)
                finally:
                    await environment.close()
        except CheckSkipped as reason:
            report.skipped.append(CheckResult(rule, statement, str(reason)))
        except TimeoutError:
            report.failed.append(CheckResult(rule, statement, f"it did not finish within {CHECK_TIMEOUT_S:.0f} s"))
        except ContractBroken as reason:
            report.failed.append(CheckResult(rule, statement, str(reason)))
        except Exception as error:
            report.failed.append(CheckResult(rule, statement, f"{type(error).__name__}: {error}"))
        else:
            report.passed.append(CheckResult(rule, statement))
    return report
