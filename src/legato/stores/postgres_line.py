"""One connection that listens, tells and keeps leases alive. May know: threads, the server's notifications. Decides: when to look again.

It has a thread of its own, so that leases live on while an event loop is busy with something else, and so that one connection serves all
event loops of a store. Whoever appends leaves a word here, which goes out as a notification a moment later: not with the append, because
Postgres lets one transaction at a time commit that notifies, and each would wait for the disk alone. What a notification says is which
ledger, by a digest, and how long it is now. That is not believed, for whoever may connect may notify: if somebody waits for that ledger
here, its length is looked at, once for all that was heard together. The server wakes everybody who listens for every word, so a line
listens only while somebody here waits.

Notifications are a shortcut. When the line has been down, every ledger that somebody waits for is looked at anew; and every few seconds
anyway, for a word may be lost: with a process that dies before it told, or in a pooler that does not pass on notifications.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg.types.numeric import Int8

from legato.stores import postgres_statements as sql
from legato.stores.contract import Lease
from legato.stores.live import Waiters
from legato.stores.postgres_errors import NO_SCHEMA
from legato.stores.postgres_live import Notes
from legato.stores.postgres_pool import SyncConnection
from legato.stores.postgres_rows import key_of

LOOK_AGAIN = 2.0  # seconds between looks at what somebody waits for, in case a word was lost
FIRST_LOOK = 0.05  # seconds until the first look for somebody who did not look himself: most who drive have ended by then
SOONEST, LATEST = 0.05, 1.0  # seconds between attempts to connect again
LINGER = 5.0  # seconds that the line goes on listening when nobody waits any more: the next one is often not far
BEATS = 4  # how often a lease is renewed in the time that it lasts
FAREWELL = 5.0  # seconds that closing waits for this thread
LONGEST_POLL = 3600.0  # seconds; whoever waits for longer looks once in between. What the system takes ends at 24 days


class Line:
    """The line of one store, shared by its tenants. Every method may be called from any thread."""

    def __init__(self, connect: Callable[[], SyncConnection], waiters: Waiters, lease_seconds: float) -> None:
        self._connect = connect
        self._waiters = waiters
        self._lease_seconds = lease_seconds
        self.notes = Notes(lambda: self._start(ring=True))
        self._heeds = False  # whether the connection was told to listen
        self.listening = False  # whether it does
        self.forget()

    def forget(self) -> None:
        """Start anew, in a forked child too: it has none of its parent's threads and holds none of its leases."""
        self._lock = threading.Lock()
        self._held: dict[Lease, str] = {}  # their tenants
        self._news: dict[str, int] = {}  # lengths to tell, by key
        self._watched: dict[str, tuple[str, str]] = {}  # who is meant by a key that somebody waits for
        self._unseen: dict[str, tuple[str, str]] = {}  # those of them that nobody has looked at since
        self._called: set[str] = set()  # those of them that somebody elsewhere has named; of the thread alone
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._connection: SyncConnection | None = None

    # -- what the store says ---------------------------------------------------------------------------------------------

    def hold(self, tenant: str, lease: Lease) -> None:
        """Keep this lease alive."""
        with self._lock:
            self._held[lease] = tenant
            first = len(self._held) == 1
        self._start(ring=first)

    def let_go(self, lease: Lease) -> bool:
        """Keep it alive no longer. False if nobody did."""
        with self._lock:
            tenant = self._held.pop(lease, None)
        if tenant is not None:
            self.notes.over(key_of(tenant, lease.ledger))
        return tenant is not None

    def tell(self, key: str, length: int) -> None:
        """Somebody elsewhere may wait for this ledger to be so long."""
        with self._lock:
            first = not self._news
            self._news[key] = max(length, self._news.get(key, 0))
        self._start(ring=first)

    def watch(self, key: str, tenant: str, ledger: str, *, looks: bool) -> None:
        """Somebody waits for this ledger, and can be woken already. `looks`: he looks himself at what is there."""
        with self._lock:
            first = not (self._watched if looks else self._unseen)
            self._watched[key] = (tenant, ledger)
            if not looks:
                self._unseen[key] = (tenant, ledger)
        self._start(ring=first)

    def stop(self, patience: float = FAREWELL) -> None:
        """Give all leases back, close the connection, end the thread."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._ring()
            thread.join(patience)

    def disown(self) -> SyncConnection | None:
        """In a forked child: the connection that belongs to the parent, if any; and start anew."""
        connection = self._connection
        if self._bell is not None:
            for end in self._bell:
                end.close()
        self.listening = False
        self.forget()
        self.notes.forget()
        return connection

    def _start(self, ring: bool) -> None:
        with self._lock:
            if self._thread is None and not self._stopping:
                ours, theirs = self._bell = socket.socketpair()
                ours.setblocking(False)
                theirs.setblocking(False)
                self._thread = threading.Thread(target=self._run, args=(theirs,), name="legato-postgres-line", daemon=True)
                self._thread.start()
                return
        if ring:
            self._ring()

    def _ring(self) -> None:
        bell = self._bell
        if bell is not None:
            with contextlib.suppress(OSError):  # full: it rings already; closed: nobody is there
                bell[0].send(b"!")

    # -- what the thread does --------------------------------------------------------------------------------------------

    def _run(self, bell: socket.socket) -> None:
        pause = SOONEST
        while not self._stopping:
            try:
                connection = self._connection = self._connect()
                try:
                    connection.add_notify_handler(lambda heard: self._hear_of(heard.payload, heard.pid))
                    self._heeds = False
                    pause = SOONEST
                    self._serve(connection, bell)
                finally:
                    self.listening = False
                    self._connection = None
                    connection.close()
            except Exception:  # whatever it is: leases are kept alive by trying again
                if not self._stopping:
                    _hear(bell, None, pause)
                    pause = min(2 * pause, LATEST)
        with self._lock:
            bells, self._bell, self._thread = self._bell, None, None
        for end in bells or ():
            end.close()

    def _serve(self, connection: SyncConnection, bell: socket.socket) -> None:
        chores = self._chores()
        while True:
            now = time.monotonic()
            if self._wants_news():
                self._heed(connection)
            for chore in chores:
                chore.do_if_due(connection, now)
            if self._called:
                called, self._called = self._called, set()
                self._look(connection, {key: self._watched[key] for key in called if key in self._watched})
            self._send(connection)
            if self._stopping:
                self._give_everything_back(connection)
                return
            due = [at - time.monotonic() for chore in chores if (at := chore.schedule(now)) is not None]
            if _hear(bell, connection, 0 if self._called else min(due, default=None)):
                connection.pgconn.consume_input()
                while (heard := connection.pgconn.notifies()) is not None:
                    self._hear_of(heard.extra.decode(errors="replace"), heard.be_pid)

    def _chores(self) -> tuple[_Chore, ...]:
        """What is to be done again and again. For what was missed while the line was down, the first time is at once."""
        return (
            _Chore(self._ignore, LINGER, lambda: self.listening and not self._wants_news()),
            _Chore(self._renew, self._lease_seconds / BEATS, lambda: bool(self._held), due=0.0),
            _Chore(self._look_for_new, FIRST_LOOK, lambda: bool(self._unseen)),
            _Chore(self._look_for_all, LOOK_AGAIN, lambda: bool(self._watched), due=0.0),
        )

    def _wants_news(self) -> bool:
        return bool(self._watched) or self.notes.asked()

    def _heed(self, connection: SyncConnection) -> None:
        """Listen from now on. What was told before is looked for, a moment later."""
        if self._heeds:
            return
        self._heeds = True
        with contextlib.suppress(psycopg.errors.ReadOnlySqlTransaction):  # a standby notifies nobody: looking again has to do
            connection.execute(sql.LISTEN)
            self.listening = True
        with self._lock:
            self._unseen.update(self._watched)

    def _ignore(self, connection: SyncConnection) -> None:
        """Listen no more: nobody has waited for a while."""
        connection.execute(sql.UNLISTEN)
        self._heeds = self.listening = False

    def _renew(self, connection: SyncConnection) -> None:
        with self._lock:
            held = list(self._held)
            tenants = list(self._held.values())
        numbers, epochs = [Int8(lease.number) for lease in held], [Int8(lease.epoch) for lease in held]
        alive = {number for (number,) in connection.execute(sql.RENEW, (tenants, numbers, epochs, self._lease_seconds, False))}
        rest = [(tenant, lease) for tenant, lease in zip(tenants, held, strict=True) if lease.number not in alive]
        if not rest:
            return
        beat = self._lease_seconds / BEATS
        connection.execute(sql.PATIENCE, (milliseconds(beat / len(rest)),))  # all of them together may take until the next beat
        for tenant, lease in rest:
            given = ([tenant], [Int8(lease.number)], [Int8(lease.epoch)], self._lease_seconds, True)
            with contextlib.suppress(psycopg.errors.LockNotAvailable):  # somebody writes to it for long: the others must not wait
                if not connection.execute(sql.RENEW, given).fetchall():
                    self.let_go(lease)  # somebody else has it by now, or the ledger is gone
        connection.execute(sql.PATIENCE, (milliseconds(beat),))

    def _give_everything_back(self, connection: SyncConnection) -> None:
        with self._lock:
            held = [(tenant, Int8(lease.number), Int8(lease.epoch), None) for lease, tenant in self._held.items()]
            self._held.clear()
        if held:
            connection.execute(sql.RELEASE, tuple(map(list, zip(*held, strict=True))))

    def _look_for_new(self, connection: SyncConnection) -> None:
        """Look at what those wait for who came since."""
        with self._lock:
            unseen, self._unseen = self._unseen, {}
        self._look(connection, unseen)

    def _look_for_all(self, connection: SyncConnection) -> None:
        """Look at what somebody waits for still; the others are forgotten.

        Whoever comes is among the waiters first and asks for the lock then: so they are found there, or come after this.
        """
        with self._lock:
            self._watched = {key: who for key, who in self._watched.items() if key in self._waiters}
            watched = dict(self._watched)
        self._look(connection, watched)

    def _look(self, connection: SyncConnection, at: dict[str, tuple[str, str]]) -> None:
        asked = [(tenant, ledger, key) for key, (tenant, ledger) in at.items() if key in self._waiters]
        if asked:
            try:
                found = connection.execute(sql.LENGTHS, tuple(map(list, zip(*asked, strict=True)))).fetchall()
            except psycopg.Error as error:
                if error.sqlstate in NO_SCHEMA:
                    return  # nobody has used the database yet
                raise
            for key, length in found:
                self._waiters.wake(key, length)

    def _send(self, connection: SyncConnection) -> None:
        self.notes.send(connection, self._heed)
        with self._lock:
            news, self._news = self._news, {}
        if news:
            try:
                connection.execute(sql.NOTIFY, ([f"{key} {length}" for key, length in news.items()],))
            except BaseException:
                with self._lock:
                    self._news = {**news, **self._news}
                raise

    def _hear_of(self, told: str, teller: int) -> None:
        key, _, what = told.partition(" ")
        if not what.isdecimal():
            self.notes.take(key, what)
        elif key in self._watched and self._connection is not None and teller != self._connection.info.backend_pid:
            self._called.add(key)  # who waits here was told by whoever appended here


class _Chore:
    """Something that the line does so many seconds after it was first wanted, as long as it is."""

    def __init__(self, do: Callable[[SyncConnection], None], after: float, wanted: Callable[[], bool], due: float | None = None) -> None:
        self._do = do
        self._after = after
        self._wanted = wanted
        self._due = due

    def do_if_due(self, connection: SyncConnection, now: float) -> None:
        """Do it if its time has come, and it is still wanted."""
        if self._due is not None and now >= self._due:
            self._due = None
            if self._wanted():
                self._do(connection)

    def schedule(self, now: float) -> float | None:
        """When it is to be done; None if it is not wanted."""
        if not self._wanted():
            self._due = None
        elif self._due is None:
            self._due = now + self._after
        return self._due


def milliseconds(seconds: float) -> str:
    """As a setting of the server, where 0 would mean: for ever."""
    return str(max(1, int(seconds * 1000)))


def _hear(bell: socket.socket, connection: SyncConnection | None, seconds: float | None) -> bool:
    """Wait until something is to be done, or the server has something to say: then True."""
    poll = select.poll()
    poll.register(bell.fileno(), select.POLLIN)
    if connection is not None:
        poll.register(connection.fileno(), select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(None if seconds is None else min(max(seconds, 0), LONGEST_POLL) * 1000)}
    if bell.fileno() in ready:
        with contextlib.suppress(BlockingIOError):
            bell.recv(4096)
    return connection is not None and connection.fileno() in ready
