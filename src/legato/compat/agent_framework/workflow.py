"""The workflow under the framework's names.

Theirs holds a conversation; this one holds the *name* of one, and a store. Everything else is read from the ledger, so an object that is
made anew from the same store and a checkpoint goes on exactly where this one stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from legato.compat.agent_framework.checkpoints import CheckpointStorage, InMemoryCheckpointStorage, checkpoint_id_of, no_such, place_of
from legato.compat.agent_framework.events import (
    HandoffSentEvent,
    ResponseStream,
    WorkflowErrorDetails,
    WorkflowEvent,
    WorkflowRunResult,
    WorkflowRunState,
)
from legato.compat.agent_framework.message_conversion import convert_input, convert_message
from legato.compat.agent_framework.messages import AgentResponse, Message
from legato.compat.agent_framework.requests import (
    HandoffAgentUserRequest,
    check_answer,
    decide,
    find_request,
    not_pending,
    requests_from_session,
)
from legato.compat.agent_framework.unsupported_errors import check_arguments, mirrors
from legato.compat.agent_framework.updates import update_of
from legato.errors import BadInput, ModelFailed
from legato.runtime.clock import new_id
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.workflow.workflow import Workflow as NativeWorkflow

if TYPE_CHECKING:
    from legato.compat.agent_framework.workflow_agent import WorkflowAgent

_STATES = {
    "waiting": WorkflowRunState.IDLE_WITH_PENDING_REQUESTS,
    "pending": WorkflowRunState.IDLE_WITH_PENDING_REQUESTS,
    "failed": WorkflowRunState.FAILED,
    "cancelled": WorkflowRunState.CANCELLED,
}


@mirrors("Workflow")
class Workflow:
    """A definition (`native`), a storage, and the id of the conversation that `run` goes on with."""

    def __init__(self, native: NativeWorkflow, storage: CheckpointStorage | None = None, session_id: str | None = None) -> None:
        self.native = native
        self.storage = storage if storage is not None else InMemoryCheckpointStorage()
        self.session_id = session_id or new_id()

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def description(self) -> str:
        return self.native.description

    @property
    def id(self) -> str:
        """The unique name of this workflow: its conversation's id. Two workflows that were built alike have different ones."""
        return self.session_id

    @property
    def start_executor_id(self) -> str:
        """The agent that speaks first."""
        return self.native.definition.graph.start

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: conversation {self.session_id}>"

    def session(self, context: Any = None) -> Session:
        """The conversation as a native session: everything that Legato can do with one."""
        return self.native.session(self.session_id, store=self.storage.store, context=context)

    def run(
        self,
        message: Any = None,
        *,
        stream: bool = False,
        responses: Mapping[str, Any] | None = None,
        checkpoint_id: str | None = None,
        checkpoint_storage: CheckpointStorage | None = None,
        session_id: str | None = None,
        include_status_events: bool = False,
        function_invocation_kwargs: Mapping[str, Any] | None = None,
        tools: Any = None,
        client_kwargs: Any = None,
    ) -> Any:
        """Say something, answer requests, or go on from a checkpoint. Await a `WorkflowRunResult`, or with `stream=True` iterate.

        `checkpoint_id`: the newest point of a conversation goes on in it; an older one, or one that was gone on from, goes on in a fork of
        its own. With neither message nor responses, what is owed is done and what is pending is shown again.
        """
        check_arguments("Workflow.run", {"tools": tools, "client_kwargs": client_kwargs})
        if message is not None and responses is not None:
            raise BadInput("a run says something or answers requests, not both", do="pass message or responses")
        if message is None and responses is None and checkpoint_id is None and session_id is None:
            raise BadInput("there is nothing to run", do="pass a message, responses=, checkpoint_id= or session_id=")
        if checkpoint_storage is not None:
            self.storage = checkpoint_storage
        if session_id is not None:
            self.session_id = session_id
        events = self._events(message, responses, checkpoint_id, stream, function_invocation_kwargs)
        finish = partial(WorkflowRunResult, include_status_events=include_status_events)
        coming = ResponseStream(events, finish)
        return coming if stream else coming.get_final_response()

    def run_stream(self, message: Any = None, **more: Any) -> Any:
        """The same with `stream=True`, as it was written before."""
        return self.run(message, stream=True, **more)

    def send_responses_streaming(self, responses: Mapping[str, Any], **more: Any) -> Any:
        """Answer requests and stream, as it was written before."""
        return self.run(responses=responses, stream=True, **more)

    def send_responses(self, responses: Mapping[str, Any], **more: Any) -> Any:
        """Answer requests, as it was written before."""
        return self.run(responses=responses, **more)

    async def get_last_checkpoint_id(self) -> str | None:
        """Return the newest checkpoint of the conversation; None if it has no messages."""
        session = await self.session().refresh()
        return checkpoint_id_of(session.id, session.state.length) if session.state.length else None

    def as_agent(self, name: str | None = None, **more: Any) -> WorkflowAgent:
        """This workflow as one agent."""
        from legato.compat.agent_framework.workflow_agent import WorkflowAgent

        return WorkflowAgent(self, name=name, **more)

    # -- a run ---------------------------------------------------------------------------------------------------------

    async def _events(
        self, message: Any, responses: Mapping[str, Any] | None, checkpoint_id: str | None, stream: bool, context: Any
    ) -> AsyncIterator[WorkflowEvent]:
        yield WorkflowEvent("started")
        yield _status(WorkflowRunState.IN_PROGRESS)
        if checkpoint_id is not None:
            await self._restore(checkpoint_id)
        session = self.session(context)
        run: Run | None
        if responses is not None:
            run = await _record_answers(session, responses, stream)
        else:
            run = session.run(convert_input(message), stream) if message is not None else session.resume(stream)
        if run is None:  # nothing more: no request is left, and there is nothing to record
            yield _transcript(session)
            yield _status(WorkflowRunState.IDLE)
            return
        async for event in run:
            for each in _convert_event(event, session, stream):
                yield each
        if session.status == "failed":
            raise ModelFailed(session.error, do="the conversation is kept: run again with its newest checkpoint")

    async def _restore(self, checkpoint_id: str) -> None:
        """Make the point the conversation of this workflow: itself, if nothing came after it, or a fork from there."""
        id, position = place_of(checkpoint_id)
        session = await self.native.session(id, store=self.storage.store).refresh()
        length = session.state.length
        if not 0 < position <= length:
            raise no_such(checkpoint_id, length)
        self.session_id = id if position == length else (await session.fork(position)).id


async def _record_answers(session: Session, responses: Mapping[str, Any], stream: bool) -> Run | None:
    """Record answers, and go on; None if the user has nothing more to say. If one of them answers nothing, none is recorded."""
    await session.refresh()
    asked = requests_from_session(session)
    for id in responses:
        if id not in asked:
            raise not_pending(session, id)
    for id, value in responses.items():
        if isinstance(asked[id].data, HandoffAgentUserRequest):
            messages = HandoffAgentUserRequest.create_response(value)
            return session.run(convert_input(messages), stream) if messages else None
    for id, value in responses.items():
        check_answer(find_request(session, id), value)
    for id, value in responses.items():
        await decide(session, find_request(session, id), value)
    return session.resume(stream)


def _convert_event(event: Event, session: Session, stream: bool) -> Iterator[WorkflowEvent]:
    """The events of theirs that one of ours is."""
    data = event.data
    match event.type:
        case "output" if not stream:
            answer = Message("assistant", [data.text], author_name=data.author_name)
            yield WorkflowEvent("output", AgentResponse(messages=[answer], agent_id=data.author_name), executor_id=data.author_name)
        case "output" | "tool_started" | "tool_returned" if stream and (update := update_of(event)) is not None:
            yield WorkflowEvent("output", update, executor_id=update.author_name)
        case "output_reset":
            yield WorkflowEvent("warning", f"{data.author_name} was interrupted: what it was saying is withdrawn, and said again")
        case "loss":
            yield WorkflowEvent("warning", data)
        case "handoff_sent":
            yield WorkflowEvent("handoff_sent", HandoffSentEvent(data.source, data.target), executor_id=data.source)
        case "status":
            yield from requests_from_session(session).values()
            if data == "terminated":
                yield _transcript(session)
            if data == "failed":
                yield WorkflowEvent("failed", details=WorkflowErrorDetails("ModelFailed", session.error))
            yield _status(_STATES.get(data, WorkflowRunState.IDLE))


def _transcript(session: Session) -> WorkflowEvent:
    return WorkflowEvent("output", [convert_message(message) for message in session.messages])


def _status(state: WorkflowRunState) -> WorkflowEvent:
    return WorkflowEvent("status", state=state)
