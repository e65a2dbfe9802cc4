"""The events of a running workflow, under the framework's names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from types import GenericAlias
from typing import Any, ClassVar, Generic, TypeVar

from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.errors import BadInput

T = TypeVar("T")
F = TypeVar("F")


class WorkflowRunState(StrEnum):
    """The state of a run."""

    STARTED = "STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    IN_PROGRESS_PENDING_REQUESTS = "IN_PROGRESS_PENDING_REQUESTS"
    IDLE = "IDLE"
    IDLE_WITH_PENDING_REQUESTS = "IDLE_WITH_PENDING_REQUESTS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@mirrors("WorkflowErrorDetails")
@dataclass(frozen=True)
class WorkflowErrorDetails:
    """Why a run failed. The conversation is not lost: run again from its newest checkpoint."""

    error_type: str
    message: str
    traceback: str | None = None
    executor_id: str | None = None
    extra: dict[str, Any] | None = None


@dataclass(frozen=True)
class HandoffSentEvent:
    """Control passed."""

    source: str
    target: str


@mirrors("WorkflowEvent")
class WorkflowEvent:
    """Something that happened: `type` is one of started, status, output, handoff_sent, request_info, warning, failed."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # `WorkflowEvent[HandoffAgentUserRequest]`, as programs annotate it

    def __init__(
        self,
        type: str,
        data: Any = None,
        *,
        state: WorkflowRunState | None = None,
        details: WorkflowErrorDetails | None = None,
        executor_id: str | None = None,
        request_id: str | None = None,
        source_executor_id: str | None = None,
        response_type: Any = None,
    ) -> None:
        self.type = type
        self.data = data
        self.state = state
        self.details = details
        self.executor_id = executor_id
        self._request_id = request_id
        self._source_executor_id = source_executor_id
        self._response_type = response_type

    @property
    def request_id(self) -> str:
        return self._of_request(self._request_id)

    @property
    def source_executor_id(self) -> str:
        """The agent that asks."""
        return self._of_request(self._source_executor_id)

    @property
    def request_type(self) -> type[Any]:
        self._of_request(self._request_id)
        return type(self.data)

    @property
    def response_type(self) -> Any:
        """The type of the answer: `list[Message]` for the user's turn, `Content` for an approval."""
        self._of_request(self._request_id)
        return self._response_type

    @property
    def iteration(self) -> None:
        """Nothing: only events of supersteps have one, and there are none here."""

    def _of_request(self, value: str | None) -> str:
        if value is None:
            raise BadInput("only an event of type 'request_info' has this", found=f"an event of type {self.type!r}")
        return value

    def __repr__(self) -> str:
        told = self.state.value if self.state else self.data
        return f"<WorkflowEvent {self.type}: {told!r}>"


class WorkflowRunResult(list[WorkflowEvent]):
    """All events of a run that was awaited, without those of type status."""

    def __init__(self, events: list[WorkflowEvent], *, include_status_events: bool = False) -> None:
        self._statuses = [event for event in events if event.type == "status"]
        super().__init__(event for event in events if include_status_events or event.type != "status")

    def get_outputs(self) -> list[Any]:
        return [event.data for event in self if event.type == "output"]

    def get_intermediate_outputs(self) -> list[Any]:
        return []

    def get_request_info_events(self) -> list[WorkflowEvent]:
        return [event for event in self if event.type == "request_info"]

    def get_final_state(self) -> WorkflowRunState:
        return self._statuses[-1].state or WorkflowRunState.IDLE

    def status_timeline(self) -> list[WorkflowEvent]:
        return list(self._statuses)


@mirrors("ResponseStream")
class ResponseStream(Generic[T, F]):
    """Updates as they arrive. `get_final_response()` reads the rest of the stream and returns the complete response."""

    def __init__(self, coming: AsyncIterator[T], finish: Callable[[list[T]], F]) -> None:
        self._coming = coming
        self._finish = finish
        self._came: list[T] = []

    @property
    def updates(self) -> list[T]:
        """The updates that have arrived so far."""
        return list(self._came)

    def __aiter__(self) -> ResponseStream[T, F]:
        return self

    async def __anext__(self) -> T:
        each = await anext(self._coming)
        self._came.append(each)
        return each

    async def get_final_response(self) -> F:
        async for _ in self:
            pass
        return self._finish(self._came)
