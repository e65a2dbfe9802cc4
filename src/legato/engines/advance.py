"""One step of an engine. May know: sessions and stores. Decides: how a session that was driven came to rest.

The ledger is the journal and the fence. An engine only makes sure that `advance(session)` is running somewhere: it opens the session in
its store, drives it until nothing more can be done without its people, and says how it rests. Nothing is remembered in between, so a
step that was cut short, doubled or taken over by another worker is made right by the next one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, ClassVar, TypeAlias

from legato.core.child_ids import root_session_id
from legato.core.facts import AnyFact, Opened
from legato.core.view import Request
from legato.drive.asking import seconds_until
from legato.drive.definition import Middleware, called
from legato.drive.driver import Role
from legato.drive.ledger import failed_itself, used
from legato.drive.slots import Slot
from legato.engines.slots import ModelSlots
from legato.errors import (
    DefinitionChanged,
    DrivenElsewhere,
    LegatoError,
    ModelFailed,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
    UnknownLedger,
)
from legato.models.base import Reply
from legato.nested import next_request, retry_time
from legato.session import Session
from legato.stores.contract import Store
from legato.workflow import Workflow

log = logging.getLogger("legato.worker")

MakeContext: TypeAlias = Callable[[str], Any]
"""The caller's context for a session, by its id; sync or async."""

PASSING = (StoreUnavailable, StoreLocked, StoreFull, StoreReadOnly)
"""What a store raises that is not the session's fault, and passes when somebody mends the store: it is tried again until then."""

_failures: ContextVar[list[Exception] | None] = ContextVar("failures", default=None)


@dataclass(frozen=True)
class Rest:
    """How a session rests after a step.

    `how` is the session's status (new, waiting, pending, terminated, cancelled, failed), or why the step ended before it rested:
    `left` (this worker stops, another goes on), `elsewhere` (another driver holds the lease), `broken` (user code or the definition
    raised, or the ledger is damaged), `gone` (the session was deleted), `held` (it works for a call of another session, which alone
    drives it), `retrying` (its model is requested again in `again` seconds, and the ledger says so), `busy` (no slot of its model,
    `model`, is free here; one is looked for again in `again` seconds). `again`: of a failure that may pass, how many seconds the provider
    asks to wait, 0 if it did not say; None if trying again would lead to the same. `error` says what went wrong. `length`: of a failure,
    how many facts there were then; the store is not told yet that the session rests.
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


class Failures(Middleware):
    """Remembers, for the step under way, how a model failed: the ledger has the words, not where, and whether and when to try again."""

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        try:
            return await proceed(request)
        except Exception as failure:
            if (failures := _failures.get()) is not None:
                failures.append(failure)
            raise


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
    failures: list[Exception] = []
    _failures.set(failures)
    slot = Slot()
    try:
        workflow = await _workflow_of(workflows, store, session)
        if workflow is None:
            return Rest("new")
        handle = Led(workflow, session, store, await called(context, session) if context is not None else None)
        if slots is not None:
            requested = next_request(await handle.refresh())
            model = slots.name_of(*requested) if requested is not None else ""
            if (found := slots.slot(model)) is None:
                return Rest("busy", slots.seconds_to_next_visit(model), model=model)
            slot = found
        handle.work_in(slot)
        status = await _driven(handle, stop)
    except DrivenElsewhere:
        return Rest("elsewhere")
    except Exception as error:
        if failed_itself(store, error) and isinstance(error, (UnknownLedger, *PASSING)):  # else user code raised its like
            if isinstance(error, UnknownLedger):
                return Rest("gone")
            raise
        log.error("session %r: it cannot be advanced: %s", session, told(error, tracebacks), exc_info=error if tracebacks else None)
        return Rest("broken", error=told(error, errors_in_full))
    finally:
        slot.release()
    last = failures[-1] if failures else None
    if slots is not None and slot.refused:
        if slots.has_room(slot.refused):
            return Rest("left")  # it became free while the step ended
        return Rest("busy", slots.seconds_to_next_visit(slot.refused), model=slot.refused)
    if status == "running":
        if wait := seconds_until(retry_time(handle)):
            return Rest("retrying", wait, _told_of_model(handle, last, errors_in_full))
        return Rest("left")
    if status == "failed":
        if stop.is_set() and not failures:
            return Rest("left")  # it failed before, and was not tried: that is owed still
        again = (last.retry_after or 0.0) if isinstance(last, ModelFailed) and last.retryable else None
        return Rest("failed", again, _told_of_model(handle, last, errors_in_full), handle.state.length)
    return Rest(status)


async def _driven(handle: Session, stop: asyncio.Event) -> str:
    run = handle.resume()

    async def leave() -> None:
        await stop.wait()
        run.leave()

    leaving = asyncio.get_running_loop().create_task(leave())
    try:
        return (await run).status
    finally:
        leaving.cancel()


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


def _told_of_model(handle: Session, last: Exception | None, in_full: bool) -> str:
    """Which model failed, and how: of a failure that is not of this step, the ledger has the code."""
    failed = handle.state.failed
    agent = handle.workflow.definition.agents.get(failed.agent) if failed is not None else None
    whose = f"{agent.model.name}, the model of {agent.name!r}" if agent is not None else "a model"
    return f"{whose}: {told(last, in_full) if last is not None else _kind('a failure', failed.code if failed is not None else '')}"


def _kind(name: str, *codes: str) -> str:
    """What sort of error it is. A code that a provider chose is told if it looks like one, and not like words."""
    known = [code for code in codes if re.fullmatch(r"[\w.:-]{1,60}", code)]
    return f"{name} ({', '.join(known)})" if known else name


def told(error: BaseException, in_full: bool = False) -> str:
    """What an engine is told of an error: its kind and where it was raised. Its words may be those of the conversation.

    >>> try:
    ...     raise ValueError("order 7 of Jane Doe")
    ... except ValueError as error:
    ...     print(told(error))
    ValueError at <doctest legato.engines.advance.told[0]>:2 in <module>
    """
    codes = [error.code] if isinstance(error, LegatoError) else []
    if isinstance(error, ModelFailed):
        codes = [error.reason or error.code, f"HTTP:{error.status}" if error.status else ""]
    kind = _kind(type(error).__name__, *codes)
    frames = extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return f"{kind}{where}: {error}" if in_full else f"{kind}{where}"
