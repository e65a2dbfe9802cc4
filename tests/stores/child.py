"""What other processes do to a store. Run as a script: `python child.py <what> <path or DSN> ...`; speaks line by line.

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


def say(*words: object) -> None:
    """Write a line in one piece: a process may be killed between two."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def opened(where: str) -> SQLiteStore | PostgresStore:
    return PostgresStore(where, lease_seconds=1.5) if "host=" in where or "://" in where else SQLiteStore(where)


def fact(text: str, size: int = 0) -> AnyFact:
    return MessageReceived(at=1, content=text + " " + "x" * size)


async def race(path: str, tag: str, count: str) -> None:
    """Append `count` facts, each as soon as nobody else is quicker."""
    store = opened(path)
    length = 0
    say("ready")
    sys.stdin.readline()
    for number in range(int(count)):
        while True:
            try:
                length = await store.append("s", length, [fact(f"{tag} {number}")])
                break
            except LedgerConflict as conflict:
                length = conflict.found_position
    await store.close()


async def hold(path: str, ledger: str) -> None:
    """Lease the ledger and sleep."""
    store = opened(path)
    lease = await store.lease(ledger)
    say(lease.epoch if lease else "refused")
    time.sleep(60)


async def hold_until_lost(dsn: str, ledger: str) -> None:
    """Lease the ledger, and tell when the lease is found to be lost."""
    store = PostgresStore(dsn, lease_seconds=1.5)
    lease = await store.lease(ledger)
    assert lease is not None
    say(lease.epoch)
    while lease in store._server.line._held:
        time.sleep(0.01)
    say("lost")


async def append_forever(path: str, durability: str) -> None:
    store = SQLiteStore(path, durability)  # type: ignore[arg-type]
    length = len(await store.read("s"))
    while True:
        length = await store.append("s", length, [fact(str(length), 300)], durable=length % 7 == 0)
        say(length)


async def leave_a_log(path: str) -> None:
    """20 facts in the file, 40 more in its log, and no farewell."""
    for first, last in ((0, 20), (20, 60)):
        store = SQLiteStore(path)
        for position in range(first, last):
            await store.append("s", position, [fact(str(position), 300)])
        if first == 0:
            await store.close()
    say("done")
    os.kill(os.getpid(), 9)


async def append_to(dsn: str, ledger: str) -> None:
    """Append until the server is gone; tell of every append that was acknowledged."""
    store = PostgresStore(dsn)
    length = 0
    while True:
        length = await store.append(ledger, length, [fact(str(length), 300)])
        say(length)


async def first_use(dsn: str) -> None:
    """Use a database that nobody has used, at the same moment as others."""
    store = PostgresStore(dsn)
    say("ready")
    sys.stdin.readline()
    say(await store.append(f"by {os.getpid()}", 0, [fact("first")]))
    await store.close()


async def append_when_told(dsn: str, ledger: str) -> None:
    """For every line read, append a fact."""
    store = PostgresStore(dsn)
    length = len(await store.read(ledger))
    say("ready")
    for _ in sys.stdin:
        length = await store.append(ledger, length, [fact(str(length))])
        say("appended")


def nursery(path: str, durability: str) -> None:
    """For every line read, a new process that appends forever; forked, because starting Python takes longer than the test."""
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:
            say("pid", os.getpid())
            asyncio.run(append_forever(path, durability))
        os.waitpid(pid, 0)
        say("killed")


def lock(path: str) -> None:
    """Hold the writer's lock until a line is read."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    connection.close()
    say("free")
    sys.stdin.readline()


def without_rights(path: str) -> None:
    """Use a store whose file and folder may not be written, as somebody whom that stops."""
    if os.geteuid() == 0:
        os.setuid(65534)

    async def main() -> None:
        store = SQLiteStore(path, busy_timeout=0.5)
        other = SQLiteStore(path + "-new")
        for attempt in (
            lambda: store.append("s", 1, [fact("1")]),
            lambda: store.lease("s"),
            lambda: store.read("s"),
            lambda: other.append("s", 0, [fact("0")]),
        ):
            try:
                found = await attempt()
                say(len(found) if isinstance(found, list) else found)
            except StoreError as error:
                say(error.code)
        sys.stdin.readline()  # meanwhile the rights are given
        say(await store.append("s", 1, [fact("1")]))
        await store.close()
        await other.close()

    asyncio.run(main())


def fork(path: str) -> None:
    """A store that was in use when its process forked, used in parent and child."""
    store = opened(path)

    async def before() -> None:
        await store.append("s", 0, [fact("0")])
        await store.lease("s")

    async def in_child() -> None:
        length = await store.append("s", 1, [fact("1")])
        say(json.dumps([length, await store.lease("s") is None, len(await store.read("s"))]))
        await store.close()

    async def in_parent() -> None:
        say(json.dumps([await store.append("s", 2, [fact("2")]), await store.lease("s") is None]))
        if (pid := os.fork()) == 0:
            time.sleep(60)  # outlives its parent, and must not keep its lease
        say(pid)
        os.kill(os.getpid(), 9)

    asyncio.run(before())
    if (pid := os.fork()) == 0:
        asyncio.run(in_child())
        os._exit(0)
    os.waitpid(pid, 0)
    asyncio.run(in_parent())


def forget(path: str) -> None:
    """Leave stores open in every way one can."""
    kept = opened(path)

    async def main() -> None:
        await kept.append("s", 0, [fact("0")])
        await kept.lease("s")
        dropped = opened(path)
        await dropped.append("t", 0, [fact("0")])
        waiting = asyncio.ensure_future(kept.wait("s", 1, 60))
        await asyncio.sleep(0.05)
        waiting.cancel()

    asyncio.run(main())
    say("end")


if __name__ == "__main__":
    job = globals()[sys.argv[1]](*sys.argv[2:])
    if asyncio.iscoroutine(job):
        asyncio.run(job)
