"""Connections that are open and silent: a real server behind a proxy that stops forwarding and closes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from legato.errors import LedgerConflict, StoreUnavailable
from legato.stores import PostgresStore
from tests.stores.conftest import make_facts

BOUND_S = 60  # generous: without deadlines the tests would hang


class Proxy:
    """A proxy that forwards connections to a server until it is muted."""

    def __init__(self, dsn: str) -> None:
        self._parameters = conninfo_to_dict(dsn)
        self._forwarding: list[asyncio.Task[None]] = []
        self._streams: list[asyncio.StreamWriter] = []
        self.accepts_only = False
        self.pause_s = 0.0  # after each piece that is forwarded to a client

    async def start(self) -> str:
        """Start the proxy and return its DSN."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return make_conninfo(**{**self._parameters, "host": "127.0.0.1", "port": port, "sslmode": "disable"})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.append(writer)
        if self.accepts_only:
            return
        host, port = str(self._parameters["host"]), self._parameters.get("port", 5432)
        to_server = asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}") if host.startswith("/") else asyncio.open_connection(host, port)
        server_reader, server_writer = await to_server
        self._streams.append(server_writer)
        self._forwarding.append(asyncio.create_task(self._forward(reader, server_writer, 0)))
        self._forwarding.append(asyncio.create_task(self._forward(server_reader, writer, self.pause_s)))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause_s: float) -> None:
        with suppress(OSError):
            while data := await reader.read(16_384):
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(pause_s)
            writer.close()

    def mute(self, *, answers_only: bool = False) -> None:
        """Stop forwarding on the present connections, which stay open. `answers_only`: requests still reach the server."""
        for task in self._forwarding[1::2] if answers_only else self._forwarding:
            task.cancel()
        self._forwarding.clear()

    async def stop(self) -> None:
        self._server.close()
        self.mute()
        for stream in self._streams:
            stream.close()


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[Proxy]:
    made = Proxy(database)
    yield made
    await made.stop()


async def test_silent_connection_is_replaced(database: str, proxy: Proxy) -> None:
    async with asyncio.timeout(BOUND_S), PostgresStore(await proxy.start(), lock_timeout=0.3, answer_timeout=0.3) as store:
        await asyncio.gather(*(store.append(f"s{number}", 0, make_facts(0)) for number in range(6)))
        proxy.mute()
        with pytest.raises(StoreUnavailable, match=r"cannot be reached(?s:.*)has not answered for 0\.6 s(?s:.*)read the ledger to see"):
            await store.append("s0", 1, make_facts(1))
        assert await store.append("s0", 1, make_facts(1)) == 2, "on a new connection: the other ones were closed too"
        proxy.mute()
        assert await store.read("s0") == make_facts(0, 1), "reads are repeated"


async def test_unanswered_append_may_be_recorded(proxy: Proxy) -> None:
    async with asyncio.timeout(BOUND_S), PostgresStore(await proxy.start(), lock_timeout=0.5, answer_timeout=0.5) as store:
        await store.append("s", 0, make_facts(0))
        proxy.mute(answers_only=True)
        with pytest.raises(StoreUnavailable):
            await store.append("s", 1, make_facts(1))
        assert await store.read("s") == make_facts(0, 1)
        with pytest.raises(LedgerConflict):
            await store.append("s", 1, make_facts(1))


async def test_silent_server_is_given_up(proxy: Proxy) -> None:
    proxy.accepts_only = True
    dsn = make_conninfo(await proxy.start(), connect_timeout=2)
    async with asyncio.timeout(BOUND_S), PostgresStore(dsn) as store:
        with pytest.raises(StoreUnavailable):
            await store.append("s", 0, make_facts(0))


async def test_silent_listener_still_renews_leases(database: str, proxy: Proxy) -> None:
    async with PostgresStore(await proxy.start(), lease_seconds=6) as store, PostgresStore(database) as other:
        assert await store.lease("s") is not None
        with psycopg.connect(database, autocommit=True) as connection:

            def read_expiry() -> float:
                row = connection.execute("SELECT extract(epoch FROM until) FROM legato.ledgers").fetchone()
                assert row is not None
                return float(row[0])

            first = read_expiry()
            async with asyncio.timeout(BOUND_S):
                while read_expiry() == first:  # until the listener is connected  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            proxy.mute()
            last, began = read_expiry(), time.monotonic()
            async with asyncio.timeout(BOUND_S):
                while read_expiry() == last:
                    assert await other.lease("s") is None, f"the lease was lost after {time.monotonic() - began:.1f} s"
                    await asyncio.sleep(0.05)


async def test_silent_listener_still_ends_waits(database: str, proxy: Proxy) -> None:
    async with asyncio.timeout(BOUND_S), PostgresStore(await proxy.start(), lease_seconds=3) as store, PostgresStore(database) as other:
        waiting = asyncio.ensure_future(store.wait("s", 0, BOUND_S))
        while not store._database.listener.is_listening:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        proxy.mute()
        await other.append("s", 0, make_facts(0))
        assert await waiting


async def test_store_with_silent_connections_closes(proxy: Proxy) -> None:
    async with asyncio.timeout(BOUND_S):
        async with PostgresStore(await proxy.start(), lock_timeout=0.5, answer_timeout=0.5) as store:
            assert await store.lease("s") is not None
            proxy.mute()
            appending = asyncio.ensure_future(store.append("s", 0, make_facts(0)))
            while not store._database.pool()._in_use:  # noqa: ASYNC110
                await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await appending


async def test_slow_transfer_is_not_cut_off(database: str, proxy: Proxy) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(0, size=700_000))
    proxy.pause_s = 0.1
    async with PostgresStore(await proxy.start(), lock_timeout=0.5, answer_timeout=1.5) as store:
        await store.ledger_id("s")
        began = time.monotonic()
        assert await store.read("s") == make_facts(0, size=700_000)
        assert time.monotonic() - began > 2, "longer than the server may be silent"


async def test_long_server_work_is_not_cut_off(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            """CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.5); RETURN OLD; END $$;
            CREATE TRIGGER slow BEFORE DELETE ON legato.ledgers FOR EACH ROW EXECUTE FUNCTION public.slow()"""
        )
    async with PostgresStore(database, lock_timeout=0.2, answer_timeout=0.2) as store:
        await store.append("s", 0, make_facts(0))
        assert await store.delete("s")
        assert await store.read("s") == []
