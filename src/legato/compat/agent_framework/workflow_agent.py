"""A workflow as one agent: requests travel in messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar

from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.events import ResponseStream, WorkflowEvent
from legato.compat.agent_framework.message_conversion import as_list
from legato.compat.agent_framework.messages import AgentResponse, AgentResponseUpdate, Message
from legato.compat.agent_framework.providers import AgentSession
from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.compat.agent_framework.workflow import Workflow


@dataclass(frozen=True)
class RequestInfoFunctionArgs:
    """A request of the workflow, in the arguments of a call named `request_info`."""

    request_id: str
    request_event: WorkflowEvent

    @property
    def data(self) -> Any:
        return self.request_event.data

    def to_dict(self) -> dict[str, Any]:
        return {"request_id": self.request_id, "request_event": self.request_event, "data": self.data}

    @classmethod
    def from_dict(cls, payload: dict[str, Any], **_: Any) -> RequestInfoFunctionArgs:
        return cls(payload["request_id"], payload["request_event"])


@mirrors("WorkflowAgent")
class WorkflowAgent:
    """A workflow that is asked like an agent. Its conversation is the workflow's, or the one that an `AgentSession` names."""

    REQUEST_INFO_FUNCTION_NAME: ClassVar[str] = "request_info"
    RequestInfoFunctionArgs: ClassVar[type[RequestInfoFunctionArgs]] = RequestInfoFunctionArgs

    def __init__(self, workflow: Workflow, *, name: str | None = None, id: str | None = None, description: str | None = None) -> None:
        self.workflow = workflow
        self.name = name or workflow.name
        self.id = id or self.name
        self.description = description or workflow.description

    def __repr__(self) -> str:
        return f"<WorkflowAgent {self.name}>"

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        return AgentSession(session_id=session_id)

    get_new_thread = create_session  # what it was called before

    def run(
        self,
        messages: Any = None,
        *,
        stream: bool = False,
        session: AgentSession | None = None,
        thread: AgentSession | None = None,
        checkpoint_id: str | None = None,
        **more: Any,
    ) -> Any:
        """Ask the workflow: await an `AgentResponse`, or with `stream=True` iterate over updates.

        What it asks comes as contents: an approval as `function_approval_request`, the user's turn as a call named `request_info`.
        Answer with a message of approval responses and function results, or simply with text when it is the user's turn.
        """
        named = session or thread
        coming = ResponseStream(self._updates(messages, named, checkpoint_id, stream, more), self._response)
        return coming if stream else coming.get_final_response()

    async def _updates(
        self, messages: Any, named: AgentSession | None, checkpoint_id: str | None, stream: bool, more: dict[str, Any]
    ) -> AsyncIterator[AgentResponseUpdate]:
        answers = _answers(messages)
        about = {"responses": answers} if answers else {"message": messages}
        events = self.workflow.run(
            **about, stream=True, checkpoint_id=checkpoint_id, session_id=named.session_id if named else None, **more
        )
        async for event in events:
            if event.type == "output" and isinstance(event.data, AgentResponseUpdate):
                yield event.data
            elif event.type == "request_info":
                yield AgentResponseUpdate(contents=[_render_request(event)], author_name=event.source_executor_id)

    def _response(self, updates: list[AgentResponseUpdate]) -> AgentResponse:
        return AgentResponse.from_updates(updates, agent_id=self.id)


def _render_request(event: WorkflowEvent) -> Content:
    if isinstance(event.data, Content):
        return event.data
    arguments = RequestInfoFunctionArgs(event.request_id, event).to_dict()
    return Content.from_function_call(event.request_id, WorkflowAgent.REQUEST_INFO_FUNCTION_NAME, arguments=arguments)


def _answers(messages: Any) -> dict[str, Any]:
    """The answers to requests among what was handed to `run`, by id."""
    answers: dict[str, Any] = {}
    for each in as_list(messages):
        for content in each.contents if isinstance(each, Message) else [each]:
            if isinstance(content, Content) and content.type == "function_approval_response" and content.id:
                answers[content.id] = content
            elif isinstance(content, Content) and content.type == "function_result" and content.call_id:
                answers[content.call_id] = content.result
    return answers
