"""What other processes do to a store. Run as a script: `python store_process.py <what> <path or DSN> ...`; speaks line by line.

Every function prints what it has done *after* the store acknowledged it, and flushes, so that what a test has read is a promise.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time

from legato.core.facts import AnyFact, MessageReceived
from legato.errors import LedgerConflict, StoreError
from legato.stores import PostgresStore, SQLiteStore


def print_line(*words: object) -> None:
    """Write a line in one piece: the process may be killed between two writes."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def open_store(where: str) -> SQLiteStore | PostgresStore:
    return PostgresStore(where, lease_seconds=1.5) if "host=" in where or "://" in where else SQLiteStore(where)


def make_fact(text: str, size: int = 0) -> AnyFact:
    return MessageReceived(at=1, content=text + " " + "x" * size)


async def race(path: str, tag: str, count: str) -> None:
    """Append `count` facts, each again until no other process is faster."""
    store = open_store(path)
    length = 0
    print_line("ready")
    sys.stdin.readline()
    for number in range(int(count)):
        while True:
            try:
                length = await store.append("s", length, [make_fact(f"{tag} {number}")])
                break
            except LedgerConflict as conflict:
                length = conflict.found_position
    await store.close()


async def hold(path: str, ledger: str) -> None:
    """Lease a ledger and sleep."""
    store = open_store(path)
    lease = await store.lease(ledger)
    print_line(lease.epoch if lease else "refused")
    time.sleep(60)


async def hold_until_lost(dsn: str, ledger: str) -> None:
    """Lease a ledger, and print a line when the lease is lost."""
    store = PostgresStore(dsn, lease_seconds=1.5)
    lease = await store.lease(ledger)
    assert lease is not None
    print_line(lease.epoch)
    while lease in store._database.listener._leases:
        time.sleep(0.01)
    print_line("lost")


async def append_forever(path: str, durability: str) -> None:
    store = SQLiteStore(path, durability)  # type: ignore[arg-type]
    length = len(await store.read("s"))
    while True:
        length = await store.append("s", length, [make_fact(str(length), 300)], durable=length % 7 == 0)
        print_line(length)


async def leave_a_log(path: str) -> None:
    """Leave 20 facts in the file and 40 more in its log, and kill the process."""
    for first, last in ((0, 20), (20, 60)):
        store = SQLiteStore(path)
        for position in range(first, last):
            await store.append("s", position, [make_fact(str(position), 300)])
        if first == 0:
            await store.close()
    print_line("done")
    os.kill(os.getpid(), 9)


async def append_to(dsn: str, ledger: str) -> None:
    """Append until the server is gone; print the length after every acknowledged append."""
    store = PostgresStore(dsn)
    length = 0
    while True:
        length = await store.append(ledger, length, [make_fact(str(length), 300)])
        print_line(length)


async def first_use(dsn: str) -> None:
    """Use a new database at the same moment as other processes."""
    store = PostgresStore(dsn)
    print_line("ready")
    sys.stdin.readline()
    print_line(await store.append(f"by {os.getpid()}", 0, [make_fact("first")]))
    await store.close()


async def append_when_told(dsn: str, ledger: str) -> None:
    """Append a fact for every line of input."""
    store = PostgresStore(dsn)
    length = len(await store.read(ledger))
    print_line("ready")
    for _ in sys.stdin:
        length = await store.append(ledger, length, [make_fact(str(length))])
        print_line("appended")


def nursery(path: str, durability: str) -> None:
    """Fork a process that appends forever for every line of input: starting Python takes longer than the test."""
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:
            print_line("pid", os.getpid())
            asyncio.run(append_forever(path, durability))
        os.waitpid(pid, 0)
        print_line("killed")


def lock(path: str) -> None:
    """Hold the writer's lock until a line of input."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print_line("locked")
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    connection.close()
    print_line("free")
    sys.stdin.readline()


def without_rights(path: str) -> None:
    """Use a store whose file and folder are read-only, as a user to whom that applies."""
    if os.geteuid() == 0:
        os.setuid(65534)

    async def main() -> None:
        store = SQLiteStore(path, busy_timeout=0.5)
        other = SQLiteStore(path + "-new")
        for attempt in (
            lambda: store.append("s", 1, [make_fact("1")]),
            lambda: store.lease("s"),
            lambda: store.read("s"),
            lambda: other.append("s", 0, [make_fact("0")]),
        ):
            try:
                found = await attempt()
                print_line(len(found) if isinstance(found, list) else found)
            except StoreError as error:
                print_line(error.code)
        sys.stdin.readline()  # meanwhile the permissions are granted
        print_line(await store.append("s", 1, [make_fact("1")]))
        await store.close()
        await other.close()

    asyncio.run(main())


def fork(path: str) -> None:
    """Use a store in a parent and in its forked child."""
    store = open_store(path)

    async def before() -> None:
        await store.append("s", 0, [make_fact("0")])
        await store.lease("s")

    async def in_child() -> None:
        length = await store.append("s", 1, [make_fact("1")])
        print_line(json.dumps([length, await store.lease("s") is None, len(await store.read("s"))]))
        await store.close()

    async def in_parent() -> None:
        print_line(json.dumps([await store.append("s", 2, [make_fact("2")]), await store.lease("s") is None]))
        if (pid := os.fork()) == 0:
            time.sleep(60)  # outlives its parent, and must not keep the parent's lease
        print_line(pid)
        os.kill(os.getpid(), 9)

    asyncio.run(before())
    if (pid := os.fork()) == 0:
        asyncio.run(in_child())
        os._exit(0)
    os.waitpid(pid, 0)
    asyncio.run(in_parent())


def forget(path: str) -> None:
    """Leave stores open in all possible ways."""
    left_open = open_store(path)

    async def main() -> None:
        await left_open.append("s", 0, [make_fact("0")])
        await left_open.lease("s")
        dropped = open_store(path)
        await dropped.append("t", 0, [make_fact("0")])
        waiting = asyncio.ensure_future(left_open.wait("s", 1, 60))
        await asyncio.sleep(0.05)
        waiting.cancel()

    asyncio.run(main())
    print_line("end")


if __name__ == "__main__":
    job = globals()[sys.argv[1]](*sys.argv[2:])
    if asyncio.iscoroutine(job):
        asyncio.run(job)
