"""The SDK's tracing, by name. Decides: nothing. It is accepted and records nothing: the ledger has what happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from legato.compat.agents.exceptions import means_nothing

LEDGER = "no trace is sent anywhere; the ledger records what happened"


@contextmanager
def trace(workflow_name: str, trace_id: str | None = None, group_id: str | None = None, **rest: Any) -> Iterator[None]:
    """A block that the SDK would trace as one."""
    means_nothing("trace(...)", LEDGER)
    yield


def set_tracing_disabled(disabled: bool) -> None:
    """Nothing is traced either way."""


def set_tracing_export_api_key(api_key: str) -> None:
    """Nothing is exported, so the key is not kept."""
    means_nothing("set_tracing_export_api_key(...)", LEDGER)


def gen_trace_id() -> str:
    """A name of the form that the SDK gives its traces."""
    from legato.drive.clock import fresh_name

    return f"trace_{fresh_name()}"


def enable_verbose_stdout_logging() -> None:
    """Nothing is logged; events can be printed."""
    means_nothing("enable_verbose_stdout_logging()", "print the events of Legato's session.run(...), or session.facts")
