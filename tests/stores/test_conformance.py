"""The conformance of all stores, and of the checks: each faulty store is caught by the right check."""

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
from legato.testing.store_checks import CHECKS, lease_and_watch_checks
from legato.testing.store_checks.check_helpers import make_one_of_each_fact
from legato.testing.store_conformance import ConformanceReport, check_store
from tests import databases
from tests.stores import faulty_stores, faulty_tenant_stores
from tests.stores.conftest import SOURCES

ALL_RULES = range(1, 17)
IN_MEMORY = [*faulty_stores.IN_MEMORY, *faulty_tenant_stores.IN_MEMORY]
IN_A_FILE = [*faulty_stores.IN_A_FILE, *faulty_tenant_stores.IN_A_FILE]


async def check_in_memory(kind: type[MemoryStore], rules: Container[int] = ALL_RULES) -> ConformanceReport:
    stores: dict[str, MemoryStore] = {}
    return await check_store(lambda name: stores.setdefault(name, kind()), processes=False, persistent=False, rules=rules)


def find_rule(beginning: str) -> int:
    [rule] = [rule for rule, statement, _ in CHECKS if statement.startswith(beginning)]
    return rule


def flip_bit(name: str) -> None:
    """Change one bit of the text that the damage check wrote."""
    path = Path(name)
    stored = bytearray(path.read_bytes())
    stored[stored.index(b"flip me") + 3] ^= 1
    path.write_bytes(stored)


async def test_memory_store_keeps_the_contract() -> None:
    report = await check_in_memory(MemoryStore)
    report.raise_if_failed()
    assert len(report.passed) == 53
    assert all("False" in skipped.reason or "without" in skipped.reason for skipped in report.skipped)


async def test_sqlite_store_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # so that a name is a path, and the class is the factory
    report = await check_store(SQLiteStore, damage=flip_bit)
    report.raise_if_failed()
    assert [skipped.reason for skipped in report.skipped] == ["`check_store` was called without `fill`"]


@pytest.mark.parametrize("durability", ["full", "process"])
async def test_sqlite_store_conforms_at_every_durability(tmp_path: Path, durability: Any) -> None:
    report = await check_store(lambda name: SQLiteStore(tmp_path / name, durability), processes=False)
    report.raise_if_failed()


async def test_postgres_store_passes_every_check(postgres_server: databases.DatabaseServer, database_prefix: str) -> None:
    def connect_to(name: str) -> Any:
        return psycopg.connect(databases.replace_database(postgres_server.dsn, database_prefix + name), autocommit=True)

    def damage_fact(name: str) -> None:
        with connect_to(name) as connection:
            count = connection.execute(FLIP_BIT).rowcount
        assert count == 1

    @contextlib.contextmanager
    def fill(name: str) -> Iterator[None]:
        with connect_to(name) as connection:
            connection.execute(FILL_DISK)
            yield
            connection.execute("DROP TRIGGER full_disk ON legato.facts")

    factory = partial(databases.open_store, postgres_server, database_prefix)
    report = await check_store(factory, damage=damage_fact, fill=fill)
    report.raise_if_failed()
    assert not report.skipped
    assert len(report.passed) == len(CHECKS)


FLIP_BIT = """UPDATE legato.facts SET body = overlay(body PLACING 'q'::bytea FROM position('flip me'::bytea IN body) + 3)
    WHERE position('flip me'::bytea IN body) > 0"""
FILL_DISK = """
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
from legato.testing.store_conformance import check_store

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
assert any("full disk" in passed.statement for passed in report.passed), report
"""


def test_sqlite_store_conforms_when_files_cannot_grow(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", FULL_DISK, str(tmp_path)]
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("kind", "statement"), IN_MEMORY, ids=lambda value: getattr(value, "__name__", ""))
async def test_faulty_store_is_caught(kind: type[MemoryStore], statement: str) -> None:
    report = await check_in_memory(kind, {find_rule(statement)})
    assert [failed for failed in report.failed if failed.statement.startswith(statement)], report
    assert not report.ok


@pytest.mark.parametrize(("kind", "statement"), IN_A_FILE, ids=lambda value: getattr(value, "__name__", ""))
async def test_store_faulty_across_processes_is_caught(
    kind: type[SQLiteStore], statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lease_and_watch_checks, "DEATH_NOTICE_TIMEOUT_S", 0.5)
    report = await check_store(kind, damage=flip_bit, rules={find_rule(statement)})
    assert [failed for failed in report.failed if failed.statement.startswith(statement)], report


async def test_forgetful_store_is_caught_after_reopening() -> None:
    report = await check_store(lambda name: MemoryStore(), processes=False)
    assert {failed.rule for failed in report.failed} >= {2, 9, 10}


async def test_hanging_store_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(MemoryStore):
        async def list(self, limit: int = 100, after: Any = None) -> Any:
            await asyncio.sleep(1000)

    monkeypatch.setattr("legato.testing.store_conformance.CHECK_TIMEOUT_S", 0.2)
    report = await check_store(lambda name: Hangs(), processes=False, persistent=False, rules={8})
    assert any("did not finish within" in failed.reason for failed in report.failed)


async def test_factory_may_be_a_coroutine_function(tmp_path: Path) -> None:
    stores: dict[str, Store] = {}

    async def factory(name: str) -> Store:
        return stores.setdefault(name, MemoryStore())

    (await check_store(factory, processes=False, persistent=False)).raise_if_failed()


async def test_report_can_be_read_and_raised() -> None:
    report = await check_in_memory(IN_MEMORY[0][0])
    assert str(report).startswith("FAILED")
    assert "  1. an append at the wrong position writes nothing" in str(report)
    with pytest.raises(AssertionError, match="breaks the contract"):
        report.raise_if_failed()


def test_checks_use_every_kind_of_fact() -> None:
    assert {type(fact) for fact in make_one_of_each_fact()} == set(get_args(AnyFact))
