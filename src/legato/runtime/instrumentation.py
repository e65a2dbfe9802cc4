"""The protocols of instrumentation, which measures what drivers do (`legato.telemetry`).

Like streaming, instrumentation observes the one loop of the driver and does not change it. It can wrap model requests and tool runs, to
measure them and to give a trace context to what they do; and it sees every fact. Only facts say how something ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from legato.core.facts import AnyFact, CallRef
from legato.core.pending_requests import Pending
from legato.core.state import State
from legato.core.view import ModelRequest

if TYPE_CHECKING:
    from legato.runtime.definition import WorkflowDefinition


class DriveInstrumentation(Protocol):
    """The instrumentation of one drive of one session."""

    def around_model_request(self, request: ModelRequest) -> AbstractContextManager[None]:
        """Return a context manager around one attempt at a model request."""
        ...

    def around_tool_run(self, agent: str, tool: str, call: CallRef, attempt: int) -> AbstractContextManager[None]:
        """Return a context manager around one attempt of a tool, in the tool's own task. It may end long after the drive."""
        ...

    def on_fact(self, fact: AnyFact, position: int, state: State, is_leading: bool) -> None:
        """Observe a fact that this driver or another one recorded. `is_leading`: this driver has the lease."""
        ...

    def on_end(self, status: str, requests: Sequence[Pending], error: BaseException | None) -> None:
        """Observe the end of the drive."""
        ...


class Instrumentation(Protocol):
    """The instrumentation of a workflow, which observes every drive of its sessions."""

    def start_drive(self, definition: WorkflowDefinition, session_id: str) -> DriveInstrumentation:
        """Return the instrumentation of a new drive."""
        ...
