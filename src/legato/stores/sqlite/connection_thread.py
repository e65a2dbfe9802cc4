"""One SQLite connection, and the thread that does its waiting.

Jobs are functions of a connection and of their arguments. A job that may have to wait, for the disk or for a lock, is posted to the thread;
its result goes back by `call_soon_threadsafe`, so no event loop waits for either. Writing jobs that are in the queue when a transaction
begins are committed together: each is still all or nothing, because a job raises before it writes anything, and if the transaction fails
each job runs alone.

A small job that need not wait runs on the caller's thread (`run_inline`), if the connection is not in use: that costs tens of microseconds,
the way to the thread and back more than a hundred. It never waits: if another process is writing, the job is posted to the thread.
Checkpoints, which merge the log into the file, wait for the disk, so the thread does them, and no commit does.

The connection is opened by the first job, and again after a failure to open, so the store recovers when the cause goes away.

SQLite forbids using, or even closing, a connection in a forked child, and a child's own connection would believe that it holds its parent's
locks. So every connection is closed before this process forks, and opened again when it is needed next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, TypeVarTuple, Unpack

from legato.errors import DamagedStore, LegatoError, StoreError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Synchronous = Literal["OFF", "NORMAL", "FULL"]
MAX_JOBS_PER_COMMIT = 256  # enough to share an fsync, few enough to answer soon
MAX_LOG_PAGES = 1000  # the length of the log at which the thread merges it into the file; SQLite's own default
PAGES_PER_COMMIT = 3  # of the log, roughly, beside the new data: the ledger's row, the newest facts, the tree above them
PAGE_BYTES = 4096
REOPEN_DELAY_S = 0.5  # before `on_idle` tries to open a file that could not be opened


class ConnectionJob(NamedTuple):
    """A function to run with the connection, and the future for its result. A job with `sync` writes, at that level of durability."""

    run: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    sync: Synchronous | None = None
    future: asyncio.Future[Any] | None = None
    size: int = 0

    def is_cancelled(self) -> bool:
        """Return True if the caller was cancelled."""
        return self.future is not None and self.future.cancelled()


class _ForkMessage(NamedTuple):
    """A message before the process forks: close the connection, set `connection_closed`, and wait for `fork_finished`."""

    connection_closed: threading.Event
    fork_finished: threading.Event


class _StopMessage(NamedTuple):
    on_stopped: Callable[[], None]


ThreadMessage: TypeAlias = ConnectionJob | _ForkMessage | _StopMessage
MessageQueue: TypeAlias = "queue.SimpleQueue[ThreadMessage]"
JobOutcome: TypeAlias = tuple[ConnectionJob, Any, Exception | None]


class MustWait(Exception):
    """The job cannot run inline: post it to the thread."""


class ConnectionThread:
    """A thread that runs jobs on one connection, one at a time."""

    def __init__(
        self,
        open_connection: Callable[[], sqlite3.Connection],
        translate_error: Callable[[Exception], LegatoError],
        on_idle: Callable[[sqlite3.Connection], float | None] | None = None,
    ) -> None:
        """Set up the thread. `on_idle` runs between jobs and returns the seconds until it wants to run again (None: after the next job)."""
        self._callbacks = (open_connection, translate_error, on_idle)
        self.reset()
        _threads.add(self)

    def reset(self) -> None:
        """Reset a forked child: it has none of its parent's threads."""
        self._pid = os.getpid()
        self._inbox: MessageQueue = queue.SimpleQueue()
        self._service = _ConnectionService(self._inbox, *self._callbacks)
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()

    def submit(
        self, run: Callable[[sqlite3.Connection, Unpack[Ts]], T], *arguments: *Ts, sync: Synchronous | None = None, size: int = 0
    ) -> asyncio.Future[T]:
        """Post a job and return a future of the running event loop. `size`: roughly how many bytes it writes."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.post(ConnectionJob(run, arguments, sync, future, size))
        return future

    def run_inline(
        self, run: Callable[[sqlite3.Connection, Unpack[Ts]], T], *arguments: *Ts, sync: Synchronous | None = None, size: int = 0
    ) -> T:
        """Run a small job on this thread. Raise `MustWait` if that would wait for the disk, the connection's thread, or another process."""
        if sync == "FULL" or self._pid != os.getpid() or not self._inbox.empty():
            raise MustWait
        result: T = self._service.run_inline(ConnectionJob(run, arguments, sync, None, size))
        if self._service.log_pages > MAX_LOG_PAGES and self._inbox.empty():
            self.post(ConnectionJob(_do_nothing))  # makes the thread notice the long log
        return result

    def post(self, job: ConnectionJob) -> None:
        """Post a job without waiting for its result."""
        if self._pid != os.getpid():
            raise StoreError("this store was opened before the process forked", do="open a store in each process")
        if self._thread is None:
            self._start()
        self._inbox.put(job)

    async def stop(self) -> None:
        """Finish pending jobs, close the connection, end the thread."""
        if self._thread is None or self._pid != os.getpid():
            return
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._inbox.put(_StopMessage(lambda: _settle_in(loop, done, None, None)))
        await done
        self._thread.join()  # the thread has sent its last message, so this takes microseconds
        self._thread = None

    def before_fork(self) -> _ForkMessage | None:
        if self._thread is None or not self._thread.is_alive():
            return None
        fork = _ForkMessage(threading.Event(), threading.Event())
        self._inbox.put(fork)
        return fork

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                # The thread refers to the service and not to this object, so a store that is dropped without being closed is collected,
                # and then its thread ends. Only the thread opens connections, so wherever one must be closed there is a thread.
                thread = threading.Thread(target=self._service.run, name="legato-sqlite", daemon=True)
                thread.start()
                weakref.finalize(self, self._inbox.put, _StopMessage(lambda: None))
                self._thread = thread


_threads: weakref.WeakSet[ConnectionThread] = weakref.WeakSet()
_forks: list[_ForkMessage] = []


def _before_fork() -> None:
    _forks.extend(fork for thread in list(_threads) if (fork := thread.before_fork()) is not None)
    for fork in _forks:
        fork.connection_closed.wait()


def _after_fork_in_parent() -> None:
    while _forks:
        _forks.pop().fork_finished.set()


def _after_fork_in_child() -> None:
    _forks.clear()
    for thread in list(_threads):
        thread.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _do_nothing(connection: sqlite3.Connection) -> None:
    """Do nothing: a job that only wakes the thread."""


class _ConnectionService:
    """The service on the thread. Only the service refers to the connection; its users hold the lock."""

    def __init__(
        self,
        inbox: MessageQueue,
        open_connection: Callable[[], sqlite3.Connection],
        translate_error: Callable[[Exception], LegatoError],
        on_idle: Callable[[sqlite3.Connection], float | None] | None,
    ) -> None:
        self.inbox = inbox
        self.open_connection = open_connection
        self.translate_error = translate_error
        self.on_idle = on_idle
        self.lock = threading.RLock()  # records its owner, who may be interrupted by a signal before `acquire` returns
        self.connection: sqlite3.Connection | None = None
        self.synchronous: Synchronous | None = None  # None: unknown
        self.busy_timeout_ms = 0  # the busy timeout with which the connection was opened
        self.is_waiting_enabled: bool | None = True  # whether that timeout is in force; None: unknown, a signal interrupted a change
        self.log_pages = 0  # roughly the length of the log since it was last merged into the file
        self.idle_due_at: float | None = None  # when `on_idle` wants to run
        self.next_up: ThreadMessage | None = None  # already taken from the inbox, to be handled next

    def run(self) -> None:
        while True:
            message = self.next_message()
            if isinstance(message, _StopMessage):
                with self.lock:
                    self.close()
                message.on_stopped()
                return
            if isinstance(message, _ForkMessage):
                with self.lock:
                    self.close()
                    message.connection_closed.set()
                    message.fork_finished.wait()
            elif message is None or not message.is_cancelled():
                self.run_jobs([] if message is None else self.collect_jobs(message))
            del message  # a waiting thread must keep nothing alive

    def next_message(self) -> ThreadMessage | None:
        """Return the next message, or None when it is time for `on_idle`."""
        if self.next_up is not None:
            message, self.next_up = self.next_up, None
            return message
        try:
            timeout = None if self.idle_due_at is None else max(self.idle_due_at - time.monotonic(), 0.0001)
            return self.inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def collect_jobs(self, first: ConnectionJob) -> list[ConnectionJob]:
        """Return the jobs of one transaction: the first, and if it writes, the writing jobs queued right behind it."""
        group = [first]
        while first.sync is not None and len(group) < MAX_JOBS_PER_COMMIT:
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                break
            if not isinstance(message, ConnectionJob) or message.sync is None:
                self.next_up = message
                break
            if not message.is_cancelled():
                group.append(message)
        return group

    def run_jobs(self, group: list[ConnectionJob]) -> None:
        with self.lock:
            self._run_jobs(group)

    def _run_jobs(self, group: list[ConnectionJob]) -> None:
        try:
            connection = self.connection or self.open()
            self.prepare_for_job(connection, waits=True)
            outcomes = self.execute_jobs(connection, group)
        except Exception as error:
            outcomes = [(job, None, error) for job in group]
        for job, result, problem in outcomes:
            if problem is not None:
                _settle(job, None, self.translate_error(problem))
                if _invalidates_connection(problem):
                    self.close()
            else:
                _settle(job, result, None)
        self.checkpoint_log()
        if self.connection is None:
            self.idle_due_at = self.idle_due_at and time.monotonic() + REOPEN_DELAY_S
        elif self.on_idle is not None and (self.idle_due_at is None or self.idle_due_at <= time.monotonic()):
            try:
                pause = self.on_idle(self.connection)
            except Exception:
                pause = REOPEN_DELAY_S  # the next job will report the error to its caller
            self.idle_due_at = None if pause is None else time.monotonic() + pause

    def execute_jobs(self, connection: sqlite3.Connection, group: list[ConnectionJob]) -> list[JobOutcome]:
        sync = group[0].sync if group else None  # the other jobs write if the first does
        if sync is None:
            return [(job, *_run_job(job, connection)) for job in group]
        if self.synchronous is None:  # the first write: other processes may have left a long log, each too little to merge it
            self.log_pages = _read_log_size(connection) // PAGE_BYTES
        for job in group:
            sync = "FULL" if job.sync == "FULL" else sync
            self.log_pages += PAGES_PER_COMMIT + job.size // PAGE_BYTES
        self.set_synchronous(connection, sync)
        return _run_and_commit(connection, group)

    def run_inline(self, job: ConnectionJob) -> Any:
        """Run a job on the caller's thread, or raise `MustWait`. Any other failure is translated."""
        try:
            if not self.lock.acquire(blocking=False):
                raise MustWait
            if self.connection is None:
                raise MustWait  # opening may take long
            self.prepare_for_job(self.connection, waits=False)
            ((_, result, problem),) = self.execute_jobs(self.connection, [job])
        except sqlite3.Error as error:
            raise MustWait from error
        finally:
            try:  # noqa: SIM105 - nothing may be called before the release: a signal could come in between
                self.lock.release()
            except RuntimeError:
                pass  # another thread holds the lock
        if isinstance(problem, LegatoError) and not _invalidates_connection(problem):
            raise problem
        if problem is not None:
            raise MustWait  # the thread waits for others, reopens the file, and reports the error
        return result

    def open(self) -> sqlite3.Connection:
        self.connection = connection = self.open_connection()
        self.busy_timeout_ms = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        self.is_waiting_enabled = True
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute(f"PRAGMA journal_size_limit={MAX_LOG_PAGES * PAGE_BYTES}")
        return connection

    def prepare_for_job(self, connection: sqlite3.Connection, *, waits: bool) -> None:
        """Prepare the connection for a use. `waits`: whether to wait while another process writes."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")  # a signal interrupted the last job
        if waits is not self.is_waiting_enabled:
            self.is_waiting_enabled = None
            connection.execute(f"PRAGMA busy_timeout={self.busy_timeout_ms if waits else 0}")
            self.is_waiting_enabled = waits

    def set_synchronous(self, connection: sqlite3.Connection, sync: Synchronous | None) -> None:
        if sync != self.synchronous:
            self.synchronous = None
            connection.execute(f"PRAGMA synchronous={sync}")
            self.synchronous = sync

    def checkpoint_log(self) -> None:
        """Merge a long log into the file, as far as no other connection reads it.

        The first write after that restarts the log, and waits for the disk. So that write is done here too, and not by the next job.
        """
        if self.log_pages > MAX_LOG_PAGES and self.connection is not None:
            self.log_pages = 0
            with contextlib.suppress(sqlite3.Error):  # the log is as good as the file: the next checkpoint will do
                _, length, merged = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if length == merged:
                    self.prepare_for_job(self.connection, waits=False)
                    _write_unchanged_version(self.connection)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = self.synchronous = None


def run_in_snapshot(connection: sqlite3.Connection, run: Callable[[sqlite3.Connection, Unpack[Ts]], T], *arguments: *Ts) -> T:
    """Run a reading job in one transaction, so that all its statements see the same snapshot."""
    try:
        connection.execute("BEGIN")
        return run(connection, *arguments)
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def _run_job(job: ConnectionJob, connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
    try:
        return job.run(connection, *job.arguments), None
    except Exception as error:
        return None, error


def _run_and_commit(connection: sqlite3.Connection, group: list[ConnectionJob]) -> list[JobOutcome]:
    """Run jobs in one transaction; if that fails, each in a transaction of its own."""
    begun = False
    try:
        connection.execute("BEGIN IMMEDIATE")
        begun = True
        outcomes: list[JobOutcome] = []
        for job in group:
            result, problem = _run_job(job, connection)
            if problem is not None and not isinstance(problem, LegatoError):
                raise problem
            outcomes.append((job, result, problem))
        connection.execute("COMMIT")
        return outcomes
    except BaseException as error:  # also of signals: an inline job runs where Ctrl-C arrives, and the file must not stay locked
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # then the connection is closed, which rolls back
                connection.execute("ROLLBACK")
        if not begun or not isinstance(error, Exception):
            raise
        if len(group) == 1:
            return [(group[0], None, error)]
    return [outcome for job in group for outcome in _run_and_commit_alone(connection, job)]


def _write_unchanged_version(connection: sqlite3.Connection) -> None:
    """Write the schema version again, which changes nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version={version}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _read_log_size(connection: sqlite3.Connection) -> int:
    """Return the size of the log file. It is the largest since the log was last restarted: then it is truncated to the limit."""
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    try:
        return os.path.getsize(path + "-wal")
    except OSError:
        return 0


def _invalidates_connection(problem: Exception) -> bool:
    """Return True if the file must be reopened: the connection's cached state may be wrong once the cause is gone."""
    code = (getattr(problem, "sqlite_errorcode", None) or 0) & 0xFF
    return isinstance(problem, DamagedStore) or code in _INVALIDATING_CODES


_INVALIDATING_CODES = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
}


def _run_and_commit_alone(connection: sqlite3.Connection, job: ConnectionJob) -> list[JobOutcome]:
    try:
        return _run_and_commit(connection, [job])
    except Exception as error:
        return [(job, None, error)]


def _settle(job: ConnectionJob, result: Any, error: Exception | None) -> None:
    if job.future is not None:
        _settle_in(job.future.get_loop(), job.future, result, error)


def _settle_in(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    def settle() -> None:
        if future.done():
            return  # the caller was cancelled in between
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits there any more
        loop.call_soon_threadsafe(settle)
