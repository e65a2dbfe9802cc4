"""Requests to people, under the framework's names.

A request is computed from the ledger whenever it is shown or answered, so it costs nothing to keep. Its id is made from positions (and,
for a call, from its arguments), so it is the same in every process, after every restore and in every fork.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.events import WorkflowEvent
from legato.compat.agent_framework.messages import AgentResponse, Message
from legato.core.facts import Opened
from legato.core.pending_requests import Pending
from legato.core.planner import derive_status_and_requests, find_active_agent
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import BadInput, NotPending
from legato.runtime.session import Session


@dataclass(frozen=True)
class HandoffAgentUserRequest:
    """It is the user's turn. `agent_response` is what the agent said last."""

    agent_response: AgentResponse

    @staticmethod
    def create_response(response: str | list[str] | Message | list[Message]) -> list[Message]:
        """Return a user's input as the answer to this request."""
        given = response if isinstance(response, list) else [response]
        return [each if isinstance(each, Message) else Message("user", [each]) for each in given]

    @staticmethod
    def terminate() -> list[Message]:
        """Nothing more: the conversation is over, as far as its user is concerned."""
        return []


def requests_from_session(session: Session) -> dict[str, WorkflowEvent]:
    """Return the pending requests of an idle session, by id."""
    if session.status == "waiting":
        agent = find_active_agent(session.state, session.workflow.definition.graph)
        return {(event := _users_turn(session.state, agent)).request_id: event}
    return {(event := render_request(each, session.state.ledger_id)).request_id: event for each in session.pending}


def requests_from_state(state: State) -> dict[str, WorkflowEvent]:
    """Return the pending requests that the ledger alone shows: the user's turn, approvals, calls of unknown outcome.

    A request that depends on a definition (a limit, a deferred tool) or on another ledger (of an agent that works as a tool) is emitted
    when the conversation continues.
    """
    now, pending = derive_status_and_requests(state, WorkflowGraph(name="", agents={}, start=""))
    if now == "waiting":
        return {(event := _users_turn(state, state.active_agent)).request_id: event}
    return {(event := render_request(each, state.ledger_id)).request_id: event for each in pending}


def _users_turn(state: State, agent: str) -> WorkflowEvent:
    last = next(at for at in reversed(range(state.length)) if not isinstance(state.facts[at], Opened))  # a fork only adds an Opened
    reply, text = (state.last_reply.fact, state.last_reply.public_text) if state.last_reply else (None, "")
    words = [Message("assistant", [text], author_name=reply.agent)] if reply and text else []
    response = AgentResponse(messages=words, agent_id=agent, response_id=(reply.response_id or None) if reply else None)
    request = HandoffAgentUserRequest(response)
    return WorkflowEvent("request_info", request, request_id=f"user-{last}", source_executor_id=agent, response_type=list[Message])


def render_request(asked: Pending, ledger: str) -> WorkflowEvent:
    """Return a pending request of a session as an event."""
    # Without the name of this ledger: a fork asks the same. A question out of another one (an agent that works as a tool) keeps its name.
    id = asked.id.removeprefix(f"{ledger[:8]}-")
    call_id = str(asked.call) if id != asked.id else asked.id
    data: Any = asked  # what the framework has no word for is shown as Legato shows it
    answers: Any = bool
    if asked.kind == "approval":
        id = f"{id}-{asked.digest[-12:]}"  # of the call with these arguments, and no other
        called = Content.from_function_call(call_id, asked.tool, arguments=asked.raw_arguments)
        data, answers = Content.from_function_approval_request(id, called), Content
    elif asked.kind in ("result", "outcome"):
        answers = object
    return WorkflowEvent("request_info", data, request_id=id, source_executor_id=asked.agent, response_type=answers)


def find_request(session: Session, id: str) -> Pending:
    """The pending request of this id, as the ledger has it now."""
    for asked in session.pending:
        if render_request(asked, session.state.ledger_id).request_id == id:
            return asked
    raise not_pending(session, id)


def not_pending(session: Session, id: str) -> NotPending:
    return NotPending(
        f"{id!r} is not pending: answered already, overtaken, or never asked in this conversation",
        found=f"pending: {', '.join(requests_from_session(session)) or 'nothing'}",
        do="nothing was changed; run from the newest checkpoint to see what is asked",
    )


async def decide(session: Session, asked: Pending, value: Any) -> None:
    """Record the answer to a request. An approval names the recorded call; arguments that come with it are not looked at."""
    check_answer(asked, value)
    if isinstance(approved := _approved(value), bool) and asked.kind != "result":
        await (session.approve(asked) if approved else session.reject(asked, _words(value)))
    else:
        await session.answer(asked, value)


def check_answer(asked: Pending, value: Any) -> None:
    """Refuse a value that does not answer what was asked."""
    if asked.kind not in ("result", "outcome") and not isinstance(_approved(value), bool):
        raise BadInput(
            f"this cannot answer {asked.prompt!r}",
            expected="request.to_function_approval_response(True), or True or False",
            found=repr(value)[:80],
            do="nothing was changed",
        )


def _approved(value: Any) -> Any:
    return value.approved if isinstance(value, Content) and value.type == "function_approval_response" else value


def _words(value: Any) -> str:
    """Why it was rejected, for the model: `additional_properties={"reason": "..."}` of the response."""
    return str(value.additional_properties.get("reason", "")) if isinstance(value, Content) else ""
