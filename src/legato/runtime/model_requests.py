"""Calling models. May know: models, frames, middleware. Decides: retries.

One call of this performer is one attempt. A failure becomes a `ModelRequestFailed` fact, which says whether and when to try again.
Whoever drives then waits until that time, so a restart between two attempts goes on with the third, and no sooner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from copy import copy
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import asdict, replace

from legato.core.argument_checks import provides
from legato.core.facts import MAX_COUNT, MAX_TIME_MS, NO_USAGE, ConversationClaimed, ModelReplied, ModelRequestFailed, Usage
from legato.core.groups import Group
from legato.core.history_policies import Custom, Everything, HistorySpec, ranges
from legato.core.planner import CallModel, seconds_left
from legato.core.state import State
from legato.core.turn_context import Frame
from legato.core.view import Request, request_for, visible
from legato.core.workflow_graph import Limits, with_exceeded_limits
from legato.errors import BadInput, IllegalRequest, ModelFailed, StoreError
from legato.models.base import Emit, HasAlternatives, KeepsConversations, Reply, usage_of_stopped
from legato.runtime.clock import now_ms, random_fraction, seconds
from legato.runtime.definition import AgentDefinition, Definition, History, unless_cancelled
from legato.runtime.error_summary import describe_error, error_kind
from legato.runtime.ledger import Ledger
from legato.runtime.outcomes import Outcome
from legato.runtime.parent_call import Caller, min_seconds
from legato.runtime.turn_contexts import Frames, history_in_force
from legato.tools import tool_output

if TYPE_CHECKING:
    from legato.runtime.instrumentation import Watch

log = logging.getLogger("legato.models")
"""Told of each failed attempt: its kind, and where it was raised."""

BACK_OFF = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before the first, second, ... attempt, at most: half of it is random (jitter). A provider may ask for more (`retry_after`)."""

LONGEST_ERROR, LONGEST_CODE = 4000, 100
"""How much is recorded of what a failure says, in letters. Its cause is cut as its code is."""

LONGEST_WAIT = 300.0
"""Seconds that a provider may ask to wait for; beyond that the session pauses, and whoever runs it decides when to go on."""

LONGEST_RETRY_WAIT = LONGEST_WAIT + BACK_OFF[-1] / 2
"""Seconds of the longest wait that is recorded: what a provider asked for, and the jitter on top."""


def seconds_until(retry_at: int) -> float:
    """Seconds until a recorded retry time, in milliseconds since the epoch; 0 if it has come.

    No recorded wait is longer than `LONGEST_RETRY_WAIT`. A time further ahead was written by another clock, and is not waited for.
    """
    wait_ms = retry_at - now_ms()
    return wait_ms / 1000 if 0 < wait_ms <= LONGEST_RETRY_WAIT * 1000 else 0.0


def _retry_at(failure: ModelFailed, number: int, final: bool, at: int) -> int:
    """When the request may be made again, in milliseconds since the epoch; 0 if that would lead to the same.

    A request that is not made again by itself has no jitter: those who have the session driven again have a pace of their own.
    """
    if not final:
        return at + ceil(_retry_wait(failure, number, random_fraction()) * 1000)
    wait = min(failure.retry_after or 0.0, MAX_TIME_MS)  # in seconds: longer than any time can say, and short enough to count
    return min(at + ceil(wait * 1000), MAX_TIME_MS) if failure.retryable else 0


def _retry_wait(failure: ModelFailed, number: int, fraction: float) -> float:
    """Seconds to wait after this failure of attempt `number` before the next; `fraction` is a random number from 0 up to 1.

    Equal jitter: half of the back-off is certain, the other half random. Sessions that failed together are requested again at different
    times, and the few attempts are not used up at once, as they may be with full jitter. What a provider asks for is a lower bound; the
    jitter comes on top, and is never longer than the wait itself: who says 0 is requested at once.
    """
    if failure.another:
        return 0.0
    half = BACK_OFF[min(number, len(BACK_OFF) - 1)] / 2
    if failure.retry_after is not None and 0 <= failure.retry_after <= LONGEST_WAIT:
        return failure.retry_after + fraction * min(half, failure.retry_after)
    return half + fraction * half


Kept: TypeAlias = tuple[tuple[int, int], ...] | None
"""What a custom history policy chose, for the record."""

Wanted: TypeAlias = Callable[[State, CallModel], bool]
"""Whether an effect is still owed in a state."""


class ModelCaller:
    """Performs `CallModel`."""

    def __init__(self, definition: Definition, ledger: Ledger, frames: Frames, caller: Caller | None = None) -> None:
        """`caller` is the call that this session works for, if it is a child session: its limits bind the requests made here."""
        self._definition = definition
        self._caller = caller
        self._ledger = ledger
        self._frames = frames
        self.watch: Watch | None = None
        self._contents: dict[str, bytes] = {}  # of pictures and files that have been sent

    async def perform(self, effect: CallModel, emit: Callable[[str, int, str], None], wanted: Wanted) -> Outcome:
        """One attempt: a reply, or a failure, as facts to propose. Pieces of words go to `emit` with their agent and attempt."""
        number = self._ledger.state.next_attempt
        prepared = await self._prepare(effect, wanted)
        if prepared is None:
            return Outcome()
        request, kept, contents = prepared
        request = replace(request, attempt=number) if number > 1 else request
        agent = self._definition.agents[effect.agent]
        begun, left = seconds(), self._seconds_left()
        bound = asyncio.timeout(left)
        try:
            async with bound:
                if self._ledger.state.pictured:
                    request = await self._with_contents(request)
                told = request if agent.keeper is None else await self._told_where(agent.keeper, request)
                if told is None:
                    return Outcome()
                judged = self._ledger.state.options_at(request.upto).judged
                with nullcontext() if self.watch is None else self.watch.asking(told):
                    reply = await self._ask(agent, told, _say_nothing if judged else partial(emit, effect.agent, number))
            answered = self._proved(_answered(reply, request, kept, agent, _took(begun), judged), self._definition.graph.limits)
        except (IllegalRequest, StoreError):
            # Nothing was sent, and it is ours to mend; or a store of ours failed. Neither is a failure of the model: whoever runs the
            # session is told, and the next drive asks.
            raise
        except Exception as error:
            if left is not None and bound.expired():
                return Outcome((_stopped(effect, request, number, error, left, begun),), contents)
            attempted = self._failed(agent, request, number, error, begun)
            return Outcome((attempted,), contents)
        return Outcome((answered,), contents, attempt=number)

    def _failed(self, agent: AgentDefinition, request: Request, number: int, error: Exception, begun: float) -> ModelRequestFailed:
        """The record of a request that failed, whatever a model or its client raised; it says whether and when another is made."""
        failure = error if isinstance(error, ModelFailed) else ModelFailed(f"{type(error).__name__}: {error}")
        if provides(agent.model, HasAlternatives):
            agent.model.attribute_failure(failure, request)
        else:
            failure.another = False  # a model may raise one object again and again, also one that another model has marked
        if log.isEnabledFor(logging.INFO):
            log.info("session %r: %s, the model of %r: %s", self._ledger.session, agent.model.name, agent.name, describe_error(error))
        too_long = failure.retry_after is not None and failure.retry_after > LONGEST_WAIT
        final = not failure.another and (not failure.retryable or too_long or number >= self._definition.attempts)
        at = now_ms()
        return ModelRequestFailed(
            at=at,
            agent=agent.name,
            frame=request.frame_digest,
            upto=request.upto,
            error=tool_output(failure.summary)[:LONGEST_ERROR],
            code=tool_output(failure.reason or failure.code)[:LONGEST_CODE],
            number=number,
            final=final,
            usage=_counted(failure.usage),
            took=_took(begun),
            retry_at=_retry_at(failure, number, final, at),
            cause=error_kind(error)[:LONGEST_CODE],
            conversation_unchanged=failure.conversation_unchanged,
        )

    def _seconds_left(self) -> float | None:
        """The seconds that a request may take before a limit is reached, of this session or of those that it works for."""
        own = seconds_left(self._ledger.state, self._definition.graph.limits)
        return min_seconds(own, self._caller.seconds_left() if self._caller is not None else None)

    def _proved(self, answered: ModelReplied, limits: Limits) -> ModelReplied:
        try:
            return self._ledger.mark_proved(with_exceeded_limits(self._ledger.prove(answered), limits))
        except BadInput as error:
            raise ModelFailed(
                f"the model gave a reply that {error.summary.removeprefix(f'{ModelReplied.__name__} ')}", usage=answered.usage
            ) from error

    async def _prepare(self, effect: CallModel, wanted: Wanted) -> tuple[Request, Kept, dict[str, bytes]] | None:
        """The request, made from one state: the one in which the call is owed, and whose frame it is. None if it is owed no more."""
        while True:
            runs, options = self._ledger.state.tally.number, self._ledger.state.run_options
            digest, frame, data = await self._frames.in_force(effect.agent)
            async with self._ledger.lock:  # what is asked is what the store holds, not what is just being proposed
                state = self._ledger.state
                if state.waiting or not wanted(state, effect):
                    return None  # a message came that is being judged: it may have to be seen
                if (state.tally.number, state.run_options) != (runs, options):
                    continue  # the user spoke, or asked for something else, while the frame was made: it must know
                request, kept = request_now(self._definition, state, effect.agent, digest, frame)
                return request, kept, {} if digest in state.frames else {digest: data}

    async def _with_contents(self, request: Request) -> Request:
        """The request with the bytes of its pictures and files."""
        named = {digest for group in request.groups if group.contents_named for digest in group.contents_named}
        for digest in named - self._contents.keys():
            self._contents[digest] = await self._ledger.content(digest)
        return replace(request, contents={digest: self._contents[digest] for digest in named}) if named else request

    async def _told_where(self, keeper: KeepsConversations, request: Request) -> Request | None:
        """The request with the provider's conversation that it goes to, once that is recorded. None if it is wanted no more."""
        conversation = await keeper.conversation_for(request)
        if not conversation:
            return request
        asked = ConversationClaimed(at=now_ms(), agent=request.agent, conversation=conversation, upto=request.upto)
        recorded = await self._ledger.append(Outcome((asked,)).propose)
        return replace(request, conversation=conversation) if recorded else None

    def _ask(self, agent: AgentDefinition, request: Request, emit: Emit) -> Awaitable[Reply]:
        if not agent.middleware:
            return unless_cancelled(agent.model.reply(request, emit))
        asked = False

        async def ask(request: Request) -> Reply:
            nonlocal asked
            if asked and request.conversation:  # by middleware that asks again: the provider has heard this in there already
                request = replace(request, conversation="")
            asked = True
            return await unless_cancelled(agent.model.reply(request, emit))

        proceed = ask
        for middleware in reversed(agent.middleware):
            proceed = partial(middleware.around_model, proceed=proceed)
        return unless_cancelled(proceed(request))


def request_now(definition: Definition, state: State, agent: str, digest: str, frame: Frame) -> tuple[Request, Kept]:
    """What an agent's model is asked in this state, within a frame; and what a function of the user's chose for that."""
    arrived = state.arrived if state.active == agent else None
    groups, kept = _choose(state, frame.history, history_in_force(definition, agent, arrived), agent)
    return request_for(state, frame, digest, groups, agent), kept


def _say_nothing(text: str) -> None:
    """Take the pieces of a reply that is yet to be judged by what its client asked for."""


def _answered(reply: Any, request: Request, kept: Kept, agent: AgentDefinition, took: int, judged: bool = False) -> ModelReplied:
    """The reply as the fact it will be; `ModelFailed` if it is not one that can be recorded. `judged`: its client asked for a format."""
    if not isinstance(reply, Reply):
        raise ModelFailed(f"the model gave something that is not a reply: {type(reply).__name__}", do="return a legato.models.Reply")
    if not reply.items and reply.finish == "stop":
        raise ModelFailed("the model's reply was empty", retryable=True, usage=reply.usage, do="it is asked again")
    return ModelReplied(
        at=now_ms(),
        agent=request.agent,
        frame=request.frame_digest,
        upto=request.upto,
        items=reply.items,
        finish=reply.finish,
        usage=reply.usage,
        model=reply.model or agent.model.name,
        response_id=reply.response_id,
        stored=reply.stored,
        base=reply.base,
        origin=reply.origin,
        held=reply.held,
        request_id=reply.request_id,
        kept=kept,
        losses=reply.losses,
        took=took,
        guarded=agent.withholds(reply.items, judged),
        extra=reply.extra,
    )


def _stopped(effect: CallModel, request: Request, number: int, error: Exception, left: float, begun: float) -> ModelRequestFailed:
    """A request that was stopped because the `left` seconds of a limit were used up."""
    return ModelRequestFailed(
        at=now_ms(),
        agent=effect.agent,
        frame=request.frame_digest,
        upto=request.upto,
        error=f"the request was stopped after {left:.1f} s: the time of Limits(seconds=) was used up",
        code="limit",
        number=number,
        usage=_counted(usage_of_stopped(error)),
        took=max(_took(begun), ceil(left * 1000)),
        limit="seconds",
    )


def _counted(usage: Any) -> Usage:
    """What a failed call cost, where that was told as it should be."""
    if not isinstance(usage, Usage):
        return NO_USAGE
    counts = (count for name, count in asdict(usage).items() if name != "cost" or count is not None)
    return usage if all(type(count) is int and 0 <= count <= MAX_COUNT for count in counts) else NO_USAGE


def _choose(state: State, spec: HistorySpec, history: History, agent: str) -> tuple[list[Group], Kept]:
    """The groups the agent sees, and, where a function of the user's chose them, its choice for the record."""
    if type(spec) is not Custom or history.choose is None:
        return visible(state, spec, agent), None
    everything = visible(state, Everything(), agent)
    offered = [_copied(group) for group in everything]  # what user code does to them changes nothing
    chosen = history.choose(list(offered))
    indexes = {id(group): index for index, group in enumerate(offered)}
    try:
        kept = sorted({indexes[id(group)] for group in chosen})
    except (KeyError, TypeError):
        raise BadInput(
            f"the history filter {spec.name!r} returned something that is not among the groups it was given",
            do="return a list of some of the groups, for example [group for group in groups if ...]",
        ) from None
    return [everything[index] for index in kept], ranges(kept)


def _copied(group: Group) -> Group:
    twin = copy(group)
    twin.calls, twin._by_index = [copy(call) for call in group.calls], None
    return twin


def _took(begun: float) -> int:
    return round((seconds() - begun) * 1000)
