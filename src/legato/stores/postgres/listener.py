"""The listener of a Postgres store: one connection that announces growth, listens to announcements, and renews leases.

It has a thread of its own, so that leases are renewed while an event loop is busy, and so that one connection serves all event loops of a
store. Appends are announced by a notification a moment later, not within the append: Postgres commits one notifying transaction at a time,
so each would wait for the disk alone. A notification names the ledger, by a digest, and its length. The length is not trusted, because any
role that may connect may notify: if this process watches that ledger, the listener reads its length, once for all notifications that came
together. The server wakes all listening connections for every notification, so the connection listens only while this process watches
ledgers.

Notifications are a shortcut. After a connection was lost, the lengths of all watched ledgers are read again; and also every few seconds,
because a notification may be lost: with a process that dies before it is sent, or in a pooler that does not pass on notifications.
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

from legato.stores.contract import Lease
from legato.stores.ledger_watchers import LedgerWatchers
from legato.stores.postgres import statements as sql
from legato.stores.postgres.connection_pool import SyncPostgresConnection
from legato.stores.postgres.delta_channel import DeltaNotifications
from legato.stores.postgres.errors import MISSING_SCHEMA_CODES
from legato.stores.postgres.rows import ledger_key

CHECK_INTERVAL_S = 2.0  # between reads of the lengths of watched ledgers, in case a notification was lost
FIRST_CHECK_DELAY_S = 0.05  # until the first read for a watcher that did not read itself: most drivers have ended by then
MIN_RECONNECT_DELAY_S, MAX_RECONNECT_DELAY_S = 0.05, 1.0
UNLISTEN_DELAY_S = 5.0  # how long the connection listens after the last watcher has gone: the next one often comes soon
RENEWALS_PER_LEASE = 4  # renewals within the duration of a lease
STOP_TIMEOUT_S = 5.0  # how long closing waits for the thread
MAX_POLL_S = 3600.0  # a longer wait is split. The operating system's own limit is 24 days


class Listener:
    """The listener of one store, shared by its tenants. Every method may be called from any thread."""

    def __init__(self, connect: Callable[[], SyncPostgresConnection], watchers: LedgerWatchers, lease_seconds: float) -> None:
        self._connect = connect
        self._watchers = watchers
        self._lease_seconds = lease_seconds
        self.deltas = DeltaNotifications(lambda: self._ensure_thread(wake=True))
        self._is_listen_requested = False  # whether LISTEN was sent on this connection
        self.is_listening = False  # whether the server accepted it
        self.reset()

    def reset(self) -> None:
        """Forget everything, as a forked child does: it has none of its parent's threads and leases."""
        self._lock = threading.Lock()
        self._leases: dict[Lease, str] = {}  # lease -> tenant
        self._announcements: dict[str, int] = {}  # ledger key -> length to announce
        self._watched_ledgers: dict[str, tuple[str, str]] = {}  # ledger key -> (tenant, ledger)
        self._unchecked_ledgers: dict[str, tuple[str, str]] = {}  # the watched ledgers whose length was not read since
        self._notified_keys: set[str] = set()  # the watched ledgers that another process has announced; used by the thread alone
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._wakeup_sockets: tuple[socket.socket, socket.socket] | None = None
        self._connection: SyncPostgresConnection | None = None

    # -- called by the store ---------------------------------------------------------------------------------------------

    def add_lease(self, tenant: str, lease: Lease) -> None:
        """Renew a lease from now on."""
        with self._lock:
            self._leases[lease] = tenant
            first = len(self._leases) == 1
        self._ensure_thread(wake=first)

    def remove_lease(self, lease: Lease) -> bool:
        """Stop renewing a lease. Return False if it was not renewed any more."""
        with self._lock:
            tenant = self._leases.pop(lease, None)
        if tenant is not None:
            self.deltas.forget_subscribers(ledger_key(tenant, lease.ledger))
        return tenant is not None

    def announce(self, key: str, length: int) -> None:
        """Announce the length of a ledger to other processes."""
        with self._lock:
            first = not self._announcements
            self._announcements[key] = max(length, self._announcements.get(key, 0))
        self._ensure_thread(wake=first)

    def watch(self, key: str, tenant: str, ledger: str, *, is_checked: bool) -> None:
        """Watch a ledger that has a watcher in this process. `is_checked`: the caller reads the present length itself."""
        with self._lock:
            first = not (self._watched_ledgers if is_checked else self._unchecked_ledgers)
            self._watched_ledgers[key] = (tenant, ledger)
            if not is_checked:
                self._unchecked_ledgers[key] = (tenant, ledger)
        self._ensure_thread(wake=first)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Release all leases, close the connection, end the thread."""
        with self._lock:
            self._is_stopping = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._wake_thread()
            thread.join(timeout_s)

    def detach_after_fork(self) -> SyncPostgresConnection | None:
        """Reset a forked child, and return the connection that belongs to its parent, if there is one."""
        connection = self._connection
        if self._wakeup_sockets is not None:
            for end in self._wakeup_sockets:
                end.close()
        self.is_listening = False
        self.reset()
        self.deltas.reset()
        return connection

    def _ensure_thread(self, wake: bool) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopping:
                ours, theirs = self._wakeup_sockets = socket.socketpair()
                ours.setblocking(False)
                theirs.setblocking(False)
                self._thread = threading.Thread(target=self._run, args=(theirs,), name="legato-postgres-listener", daemon=True)
                self._thread.start()
                return
        if wake:
            self._wake_thread()

    def _wake_thread(self) -> None:
        sockets = self._wakeup_sockets
        if sockets is not None:
            with contextlib.suppress(OSError):  # full: the thread is about to wake; closed: the thread has ended
                sockets[0].send(b"!")

    # -- on the thread ---------------------------------------------------------------------------------------------------

    def _run(self, wakeup_socket: socket.socket) -> None:
        pause = MIN_RECONNECT_DELAY_S
        while not self._is_stopping:
            try:
                connection = self._connection = self._connect()
                try:
                    connection.add_notify_handler(lambda notify: self._handle_notification(notify.payload, notify.pid))
                    self._is_listen_requested = False
                    pause = MIN_RECONNECT_DELAY_S
                    self._serve(connection, wakeup_socket)
                finally:
                    self.is_listening = False
                    self._connection = None
                    connection.close()
            except Exception:  # whatever failed, leases can only be renewed over a new connection
                if not self._is_stopping:
                    _wait_for_input(wakeup_socket, None, pause)
                    pause = min(2 * pause, MAX_RECONNECT_DELAY_S)
        with self._lock:
            sockets, self._wakeup_sockets, self._thread = self._wakeup_sockets, None, None
        for end in sockets or ():
            end.close()

    def _serve(self, connection: SyncPostgresConnection, wakeup_socket: socket.socket) -> None:
        tasks = self._make_periodic_tasks()
        while True:
            now = time.monotonic()
            if self._needs_notifications():
                self._listen(connection)
            for task in tasks:
                task.run_if_due(connection, now)
            if self._notified_keys:
                keys, self._notified_keys = self._notified_keys, set()
                self._check_lengths(connection, {key: self._watched_ledgers[key] for key in keys if key in self._watched_ledgers})
            self._send_announcements(connection)
            if self._is_stopping:
                self._release_all(connection)
                return
            delays = [due_at - time.monotonic() for task in tasks if (due_at := task.schedule(now)) is not None]
            if _wait_for_input(wakeup_socket, connection, 0 if self._notified_keys else min(delays, default=None)):
                connection.pgconn.consume_input()
                while (notify := connection.pgconn.notifies()) is not None:
                    self._handle_notification(notify.extra.decode(errors="replace"), notify.be_pid)

    def _make_periodic_tasks(self) -> tuple[_PeriodicTask, ...]:
        """Return the repeated work of a new connection. What was missed without a connection is done at once."""
        return (
            _PeriodicTask(self._unlisten, UNLISTEN_DELAY_S, lambda: self.is_listening and not self._needs_notifications()),
            _PeriodicTask(self._renew_leases, self._lease_seconds / RENEWALS_PER_LEASE, lambda: bool(self._leases), due_at=0.0),
            _PeriodicTask(self._check_unchecked, FIRST_CHECK_DELAY_S, lambda: bool(self._unchecked_ledgers)),
            _PeriodicTask(self._check_all, CHECK_INTERVAL_S, lambda: bool(self._watched_ledgers), due_at=0.0),
        )

    def _needs_notifications(self) -> bool:
        return bool(self._watched_ledgers) or self.deltas.has_publications()

    def _listen(self, connection: SyncPostgresConnection) -> None:
        """Listen to growth. Growth that was announced before is found by a check a moment later."""
        if self._is_listen_requested:
            return
        self._is_listen_requested = True
        with contextlib.suppress(psycopg.errors.ReadOnlySqlTransaction):  # a standby has no notifications: the checks must do
            connection.execute(sql.LISTEN)
            self.is_listening = True
        with self._lock:
            self._unchecked_ledgers.update(self._watched_ledgers)

    def _unlisten(self, connection: SyncPostgresConnection) -> None:
        """Stop listening, because this process has watched nothing for a while."""
        connection.execute(sql.UNLISTEN)
        self._is_listen_requested = self.is_listening = False

    def _renew_leases(self, connection: SyncPostgresConnection) -> None:
        with self._lock:
            leases = list(self._leases)
            tenants = list(self._leases.values())
        numbers, epochs = [Int8(lease.ledger_number) for lease in leases], [Int8(lease.epoch) for lease in leases]
        renewed = {number for (number,) in connection.execute(sql.RENEW, (tenants, numbers, epochs, self._lease_seconds, False))}
        remaining = [(tenant, lease) for tenant, lease in zip(tenants, leases, strict=True) if lease.ledger_number not in renewed]
        if not remaining:
            return
        interval = self._lease_seconds / RENEWALS_PER_LEASE
        connection.execute(sql.SET_LOCK_TIMEOUT, (format_milliseconds(interval / len(remaining)),))  # all within one interval
        for tenant, lease in remaining:
            arguments = ([tenant], [Int8(lease.ledger_number)], [Int8(lease.epoch)], self._lease_seconds, True)
            with contextlib.suppress(psycopg.errors.LockNotAvailable):  # a long write has locked the row: the others must not wait
                if not connection.execute(sql.RENEW, arguments).fetchall():
                    self.remove_lease(lease)  # another driver has it by now, or the ledger was deleted
        connection.execute(sql.SET_LOCK_TIMEOUT, (format_milliseconds(interval),))

    def _release_all(self, connection: SyncPostgresConnection) -> None:
        with self._lock:
            rows = [(tenant, Int8(lease.ledger_number), Int8(lease.epoch), None) for lease, tenant in self._leases.items()]
            self._leases.clear()
        if rows:
            connection.execute(sql.RELEASE, tuple(map(list, zip(*rows, strict=True))))

    def _check_unchecked(self, connection: SyncPostgresConnection) -> None:
        """Read the lengths of ledgers that are watched since the last check."""
        with self._lock:
            unchecked, self._unchecked_ledgers = self._unchecked_ledgers, {}
        self._check_lengths(connection, unchecked)

    def _check_all(self, connection: SyncPostgresConnection) -> None:
        """Read the lengths of all ledgers that are still watched, and forget the others.

        A new watcher is added to the watchers first and takes the lock then: so it is found there, or it comes after this.
        """
        with self._lock:
            self._watched_ledgers = {key: ledger for key, ledger in self._watched_ledgers.items() if key in self._watchers}
            watched = dict(self._watched_ledgers)
        self._check_lengths(connection, watched)

    def _check_lengths(self, connection: SyncPostgresConnection, ledgers: dict[str, tuple[str, str]]) -> None:
        watched = [(tenant, ledger, key) for key, (tenant, ledger) in ledgers.items() if key in self._watchers]
        if watched:
            try:
                rows = connection.execute(sql.READ_LENGTHS, tuple(map(list, zip(*watched, strict=True)))).fetchall()
            except psycopg.Error as error:
                if error.sqlstate in MISSING_SCHEMA_CODES:
                    return  # the database was not used yet
                raise
            for key, length in rows:
                self._watchers.notify(key, length)

    def _send_announcements(self, connection: SyncPostgresConnection) -> None:
        self.deltas.send(connection, self._listen)
        with self._lock:
            lengths, self._announcements = self._announcements, {}
        if lengths:
            try:
                connection.execute(sql.NOTIFY_GROWTH, ([f"{key} {length}" for key, length in lengths.items()],))
            except BaseException:
                with self._lock:
                    self._announcements = {**lengths, **self._announcements}
                raise

    def _handle_notification(self, payload: str, sender_pid: int) -> None:
        key, _, content = payload.partition(" ")
        if not content.isdecimal():
            self.deltas.receive(key, content)
        elif key in self._watched_ledgers and self._connection is not None and sender_pid != self._connection.info.backend_pid:
            self._notified_keys.add(key)  # appends of this process have notified the watchers here already


class _PeriodicTask:
    """Work that the listener does `delay_s` seconds after it was first needed, if it is still needed."""

    def __init__(
        self, action: Callable[[SyncPostgresConnection], None], delay_s: float, is_needed: Callable[[], bool], due_at: float | None = None
    ) -> None:
        self._action = action
        self._delay_s = delay_s
        self._is_needed = is_needed
        self._due_at = due_at

    def run_if_due(self, connection: SyncPostgresConnection, now: float) -> None:
        """Do the work if it is due and still needed."""
        if self._due_at is not None and now >= self._due_at:
            self._due_at = None
            if self._is_needed():
                self._action(connection)

    def schedule(self, now: float) -> float | None:
        """Return when the work is due, None if it is not needed."""
        if not self._is_needed():
            self._due_at = None
        elif self._due_at is None:
            self._due_at = now + self._delay_s
        return self._due_at


def format_milliseconds(seconds: float) -> str:
    """Return a duration as a server setting, at least 1: a setting of 0 means no limit."""
    return str(max(1, int(seconds * 1000)))


def _wait_for_input(wakeup_socket: socket.socket, connection: SyncPostgresConnection | None, seconds: float | None) -> bool:
    """Wait for a wakeup or for the server. Return True if the server has sent something."""
    poll = select.poll()
    poll.register(wakeup_socket.fileno(), select.POLLIN)
    if connection is not None:
        poll.register(connection.fileno(), select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(None if seconds is None else min(max(seconds, 0), MAX_POLL_S) * 1000)}
    if wakeup_socket.fileno() in ready:
        with contextlib.suppress(BlockingIOError):
            wakeup_socket.recv(4096)
    return connection is not None and connection.fileno() in ready
