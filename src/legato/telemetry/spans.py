"""Spans and metrics of drives, by OpenTelemetry's API.

A span begins when a model is requested or a tool is started, and the fact that is recorded about it says how it ended. A trace is one run:
spans survive neither a kill nor a resume, and the ledger has nothing of them. The id of the conversation joins the runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from msgspec import Struct
from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider, set_span_in_context, use_span

from legato.core.facts import (
    AgentPrompted,
    AnyFact,
    ApprovalChecked,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    Cancelled,
    Compacted,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    TerminationJudged,
    Usage,
)
from legato.core.messages import render_content
from legato.core.pending_requests import Pending
from legato.core.secret_arguments import mask_arguments
from legato.core.state import State
from legato.core.view import ModelRequest
from legato.runtime.definition import WorkflowDefinition
from legato.telemetry.attributes import (
    DURATION_BUCKETS_S,
    TOKEN_BUCKETS,
    Attributes,
    model_attributes,
    render_message,
    render_reply,
    reply_attributes,
    usage_attributes,
)


class OpenTelemetryInstrumentation(Struct, frozen=True, eq=False):
    """The instrumentation that creates spans for each drive of a workflow."""

    tracer: Tracer
    token_histogram: Histogram
    duration_histogram: Histogram
    records_content: bool

    @classmethod
    def create(
        cls, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None, content: bool
    ) -> OpenTelemetryInstrumentation:
        meter = metrics.get_meter("legato", version("legato"), meter_provider)
        return cls(
            tracer=trace.get_tracer("legato", version("legato"), tracer_provider),
            token_histogram=meter.create_histogram(
                "gen_ai.client.token.usage", "{token}", "Tokens used.", explicit_bucket_boundaries_advisory=TOKEN_BUCKETS
            ),
            duration_histogram=meter.create_histogram(
                "gen_ai.client.operation.duration",
                "s",
                "Duration of the operation.",
                explicit_bucket_boundaries_advisory=DURATION_BUCKETS_S,
            ),
            records_content=content,
        )

    def start_drive(self, definition: WorkflowDefinition, session: str) -> DriveSpans:
        return DriveSpans(self, definition, session)


class OpenSpan(Struct, eq=False):
    """A span that has begun, and what is known about its end."""

    span: Span
    started_at: float
    ended_at_ns: int | None = None
    """When the work ended, if it has."""
    error: str = ""


class DriveSpans:
    """The spans of one drive."""

    def __init__(self, telemetry: OpenTelemetryInstrumentation, definition: WorkflowDefinition, session: str) -> None:
        self._instrumentation = telemetry
        self._definition = definition
        self._session = session
        self._started_at = time.perf_counter()
        name = definition.graph.name
        self._workflow = self._start_span(f"invoke_workflow {name}", "invoke_workflow", None, {"gen_ai.workflow.name": name})
        self._agent: tuple[str, Span] | None = None
        self._agent_usage = Usage()
        self._chat: OpenSpan | None = None
        self._tools: dict[tuple[CallRef, int], OpenSpan] = {}

    # -- work in progress --------------------------------------------------------------------------------------------------

    @contextmanager
    def around_model_request(self, request: ModelRequest) -> Iterator[None]:
        """Start a `chat` span, and make it current while the model's client runs."""
        model = model_attributes(self._definition.agents[request.agent].model.name)
        attributes = {**model, "gen_ai.agent.name": request.agent, "legato.attempt": request.attempt}
        span = self._start_span(
            f"chat {model['gen_ai.request.model']}", "chat", self._switch_agent_span(request.agent), attributes, SpanKind.CLIENT
        )
        self._end_unrecorded_chat()
        self._chat = OpenSpan(span, time.perf_counter())
        with self._use_span(self._chat):
            yield

    @contextmanager
    def around_tool_run(self, agent: str, tool: str, call: CallRef, attempt: int) -> Iterator[None]:
        """Start an `execute_tool` span, and make it current while the tool runs: an agent as a tool starts its own workflow span in it."""
        attributes = {**_tool_attributes(tool, call), "gen_ai.agent.name": agent, "legato.attempt": attempt}
        span = self._start_span(f"execute_tool {tool}", "execute_tool", self._switch_agent_span(agent), attributes)
        open_span = self._tools[call, attempt] = OpenSpan(span, time.perf_counter())
        with self._use_span(open_span):
            yield

    @contextmanager
    def _use_span(self, open_span: OpenSpan) -> Iterator[None]:
        try:
            with use_span(open_span.span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            open_span.error = type(error).__name__
            raise
        finally:
            open_span.ended_at_ns = time.time_ns()

    # -- recorded facts ----------------------------------------------------------------------------------------------------

    def on_fact(self, fact: AnyFact, position: int, state: State, is_leading: bool) -> None:
        """End the span of a fact, or record the fact as a span or an event."""
        match fact:
            case MessageReceived():
                self._add_event("legato.said", position)
                if self._instrumentation.records_content:
                    self._workflow.set_attribute("gen_ai.input.messages", render_message("user", fact.content))
            case ModelReplied():
                self._on_model_reply(fact, position, state)
            case ModelRequestFailed():
                self._on_model_failure(fact, position)
            case CallReturned():
                self._on_call_returned(fact, position, state)
            case CallLost() | CallPaused():
                outcome = "lost" if isinstance(fact, CallLost) else "paused"
                error = "outcome_unknown" if isinstance(fact, CallLost) else ""
                self._end_tool_span(fact.call, fact.attempt, error, {"legato.position": position, "legato.outcome": outcome})
                self._add_event(f"legato.tool.{outcome}", position, **_tool_attributes(_tool_name(state, fact.call), fact.call))
            case ApprovalChecked(needed=True):
                self._add_event("legato.approval.requested", position, **_tool_attributes(_tool_name(state, fact.call), fact.call))
            case Decided():
                self._on_decision(fact, position, state)
            case HandedOff() if is_leading:
                self._on_handoff(fact, position, state)
            case GuardrailJudged(stop=True):
                self._add_event("legato.judged", position, **{"legato.kind": fact.kind})
            case TerminationJudged(stop=True):
                self._add_event("legato.judged", position, **{"legato.kind": "termination"})
            case AgentPrompted():
                self._add_event("legato.prompted", position)
            case Compacted():
                self._add_event("legato.compacted", position)
            case Cancelled():
                self._add_event("legato.cancelled", position)
            case _:
                pass

    def _on_model_reply(self, fact: ModelReplied, position: int, state: State) -> None:
        open_span, self._chat = self._chat, None
        if open_span is None:
            return  # another driver made the request, and has its span
        attributes = reply_attributes(fact)
        open_span.span.set_attributes({**attributes, "legato.position": position})
        for text in fact.losses:
            open_span.span.add_event("legato.loss", {"legato.words": text} if self._instrumentation.records_content else {})
        if self._instrumentation.records_content:
            graph = self._definition.graph
            options = state.options_at(fact.upto)
            secrets = {
                item.tool: graph.find_secret_arguments(fact.agent, item.tool, options) for item in fact.items if hasattr(item, "tool")
            }
            open_span.span.set_attribute("gen_ai.output.messages", render_reply(fact, secrets))
        self._record_usage(fact.agent, fact.usage, fact.duration_ms, {"gen_ai.response.model": attributes["gen_ai.response.model"]})
        _end_span(open_span)

    def _on_model_failure(self, fact: ModelRequestFailed, position: int) -> None:
        open_span, self._chat = self._chat, None
        if open_span is None:
            return
        kind = fact.code or open_span.error or "error"
        open_span.span.set_attributes({**usage_attributes(fact.usage), "legato.position": position})
        self._record_usage(fact.agent, fact.usage, fact.duration_ms, {"error.type": kind})
        _end_span(open_span, kind, fact.error if self._instrumentation.records_content else "")
        attributes = {"error.type": kind, "legato.attempt": fact.attempt, "legato.final": fact.final}
        self._add_event("legato.model.failed", position, **attributes)

    def _on_call_returned(self, fact: CallReturned, position: int, state: State) -> None:
        kind = "" if fact.status == "ok" else "tool_error" if fact.status == "error" else fact.status
        attributes: Attributes = {
            "legato.position": position,
            "legato.outcome": fact.status,
            **_decision_attributes(state, fact.call, position),
        }
        name = _tool_name(state, fact.call)
        if fact.late:
            self._add_event("legato.tool.late", position, **_tool_attributes(name, fact.call), **attributes)
            return
        text = render_content(fact.output)
        call = state.find_call(fact.call)
        if self._instrumentation.records_content and call is not None:
            secrets = self._definition.graph.find_secret_arguments(
                _agent_name(state, fact.call), name, state.options_of_reply(fact.call.position)
            )
            attributes["gen_ai.tool.call.arguments"] = mask_arguments(call.arguments, secrets)
            attributes["gen_ai.tool.call.result"] = text
        if not self._end_tool_span(
            fact.call, fact.attempt, kind, attributes, text if kind and self._instrumentation.records_content else ""
        ):
            self._add_event("legato.tool.answered", position, **_tool_attributes(name, fact.call), **{"legato.outcome": fact.status})

    def _on_decision(self, fact: Decided, position: int, state: State) -> None:
        attributes: Attributes = {"legato.kind": fact.kind, "legato.verdict": fact.verdict}
        if fact.call is not None:
            attributes |= {
                **_tool_attributes(_tool_name(state, fact.call), fact.call),
                **_decision_attributes(state, fact.call, position + 1),
            }
        self._add_event("legato.decided", position, **attributes)

    def _on_handoff(self, fact: HandedOff, position: int, state: State) -> None:
        """Record a handoff as a tool call. The conventions have no attributes for handoffs yet, so these are Legato's own."""
        name = _tool_name(state, fact.call)
        handoff_attributes = {"legato.handoff.source": fact.source, "legato.handoff.target": fact.target, "legato.position": position}
        attributes = {**_tool_attributes(name, fact.call), "gen_ai.agent.name": fact.source, **handoff_attributes}
        self._start_span(f"execute_tool {name}", "execute_tool", self._switch_agent_span(fact.source), attributes).end()
        self._end_agent_span()

    def on_end(self, status: str, requests: Sequence[Pending], error: BaseException | None) -> None:
        """End all open spans: their facts will not be recorded in this drive."""
        self._end_unrecorded_chat()
        for call, attempt in list(self._tools):
            self._end_tool_span(call, attempt, self._tools[call, attempt].error or "left_running", {})
        for request in requests:
            details: Attributes = {"legato.kind": request.kind, "legato.request": request.id}
            self._add_event("legato.waits_for_people", None, **details, **({"gen_ai.tool.name": request.tool} if request.tool else {}))
        self._end_agent_span()
        kind = type(error).__name__ if error is not None else "failed" if status == "failed" else ""
        self._workflow.set_attribute("legato.status", status)
        seconds = time.perf_counter() - self._started_at
        attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": self._definition.graph.name}
        self._instrumentation.duration_histogram.record(seconds, {**attributes, "error.type": kind} if kind else attributes)
        _end_span(
            OpenSpan(self._workflow, self._started_at),
            kind,
            str(error) if error is not None and self._instrumentation.records_content else "",
        )

    # -- helpers -------------------------------------------------------------------------------------------------------------

    def _start_span(
        self, name: str, operation: str, parent: Span | None, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        attributes = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session, **attributes}
        context = set_span_in_context(parent) if parent is not None else None
        return self._instrumentation.tracer.start_span(name, context, kind, attributes)

    def _switch_agent_span(self, agent: str) -> Span:
        """Return the span of the agent that has control; end that of the agent before."""
        if self._agent is None or self._agent[0] != agent:
            self._end_agent_span()
            model = model_attributes(self._definition.agents[agent].model.name)
            span = self._start_span(f"invoke_agent {agent}", "invoke_agent", self._workflow, {"gen_ai.agent.name": agent, **model})
            self._agent, self._agent_usage = (agent, span), Usage()
        return self._agent[1]

    def _end_agent_span(self) -> None:
        if self._agent is not None:
            self._agent[1].set_attributes(usage_attributes(self._agent_usage))
            self._agent[1].end()
            self._agent = None

    def _add_event(self, name: str, position: int | None, **attributes: Any) -> None:
        span = self._agent[1] if self._agent is not None else self._workflow
        span.add_event(name, {**attributes, "legato.position": position} if position is not None else attributes)

    def _record_usage(self, agent: str, usage: Usage, duration_ms: int, more: Attributes) -> None:
        self._agent_usage = self._agent_usage + usage
        model = model_attributes(self._definition.agents[agent].model.name)
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.agent.name": agent, **model, **more}
        self._instrumentation.duration_histogram.record(duration_ms / 1000, attributes)
        for kind, count in (("input", usage.input), ("output", usage.output)):
            if count:
                self._instrumentation.token_histogram.record(count, {**attributes, "gen_ai.token.type": kind})

    def _end_unrecorded_chat(self) -> None:
        """End the span of a model request without a fact: its reply was not needed any more, or it was never sent."""
        if self._chat is not None:
            _end_span(self._chat, self._chat.error or "unrecorded")
            self._chat = None

    def _end_tool_span(self, call: CallRef, attempt: int, error: str, attributes: Attributes, text: str = "") -> bool:
        open_span = self._tools.pop((call, attempt), None)
        if open_span is None:
            return False
        open_span.span.set_attributes(attributes)
        kind = {"error.type": error} if error else {}
        self._instrumentation.duration_histogram.record(
            time.perf_counter() - open_span.started_at, {"gen_ai.operation.name": "execute_tool", **kind}
        )
        _end_span(open_span, error, text)
        return True


def _end_span(open_span: OpenSpan, error: str = "", text: str = "") -> None:
    if error:
        open_span.span.set_attribute("error.type", error)
        open_span.span.set_status(Status(StatusCode.ERROR, text or error))
    open_span.span.end(open_span.ended_at_ns)


def _tool_attributes(name: str, call: CallRef) -> Attributes:
    return {"gen_ai.tool.name": name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": str(call)}


def _decision_attributes(state: State, call: CallRef, upto: int) -> Attributes:
    """Return the last decision about a call, and how long the call had waited for it, often since before this run."""
    call_state = state.find_call(call)
    facts = [state.facts[position] for position in (call_state.decision_positions if call_state is not None else ()) if position < upto]
    last = next((index for index in reversed(range(len(facts))) if isinstance(facts[index], Decided)), None)
    if last is None:
        return {}
    decision = facts[last]
    assert isinstance(decision, Decided)
    attributes: Attributes = {"legato.verdict": decision.verdict}
    return {**attributes, "legato.waited_ms": max(0, decision.at - facts[last - 1].at)} if last else attributes


def _tool_name(state: State, ref: CallRef) -> str:
    call = state.find_call(ref)
    return call.call.tool if call is not None else ""


def _agent_name(state: State, ref: CallRef) -> str:
    reply = state.facts[ref.position]
    return reply.agent if isinstance(reply, ModelReplied) else ""
