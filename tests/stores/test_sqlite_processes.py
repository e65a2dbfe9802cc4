"""Several processes on one file: racing, dying, forking, waiting for one another."""

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
from tests.stores.conftest import Child, leased, said

Start = Callable[..., Child]


async def test_two_processes_that_race_500_times_each_lose_nothing(tmp_path: Path, child: Start) -> None:
    path = tmp_path / "store.db"
    racers = [child("race", path, tag, 500) for tag in ("left", "right")]
    assert [racer.hear() for racer in racers] == ["ready", "ready"]
    for racer in racers:
        racer.tell("go")
    assert [racer.end() for racer in racers] == [("", ""), ("", "")]
    async with SQLiteStore(path) as store:
        texts = [fact.content for fact in await store.read("s") if isinstance(fact, MessageReceived)]
    for tag in ("left", "right"):
        assert [text for text in texts if str(text).startswith(tag)] == [f"{tag} {number} " for number in range(500)]
    assert len(texts) == 1000


async def test_a_killed_holder_loses_its_lease_at_once(tmp_path: Path, child: Start) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        holder = child("hold", path, "s")
        assert holder.hear() == "1"
        assert await store.lease("s") is None
        assert (await store.lease("t")) is not None
        holder.kill()
        lease = await store.lease("s")
        assert lease is not None, "whoever asks first gets it"
        assert lease.epoch == 2
        assert child("hold", path, "s").hear() == "refused"


async def test_a_lease_is_not_inherited_by_programs_that_its_holder_starts(tmp_path: Path) -> None:
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
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, child: Start, durability: str) -> None:
    path = tmp_path / "store.db"
    nursery = child("nursery", path, durability)
    dice = random.Random(7)
    acknowledged = 0
    for _ in range(12):
        nursery.tell("go")
        pid = int(nursery.hear().removeprefix("pid "))
        for _ in range(dice.randint(1, 40)):  # appends, not moments: however slow the machine is, each of these was told
            acknowledged = int(nursery.hear())
        os.kill(pid, signal.SIGKILL)
        while (heard := nursery.hear()) != "killed":
            acknowledged = int(heard)
        async with SQLiteStore(path) as store:
            facts = await store.read("s")
            assert len(facts) in (acknowledged, acknowledged + 1)  # one may have been recorded and not yet told
            assert [str(fact.content).split()[0] for fact in facts if isinstance(fact, MessageReceived)] == [
                str(position) for position in range(len(facts))
            ]
            assert await store.verify() == []
            acknowledged = len(facts)
    assert acknowledged >= 12


def test_a_log_cut_off_anywhere_leaves_a_prefix_that_can_be_continued(tmp_path: Path, child: Start) -> None:
    path = tmp_path / "store.db"
    killed = child("leave_a_log", path)
    assert killed.hear() == "done"
    killed.end()
    stored, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    assert len(log) > 100_000

    async def look(cut: int) -> int:
        copy = tmp_path / f"cut-{cut}.db"
        copy.write_bytes(stored)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        async with SQLiteStore(copy) as store:
            facts = await store.read("s")
            assert [str(fact.content).split()[0] for fact in facts if isinstance(fact, MessageReceived)] == [
                str(position) for position in range(len(facts))
            ]
            assert await store.append("s", len(facts), said(99)) == len(facts) + 1
            assert await store.verify() == []
        return len(facts)

    lengths = [asyncio.run(look(cut)) for cut in [*range(0, len(log), 4999), len(log) - 1, len(log)]]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (20, 60)  # what was in the file is never lost; a whole log loses nothing


async def test_a_store_works_on_in_a_forked_child(tmp_path: Path, child: Start) -> None:
    forking = child("fork", tmp_path / "store.db")
    assert json.loads(forking.hear()) == [2, True, 2]  # in the child: appended, its parent's lease respected, all read
    assert json.loads(forking.hear()) == [3, True]  # in the parent, afterwards
    orphan = int(forking.hear())
    forking.process.wait(timeout=60)
    try:
        async with SQLiteStore(tmp_path / "store.db") as store:
            assert len(await store.read("s")) == 3
            await leased(store, "s")  # its holder is dead; that holder's child is not
    finally:
        os.kill(orphan, signal.SIGKILL)


async def test_a_store_nobody_closed_does_not_hold_up_the_end_of_its_process(tmp_path: Path, child: Start) -> None:
    assert child("forget", tmp_path / "store.db").end() == ("end\n", "")  # `end` waits a minute for the process
    async with SQLiteStore(tmp_path / "store.db") as store:
        assert [len(await store.read(ledger)) for ledger in "st"] == [1, 1]
        assert await store.lease("s") is not None


async def test_many_processes_may_create_the_file_at_once(tmp_path: Path, child: Start) -> None:
    path = tmp_path / "deep" / "store.db"
    racers = [child("race", path, str(number), 5) for number in range(4)]
    for racer in racers:
        racer.tell("go")
    for racer in racers:
        assert racer.end() == ("ready\n", "")
    async with SQLiteStore(path) as store:
        assert len(await store.read("s")) == 20


async def test_leases_hold_where_only_posix_locks_exist(tmp_path: Path, child: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("fcntl.F_OFD_SETLK", raising=False)
    path = tmp_path / "store.db"
    one, two = SQLiteStore(path), SQLiteStore(path)
    lease = await one.lease("s")
    assert lease is not None
    assert await two.lease("s") is None
    assert await two.lease("t") is not None
    await two.close()  # closing a descriptor of the file would drop all locks of this process
    assert child("hold", path, "s").hear() == "refused"
    await one.release(lease)
    assert child("hold", path, "s").hear() == "2"
    assert child("hold", path, "t").hear() == "2"
    await one.close()
