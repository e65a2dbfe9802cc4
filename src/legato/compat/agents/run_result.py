"""The result of a run.

A result is a handle: everything is read from the ledger as it was when the run ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from legato.compat.agents.agent import Agent
from legato.compat.agents.context import RunContextWrapper
from legato.compat.agents.conversation_storage import run_in_loop
from legato.compat.agents.exceptions import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelCallFailed,
    OutputGuardrailTripwireTriggered,
)
from legato.compat.agents.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
)
from legato.compat.agents.items import ModelResponse, RunItem, ToolApprovalItem, TResponseInputItem
from legato.compat.agents.ledger_items import approval_items, groups_of_run, responses_of, run_items
from legato.compat.agents.sessions import items_of
from legato.compat.agents.unsupported_errors import mirrors
from legato.compat.agents.workflow_builder import NO_LIMIT, Team, final_call
from legato.compat.gaps import explain
from legato.core.facts import CallReturned, GuardrailJudged, MessageReceived, ModelReplied, TerminationJudged
from legato.core.messages import render_content
from legato.core.pending_requests import Pending
from legato.core.state import State
from legato.runtime.session import Session

if TYPE_CHECKING:
    from legato.compat.agents.state import RunState

T = TypeVar("T")


@mirrors("RunResult")
class RunResult:
    """A run that has ended, or paused for its people."""

    def __init__(self, team: Team, session: Session, wrapper: RunContextWrapper[Any]) -> None:
        self._team = team
        self._session = session
        self.context_wrapper = wrapper

    @property
    def legato_session(self) -> Session:
        """Ours: the conversation itself, with everything that Legato can do with it."""
        return self._session

    @property
    def _state(self) -> State:
        return self._session.state

    @property
    def input(self) -> str:
        """The user's last message."""
        said = next((fact for fact in reversed(self._state.facts) if isinstance(fact, MessageReceived)), None)
        return render_content(said.content) if said is not None else ""

    @property
    def new_items(self) -> list[RunItem]:
        """The items since the user's last message."""
        graph = self._team.workflow.definition.graph
        return [*run_items(groups_of_run(self._state), graph, self._team.find), *self.interruptions]

    @property
    def raw_responses(self) -> list[ModelResponse]:
        """The replies since the user last spoke: their items, usage and ids as recorded. What else the provider sent is not kept."""
        return responses_of(groups_of_run(self._state))

    @property
    def interruptions(self) -> list[ToolApprovalItem]:
        """The calls that wait for a person. The others of their batch have run, and their outputs are kept."""
        return approval_items(self._session, self._team.find)

    @property
    def final_output(self) -> Any:
        """The last agent's output, of its output type; None while the run waits for a person."""
        return output_of(self._team, self._session)

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """The output, for a type checker; with `raise_if_incorrect_type`, checked."""
        output: T = self.final_output
        if raise_if_incorrect_type and not isinstance(output, cls):
            raise TypeError(f"the output is of type {type(output).__name__}, not {cls.__name__}")
        return output

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that has control."""
        return self._team.find(self._state.active_agent) if self._state.active_agent else self._team.start

    @property
    def last_response_id(self) -> str | None:
        """The provider's id of the newest reply."""
        newest = next((fact for fact in reversed(self._state.facts) if isinstance(fact, ModelReplied)), None)
        return newest.response_id or None if newest is not None else None

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """The verdicts of this run's input guardrails."""
        return [each for each in self.context_wrapper.judged if isinstance(each, InputGuardrailResult)]

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """The verdicts of this run's output guardrails."""
        return [each for each in self.context_wrapper.judged if isinstance(each, OutputGuardrailResult)]

    @property
    def tool_input_guardrail_results(self) -> list[Any]:
        """None: guardrails of tools are not here."""
        return []

    tool_output_guardrail_results = tool_input_guardrail_results

    @property
    def max_turns(self) -> int | None:
        """The number of replies that the run may take."""
        turns = self._team.workflow.definition.graph.limits.turns
        return None if turns == NO_LIMIT else turns

    def release_agents(self, *, release_new_items: bool = True) -> None:
        """Nothing is held that would have to be let go."""
        explain("release_agents()", "a result holds no items; they are made when they are asked for")

    def to_input_list(self, *, mode: str = "preserve_all") -> list[TResponseInputItem]:
        """The whole conversation, by value and always legal to send: given back as input, nothing of it is lost or doubled.

        Either mode is the same list: it is compiled anew, so there is nothing in it to put right.
        """
        state, store, id = self._state, self._session.store, self._session.id
        return run_in_loop(lambda: items_of(state, store, id))

    def to_state(self) -> RunState[Any]:
        """The run as something that can be decided on, written down and gone on with."""
        from legato.compat.agents.state import RunState

        return RunState(self._team, self._session.store, self._session.id, self.context_wrapper)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._session.status}: {self.final_output!r}>"


def output_of(team: Team, session: Session) -> Any:
    """A run's output; None if it has not come to one."""
    state = session.state
    if session.status == "terminated" and (call := final_call(state, team.agents)) is not None:
        return render_content(call.output.content)
    reply = state.last_reply
    if session.status not in ("waiting", "terminated") or reply is None or reply.fact is None or reply.calls or state.unseen_messages:
        return None
    if reply.rejected or reply.awaits_checks:
        return None
    text, kind = reply.public_text, session.workflow.definition.agents.get(reply.agent)
    return kind.output_type.parse(text) if kind is not None and kind.output_type is not None else text


async def tell_end(team: Team, session: Session, wrapper: RunContextWrapper[Any], since: int) -> None:
    """Tell hooks that a run has come to its output, if it was this run: if anything was done since this position."""
    output, speaker = output_of(team, session), session.state.last_reply
    if (
        output is None
        or speaker is None
        or not any(
            isinstance(fact, (ModelReplied, CallReturned, GuardrailJudged, TerminationJudged)) for fact in session.state.facts[since:]
        )
    ):
        return
    agent = team.find(speaker.agent)
    if team.hooks is not None:
        await team.hooks.on_agent_end(wrapper, agent, output)
    if agent.hooks is not None:
        await agent.hooks.on_end(wrapper, agent, output)


def problem_of(result: RunResult) -> AgentsException | None:
    """The exception that the SDK would raise for what a run came to; it carries the result."""
    error = _problem(result)
    if error is not None:
        error.run_data = result
    return error


def _problem(result: RunResult) -> AgentsException | None:
    session = result.legato_session
    if (verdict := _stopped_input(session.state)) is not None:
        return InputGuardrailTripwireTriggered(_input_result(result, verdict))
    if session.status == "failed":
        return ModelCallFailed(f"{session.error}. Nothing is lost: go on with error.run_data.to_state()")
    if session.status == "cancelled":
        return None
    limits = [request for request in session.pending if request.kind == "limit" and request.session == session.id]
    return _limit_problem(result, limits[0]) if limits else None


def _stopped_input(state: State) -> GuardrailJudged | None:
    """The verdict that stopped what was said last."""
    said = max((place for place, fact in enumerate(state.facts) if isinstance(fact, MessageReceived)), default=-1)
    verdicts = (fact for fact in state.facts[said:] if isinstance(fact, GuardrailJudged) and fact.kind == "input")
    return next((verdict for verdict in verdicts if verdict.stop and verdict.position == said), None)


def _limit_problem(result: RunResult, request: Pending) -> AgentsException:
    if request.limit != "output":
        return MaxTurnsExceeded(f"{request.prompt.split(' Approve')[0]} Go on with error.run_data.to_state() and a higher max_turns")
    facts = result.legato_session.state.facts
    verdict = next(fact for fact in reversed(facts) if isinstance(fact, GuardrailJudged) and fact.kind == "output")
    if verdict.guardrail == "output_type":
        return ModelBehaviorError(f"the output does not fit its type: {verdict.reason}")
    return OutputGuardrailTripwireTriggered(_output_result(result, verdict))


def _input_result(result: RunResult, verdict: GuardrailJudged) -> InputGuardrailResult:
    """Return the guardrail's result; for a guardrail that ran in another process, one made from the recorded verdict."""
    for each in reversed(result.input_guardrail_results):
        if each.output.tripwire_triggered and each.guardrail.get_name() == verdict.guardrail:
            return each
    return InputGuardrailResult(InputGuardrail(_gone, verdict.guardrail), GuardrailFunctionOutput(verdict.reason, True))


def _output_result(result: RunResult, verdict: GuardrailJudged) -> OutputGuardrailResult:
    for each in reversed(result.output_guardrail_results):
        if each.output.tripwire_triggered and each.guardrail.get_name() == verdict.guardrail:
            return each
    output = GuardrailFunctionOutput(verdict.reason, True)
    return OutputGuardrailResult(OutputGuardrail(_gone, verdict.guardrail), None, result.last_agent, output)


def _gone(*given: Any) -> GuardrailFunctionOutput:
    raise RuntimeError("this guardrail ran in another process")
