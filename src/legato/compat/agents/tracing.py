"""The SDK's tracing, by name. It is accepted and records nothing: the ledger has what happened."""

from __future__ import annotations

from typing import Any

from legato.compat.gaps import explain
from legato.runtime.clock import new_id

LEDGER = "no trace is sent anywhere; the ledger records what happened"


class Untraced:
    """Stands where the SDK has a trace or a span: a block that can be entered, started and finished, and leaves no trace."""

    def __init__(self, name: str = "", trace_id: str | None = None) -> None:
        self.name = name
        self.trace_id = trace_id or gen_trace_id()

    def __enter__(self) -> Untraced:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def start(self, mark_as_current: bool = False) -> None:
        """Nothing starts."""

    def finish(self, reset_current: bool = False) -> None:
        """Nothing ends."""


def trace(workflow_name: str, trace_id: str | None = None, group_id: str | None = None, **rest: Any) -> Untraced:
    """A block that the SDK would trace as one."""
    explain("trace(...)", LEDGER)
    return Untraced(workflow_name, trace_id)


def custom_span(name: str = "", *details: Any, **rest: Any) -> Untraced:
    """A block that the SDK would record as a span of its trace. All kinds of spans are this one."""
    explain("a span", LEDGER)
    return Untraced(name)


agent_span = function_span = generation_span = guardrail_span = handoff_span = mcp_tools_span = response_span = custom_span
speech_group_span = speech_span = task_span = transcription_span = turn_span = custom_span


def get_current_trace() -> None:
    """There is none."""


def get_current_span() -> None:
    """There is none."""


def flush_traces() -> None:
    """Nothing waits to be sent."""


def set_tracing_disabled(disabled: bool) -> None:
    """Nothing is traced either way."""


def set_tracing_export_api_key(api_key: str) -> None:
    """Nothing is exported, so the key is not kept."""
    explain("set_tracing_export_api_key(...)", LEDGER)


def gen_trace_id() -> str:
    """A name of the form that the SDK gives its traces."""
    return f"trace_{new_id()}"


def gen_span_id() -> str:
    """A name of the form that the SDK gives its spans."""
    return f"span_{new_id()[:24]}"


def enable_verbose_stdout_logging() -> None:
    """Nothing is logged; events can be printed."""
    explain("enable_verbose_stdout_logging()", "print the events of Legato's session.run(...), or session.facts")
