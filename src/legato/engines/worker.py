"""Workers. May know: engines, stores, signals. Decides: how a worker starts, looks after sessions that nobody woke, and stops.

A worker makes the steps that an engine asks for. It remembers nothing: any other can go on where it stops, however it stops.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from legato.core.child_session_ids import parent_calls, root_session_id
from legato.core.planner import plan, status
from legato.engines.advance import PASSING, MakeContext, advance, workflow_named
from legato.engines.contract import Engine, in_a_word
from legato.engines.limits import ModelLimits
from legato.engines.pace import Pace, Step
from legato.engines.reaching import reached
from legato.engines.slots import ModelSlots
from legato.errors import BadInput, DamagedStore, LegatoError, StoreError, StoreRefused
from legato.runtime.clock import now_ms, seconds
from legato.runtime.ledger import fold_in_slices, let_rest, read_state
from legato.runtime.model_requests import seconds_until
from legato.stores.contract import LedgerInfo, Store
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

AT_ONCE = 20
"""Sessions that a worker advances at the same time, for each model. They mostly wait for it."""

GRACE = 25.0
"""Seconds in which a worker that is told to stop finishes what runs: within the 30 that most platforms give."""

ONE_WISH = 1.0
"""Seconds within which signals are one wish: a terminal, a shell and whoever supervises a worker may each pass on the same Ctrl-C."""

PAGE = 500  # ledgers that the store is asked for at a time
TIME_TO_BE_WOKEN = 5.0  # seconds after which nobody is taken to be about to wake a session


@dataclass(frozen=True)
class _Due:
    """The session to wake for a ledger, if it is one of ours, and not before which time, in milliseconds since the epoch."""

    session: str = ""
    retry_at: int = 0


class Worker:
    """Advances sessions of some workflows, for an engine.

    `await Worker(desk, engine=TemporalEngine(...), store=PostgresStore(...)).run()` runs until SIGTERM or SIGINT: then no more is taken,
    what runs is finished and recorded within `grace` seconds, and other workers go on. A signal that comes more than a second after the
    first ends the process at once.

    `concurrency`: sessions that are advanced at the same time, for each model of the workflows: those of a silent one hold up no others.
    `context` makes the caller's context of a session from its id. `sweep`: seconds between looks for sessions that were given something
    and that nobody woke. `limits` hold across all workers of a store. `errors_in_full` also tells the engine what errors say, which may
    be words of the conversation; without it, it is told their kind and place. Without `tracebacks` the log is told no more either.
    """

    def __init__(
        self,
        workflows: Workflow | Iterable[Workflow],
        *,
        engine: Engine,
        store: Store,
        concurrency: int = AT_ONCE,
        grace: float = GRACE,
        sweep: float = 15.0,
        pace: Pace | None = None,
        limits: ModelLimits | None = None,
        context: MakeContext | None = None,
        errors_in_full: bool = False,
        tracebacks: bool = True,
    ) -> None:
        given = [workflows] if isinstance(workflows, Workflow) else list(workflows)
        if not given or not all(isinstance(each, Workflow) for each in given):
            raise BadInput("a worker serves workflows", found=repr(given)[:80], do="write Worker(desk, engine=..., store=...)")
        if len({each.name for each in given}) < len(given):
            raise BadInput("two workflows have the same name", found=", ".join(each.name for each in given))
        if concurrency < 1:
            raise BadInput("a worker advances at least one session at a time", found=f"concurrency={concurrency}")
        if limits is not None:
            limits.check(given)
        limited = [limits.applied_to(each, store) if limits is not None else each for each in given]
        self._workflows = {each.name: each for each in limited}
        self._engine = engine
        self._slots = ModelSlots(given, concurrency, engine.slot_freed)
        self._store = store
        self._grace = grace
        self._sweep_every = sweep
        self._pace = pace or Pace()
        self._context = context
        self._errors_in_full = errors_in_full
        self._tracebacks = tracebacks
        self._stop = asyncio.Event()
        self._signalled_at: float | None = None
        self._running = 0
        self._timed: dict[str, float] = {}  # sessions that raised here, and when the engine comes back to each by itself
        self._known: dict[LedgerInfo, _Due | None] = {}  # what wanted a driver at the last look, and whom to wake for it

    def stop(self) -> None:
        """Take no more; finish and record what runs; then `run()` returns."""
        self._stop.set()

    async def run(self, signals: bool = True) -> None:
        """Work until `stop()`, or, with `signals`, until SIGTERM or SIGINT."""
        known = asyncio.Event()

        def ready() -> None:
            known.set()
            log.info("worker %d serves %s for %r", os.getpid(), ", ".join(self._workflows), self._engine)

        with self._heeding((signal.SIGTERM, signal.SIGINT) if signals else ()):
            await reached(self._let_in, self._stop)
            sweeping = asyncio.get_running_loop().create_task(self._sweep(known))
            try:
                await self._engine.serve(self._step, self._stop, ready, self._slots.total, self._grace)
            finally:
                sweeping.cancel()
                with suppress(asyncio.CancelledError):
                    await sweeping
            log.info("stopped")

    async def _let_in(self) -> None:
        """A store that is away may come back; one that refuses whoever comes so is told before anything is taken on."""
        try:
            await self._store.unrested(1)
        except StoreRefused:
            raise
        except PASSING as error:
            log.warning("%s", error)

    @contextmanager
    def _heeding(self, numbers: tuple[int, ...]) -> Iterator[None]:
        """From the first moment: a worker that still looks for its engine stops as well."""
        loop = asyncio.get_running_loop()
        for number in numbers:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _signalled(self, number: int) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        if self._signalled_at is None:
            self._signalled_at = now
            log.info("%s: taking no more; %d running, to be finished within %g s", name, self._running, self._grace)
            self.stop()
        elif now - self._signalled_at >= ONE_WISH:
            log.warning("%s again: ending at once; what ran is taken over by others", name)
            os._exit(1)

    async def _step(self, session: str, failed: int, broken: int, stop: asyncio.Event) -> Step:
        self._running += 1
        try:
            slots = self._slots if self._slots.shared else None
            told = self._errors_in_full, self._tracebacks
            rest = await advance(self._workflows, self._store, session, stop, self._context, *told, slots)
        except LegatoError as error:
            log.warning("session %r: the store failed: %s", session, error.code)
            raise
        finally:
            self._running -= 1
        step = self._pace.after(rest, failed, broken)
        self._timed.pop(session, None)
        if step.how in ("broken", "busy") and step.wait:  # else it rests, or is driven, or its ledger says when
            self._timed[session] = seconds() + step.wait
        if step.parked:
            log.error("session %r was set aside: %s", session, step.error)
            if self._engine.remembers:
                await self._let_rest(session)
            else:
                self._timed[session] = math.inf  # until it is retried here, or another process starts
        else:
            stays_failed = step.how == "failed" and step.wait is None
            if stays_failed or (step.how == "failed" and self._engine.remembers):
                await let_rest(self._store, session, rest.length)
            why = f": {step.error}" if step.error else ""
            when = f"; again in {step.wait:g} s" if step.wait else ""
            level = logging.DEBUG if step.how == "busy" else logging.WARNING if stays_failed else logging.INFO
            log.log(level, "session %r is %s%s%s", session, step.how, why, when)
        return step

    async def _let_rest(self, session: str) -> None:
        """Nobody need look for what was set aside, until it is given something more: a ledger that cannot be read neither."""
        with suppress(StoreError):
            try:
                length = len(await self._store.read(session))
            except DamagedStore:
                found = [info.length async for info in self._unrested() if info.ledger == session]
                length = max(found, default=0)
            await let_rest(self._store, session, length)

    async def _unrested(self) -> AsyncIterator[LedgerInfo]:
        """All that want a driver and have none."""
        page = await self._store.unrested(PAGE)
        while page:
            for info in page:
                yield info
            page = await self._store.unrested(PAGE, page[-1]) if len(page) == PAGE else ()

    async def _sweep(self, known: asyncio.Event) -> None:
        """Look for what nobody woke, again and again."""
        await known.wait()  # to an engine that knows of no worker nobody could say anything so far
        before = math.inf  # at first it wakes all; later those whose own wake has had its time
        while True:
            try:
                await self._swept(before)
            except Exception as error:  # the store cannot be reached: it is looked again
                log.warning("could not look for sessions that nobody woke: %s", error)
            await asyncio.sleep(self._sweep_every * random.uniform(0.75, 1.25))
            before = now_ms() - min(TIME_TO_BE_WOKEN, self._sweep_every) * 1000

    async def _swept(self, before: float) -> None:
        """Wake the sessions that grew since they last rested, and that nobody drives: who gave them something died before it woke them.

        They are those that were given it before, as their own clocks say, or that looked the same when they were last looked at. What one
        session does, or its ledger, or the engine at its name, is not in the way of another. What raised here waits for its timer.
        """
        now = seconds()
        self._timed = {session: due for session, due in self._timed.items() if due > now}
        first = before == math.inf
        seen: dict[LedgerInfo, _Due | None] = {}
        woken: set[str] = set()
        refused: dict[str, str] = {}
        async for info in self._unrested():
            waits = info.updated <= before or info in self._known
            due = seen[info] = await self._due(info, first) if waits else None
            if due is None or due.session in woken or not self._is_time(due, first):
                continue
            if not await self._waited_for(info.ledger):
                await let_rest(self._store, info.ledger, info.length)
                continue
            try:
                await self._engine.wake(due.session)
                woken.add(due.session)
            except Exception as error:  # the engine is away, or does not take this name: with the next look it is tried again
                refused[due.session] = in_a_word(error)
        self._known = seen
        _log_sweep(woken, refused)

    def _is_time(self, due: _Due, first: bool) -> bool:
        """Whether a session may be woken now: no timer of this worker is set for it, and none of the engine, which may not know of one
        when it has just begun."""
        return bool(due.session) and due.session not in self._timed and (first or not seconds_until(due.retry_at))

    async def _due(self, info: LedgerInfo, first: bool) -> _Due:
        """The session to wake for a ledger, if it is one of ours, and when. While the ledger does not change, it is read once.

        What is held for a call of another session is never woken itself: it is for that session to go on with it, as its caller and
        in its context. One that failed, and was given nothing since, waits for its time in an engine; in none any more, perhaps, if this is
        the first look.
        """
        known = self._known.get(info)
        if known is not None:
            return known
        session = root_session_id(info.ledger)
        try:
            facts = await self._store.read(session)
            workflow = self._workflows.get(workflow_named(facts))
            if workflow is None:
                return _Due()
            state, graph = await fold_in_slices(facts, session), workflow.definition.graph
            if not first and status(state, graph) == "failed":
                return _Due()
            return _Due(session, plan(state, graph).retry_at)
        except PASSING:
            raise
        except Exception as error:  # whose it is cannot be read: whoever is woken for it sets it aside, where people look
            log.error("session %r: its ledger cannot be read: %s", session, type(error).__name__)
            return _Due(session)

    async def _waited_for(self, session: str) -> bool:
        """Whether the call is still to be answered for which this conversation is held, if it is, and those of its callers too."""
        try:
            for caller, name, call in parent_calls(session):
                if not (await read_state(self._store, caller)).is_unanswered(call, name):
                    return False
        except PASSING:
            raise
        except LegatoError:
            pass  # whose it is cannot be read: whoever is woken for it says so
        return True


def _log_sweep(woken: Collection[str], refused: Mapping[str, str]) -> None:
    if woken:
        log.info("woke %d sessions that nobody had woken", len(woken))
    if refused:
        some = ", ".join(f"{session!r} ({kind})" for session, kind in islice(refused.items(), 3))
        log.warning("could not wake %d sessions that nobody had woken, such as %s", len(refused), some)
