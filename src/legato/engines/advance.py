"""One step of an engine. May know: sessions and stores. Decides: how a session that was driven came to rest.

The ledger is the journal and the fence. An engine only makes sure that `advance(session)` is running somewhere: it opens the session in
its store, drives it until nothing more can be done without its people, and says how it rests. Nothing is remembered in between, so a
step that was cut short, doubled or taken over by another worker is made right by the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from legato.core.child_session_ids import root_session_id
from legato.core.facts import AnyFact, CallPaused, ModelRequestFailed, Opened
from legato.engines.slots import ModelSlots
from legato.errors import (
    DefinitionChanged,
    DrivenElsewhere,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    UnknownLedger,
)
from legato.runtime.child_sessions import failed_requests, next_request, retry_time
from legato.runtime.clock import now_ms
from legato.runtime.definition import called
from legato.runtime.driver import Role
from legato.runtime.error_summary import describe_error
from legato.runtime.ledger import failed_itself, used
from legato.runtime.model_requests import seconds_until
from legato.runtime.session import Session
from legato.runtime.worker_slot import Slot
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

log = logging.getLogger("legato.worker")

MakeContext: TypeAlias = Callable[[str], Any]
"""The caller's context for a session, by its id; sync or async."""

PASSING = (StoreUnavailable, StoreLocked, StoreFull, StoreReadOnly)
"""What a store raises that is not the session's fault, and passes when somebody mends the store: it is tried again until then."""


@dataclass(frozen=True)
class Rest:
    """How a session rests after a step.

    `how` is the session's status (new, waiting, pending, terminated, cancelled, failed), or why the step ended before it rested:
    `left` (this worker stops, another goes on), `elsewhere` (another driver holds the lease), `broken` (user code or the definition
    raised, or the ledger is damaged), `gone` (the session was deleted), `held` (it works for a call of another session, which alone
    drives it), `retrying` (its model is requested again in `again` seconds, and the ledger says so), `busy` (no slot of its model,
    `model`, is free here; one is looked for again in `again` seconds). `again`: of a failure that may pass, how many seconds are left of
    what the provider asked to wait, 0 if it did not say; None if trying again would lead to the same. `error` says what went wrong.
    `length`: of a failure, how many facts there were then; the store is not told yet that the session rests.
    """

    how: str
    again: float | None = None
    error: str = ""
    length: int = 0
    model: str = ""


class Led(Session):
    """A handle for whoever drives, and would rather be told than follow. It works in a slot, and gives that up instead of waiting."""

    _role: ClassVar[Role] = "lead"

    def work_in(self, slot: Slot) -> None:
        """Have its runs work in this slot."""
        self._slot = slot


async def advance(
    workflows: Mapping[str, Workflow],
    store: Store,
    session: str,
    stop: asyncio.Event,
    context: MakeContext | None = None,
    errors_in_full: bool = False,
    tracebacks: bool = True,
    slots: ModelSlots | None = None,
) -> Rest:
    """Drive a session until it rests. When `stop` is set, what runs is finished and recorded, and nothing more is begun.

    `tracebacks`: whether the log has those of what was raised; else it is told the kind and place. Raises one of `PASSING` where the store
    could not be used: that is nobody's fault here, and is tried again for as long as it takes. With `slots`, the session is driven
    only while its model has one.
    """
    if (holder := root_session_id(session)) != session:
        return Rest("held", error=f"it works for a call of {holder!r}, which goes on with it")
    slot: Slot | Rest = Slot()
    try:
        workflow = await _workflow_of(workflows, store, session)
        if workflow is None:
            return Rest("new")
        handle = Led(workflow, session, store, await called(context, session) if context is not None else None)
        if slots is not None:
            slot = _slot_for(await handle.refresh(), slots)
        if isinstance(slot, Rest):
            return slot
        handle.work_in(slot)
        status, tried = await _driven(handle, stop)
    except DrivenElsewhere:
        return Rest("elsewhere")
    except UnknownLedger as error:
        return Rest("gone") if failed_itself(store, error) else _broken(session, error, errors_in_full, tracebacks)
    except Exception as error:
        if failed_itself(store, error) and isinstance(error, PASSING):  # else user code raised its like
            raise
        return _broken(session, error, errors_in_full, tracebacks)
    finally:
        if isinstance(slot, Slot):
            slot.release()
    if slots is not None and slot.refused:
        if slots.has_room(slot.refused):
            return Rest("left")  # it became free while the step ended
        return _busy(slots, slot.refused)
    return _rest(handle, status, errors_in_full, left_to_others=stop.is_set() and not tried)


def _broken(session: str, error: Exception, errors_in_full: bool, tracebacks: bool) -> Rest:
    log.error("session %r: it cannot be advanced: %s", session, told(error, tracebacks), exc_info=error if tracebacks else None)
    return Rest("broken", error=told(error, errors_in_full))


def _slot_for(handle: Session, slots: ModelSlots) -> Slot | Rest:
    """The slot of the model that the session requests next; if none is free, how the step ends."""
    requested = next_request(handle)
    model = slots.name_of(*requested) if requested is not None else ""
    return slots.slot(model) or _busy(slots, model)


def _busy(slots: ModelSlots, model: str) -> Rest:
    return Rest("busy", slots.seconds_to_next_visit(model), model=model)


def _rest(handle: Session, status: str, errors_in_full: bool, left_to_others: bool) -> Rest:
    """How a step ended after which the session has this status. `left_to_others`: what had failed before was not tried, and is owed."""
    if status == "running" and (left := seconds_until(retry_time(handle))):
        return Rest("retrying", left, _describe_failure(handle, errors_in_full))
    if status == "running" or (status == "failed" and left_to_others):
        return Rest("left")
    if status == "failed":
        waits = [wait for _, failed in failed_requests(handle) if (wait := _seconds_to_wait(failed)) is not None]
        return Rest("failed", min(waits, default=None), _describe_failure(handle, errors_in_full), handle.state.length)
    return Rest(status)


async def _driven(handle: Session, stop: asyncio.Event) -> tuple[str, bool]:
    """Drive a session. Its status then, and whether what failed has failed in this step."""
    run = handle.resume()

    async def leave() -> None:
        await stop.wait()
        run.leave()

    leaving = asyncio.get_running_loop().create_task(leave())
    try:
        status = (await run).status
    finally:
        leaving.cancel()
    return status, any(isinstance(fact, (ModelRequestFailed, CallPaused)) for fact in handle.state.facts[run.since :])


async def _workflow_of(workflows: Mapping[str, Workflow], store: Store, session: str) -> Workflow | None:
    """The workflow whose conversation this is, as its ledger says; None if nothing was said in it yet."""
    if len(workflows) == 1:
        return next(iter(workflows.values()))  # the session says so itself if it belongs to another
    name = workflow_named(await used(store, store.read(session)))
    if not name:
        return None
    if name not in workflows:
        raise DefinitionChanged(
            f"session {session!r} belongs to workflow {name!r}",
            expected=f"one of those that this worker serves: {', '.join(workflows)}",
            do=f"start a worker that serves {name!r} too, then retry",
        )
    return workflows[name]


def workflow_named(facts: Sequence[AnyFact]) -> str:
    """The name of the workflow whose conversation this is; empty if nothing was said in it yet."""
    return facts[0].workflow if facts and isinstance(facts[0], Opened) else ""


def _seconds_to_wait(failed: ModelRequestFailed) -> float | None:
    """Seconds until a failed request may be worth another try, as its fact says; None if that would lead to the same.

    It is never longer than was asked for when it failed: a clock that was set back since makes nobody wait longer.
    """
    return max(0, min(failed.retry_at - now_ms(), failed.retry_at - failed.at)) / 1000 if failed.retry_at else None


def _describe_failure(handle: Session, in_full: bool) -> str:
    """Which model failed, and how, from the ledgers of the session and its child sessions."""
    found = next(failed_requests(handle), None)
    if found is None:
        return f"a child session failed{f': {handle.error}' if in_full else ''}"
    session, failed = found
    agent = session.workflow.definition.agents.get(failed.agent)
    whose = f"{agent.model.name}, the model of {agent.name!r}" if agent is not None else "a model"
    return f"{whose}: {failed.cause or 'a failure'}{f': {failed.error}' if in_full else ''}"


def told(error: BaseException, in_full: bool = False) -> str:
    """What an engine is told of an error: its kind and where it was raised. Its words may be those of the conversation."""
    return f"{describe_error(error)}: {error}" if in_full else describe_error(error)
