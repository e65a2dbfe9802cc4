"""OpenTelemetry for workflows, by the GenAI semantic conventions. Needs the extra `telemetry`; the SDK and its exporters are the user's.

Off unless a workflow is instrumented; then every run is a trace: `invoke_workflow`, in it `invoke_agent` for each agent that had control,
in that `chat` for each call of a model and `execute_tool` for each attempt of a tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legato.errors import BadInput, install_hint
from legato.workflow.workflow import Workflow

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument"]


def instrument(
    workflow: Workflow,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> Workflow:
    """The same workflow, whose runs are measured. Without providers the global ones are used.

    `content=True` also records what was said: messages, arguments of tools, their outputs, words of errors. Arguments marked `Secret` are
    never part of it, nor is the caller's context.

        desk = instrument(desk)
    """
    if not isinstance(workflow, Workflow):
        raise BadInput("only a workflow can be instrumented", found=type(workflow).__name__, do="write instrument(builder.build())")
    try:
        from legato.telemetry.spans import Telemetry
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise BadInput("telemetry needs the package 'opentelemetry-api'", do=install_hint("telemetry")) from None
    return workflow.watched_by(Telemetry.of(tracer_provider, meter_provider, content))
