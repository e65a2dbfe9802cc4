"""Requests to models, and the rules of their retries.

`ModelRequester.perform` makes one attempt. A failure is recorded as `ModelRequestFailed`, which says whether and when to try again. The
driver then waits until that time, so that after a restart the next attempt is made no sooner, and attempts continue to count.
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

from legato.core.argument_checks import implements_protocol
from legato.core.facts import MAX_COUNT, MAX_TIME_MS, NO_USAGE, ConversationClaimed, ModelReplied, ModelRequestFailed, Usage
from legato.core.groups import Group
from legato.core.history_policies import Custom, Everything, HistoryPolicy, to_ranges
from legato.core.limits import Limits, record_exceeded_limits
from legato.core.planner import RequestModel, compute_seconds_left
from legato.core.state import State
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest, build_request, select_groups
from legato.errors import BadInput, IllegalRequest, ModelFailed, StoreError
from legato.models.model import Emit, HasAlternatives, KeepsConversations, ModelReply, get_cancelled_usage
from legato.runtime.clock import elapsed_ms, monotonic, now_ms, random_fraction
from legato.runtime.definition import AgentDefinition, History, WorkflowDefinition, contain_cancellation
from legato.runtime.error_summary import describe_error_kind, describe_error_without_message
from legato.runtime.ledger import EffectOutcome, Ledger
from legato.runtime.parent_call import ParentCall
from legato.runtime.turn_contexts import TurnContexts, find_history_policy
from legato.tools import tool_output

if TYPE_CHECKING:
    from legato.runtime.instrumentation import DriveInstrumentation

log = logging.getLogger("legato.models")
"""The log of failed attempts: the kind of each error, and where it was raised."""

MAX_BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The longest wait before the first, second, ... attempt. Half of it is random (jitter). A provider may ask for more (`retry_after`)."""

MAX_ERROR_CHARS, MAX_CODE_CHARS = 4000, 100
"""Characters that are recorded of a failure's message, and of its code and its cause."""

MAX_RETRY_AFTER_S = 300.0
"""The longest wait that a provider may ask for. If it asks for more, the session pauses as failed until it is resumed."""

MAX_RETRY_WAIT_S = MAX_RETRY_AFTER_S + MAX_BACKOFF_S[-1] / 2
"""The longest wait that is recorded: what a provider asked for, and the jitter."""


def seconds_until_retry(retry_at: int) -> float:
    """Return the seconds until a recorded time (in milliseconds since the epoch); 0 if it has come.

    No recorded wait is longer than `MAX_RETRY_WAIT_S`. A time further ahead was written by another clock, and is not waited for.
    """
    wait_ms = retry_at - now_ms()
    return wait_ms / 1000 if 0 < wait_ms <= MAX_RETRY_WAIT_S * 1000 else 0.0


def _compute_retry_at(failure: ModelFailed, attempt: int, final: bool, at: int) -> int:
    """Return when the request may be made again, in milliseconds since the epoch; 0 if it would fail again.

    A final failure has no jitter: an engine that drives the session again has a retry policy of its own.
    """
    if not final:
        return at + ceil(_compute_retry_wait(failure, attempt, random_fraction()) * 1000)
    wait = min(failure.retry_after or 0.0, MAX_TIME_MS)  # in seconds: a bound that keeps huge values computable
    return min(at + ceil(wait * 1000), MAX_TIME_MS) if failure.retryable else 0


def _compute_retry_wait(failure: ModelFailed, attempt: int, fraction: float) -> float:
    """Return the seconds to wait between this failure of attempt `attempt` and the next attempt; `fraction` is random, from 0 up to 1.

    Equal jitter: half of the backoff is fixed, the other half is random. Sessions that failed together retry at different times, and the
    few attempts are not used up at once, as may happen with full jitter. A wait that a provider asks for is a lower bound. Jitter is added
    to it, but never more than the wait itself: after a `retry_after` of 0 the request is made at once.
    """
    if failure.another:
        return 0.0
    half = MAX_BACKOFF_S[min(attempt, len(MAX_BACKOFF_S) - 1)] / 2
    if failure.retry_after is not None and 0 <= failure.retry_after <= MAX_RETRY_AFTER_S:
        return failure.retry_after + fraction * min(half, failure.retry_after)
    return half + fraction * half


ChosenRanges: TypeAlias = tuple[tuple[int, int], ...] | None
"""The ranges of groups that a custom history policy chose, as they are recorded."""

IsWanted: TypeAlias = Callable[[State, RequestModel], bool]
"""A function that returns True if a request is still part of the plan in a state."""


class ModelRequester:
    """The performer of the effect `RequestModel`."""

    def __init__(
        self, definition: WorkflowDefinition, ledger: Ledger, turn_contexts: TurnContexts, parent_call: ParentCall | None = None
    ) -> None:
        """`parent_call` is the call that a child session works for. Its limits bind the requests of the child session too."""
        self._definition = definition
        self._parent_call = parent_call
        self._ledger = ledger
        self._turn_contexts = turn_contexts
        self.instrumentation: DriveInstrumentation | None = None
        self._contents: dict[str, bytes] = {}  # of pictures and files that were sent before

    async def perform(self, effect: RequestModel, emit: Callable[[str, int, str], None], is_wanted: IsWanted) -> EffectOutcome:
        """Make one attempt, and return the fact of the reply or of the failure. Text deltas go to `emit` with their agent and attempt."""
        attempt = self._ledger.state.next_request_attempt
        prepared = await self._prepare(effect, is_wanted)
        if prepared is None:
            return EffectOutcome()
        request, chosen, contents = prepared
        request = replace(request, attempt=attempt) if attempt > 1 else request
        agent = self._definition.agents[effect.agent]
        started, seconds_left = monotonic(), self._compute_seconds_left()
        time_limit = asyncio.timeout(seconds_left)
        try:
            async with time_limit:
                if self._ledger.state.has_attachments:
                    request = await self._attach_contents(request)
                keeper = agent.conversation_keeper
                sent_request = request if keeper is None else await self._claim_conversation(keeper, request)
                if sent_request is None:
                    return EffectOutcome()
                needs_check = self._ledger.state.options_at(request.upto).needs_reply_check
                with nullcontext() if self.instrumentation is None else self.instrumentation.around_model_request(sent_request):
                    reply = await self._request_reply(
                        agent, sent_request, _ignore_text if needs_check else partial(emit, effect.agent, attempt)
                    )
            replied = _make_replied_fact(reply, request, chosen, agent, elapsed_ms(started), needs_check)
            replied = self._validate(replied, self._definition.graph.limits)
        except (IllegalRequest, StoreError):
            # An illegal request was not sent, and is a bug of Legato; or one of our stores failed. Neither is a failure of the model: the
            # error is raised to the caller, and the next drive makes the request.
            raise
        except Exception as error:
            if seconds_left is not None and time_limit.expired():
                return EffectOutcome((_make_time_limit_fact(effect, request, attempt, error, seconds_left, started),), contents)
            return EffectOutcome((self._make_failed_fact(agent, request, attempt, error, started),), contents)
        return EffectOutcome((replied,), contents, attempt=attempt)

    def _make_failed_fact(
        self, agent: AgentDefinition, request: ModelRequest, attempt: int, error: Exception, started: float
    ) -> ModelRequestFailed:
        """Return the fact of a failed attempt, for any error of a model or its client. It says whether and when to try again."""
        failure = error if isinstance(error, ModelFailed) else ModelFailed(f"{type(error).__name__}: {error}")
        if implements_protocol(agent.model, HasAlternatives):
            agent.model.attribute_failure(failure, request)
        else:
            failure.another = False  # a model may raise the same object again, also one that another model has marked
        if log.isEnabledFor(logging.INFO):
            log.info(
                "session %r: %s, the model of %r: %s",
                self._ledger.session_id,
                agent.model.name,
                agent.name,
                describe_error_without_message(error),
            )
        must_wait_too_long = failure.retry_after is not None and failure.retry_after > MAX_RETRY_AFTER_S
        is_last_attempt = attempt >= self._definition.max_model_attempts
        final = not failure.another and (not failure.retryable or must_wait_too_long or is_last_attempt)
        at = now_ms()
        return ModelRequestFailed(
            at=at,
            agent=agent.name,
            context_digest=request.context_digest,
            upto=request.upto,
            error=tool_output(failure.summary)[:MAX_ERROR_CHARS],
            code=tool_output(failure.reason or failure.code)[:MAX_CODE_CHARS],
            attempt=attempt,
            final=final,
            usage=_validate_usage(failure.usage),
            duration_ms=elapsed_ms(started),
            retry_at=_compute_retry_at(failure, attempt, final, at),
            cause=describe_error_kind(error)[:MAX_CODE_CHARS],
            conversation_unchanged=failure.conversation_unchanged,
        )

    def _compute_seconds_left(self) -> float | None:
        """Return the seconds that a request may take before a limit is reached, of this session or of a session above it; None: any."""
        own = compute_seconds_left(self._ledger.state, self._definition.graph.limits)
        return own if self._parent_call is None else self._parent_call.compute_seconds_left(own)

    def _validate(self, replied: ModelReplied, limits: Limits) -> ModelReplied:
        try:
            return self._ledger.mark_validated(record_exceeded_limits(self._ledger.validate(replied), limits))
        except BadInput as error:
            raise ModelFailed(
                f"the model gave a reply that {error.summary.removeprefix(f'{ModelReplied.__name__} ')}", usage=replied.usage
            ) from error

    async def _prepare(self, effect: RequestModel, is_wanted: IsWanted) -> tuple[ModelRequest, ChosenRanges, dict[str, bytes]] | None:
        """Build the request from one state, in which the request is wanted and its turn context is current. None if it is not wanted."""
        while True:
            run_number, options = self._ledger.state.run_counters.message_count, self._ledger.state.run_options
            digest, turn_context, data = await self._turn_contexts.get_current(effect.agent)
            async with self._ledger.lock:  # a request contains what the store has, and no facts that are only proposed
                state = self._ledger.state
                if state.unchecked_messages or not is_wanted(state, effect):
                    return None  # the model may have to see the message that is being checked
                if (state.run_counters.message_count, state.run_options) != (run_number, options):
                    continue  # a message or other options came while the turn context was made, which must include them
                request, chosen = build_model_request(self._definition, state, effect.agent, digest, turn_context)
                return request, chosen, {} if digest in state.context_digests else {digest: data}

    async def _attach_contents(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the bytes of its pictures and files."""
        digests = {digest for group in request.groups if group.content_digests for digest in group.content_digests}
        for digest in digests - self._contents.keys():
            self._contents[digest] = await self._ledger.read_content(digest)
        return replace(request, contents={digest: self._contents[digest] for digest in digests}) if digests else request

    async def _claim_conversation(self, keeper: KeepsConversations, request: ModelRequest) -> ModelRequest | None:
        """Record which conversation of the provider the request goes to, and return the request with it. None if it is not wanted."""
        conversation = await keeper.conversation_for(request)
        if not conversation:
            return request
        claim = ConversationClaimed(at=now_ms(), agent=request.agent, conversation=conversation, upto=request.upto)
        recorded = await self._ledger.append(EffectOutcome((claim,)).propose)
        return replace(request, conversation=conversation) if recorded else None

    def _request_reply(self, agent: AgentDefinition, request: ModelRequest, emit: Emit) -> Awaitable[ModelReply]:
        if not agent.middleware:
            return contain_cancellation(agent.model.reply(request, emit))
        was_sent = False

        async def send(request: ModelRequest) -> ModelReply:
            nonlocal was_sent
            if was_sent and request.conversation:  # middleware sends it again, and the provider's conversation has this content already
                request = replace(request, conversation="")
            was_sent = True
            return await contain_cancellation(agent.model.reply(request, emit))

        proceed = send
        for middleware in reversed(agent.middleware):
            proceed = partial(middleware.around_model, proceed=proceed)
        return contain_cancellation(proceed(request))


def build_model_request(
    definition: WorkflowDefinition, state: State, agent: str, digest: str, turn_context: TurnContext
) -> tuple[ModelRequest, ChosenRanges]:
    """Return the request to an agent's model in this state and turn context, and the groups that a custom history policy chose for it."""
    handoff = state.incoming_handoff if state.active_agent == agent else None
    groups, chosen = _choose_groups(state, turn_context.history, find_history_policy(definition, agent, handoff), agent)
    return build_request(state, turn_context, digest, groups, agent), chosen


def _ignore_text(text: str) -> None:
    """Drop the text deltas of a reply that has to be checked against its client's options first."""


def _make_replied_fact(
    reply: Any, request: ModelRequest, chosen: ChosenRanges, agent: AgentDefinition, duration_ms: int, needs_check: bool = False
) -> ModelReplied:
    """Return the fact of a reply; `ModelFailed` if the reply cannot be recorded. `needs_check`: its client's options ask for a format."""
    if not isinstance(reply, ModelReply):
        raise ModelFailed(f"the model gave something that is not a reply: {type(reply).__name__}", do="return a legato.models.ModelReply")
    if not reply.items and reply.finish == "stop":
        raise ModelFailed("the model's reply was empty", retryable=True, usage=reply.usage, do="the model is requested again")
    return ModelReplied(
        at=now_ms(),
        agent=request.agent,
        context_digest=request.context_digest,
        upto=request.upto,
        items=reply.items,
        finish=reply.finish,
        usage=reply.usage,
        model=reply.model or agent.model.name,
        response_id=reply.response_id,
        stored=reply.stored,
        base=reply.base,
        origin=reply.origin,
        stored_digest=reply.stored_digest,
        request_id=reply.request_id,
        kept_groups=chosen,
        losses=reply.losses,
        duration_ms=duration_ms,
        awaits_checks=agent.is_withheld(reply.items, needs_check),
        extra=reply.extra,
    )


def _make_time_limit_fact(
    effect: RequestModel, request: ModelRequest, attempt: int, error: Exception, seconds_left: float, started: float
) -> ModelRequestFailed:
    """Return the fact of a request that was stopped because the seconds that a limit had left were used up."""
    return ModelRequestFailed(
        at=now_ms(),
        agent=effect.agent,
        context_digest=request.context_digest,
        upto=request.upto,
        error=f"the request was stopped after {seconds_left:.1f} s: the time of Limits(seconds=) was used up",
        code="limit",
        attempt=attempt,
        usage=_validate_usage(get_cancelled_usage(error)),
        duration_ms=max(elapsed_ms(started), ceil(seconds_left * 1000)),
        limit="seconds",
    )


def _validate_usage(usage: Any) -> Usage:
    """Return the usage of a failed request; no usage if the model reported anything invalid."""
    if not isinstance(usage, Usage):
        return NO_USAGE
    counts = (count for name, count in asdict(usage).items() if name != "cost" or count is not None)
    return usage if all(type(count) is int and 0 <= count <= MAX_COUNT for count in counts) else NO_USAGE


def _choose_groups(state: State, policy: HistoryPolicy, history: History, agent: str) -> tuple[list[Group], ChosenRanges]:
    """Return the groups that the agent sees, and their ranges if a custom policy chose them."""
    if type(policy) is not Custom or history.choose is None:
        return select_groups(state, policy, agent), None
    everything = select_groups(state, Everything(), agent)
    offered = [_copy_group(group) for group in everything]  # copies, so that user code cannot change the state
    chosen = history.choose(list(offered))
    indexes = {id(group): index for index, group in enumerate(offered)}
    try:
        chosen_indexes = sorted({indexes[id(group)] for group in chosen})
    except (KeyError, TypeError):
        raise BadInput(
            f"the history filter {policy.name!r} returned something that is not among the groups it was given",
            do="return a list of some of the groups, for example [group for group in groups if ...]",
        ) from None
    return [everything[index] for index in chosen_indexes], to_ranges(chosen_indexes)


def _copy_group(group: Group) -> Group:
    copied = copy(group)
    copied.calls, copied._by_index = [copy(call) for call in group.calls], None
    return copied
