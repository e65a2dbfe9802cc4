"""One SQLite connection and the thread that waits for it. May know: threads, event loops, transactions. Decides: what shares a commit,
and what need not wait.

Jobs are functions of a connection and of what is given beside it. What may have to wait, for the disk or for a lock, is posted to the
thread; results go back by `call_soon_threadsafe`, so no event loop ever waits for either. Jobs that write and were already waiting when a
transaction began are committed together: each is still all or nothing, because a job refuses before it writes anything, and if the
transaction fails each is tried alone.

A small job that need not wait is run where it is asked for (`at_once`), if nobody else uses the connection just then: it costs tens of
microseconds, the way to the thread and back more than a hundred. It never waits: with another process writing it is posted after all.
What brings the log into the file waits for the disk, so the thread does that, and no commit does it on the side.

The connection is opened by the first job and again after a failure to open, so a cause that goes away is forgotten.

SQLite forbids using, or even closing, a connection in a forked child, and a child's own connection would believe that it holds
the locks its parent held. So before this process forks every connection is closed, and opened again when next needed.
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
GROUP = 256  # jobs in one transaction at most: enough to share an fsync, few enough to answer soon
LOG_PAGES = 1000  # how long the log may get before the thread brings it into the file; SQLite's own number
PAGES_PER_COMMIT = 3  # of the log, about, besides what is stored: the ledger's row, the newest facts, the tree above them
PAGE = 4096
REOPEN = 0.5  # seconds until `idle` tries to open a file that could not be opened


class Job(NamedTuple):
    """Something to do with the connection, and where its result goes. `sync` set: it writes, and how surely."""

    run: Callable[..., Any]
    given: tuple[Any, ...] = ()
    sync: Synchronous | None = None
    future: asyncio.Future[Any] | None = None
    size: int = 0

    def abandoned(self) -> bool:
        """Whether its caller was cancelled before it began."""
        return self.future is not None and self.future.cancelled()


class _Fork(NamedTuple):
    """The process is about to fork: close the connection, say so, and sleep until that is over."""

    closed: threading.Event
    over: threading.Event


class _Stop(NamedTuple):
    stopped: Callable[[], None]


Message: TypeAlias = Job | _Fork | _Stop
Inbox: TypeAlias = "queue.SimpleQueue[Message]"
Outcome: TypeAlias = tuple[Job, Any, Exception | None]


class MustWait(Exception):
    """The job cannot be run at once: post it."""


class ConnectionThread:
    """Runs jobs on one connection, one at a time."""

    def __init__(
        self,
        open_connection: Callable[[], sqlite3.Connection],
        in_our_words: Callable[[Exception], LegatoError],
        idle: Callable[[sqlite3.Connection], float | None] | None = None,
    ) -> None:
        """`idle` runs between jobs and says after how many seconds it wants to run again (None: after the next job)."""
        self._parts = (open_connection, in_our_words, idle)
        self.forget()
        _threads.add(self)

    def forget(self) -> None:
        """Start anew: a forked child has none of its parent's threads."""
        self._pid = os.getpid()
        self._inbox: Inbox = queue.SimpleQueue()
        self._service = _Service(self._inbox, *self._parts)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(
        self, run: Callable[[sqlite3.Connection, Unpack[Ts]], T], *given: *Ts, sync: Synchronous | None = None, size: int = 0
    ) -> asyncio.Future[T]:
        """Have the job run; the future belongs to the running event loop. `size`: how many bytes it writes, about."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.post(Job(run, given, sync, future, size))
        return future

    def at_once(self, run: Callable[[sqlite3.Connection, Unpack[Ts]], T], *given: *Ts, sync: Synchronous | None = None, size: int = 0) -> T:
        """Run a small job here and now. `MustWait` if that would mean to wait for the disk, the thread, or another process."""
        if sync == "FULL" or self._pid != os.getpid() or not self._inbox.empty():
            raise MustWait
        result: T = self._service.at_once(Job(run, given, sync, None, size))
        if self._service.log_pages > LOG_PAGES and self._inbox.empty():
            self.post(Job(_nothing))  # and the thread will see that the log has become long
        return result

    def post(self, job: Job) -> None:
        """Have the job run, and let nobody wait for it."""
        if self._pid != os.getpid():
            raise StoreError("this store was opened before the process forked", do="open a store in each process")
        if self._thread is None:
            self._start()
        self._inbox.put(job)

    async def stop(self) -> None:
        """Finish what was asked for, close the connection, end the thread."""
        if self._thread is None or self._pid != os.getpid():
            return
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._inbox.put(_Stop(lambda: _settle_in(loop, done, None, None)))
        await done
        self._thread.join()  # it has said its last word: this is a matter of microseconds
        self._thread = None

    def before_fork(self) -> _Fork | None:
        if self._thread is None or not self._thread.is_alive():
            return None
        fork = _Fork(threading.Event(), threading.Event())
        self._inbox.put(fork)
        return fork

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # The thread knows the service and not this object, so a store that is dropped without being closed is collected,
                # and then its thread ends. A connection is opened on the thread only, so there is one where anything is to be closed.
                thread = threading.Thread(target=self._service.run, name="legato-sqlite", daemon=True)
                thread.start()
                weakref.finalize(self, self._inbox.put, _Stop(lambda: None))
                self._thread = thread


_threads: weakref.WeakSet[ConnectionThread] = weakref.WeakSet()
_forks: list[_Fork] = []


def _before_fork() -> None:
    _forks.extend(fork for thread in list(_threads) if (fork := thread.before_fork()) is not None)
    for fork in _forks:
        fork.closed.wait()


def _after_fork_in_parent() -> None:
    while _forks:
        _forks.pop().over.set()


def _after_fork_in_child() -> None:
    _forks.clear()
    for thread in list(_threads):
        thread.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _nothing(connection: sqlite3.Connection) -> None:
    """A job for those who only want the thread to wake up."""


class _Service:
    """What the thread runs. The connection is known here only; whoever uses it holds the lock."""

    def __init__(
        self,
        inbox: Inbox,
        open_connection: Callable[[], sqlite3.Connection],
        in_our_words: Callable[[Exception], LegatoError],
        idle: Callable[[sqlite3.Connection], float | None] | None,
    ) -> None:
        self.inbox = inbox
        self.open_connection = open_connection
        self.in_our_words = in_our_words
        self.idle = idle
        self.lock = threading.RLock()  # it knows its holder, who may be interrupted by a signal before knowing it too
        self.connection: sqlite3.Connection | None = None
        self.synchronous: Synchronous | None = None  # None: nobody knows
        self.patience = 0  # the busy timeout that the connection was opened with, in milliseconds
        self.patient: bool | None = True  # whether it is in force; None: nobody knows, for a signal may come in the middle of a change
        self.log_pages = 0  # how long the log has become since it was last brought into the file, about
        self.due: float | None = None  # when `idle` wants to run
        self.carried: Message | None = None  # taken out of the inbox already, to be looked at next

    def run(self) -> None:
        while True:
            message = self.next_message()
            if isinstance(message, _Stop):
                with self.lock:
                    self.close()
                message.stopped()
                return
            if isinstance(message, _Fork):
                with self.lock:
                    self.close()
                    message.closed.set()
                    message.over.wait()
            elif message is None or not message.abandoned():
                self.perform([] if message is None else self.group(message))
            del message  # a sleeping thread keeps nothing alive

    def next_message(self) -> Message | None:
        """What comes next, or None when it is time for `idle`."""
        if self.carried is not None:
            message, self.carried = self.carried, None
            return message
        try:
            return self.inbox.get() if self.due is None else self.inbox.get(timeout=max(self.due - time.monotonic(), 0.0001))
        except queue.Empty:
            return None

    def group(self, first: Job) -> list[Job]:
        """The jobs to run in one go: the first, and the writing ones that wait right behind it if it writes."""
        group = [first]
        while first.sync is not None and len(group) < GROUP:
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                break
            if not isinstance(message, Job) or message.sync is None:
                self.carried = message
                break
            if not message.abandoned():
                group.append(message)
        return group

    def perform(self, group: list[Job]) -> None:
        with self.lock:
            self._perform(group)

    def _perform(self, group: list[Job]) -> None:
        try:
            connection = self.connection or self.open()
            self.prepare(connection, patient=True)
            outcomes = self.outcomes(connection, group)
        except Exception as error:
            outcomes = [(job, None, error) for job in group]
        for job, result, problem in outcomes:
            if problem is not None:
                _settle(job, None, self.in_our_words(problem))
                if _spoils(problem):
                    self.close()
            else:
                _settle(job, result, None)
        self.shorten_log()
        if self.connection is None:
            self.due = self.due and time.monotonic() + REOPEN
        elif self.idle is not None and (self.due is None or self.due <= time.monotonic()):
            try:
                pause = self.idle(self.connection)
            except Exception:
                pause = REOPEN  # whatever it is, the next job will tell somebody
            self.due = None if pause is None else time.monotonic() + pause

    def outcomes(self, connection: sqlite3.Connection, group: list[Job]) -> list[Outcome]:
        sync = group[0].sync if group else None  # those behind the first write if it does
        if sync is None:
            return [(job, *_outcome(job, connection)) for job in group]
        if self.synchronous is None:  # the first to write: others may have left a long log, each too little to bring it in
            self.log_pages = _log_size(connection) // PAGE
        for job in group:
            sync = "FULL" if job.sync == "FULL" else sync
            self.log_pages += PAGES_PER_COMMIT + job.size // PAGE
        self.use_sync(connection, sync)
        return _commit(connection, group)

    def at_once(self, job: Job) -> Any:
        """Run a job on the caller's thread, or raise `MustWait`; any other failure is told in our words."""
        try:
            if not self.lock.acquire(blocking=False):
                raise MustWait
            if self.connection is None:
                raise MustWait  # opening may take long
            self.prepare(self.connection, patient=False)
            ((_, result, problem),) = self.outcomes(self.connection, [job])
        except sqlite3.Error as error:
            raise MustWait from error
        finally:
            try:  # noqa: SIM105 - nothing may be called before it is released: a signal could come in between
                self.lock.release()
            except RuntimeError:
                pass  # somebody else's
        if isinstance(problem, LegatoError) and not _spoils(problem):
            raise problem
        if problem is not None:
            raise MustWait  # it is for the thread to wait for others, to open the file anew, and to tell what is wrong with it
        return result

    def open(self) -> sqlite3.Connection:
        self.connection = connection = self.open_connection()
        self.patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        self.patient = True
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute(f"PRAGMA journal_size_limit={LOG_PAGES * PAGE}")
        return connection

    def prepare(self, connection: sqlite3.Connection, *, patient: bool) -> None:
        """Before each use. `patient`: whether to wait when another process writes."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")  # a signal interrupted the last user
        if patient is not self.patient:
            self.patient = None
            connection.execute(f"PRAGMA busy_timeout={self.patience if patient else 0}")
            self.patient = patient

    def use_sync(self, connection: sqlite3.Connection, sync: Synchronous | None) -> None:
        if sync != self.synchronous:
            self.synchronous = None
            connection.execute(f"PRAGMA synchronous={sync}")
            self.synchronous = sync

    def shorten_log(self) -> None:
        """Bring the log into the file when it has become long, as far as nobody reads it.

        Whoever writes first after that begins the log anew, and waits for the disk: so that is done here too, and not by who comes next.
        """
        if self.log_pages > LOG_PAGES and self.connection is not None:
            self.log_pages = 0
            with contextlib.suppress(sqlite3.Error):  # the log is as good as the file: the next time will do
                _, length, brought_in = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if length == brought_in:
                    self.prepare(self.connection, patient=False)
                    _touch_file(self.connection)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = self.synchronous = None


def at_one_moment(connection: sqlite3.Connection, run: Callable[[sqlite3.Connection, Unpack[Ts]], T], *given: *Ts) -> T:
    """Run a job that reads in one transaction, so that all its statements see the same moment."""
    try:
        connection.execute("BEGIN")
        return run(connection, *given)
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def _outcome(job: Job, connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
    try:
        return job.run(connection, *job.given), None
    except Exception as error:
        return None, error


def _commit(connection: sqlite3.Connection, group: list[Job]) -> list[Outcome]:
    """Run the jobs in one transaction; if that fails, each in its own."""
    begun = False
    try:
        connection.execute("BEGIN IMMEDIATE")
        begun = True
        outcomes: list[Outcome] = []
        for job in group:
            result, problem = _outcome(job, connection)
            if problem is not None and not isinstance(problem, LegatoError):
                raise problem
            outcomes.append((job, result, problem))
        connection.execute("COMMIT")
        return outcomes
    except BaseException as error:  # a signal's too: at once, a job runs where Ctrl-C arrives, and the file must not stay locked
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # then the connection is spoilt, and closing it rolls back
                connection.execute("ROLLBACK")
        if not begun or not isinstance(error, Exception):
            raise
        if len(group) == 1:
            return [(group[0], None, error)]
    return [outcome for job in group for outcome in _alone(connection, job)]


def _touch_file(connection: sqlite3.Connection) -> None:
    """Write something, and change nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version={version}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _log_size(connection: sqlite3.Connection) -> int:
    """How large the log is, or was since it was last begun anew: what goes beyond the limit is cut off then."""
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    try:
        return os.path.getsize(path + "-wal")
    except OSError:
        return 0


def _spoils(problem: Exception) -> bool:
    """Whether to open the file anew: what the connection believes about it may be untrue once the cause is gone."""
    code = (getattr(problem, "sqlite_errorcode", None) or 0) & 0xFF
    return isinstance(problem, DamagedStore) or code in _SPOILING


_SPOILING = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
}


def _alone(connection: sqlite3.Connection, job: Job) -> list[Outcome]:
    try:
        return _commit(connection, [job])
    except Exception as error:
        return [(job, None, error)]


def _settle(job: Job, result: Any, error: Exception | None) -> None:
    if job.future is not None:
        _settle_in(job.future.get_loop(), job.future, result, error)


def _settle_in(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    def settle() -> None:
        if future.done():
            return  # the caller was cancelled meanwhile
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(settle)
