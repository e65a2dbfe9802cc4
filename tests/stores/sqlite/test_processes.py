"""Several processes on one file, which race, die, fork and wait for one another."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from legato.core.facts import MessageReceived
from legato.stores import SQLiteStore
from tests.stores.conftest import StoreProcess, acquire_lease, make_facts

Start = Callable[..., StoreProcess]


async def test_racing_processes_lose_no_append(tmp_path: Path, start_process: Start) -> None:
    path = tmp_path / "store.db"
    racers = [start_process("race", path, tag, 500) for tag in ("left", "right")]
    assert [racer.read_line() for racer in racers] == ["ready", "ready"]
    for racer in racers:
        racer.write_line("go")
    assert [racer.wait_for_output() for racer in racers] == [("", ""), ("", "")]
    async with SQLiteStore(path) as store:
        texts = [fact.content for fact in await store.read("s") if isinstance(fact, MessageReceived)]
    for tag in ("left", "right"):
        assert [text for text in texts if str(text).startswith(tag)] == [f"{tag} {number} " for number in range(500)]
    assert len(texts) == 1000


async def test_killed_holder_loses_its_lease_at_once(tmp_path: Path, start_process: Start) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        holder = start_process("hold", path, "s")
        assert holder.read_line() == "1"
        assert await store.lease("s") is None
        assert (await store.lease("t")) is not None
        holder.kill()
        lease = await store.lease("s")
        assert lease is not None
        assert lease.epoch == 2
        assert start_process("hold", path, "s").read_line() == "refused"


async def test_started_programs_inherit_no_lease(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    lease = await store.lease("s")
    assert lease is not None
    # close_fds=False: only close-on-exec keeps the descriptor from the program
    program = await asyncio.create_subprocess_exec("sleep", "30", close_fds=False)
    try:
        await store.close()
        async with SQLiteStore(tmp_path / "store.db") as another:
            assert await another.lease("s") is not None
    finally:
        program.kill()
        await program.wait()


@pytest.mark.parametrize("durability", ["effects", "process", "full"])
async def test_acknowledged_appends_survive_kill_9(tmp_path: Path, start_process: Start, durability: str) -> None:
    path = tmp_path / "store.db"
    nursery = start_process("nursery", path, durability)
    dice = random.Random(7)
    acknowledged = 0
    for _ in range(12):
        nursery.write_line("go")
        pid = int(nursery.read_line().removeprefix("pid "))
        for _ in range(dice.randint(1, 40)):  # a number of appends, not a time, so that the speed of the machine does not matter
            acknowledged = int(nursery.read_line())
        os.kill(pid, signal.SIGKILL)
        while (line := nursery.read_line()) != "killed":
            acknowledged = int(line)
        async with SQLiteStore(path) as store:
            facts = await store.read("s")
            assert len(facts) in (acknowledged, acknowledged + 1)  # one more may have been recorded and not acknowledged
            assert [str(fact.content).split()[0] for fact in facts if isinstance(fact, MessageReceived)] == [
                str(position) for position in range(len(facts))
            ]
            assert await store.verify() == []
            acknowledged = len(facts)
    assert acknowledged >= 12


def test_truncated_log_leaves_a_usable_prefix(tmp_path: Path, start_process: Start) -> None:
    """Wherever the write-ahead log is cut off, the remaining facts are a prefix, and appends continue it."""
    path = tmp_path / "store.db"
    killed = start_process("leave_a_log", path)
    assert killed.read_line() == "done"
    killed.wait_for_output()
    stored, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    assert len(log) > 100_000

    async def count_facts(cut: int) -> int:
        copy = tmp_path / f"cut-{cut}.db"
        copy.write_bytes(stored)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        async with SQLiteStore(copy) as store:
            facts = await store.read("s")
            assert [str(fact.content).split()[0] for fact in facts if isinstance(fact, MessageReceived)] == [
                str(position) for position in range(len(facts))
            ]
            assert await store.append("s", len(facts), make_facts(99)) == len(facts) + 1
            assert await store.verify() == []
        return len(facts)

    lengths = [asyncio.run(count_facts(cut)) for cut in [*range(0, len(log), 4999), len(log) - 1, len(log)]]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (20, 60)  # facts in the file are never lost; a complete log loses nothing


async def test_store_works_in_forked_child(tmp_path: Path, start_process: Start) -> None:
    forking = start_process("fork", tmp_path / "store.db")
    assert json.loads(forking.read_line()) == [2, True, 2]  # in the child: appended, its parent's lease respected, all read
    assert json.loads(forking.read_line()) == [3, True]  # in the parent, afterwards
    orphan = int(forking.read_line())
    forking.process.wait(timeout=60)
    try:
        async with SQLiteStore(tmp_path / "store.db") as store:
            assert len(await store.read("s")) == 3
            await acquire_lease(store, "s")  # the holder is dead, although its child is alive
    finally:
        os.kill(orphan, signal.SIGKILL)


async def test_unclosed_store_does_not_block_process_exit(tmp_path: Path, start_process: Start) -> None:
    assert start_process("forget", tmp_path / "store.db").wait_for_output() == ("end\n", "")  # `wait_for_output` allows a minute
    async with SQLiteStore(tmp_path / "store.db") as store:
        assert [len(await store.read(ledger)) for ledger in "st"] == [1, 1]
        assert await store.lease("s") is not None


async def test_many_processes_create_the_file_at_once(tmp_path: Path, start_process: Start) -> None:
    path = tmp_path / "deep" / "store.db"
    racers = [start_process("race", path, str(number), 5) for number in range(4)]
    for racer in racers:
        racer.write_line("go")
    for racer in racers:
        assert racer.wait_for_output() == ("ready\n", "")
    async with SQLiteStore(path) as store:
        assert len(await store.read("s")) == 20


async def test_leases_work_with_posix_locks_alone(tmp_path: Path, start_process: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("fcntl.F_OFD_SETLK", raising=False)
    path = tmp_path / "store.db"
    one, two = SQLiteStore(path), SQLiteStore(path)
    lease = await one.lease("s")
    assert lease is not None
    assert await two.lease("s") is None
    assert await two.lease("t") is not None
    await two.close()  # closing a descriptor of the file would drop all locks of this process
    assert start_process("hold", path, "s").read_line() == "refused"
    await one.release(lease)
    assert start_process("hold", path, "s").read_line() == "2"
    assert start_process("hold", path, "t").read_line() == "2"
    await one.close()
