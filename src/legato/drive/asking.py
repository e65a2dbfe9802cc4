"""Calling models. May know: models, frames, middleware. Decides: retries.

One call of this performer is one attempt. A failure becomes an `Attempted` fact; whether the call is made again is then a question of
the plan like any other, so that a restart between two attempts goes on with the third.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from legato.core.facts import NO_USAGE, Answered, AnyFact, Attempted, Call, Reasoning, Refusal, Usage, Words
from legato.core.groups import Group
from legato.core.history import Custom, ranges
from legato.core.owed import CallModel
from legato.core.state import State
from legato.core.view import Request, request_for, visible
from legato.drive.clock import now_ms, seconds
from legato.drive.definition import AgentDefinition, Definition, History
from legato.drive.frames import Frames, history_in_force
from legato.drive.ledger import Ledger
from legato.drive.outcome import Outcome
from legato.errors import BadInput, ModelFailed
from legato.models.base import Emit, Reply

BACK_OFF = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before the first, second, ... attempt. Providers that know better say so (`retry_after`)."""

_NO_KEPT: tuple[tuple[int, int], ...] | None = None


class ModelCaller:
    """Performs `CallModel`."""

    def __init__(self, definition: Definition, ledger: Ledger, frames: Frames, emit: Callable[[str, int, str], None]) -> None:
        self._definition = definition
        self._ledger = ledger
        self._frames = frames
        self._emit = emit
        self._retry_after: float | None = None

    async def perform(self, effect: CallModel) -> Outcome:
        """One attempt: a reply, or a failure, as facts to propose."""
        failed = self._ledger.state.failed
        number = failed.number + 1 if failed and not failed.final else 1
        if number > 1:
            wait = BACK_OFF[min(number - 1, len(BACK_OFF) - 1)] if self._retry_after is None else self._retry_after
            await asyncio.sleep(wait)
        self._retry_after = None
        agent = self._definition.agents[effect.agent]
        digest, frame, data = await self._frames.in_force(effect.agent)
        async with self._ledger.lock:  # what is asked is what the store holds, not what is just being proposed
            state = self._ledger.state
            if state.replies != effect.turn:
                return Outcome()
            history = history_in_force(self._definition, effect.agent, state.arrived if state.active == effect.agent else None)
            groups, kept = _choose(state, history, effect.agent)
            request = request_for(state, frame, digest, groups, effect.agent)
        begun = seconds()
        try:
            reply = await self._ask(agent, request, lambda text: self._emit(effect.agent, number, text))
            _check(reply)
        except Exception as error:
            # Whatever a model or its client raises: the turn is not lost, and what happened is on record.
            failure = error if isinstance(error, ModelFailed) else ModelFailed(f"{type(error).__name__}: {error}")
            self._retry_after = failure.retry_after
            final = not failure.retryable or number >= self._definition.attempts
            told = (failure.summary, failure.code, number, final, NO_USAGE, _took(begun))
            return Outcome(partial(self._failed, effect, digest, *told), {digest: data})
        propose_reply = partial(self._answered, effect, digest, request.upto, reply, kept, agent, _took(begun), number)
        return Outcome(propose_reply, {digest: data})

    async def _ask(self, agent: AgentDefinition, request: Request, emit: Emit) -> Reply:
        async def ask(request: Request) -> Reply:
            return await agent.model.reply(request, emit)

        proceed = ask
        for middleware in reversed(agent.middleware):
            proceed = partial(middleware.around_model, proceed=proceed)
        return await proceed(request)

    def _answered(
        self,
        effect: CallModel,
        frame: str,
        upto: int,
        reply: Reply,
        kept: tuple[tuple[int, int], ...] | None,
        agent: AgentDefinition,
        took: int,
        number: int,
        state: State,
    ) -> Iterator[AnyFact]:
        if state.replies != effect.turn:
            return
        if state.halt:
            # The reply came when nobody wanted it any more. It is not part of the conversation; what it cost is.
            yield from self._failed(effect, frame, "cancelled", "cancelled", number, False, reply.usage, took, state)
            return
        yield Answered(
            at=now_ms(),
            agent=effect.agent,
            frame=frame,
            upto=upto,
            items=reply.items,
            finish=reply.finish,
            usage=reply.usage,
            model=reply.model or agent.model.name,
            response_id=reply.response_id,
            stored=reply.stored,
            base=reply.base,
            kept=kept,
            losses=reply.losses,
            took=took,
        )

    def _failed(
        self, effect: CallModel, frame: str, error: str, code: str, number: int, final: bool, usage: Usage, took: int, state: State
    ) -> Iterator[AnyFact]:
        if state.replies == effect.turn and not state.batch and state.awaits_reply:
            yield Attempted(
                at=now_ms(), agent=effect.agent, frame=frame, error=error, code=code, number=number, final=final, usage=usage, took=took
            )


def _choose(state: State, history: History, agent: str) -> tuple[list[Group], tuple[tuple[int, int], ...] | None]:
    """The groups the agent sees, and, where a function of the user's chose them, its choice for the record."""
    if not isinstance(history.spec, Custom) or history.choose is None:
        return visible(state, history.spec, agent), _NO_KEPT
    everything = [group for group in (*state.groups, *state.tail) if not group.blocked]
    chosen = history.choose(list(everything))
    indexes = {id(group): index for index, group in enumerate(everything)}
    try:
        kept = sorted({indexes[id(group)] for group in chosen})
    except (KeyError, TypeError):
        raise BadInput(
            f"the history filter {history.spec.name!r} returned something that is not among the groups it was given",
            do="return a list of some of the groups, for example [group for group in groups if ...]",
        ) from None
    return [everything[index] for index in kept], ranges(kept)


def _check(reply: Any) -> None:
    if not isinstance(reply, Reply):
        raise ModelFailed(
            f"the model gave something that is not a reply: {type(reply).__name__}", do="return a legato.models.Reply"
        )
    for item in reply.items:
        if not isinstance(item, (Words, Reasoning, Call, Refusal)):
            raise ModelFailed(
                f"the model's reply holds something that is no item of a reply: {type(item).__name__}",
                do="make Reply(items=(Words(text), Call(tool, arguments), ...))",
            )
    if not reply.items and reply.finish == "stop":
        raise ModelFailed("the model's reply was empty", retryable=True, do="nothing was recorded; it is asked again")


def _took(begun: float) -> int:
    return round((seconds() - begun) * 1000)
