"""One step of an engine: drive a session until it is idle.

The ledger is the journal and the fence. An engine only makes sure that `advance_session` runs somewhere: it opens the session in its store,
drives it until nothing more can be done without its people, and returns how the step ended. Nothing is remembered between steps, so a step
that was cut short, run twice or taken over by another worker is completed by the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from legato.core.child_session_ids import find_root_session_id
from legato.core.facts import AnyFact, CallPaused, ModelRequestFailed, Opened
from legato.engines.model_slots import ModelSlots
from legato.errors import (
    DefinitionChanged,
    DrivenElsewhere,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    UnknownLedger,
)
from legato.runtime.child_sessions import find_next_model_request, find_next_retry_at, iter_failed_requests
from legato.runtime.clock import now_ms
from legato.runtime.definition import call_user_code
from legato.runtime.driver import DriverRole
from legato.runtime.error_summary import describe_error_without_message
from legato.runtime.ledger import attribute_errors, is_error_of_store
from legato.runtime.model_requests import seconds_until_retry
from legato.runtime.session import Session
from legato.runtime.worker_slot import WorkerSlot
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

ContextFactory: TypeAlias = Callable[[str], Any]
"""The caller's context for a session, by its id; sync or async."""

TRANSIENT_STORE_ERRORS = (StoreUnavailable, StoreLocked, StoreFull, StoreReadOnly)
"""Errors of a store that are not the session's fault. They pass when the store is repaired: the step is retried until then."""


@dataclass(frozen=True)
class StepResult:
    """The result of a step.

    `status` is the session's status (new, waiting, pending, terminated, cancelled, failed), or why the step ended before the session was
    idle: `interrupted` (this worker stops, another one continues), `leased_elsewhere` (another driver has the lease), `broken` (user code
    or the definition raised, or the ledger is damaged), `deleted` (the session was deleted), `child_session` (its parent session alone
    drives it), `retrying` (its model is requested again in `retry_after` seconds, as the ledger says), `no_free_slot` (the worker has no
    free slot of `model`; it tries again in `retry_after` seconds). After a failure that may pass, `retry_after` is the rest of the delay
    that the provider asked for, 0 if it named none; None if a retry would fail in the same way. `error` says what went wrong. `length` is
    the number of facts at a failure; the store has not recorded yet that the session is idle.
    """

    status: str
    retry_after: float | None = None
    error: str = ""
    length: int = 0
    model: str = ""


class LeaderSession(Session):
    """A session handle that only drives: it raises `DrivenElsewhere` instead of following. Its runs end if they have to wait for a slot."""

    _role: ClassVar[DriverRole] = "lead"

    def use_slot(self, slot: WorkerSlot) -> None:
        """Make runs of this handle use a slot."""
        self._slot = slot


async def advance_session(
    workflows: Mapping[str, Workflow],
    store: Store,
    session: str,
    stop: asyncio.Event,
    context: ContextFactory | None = None,
    report_error_text: bool = False,
    log_tracebacks: bool = True,
    slots: ModelSlots | None = None,
) -> StepResult:
    """Drive a session until it is idle. When `stop` is set, running work is finished and recorded, and nothing more is begun.

    `log_tracebacks`: log the tracebacks of errors, not just their kind and place. Raises one of `TRANSIENT_STORE_ERRORS` if the store
    cannot be used: such a step is retried for as long as it takes. With `slots`, the session is driven only while its model has a free
    slot.
    """
    if (root := find_root_session_id(session)) != session:
        return StepResult("child_session", error=f"it is a child session of {root!r}, which drives it")
    slot: WorkerSlot | StepResult = WorkerSlot()
    try:
        workflow = await _find_workflow(workflows, store, session)
        if workflow is None:
            return StepResult("new")
        handle = LeaderSession(workflow, session, store, await call_user_code(context, session) if context is not None else None)
        if slots is not None:
            slot = _acquire_slot(await handle.refresh(), slots)
        if isinstance(slot, StepResult):
            return slot
        handle.use_slot(slot)
        status, has_tried = await _drive(handle, stop)
    except DrivenElsewhere:
        return StepResult("leased_elsewhere")
    except UnknownLedger as error:
        return (
            StepResult("deleted")
            if is_error_of_store(store, error)
            else _make_error_result(session, error, report_error_text, log_tracebacks)
        )
    except Exception as error:
        if is_error_of_store(store, error) and isinstance(
            error, TRANSIENT_STORE_ERRORS
        ):  # otherwise user code raised an error of this kind
            raise
        return _make_error_result(session, error, report_error_text, log_tracebacks)
    finally:
        if isinstance(slot, WorkerSlot):
            slot.release()
    if slots is not None and slot.refused_model:
        if slots.has_free_slot(slot.refused_model):
            return StepResult("interrupted")  # a slot became free while the step ended
        return _make_busy_result(slots, slot.refused_model)
    return _make_result(handle, status, report_error_text, is_left_to_others=stop.is_set() and not has_tried)


def _make_error_result(session: str, error: Exception, report_error_text: bool, log_tracebacks: bool) -> StepResult:
    log.error(
        "session %r: it cannot be advanced: %s", session, format_error(error, log_tracebacks), exc_info=error if log_tracebacks else None
    )
    return StepResult("broken", error=format_error(error, report_error_text))


def _acquire_slot(handle: Session, slots: ModelSlots) -> WorkerSlot | StepResult:
    """Return a slot of the model that the session requests next, or the result of the step if none is free."""
    request = find_next_model_request(handle)
    model = slots.slot_name(*request) if request is not None else ""
    return slots.acquire_step_slot(model) or _make_busy_result(slots, model)


def _make_busy_result(slots: ModelSlots, model: str) -> StepResult:
    return StepResult("no_free_slot", slots.seconds_until_retry(model), model=model)


def _make_result(handle: Session, status: str, report_error_text: bool, is_left_to_others: bool) -> StepResult:
    """Return the result of a step that ended with this session status. `is_left_to_others`: failed work was not retried and is pending."""
    if status == "running" and (delay := seconds_until_retry(find_next_retry_at(handle))):
        return StepResult("retrying", delay, _describe_failure(handle, report_error_text))
    if status == "running" or (status == "failed" and is_left_to_others):
        return StepResult("interrupted")
    if status == "failed":
        waits = [wait for _, failure in iter_failed_requests(handle) if (wait := _seconds_until_retry(failure)) is not None]
        return StepResult("failed", min(waits, default=None), _describe_failure(handle, report_error_text), handle.state.length)
    return StepResult(status)


async def _drive(handle: Session, stop: asyncio.Event) -> tuple[str, bool]:
    """Drive a session. Return its status, and whether a request or call has failed or paused in this step."""
    run = handle.resume()

    async def drain() -> None:
        await stop.wait()
        run.drain()

    draining = asyncio.get_running_loop().create_task(drain())
    try:
        status = (await run).status
    finally:
        draining.cancel()
    return status, any(isinstance(fact, (ModelRequestFailed, CallPaused)) for fact in handle.state.facts[run.length_before :])


async def _find_workflow(workflows: Mapping[str, Workflow], store: Store, session: str) -> Workflow | None:
    """Return the workflow that a session's ledger names; None if the ledger is empty."""
    if len(workflows) == 1:
        return next(iter(workflows.values()))  # a session of another workflow raises by itself
    name = read_workflow_name(await attribute_errors(store, store.read(session)))
    if not name:
        return None
    if name not in workflows:
        raise DefinitionChanged(
            f"session {session!r} belongs to workflow {name!r}",
            expected=f"a workflow that this worker serves: {', '.join(workflows)}",
            do=f"start a worker that serves {name!r} too, then retry",
        )
    return workflows[name]


def read_workflow_name(facts: Sequence[AnyFact]) -> str:
    """Return the name of the workflow that a ledger names; empty if the ledger is empty."""
    return facts[0].workflow if facts and isinstance(facts[0], Opened) else ""


def _seconds_until_retry(failure: ModelRequestFailed) -> float | None:
    """Return the seconds until a failed request may be retried, as its fact says; None if a retry would fail in the same way.

    It is never longer than the delay at the time of the failure, even if the clock was set back since.
    """
    return max(0, min(failure.retry_at - now_ms(), failure.retry_at - failure.at)) / 1000 if failure.retry_at else None


def _describe_failure(handle: Session, report_error_text: bool) -> str:
    """Describe which model failed, and how, from the ledgers of the session and its child sessions."""
    found = next(iter_failed_requests(handle), None)
    if found is None:
        return f"a child session failed{f': {handle.error}' if report_error_text else ''}"
    session, failed = found
    agent = session.workflow.definition.agents.get(failed.agent)
    whose = f"{agent.model.name}, the model of {agent.name!r}" if agent is not None else "a model"
    return f"{whose}: {failed.cause or 'a failure'}{f': {failed.error}' if report_error_text else ''}"


def format_error(error: BaseException, includes_text: bool = False) -> str:
    """Return an error's kind and place. Only `with_text` adds its message, which may contain text of the conversation."""
    return f"{describe_error_without_message(error)}: {error}" if includes_text else describe_error_without_message(error)
