"""OpenTelemetry for workflows, by the GenAI semantic conventions. Needs the extra `telemetry`; the user installs the SDK and exporters.

Only instrumented workflows are traced. Each run is a trace: `invoke_workflow`, in it `invoke_agent` for each agent that had control, in
that `chat` for each model request and `execute_tool` for each attempt of a tool.
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
    """Return the workflow with telemetry for its runs. Without providers the global ones are used.

    `content=True` also records messages, tool arguments, tool outputs and the text of errors. Arguments marked `Secret` are
    never recorded, nor is the caller's context.

        desk = instrument(desk)
    """
    if not isinstance(workflow, Workflow):
        raise BadInput("only a workflow can be instrumented", found=type(workflow).__name__, do="write instrument(builder.build())")
    try:
        from legato.telemetry.spans import OpenTelemetryInstrumentation
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise BadInput("telemetry needs the package 'opentelemetry-api'", do=install_hint("telemetry")) from None
    return workflow.with_instrumentation(OpenTelemetryInstrumentation.create(tracer_provider, meter_provider, content))
