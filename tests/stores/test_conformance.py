"""All stores keep the contract, and the checks that say so can see: every broken store is caught by the right one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Container, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

from legato.core.facts import AnyFact
from legato.stores import MemoryStore, SQLiteStore, Store
from legato.testing.conformance import Report, check_store
from legato.testing.store_checks import CHECKS, driving
from legato.testing.store_checks.parts import one_of_each
from tests import databases
from tests.stores import broken, broken_scopes
from tests.stores.conftest import SOURCES

ALL = range(1, 17)
IN_MEMORY = [*broken.IN_MEMORY, *broken_scopes.IN_MEMORY]
IN_A_FILE = [*broken.IN_A_FILE, *broken_scopes.IN_A_FILE]


async def check_in_memory(kind: type[MemoryStore], clauses: Container[int] = ALL) -> Report:
    made: dict[str, MemoryStore] = {}
    return await check_store(lambda name: made.setdefault(name, kind()), processes=False, persistent=False, clauses=clauses)


def clause_of(beginning: str) -> int:
    [clause] = [clause for clause, sentence, _ in CHECKS if sentence.startswith(beginning)]
    return clause


def flip(name: str) -> None:
    """Change one bit of the text that the check of damage wrote."""
    path = Path(name)
    stored = bytearray(path.read_bytes())
    stored[stored.index(b"flip me") + 3] ^= 1
    path.write_bytes(stored)


async def test_the_memory_store_keeps_the_contract() -> None:
    report = await check_in_memory(MemoryStore)
    report.raise_if_failed()
    assert len(report.passed) == 52
    assert all("False" in left_out.reason or "was given" in left_out.reason for left_out in report.skipped)


async def test_the_sqlite_store_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # so that a name is a path, and the class itself the factory
    report = await check_store(SQLiteStore, damage=flip)
    report.raise_if_failed()
    assert [left_out.reason for left_out in report.skipped] == ["no `fill` was given"]


@pytest.mark.parametrize("durability", ["full", "process"])
async def test_the_sqlite_store_keeps_it_at_every_durability(tmp_path: Path, durability: Any) -> None:
    report = await check_store(lambda name: SQLiteStore(tmp_path / name, durability), processes=False)
    report.raise_if_failed()


async def test_the_postgres_store_keeps_the_contract_and_no_check_is_left_out(
    postgres_server: databases.Server, databases_named: str
) -> None:
    def on(name: str) -> Any:
        return psycopg.connect(databases.on(postgres_server.dsn, databases_named + name), autocommit=True)

    def change(name: str) -> None:
        with on(name) as connection:
            changed = connection.execute(CHANGE).rowcount
        assert changed == 1

    @contextlib.contextmanager
    def fill(name: str) -> Iterator[None]:
        with on(name) as connection:
            connection.execute(FILL)
            yield
            connection.execute("DROP TRIGGER full_disk ON legato.facts")

    factory = partial(databases.open_store, postgres_server, databases_named)
    report = await check_store(factory, damage=change, fill=fill)
    report.raise_if_failed()
    assert not report.skipped
    assert len(report.passed) == len(CHECKS)


CHANGE = """UPDATE legato.facts SET body = overlay(body PLACING 'q'::bytea FROM position('flip me'::bytea IN body) + 3)
    WHERE position('flip me'::bytea IN body) > 0"""
FILL = """
    CREATE OR REPLACE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.position > 10 THEN
            RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON legato.facts FOR EACH ROW EXECUTE FUNCTION public.full_disk()"""


FULL_DISK = """
import asyncio, contextlib, os, resource, sys
from legato.stores import SQLiteStore
from legato.testing.conformance import check_store

@contextlib.contextmanager
def fill(name):
    size = max(os.path.getsize(name), os.path.getsize(name + "-wal"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 150_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

os.chdir(sys.argv[1])
report = asyncio.run(check_store(SQLiteStore, processes=False, fill=fill))
report.raise_if_failed()
assert any("full disk" in passed.sentence for passed in report.passed), report
"""


def test_the_sqlite_store_keeps_it_when_its_files_cannot_grow(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", FULL_DISK, str(tmp_path)]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(("kind", "sentence"), IN_MEMORY, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_broken_store_is_caught(kind: type[MemoryStore], sentence: str) -> None:
    report = await check_in_memory(kind, {clause_of(sentence)})
    assert [failed for failed in report.failed if failed.sentence.startswith(sentence)], report
    assert not report.ok


@pytest.mark.parametrize(("kind", "sentence"), IN_A_FILE, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_store_broken_across_processes_is_caught(
    kind: type[SQLiteStore], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driving, "DEATH_NOTICED", 0.5)
    report = await check_store(kind, damage=flip, clauses={clause_of(sentence)})
    assert [failed for failed in report.failed if failed.sentence.startswith(sentence)], report


async def test_a_store_that_forgets_when_it_is_reopened_is_caught() -> None:
    report = await check_store(lambda name: MemoryStore(), processes=False)
    assert {failed.clause for failed in report.failed} >= {2, 9, 10}


async def test_a_store_that_hangs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(MemoryStore):
        async def list(self, limit: int = 100, after: Any = None) -> Any:
            await asyncio.sleep(1000)

    monkeypatch.setattr("legato.testing.conformance.PATIENCE", 0.2)
    report = await check_store(lambda name: Hangs(), processes=False, persistent=False, clauses={8})
    assert any("not done after" in failed.reason for failed in report.failed)


async def test_the_factory_may_be_a_coroutine_function(tmp_path: Path) -> None:
    made: dict[str, Store] = {}

    async def factory(name: str) -> Store:
        return made.setdefault(name, MemoryStore())

    (await check_store(factory, processes=False, persistent=False)).raise_if_failed()


async def test_a_report_can_be_read_and_raised() -> None:
    report = await check_in_memory(IN_MEMORY[0][0])
    assert str(report).startswith("FAILED")
    assert "  1. an append at the wrong position writes nothing" in str(report)
    with pytest.raises(AssertionError, match="does not keep its contract"):
        report.raise_if_failed()


def test_the_checks_use_every_kind_of_fact() -> None:
    assert {type(fact) for fact in one_of_each()} == set(get_args(AnyFact))
