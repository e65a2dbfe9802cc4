"""The input of users: messages, and decisions about the requests of a session.

Input is checked when it is given, and again against the state in which it is recorded: a person may answer late, by mistake, or as one of
several. A delivery that comes again (with the same key) is compared with what it would have recorded the first time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from legato.core.argument_checks import require_text
from legato.core.facts import NO_OPTIONS, AnyFact, Content, Decided, MessageReceived, Opened, RunOptions, StandingApproval
from legato.core.messages import parse_message
from legato.core.pending_requests import Pending, Verdict
from legato.core.planner import find_pending_request, make_plan, needs_input_check
from legato.core.run_definitions import check_options
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import BadInput, LegatoError, NotPending
from legato.runtime.clock import new_id, now_ms
from legato.runtime.ledger import fold_in_slices
from legato.tools import BadArguments, ClientTool, options_of

if TYPE_CHECKING:
    from legato.runtime.definition import WorkflowDefinition


class UserInput(Struct, frozen=True):
    """A user's message, and its client's options for the run. `contents` are the bytes that both name."""

    content: Content
    contents: Mapping[str, bytes]
    key: str = ""
    options: RunOptions = NO_OPTIONS

    def make_facts(self, state: State, graph: WorkflowGraph) -> Iterator[AnyFact]:
        """Yield the facts of the message in this state; none if the delivery was recorded before. `BadInput` if it cannot be recorded."""
        message = MessageReceived(
            at=now_ms(), content=self.content, key=self.key, options=self.options if self.options != NO_OPTIONS else None
        )
        if self.key and self.key in state.delivery_keys:
            recorded = state.facts[state.delivery_keys[self.key]]
            awaits_guardrails = isinstance(recorded, MessageReceived) and recorded.awaits_guardrails
            check_same_delivery(state, self.key, replace(message, awaits_guardrails=awaits_guardrails))
            return
        check_options(graph, self.options)
        if not state.facts:
            yield Opened(at=now_ms(), ledger_id=new_id(), workflow=graph.name)
        yield replace(message, awaits_guardrails=needs_input_check(state, graph))
        if graph.agents:  # without agents, only the name of the workflow is known here, and the driver checks
            from legato.runtime.driver import check_agent_exists  # late, because importing the driver takes long

            check_agent_exists(state, graph)  # if it raises here, nothing is recorded


def make_user_input(
    message: Any,
    key: str | None = None,
    tools: Iterable[ClientTool] = (),
    output_schema: Mapping[str, Any] | None = None,
    tool_required: bool = False,
) -> UserInput:
    """Return the input of a message with its client's options; `BadInput` if either is invalid."""
    content, contents = parse_message(message)
    options, definitions = options_of(tools, output_schema, tool_required)
    return UserInput(content, {**contents, **definitions}, validate_key(key), options)


class UserDecision(Struct, frozen=True):
    """A person's decision about a request, before it is recorded."""

    request: Pending | str
    verdict: Verdict
    key: str
    reason: str = ""
    arguments: str = ""
    output: Content = ""
    always: bool = False
    options: RunOptions | None = None
    """The client's options of the run from here on. None: unchanged."""

    @property
    def request_id(self) -> str:
        """The id of the request that is answered."""
        return self.request.id if isinstance(self.request, Pending) else self.request

    def make_fact(self, state: State, definition: WorkflowDefinition) -> Decided:
        """Return the fact of the decision in this state; `NotPending` if no request is pending that it answers."""
        request = self._find_request(state, definition)
        if self.verdict not in request.verdicts:
            raise NotPending(
                f"{request.id!r} asks for {request.kind}: it cannot be answered with {self.verdict!r}",
                expected=" or ".join(request.verdicts),
                do="nothing was changed",
            )
        options = self._find_changed_options(state, request, definition.graph)
        if self.verdict == "edit":
            _check_edit(request, self.arguments, definition)
        return Decided(
            at=now_ms(),
            kind=request.kind,
            verdict=self.verdict,
            call=request.call,
            limit=request.limit,
            digest=request.digest,
            reason=self.reason,
            arguments=self.arguments,
            output=self.output,
            standing=StandingApproval(request.agent, request.tool) if self.always and request.call else None,
            key=self.key,
            options=options,
        )

    def _find_changed_options(self, state: State, request: Pending, graph: WorkflowGraph) -> RunOptions | None:
        """Return the client's options of the run from here on; None if they do not change."""
        current = state.run_options
        if self.options is None:  # after a required call, the next reply may be the answer
            return replace(current, required=False) if current.required and request.for_client else None
        if self.options == current:
            return None
        check_options(graph, self.options)
        return self.options

    def _find_request(self, state: State, definition: WorkflowDefinition) -> Pending:
        request = find_pending_request(state, definition.graph, self.request_id)
        if request is None:
            pending = make_plan(state, definition.graph).requests
            raise NotPending(
                f"{self.request_id!r} is not pending in session {state.session_id!r}: already answered, superseded, or never pending here",
                found=f"pending: {', '.join(each.id for each in pending) or 'nothing'}",
                do="nothing was changed; look at what is pending now",
            )
        if isinstance(self.request, Pending) and self.request.digest != request.digest:
            raise NotPending(
                f"the answer to {self.request_id!r} was given for other arguments",
                expected=f"digest {request.digest}",
                found=f"digest {self.request.digest}",
                do="nothing was changed; look again at what is pending",
            )
        return request


def encode_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the JSON of arguments that a person gives in place of a model's."""
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"these arguments are not JSON: {error}", do="give a dict of plain values") from None


def _check_edit(request: Pending, arguments: str, definition: WorkflowDefinition) -> None:
    agent = definition.agents.get(request.agent)
    tool = agent.tools.get(request.tool) if agent else None
    try:
        if tool is not None:
            tool.validate(arguments)
    except BadArguments as error:
        raise BadInput(f"{request.tool!r} cannot run with these arguments: {error}", do="nothing was changed") from None


def validate_key(key: str | None) -> str:
    """Return the key by which a sender identifies a delivery; an empty string for None."""
    if key is not None:
        require_text("the key of a delivery", key)
    return key or ""


async def check_same_decision(state: State, decision: UserDecision, definition: WorkflowDefinition) -> None:
    """Raise `BadInput` if the key of a decision was used for another delivery."""
    state_before = await fold_in_slices(state.facts[: state.delivery_keys[decision.key]], state.session_id)
    try:
        fact = decision.make_fact(state_before, definition)
    except LegatoError:  # its request was not pending then
        fact = None
    check_same_delivery(state, decision.key, fact)


def check_same_delivery(state: State, key: str, fact: AnyFact | None) -> None:
    """Raise `BadInput` if a key was used for something else than `fact`, which this delivery would have recorded then."""
    position = state.delivery_keys[key]
    recorded = state.facts[position]
    if position in state.redactions.facts:
        return  # its text was erased, so it cannot be compared
    if fact is None or replace(fact, at=recorded.at) != recorded:
        raise BadInput(
            f"the key {key!r} was used before for something else",
            found=f"{type(recorded).__name__} at position {position}",
            do="use a new key for each new message or answer; nothing was changed",
        )
