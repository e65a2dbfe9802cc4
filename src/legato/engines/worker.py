"""Workers: they run the steps of an engine, sweep for sessions that were not woken, and stop gracefully.

A worker remembers nothing that matters: another worker can continue where it stops, however it stops.
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

from legato.core.child_session_ids import find_root_session_id, list_parent_calls
from legato.core.planner import derive_status, make_plan
from legato.engines.engine import Engine, describe_error_briefly
from legato.engines.model_rate_limits import ModelLimits
from legato.engines.model_slots import ModelSlots
from legato.engines.retry_policy import NextStep, RetryPolicy
from legato.engines.session_step import TRANSIENT_STORE_ERRORS, ContextFactory, advance_session, read_workflow_name
from legato.engines.startup_connection import connect_with_retries
from legato.errors import BadInput, DamagedStore, LegatoError, StoreError, StoreRefused
from legato.runtime.clock import monotonic, now_ms
from legato.runtime.ledger import fold_in_slices, mark_idle, read_state
from legato.runtime.model_requests import seconds_until_retry
from legato.stores.contract import LedgerInfo, Store
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

DEFAULT_CONCURRENCY = 20
"""Sessions that a worker drives at the same time, for each model. They mostly wait for the model."""

DEFAULT_GRACE_S = 25.0
"""How long a stopping worker may take to finish running steps: less than the 30 seconds that most platforms allow."""

REPEATED_SIGNAL_S = 1.0
"""Signals within this time count as one: a terminal, a shell and a supervisor may each pass on the same Ctrl-C."""

PAGE_SIZE = 500  # ledgers in one query of the store
MAX_WAKE_DELAY_S = 5.0  # a session that was not woken this long after its input will not be woken by its client


@dataclass(frozen=True)
class _WakeTarget:
    """The session to wake for a ledger, empty if another worker serves it, and the earliest time (milliseconds since the epoch)."""

    session: str = ""
    retry_at: int = 0


class Worker:
    """A worker, which drives sessions of some workflows for an engine.

    `await Worker(desk, engine=TemporalEngine(...), store=PostgresStore(...)).run()` runs until SIGTERM or SIGINT. Then it takes no more
    steps, finishes and records running ones within `grace` seconds, and other workers continue. A signal more than a second after the first
    one ends the process at once.

    `concurrency`: sessions that are driven at the same time, for each model of the workflows; sessions of a silent model block no others.
    `context` creates the caller's context of a session from its id. `sweep_interval`: seconds between searches for sessions with input that
    were not woken. `limits` apply to all workers of a store together. `report_error_text` passes the messages of errors to the engine,
    which may contain text of the conversation; without it, the engine gets their kind and place. Without `log_tracebacks` the log has no
    more either.
    """

    def __init__(
        self,
        workflows: Workflow | Iterable[Workflow],
        *,
        engine: Engine,
        store: Store,
        concurrency: int = DEFAULT_CONCURRENCY,
        grace: float = DEFAULT_GRACE_S,
        sweep_interval: float = 15.0,
        retry_policy: RetryPolicy | None = None,
        limits: ModelLimits | None = None,
        context: ContextFactory | None = None,
        report_error_text: bool = False,
        log_tracebacks: bool = True,
    ) -> None:
        served = [workflows] if isinstance(workflows, Workflow) else list(workflows)
        if not served or not all(isinstance(each, Workflow) for each in served):
            raise BadInput("a worker serves workflows", found=repr(served)[:80], do="write Worker(desk, engine=..., store=...)")
        if len({each.name for each in served}) < len(served):
            raise BadInput("two workflows have the same name", found=", ".join(each.name for each in served))
        if concurrency < 1:
            raise BadInput("a worker drives at least one session at a time", found=f"concurrency={concurrency}")
        if limits is not None:
            limits.check(served)
        limited = [limits.apply_to(each, store) if limits is not None else each for each in served]
        self._workflows = {each.name: each for each in limited}
        self._engine = engine
        self._slots = ModelSlots(served, concurrency, engine.on_slot_freed)
        self._store = store
        self._grace = grace
        self._sweep_interval = sweep_interval
        self._retry_policy = retry_policy or RetryPolicy()
        self._context = context
        self._report_error_text = report_error_text
        self._log_tracebacks = log_tracebacks
        self._stop = asyncio.Event()
        self._signalled_at: float | None = None
        self._running_count = 0
        self._timers: dict[str, float] = {}  # sessions for which the engine has a timer, and when it ends
        self._wake_targets: dict[LedgerInfo, _WakeTarget | None] = {}  # the runnable ledgers of the last sweep

    def stop(self) -> None:
        """Take no more steps, finish and record running ones; then `run()` returns."""
        self._stop.set()

    async def run(self, signals: bool = True) -> None:
        """Work until `stop()`, or, with `signals`, until SIGTERM or SIGINT."""
        engine_ready = asyncio.Event()

        def on_ready() -> None:
            engine_ready.set()
            log.info("worker %d serves %s for %r", os.getpid(), ", ".join(self._workflows), self._engine)

        with self._handle_signals((signal.SIGTERM, signal.SIGINT) if signals else ()):
            await connect_with_retries(self._check_store, self._stop)
            sweeping = asyncio.get_running_loop().create_task(self._sweep_repeatedly(engine_ready))
            try:
                await self._engine.serve(self._run_step, self._stop, on_ready, self._slots.total, self._grace)
            finally:
                sweeping.cancel()
                with suppress(asyncio.CancelledError):
                    await sweeping
            log.info("stopped")

    async def _check_store(self) -> None:
        """Raise `StoreRefused` before any work begins if the store refuses this client. An unavailable store may come back."""
        try:
            await self._store.list_runnable(1)
        except StoreRefused:
            raise
        except TRANSIENT_STORE_ERRORS as error:
            log.warning("%s", error)

    @contextmanager
    def _handle_signals(self, numbers: tuple[int, ...]) -> Iterator[None]:
        """Handle signals from the start, also while the worker still connects to its engine."""
        loop = asyncio.get_running_loop()
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        if self._signalled_at is None:
            self._signalled_at = now
            log.info("%s: stopping; %d running steps, to be finished within %g s", name, self._running_count, self._grace)
            self.stop()
        elif now - self._signalled_at >= REPEATED_SIGNAL_S:
            log.warning("%s again: ending at once; other workers take over the running steps", name)
            os._exit(1)

    async def _run_step(self, session: str, failed: int, broken: int, stop: asyncio.Event) -> NextStep:
        self._running_count += 1
        try:
            slots = self._slots if self._slots.has_several_models else None
            error_options = self._report_error_text, self._log_tracebacks
            result = await advance_session(self._workflows, self._store, session, stop, self._context, *error_options, slots)
        except LegatoError as error:
            log.warning("session %r: the store failed: %s", session, error.code)
            raise
        finally:
            self._running_count -= 1
        step = self._retry_policy.plan_next_step(result, failed, broken)
        self._timers.pop(session, None)
        if step.status in ("broken", "no_free_slot") and step.wait:  # otherwise it is idle or driven, or its ledger has the time
            self._timers[session] = monotonic() + step.wait
        if step.parked:
            log.error("session %r was set aside: %s", session, step.error)
            if self._engine.is_durable:
                await self._mark_idle(session)
            else:
                self._timers[session] = math.inf  # until a retry here, or until another process starts
        else:
            stays_failed = step.status == "failed" and step.wait is None
            if stays_failed or (step.status == "failed" and self._engine.is_durable):
                await mark_idle(self._store, session, result.length)
            why = f": {step.error}" if step.error else ""
            when = f"; again in {step.wait:g} s" if step.wait else ""
            level = logging.DEBUG if step.status == "no_free_slot" else logging.WARNING if stays_failed else logging.INFO
            log.log(level, "session %r is %s%s%s", session, step.status, why, when)
        return step

    async def _mark_idle(self, session: str) -> None:
        """Record a parked session as idle until it gets new input, even if its ledger is damaged: sweeps need not find it."""
        with suppress(StoreError):
            try:
                length = len(await self._store.read(session))
            except DamagedStore:
                lengths = [info.length async for info in self._iterate_runnable() if info.ledger == session]
                length = max(lengths, default=0)
            await mark_idle(self._store, session, length)

    async def _iterate_runnable(self) -> AsyncIterator[LedgerInfo]:
        """Yield all ledgers that need a driver and have none."""
        page = await self._store.list_runnable(PAGE_SIZE)
        while page:
            for info in page:
                yield info
            page = await self._store.list_runnable(PAGE_SIZE, page[-1]) if len(page) == PAGE_SIZE else ()

    async def _sweep_repeatedly(self, engine_ready: asyncio.Event) -> None:
        """Look for sessions that were not woken, again and again."""
        await engine_ready.wait()  # an engine may refuse sessions before it knows a worker
        before = math.inf  # the first sweep wakes all sessions, later ones those whose client had time to wake them
        while True:
            try:
                await self._sweep_once(before)
            except Exception as error:  # the store cannot be reached: the next sweep tries again
                log.warning("could not look for sessions that were not woken: %s", error)
            await asyncio.sleep(self._sweep_interval * random.uniform(0.75, 1.25))
            before = now_ms() - min(MAX_WAKE_DELAY_S, self._sweep_interval) * 1000

    async def _sweep_once(self, before: float) -> None:
        """Wake the sessions that have grown since they were last idle and have no driver: their client died before it woke them.

        These are sessions whose input was recorded before `before`, by the clock of its writer, or that have not changed since the last
        sweep. An error of one session, of its ledger, or of the engine at its name does not stop the sweep. Sessions with a timer wait for
        it.
        """
        now = monotonic()
        self._timers = {session: due_at for session, due_at in self._timers.items() if due_at > now}
        is_first_sweep = before == math.inf
        targets: dict[LedgerInfo, _WakeTarget | None] = {}
        woken_sessions: set[str] = set()
        failed_sessions: dict[str, str] = {}
        async for info in self._iterate_runnable():
            is_waiting = info.updated_at <= before or info in self._wake_targets
            target = targets[info] = await self._find_wake_target(info, is_first_sweep) if is_waiting else None
            if target is None or target.session in woken_sessions or not self._is_due(target, is_first_sweep):
                continue
            if not await self._is_call_pending(info.ledger):
                await mark_idle(self._store, info.ledger, info.length)
                continue
            try:
                await self._engine.wake(target.session)
                woken_sessions.add(target.session)
            except Exception as error:  # the engine is unavailable, or refuses this name: the next sweep tries again
                failed_sessions[target.session] = describe_error_briefly(error)
        self._wake_targets = targets
        _log_sweep(woken_sessions, failed_sessions)

    def _is_due(self, target: _WakeTarget, is_first_sweep: bool) -> bool:
        """Return True if a session may be woken now: neither this worker nor the engine has a timer for it. In the first sweep, the engine
        may have lost its timers."""
        return bool(target.session) and target.session not in self._timers and (is_first_sweep or not seconds_until_retry(target.retry_at))

    async def _find_wake_target(self, info: LedgerInfo, is_first_sweep: bool) -> _WakeTarget:
        """Return the session to wake for a ledger, if this worker serves it, and when. A ledger is read again only after it has changed.

        For a child session, the root session is woken: it drives its children, in its own context. A session that failed, and got no input
        since, waits for a timer of the engine, except in the first sweep, when the engine may have lost its timers.
        """
        cached = self._wake_targets.get(info)
        if cached is not None:
            return cached
        session = find_root_session_id(info.ledger)
        try:
            facts = await self._store.read(session)
            workflow = self._workflows.get(read_workflow_name(facts))
            if workflow is None:
                return _WakeTarget()
            state, graph = await fold_in_slices(facts, session), workflow.definition.graph
            if not is_first_sweep and derive_status(state, graph) == "failed":
                return _WakeTarget()
            return _WakeTarget(session, make_plan(state, graph).retry_at)
        except TRANSIENT_STORE_ERRORS:
            raise
        except Exception as error:  # the workflow is unknown: the step of the woken session will park it, where people see it
            log.error("session %r: its ledger cannot be read: %s", session, type(error).__name__)
            return _WakeTarget(session)

    async def _is_call_pending(self, session: str) -> bool:
        """Return True if all parent calls of a child session are unanswered; also for a root session."""
        try:
            for parent, name, call in list_parent_calls(session):
                if not (await read_state(self._store, parent)).is_unanswered(call, name):
                    return False
        except TRANSIENT_STORE_ERRORS:
            raise
        except LegatoError:
            pass  # the parent's ledger cannot be read: the step of the woken session reports it
        return True


def _log_sweep(woken_sessions: Collection[str], failed_sessions: Mapping[str, str]) -> None:
    if woken_sessions:
        log.info("woke %d sessions that were not woken by their clients", len(woken_sessions))
    if failed_sessions:
        some = ", ".join(f"{session!r} ({kind})" for session, kind in islice(failed_sessions.items(), 3))
        log.warning("could not wake %d sessions that were not woken by their clients, such as %s", len(failed_sessions), some)
