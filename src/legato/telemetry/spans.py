"""What drivers do, as spans and metrics. May know: OpenTelemetry's API. Decides: which span a fact belongs to.

A span begins when a model or a tool is set to work, and the fact that is recorded of it says how it ended. A trace is one run: spans
survive neither a kill nor a resume, and nothing of them is in the ledger; the conversation's id joins the runs.
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
    Usage,
)
from legato.core.messages import text_of
from legato.core.pending_requests import Pending
from legato.core.secret_arguments import masked
from legato.core.state import State
from legato.core.view import Request
from legato.runtime.definition import Definition
from legato.telemetry.naming import SECONDS, TOKENS, Attributes, answered, model_named, replied, said, used


class Telemetry(Struct, frozen=True, eq=False):
    """Makes the spans of every drive."""

    tracer: Tracer
    tokens: Histogram
    seconds: Histogram
    content: bool

    @classmethod
    def of(cls, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None, content: bool) -> Telemetry:
        meter = metrics.get_meter("legato", version("legato"), meter_provider)
        return cls(
            tracer=trace.get_tracer("legato", version("legato"), tracer_provider),
            tokens=meter.create_histogram(
                "gen_ai.client.token.usage", "{token}", "Tokens used.", explicit_bucket_boundaries_advisory=TOKENS
            ),
            seconds=meter.create_histogram(
                "gen_ai.client.operation.duration", "s", "How long it took.", explicit_bucket_boundaries_advisory=SECONDS
            ),
            content=content,
        )

    def watch(self, definition: Definition, session: str) -> Spans:
        return Spans(self, definition, session)


class Open(Struct, eq=False):
    """A span that has begun, and what is known so far of its end."""

    span: Span
    begun: float
    done: int | None = None
    """When the work itself was over, if it is."""
    error: str = ""


class Spans:
    """The spans of one drive."""

    def __init__(self, telemetry: Telemetry, definition: Definition, session: str) -> None:
        self._to = telemetry
        self._definition = definition
        self._session = session
        self._begun = time.perf_counter()
        name = definition.graph.name
        self._workflow = self._start(f"invoke_workflow {name}", "invoke_workflow", None, {"gen_ai.workflow.name": name})
        self._agent: tuple[str, Span] | None = None
        self._agent_usage = Usage()
        self._chat: Open | None = None
        self._tools: dict[tuple[CallRef, int], Open] = {}

    # -- while something is at work ----------------------------------------------------------------------------------------

    @contextmanager
    def asking(self, request: Request) -> Iterator[None]:
        """A `chat` span, current for what the model's client does."""
        model = model_named(self._definition.agents[request.agent].model.name)
        attributes = {**model, "gen_ai.agent.name": request.agent, "legato.attempt": request.attempt}
        span = self._start(f"chat {model['gen_ai.request.model']}", "chat", self._in(request.agent), attributes, SpanKind.CLIENT)
        self._drop_chat()
        self._chat = Open(span, time.perf_counter())
        with self._working(self._chat):
            yield

    @contextmanager
    def running(self, agent: str, tool: str, call: CallRef, attempt: int) -> Iterator[None]:
        """An `execute_tool` span, current for what the tool does: an agent that works as a tool begins its own workflow in it."""
        attributes = {**_tool(tool, call), "gen_ai.agent.name": agent, "legato.attempt": attempt}
        span = self._start(f"execute_tool {tool}", "execute_tool", self._in(agent), attributes)
        opened = self._tools[call, attempt] = Open(span, time.perf_counter())
        with self._working(opened):
            yield

    @contextmanager
    def _working(self, opened: Open) -> Iterator[None]:
        try:
            with use_span(opened.span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            opened.error = type(error).__name__
            raise
        finally:
            opened.done = time.time_ns()

    # -- what became of it -------------------------------------------------------------------------------------------------

    def recorded(self, fact: AnyFact, position: int, state: State, leading: bool) -> None:
        """The fact ends a span, is a span or an event; or says nothing here."""
        match fact:
            case MessageReceived():
                self._event("legato.said", position)
                if self._to.content:
                    self._workflow.set_attribute("gen_ai.input.messages", said("user", fact.content))
            case ModelReplied():
                self._answered(fact, position, state)
            case ModelRequestFailed():
                self._attempted(fact, position)
            case CallReturned():
                self._returned(fact, position, state)
            case CallLost() | CallPaused():
                word = type(fact).__name__.lower()
                unknown = "outcome_unknown" if isinstance(fact, CallLost) else ""
                self._ended_tool(fact.call, fact.attempt, unknown, {"legato.position": position, "legato.outcome": word})
                self._event(f"legato.tool.{word}", position, **_tool(_named(state, fact.call), fact.call))
            case ApprovalChecked(needed=True):
                self._event("legato.approval.requested", position, **_tool(_named(state, fact.call), fact.call))
            case Decided():
                self._decided(fact, position, state)
            case HandedOff() if leading:
                self._handed_off(fact, position, state)
            case GuardrailJudged(stop=True):
                self._event("legato.judged", position, **{"legato.kind": fact.kind})
            case AgentPrompted() | Compacted() | Cancelled():
                self._event(f"legato.{type(fact).__name__.lower()}", position)
            case _:
                pass

    def _answered(self, fact: ModelReplied, position: int, state: State) -> None:
        opened, self._chat = self._chat, None
        if opened is None:
            return  # made by another driver, whose span it is
        told = answered(fact)
        opened.span.set_attributes({**told, "legato.position": position})
        for words in fact.losses:
            opened.span.add_event("legato.loss", {"legato.words": words} if self._to.content else {})
        if self._to.content:
            graph = self._definition.graph
            options = state.options_at(fact.upto)
            calls = {item.tool: graph.secrets(fact.agent, item.tool, options) for item in fact.items if hasattr(item, "tool")}
            opened.span.set_attribute("gen_ai.output.messages", replied(fact, calls))
        self._measured(fact.agent, fact.usage, fact.took, {"gen_ai.response.model": told["gen_ai.response.model"]})
        _end(opened)

    def _attempted(self, fact: ModelRequestFailed, position: int) -> None:
        opened, self._chat = self._chat, None
        if opened is None:
            return
        kind = fact.code or opened.error or "error"
        opened.span.set_attributes({**used(fact.usage), "legato.position": position})
        self._measured(fact.agent, fact.usage, fact.took, {"error.type": kind})
        _end(opened, kind, fact.error if self._to.content else "")
        told = {"error.type": kind, "legato.attempt": fact.number, "legato.final": fact.final}
        self._event("legato.model.failed", position, **told)

    def _returned(self, fact: CallReturned, position: int, state: State) -> None:
        kind = "" if fact.status == "ok" else "tool_error" if fact.status == "error" else fact.status
        told: Attributes = {"legato.position": position, "legato.outcome": fact.status, **_waited(state, fact.call, position)}
        name = _named(state, fact.call)
        if fact.late:
            self._event("legato.tool.late", position, **_tool(name, fact.call), **told)
            return
        words = text_of(fact.output)
        call = state.call(fact.call)
        if self._to.content and call is not None:
            secrets = self._definition.graph.secrets(_agent(state, fact.call), name, state.options_of(fact.call.position))
            told["gen_ai.tool.call.arguments"] = masked(call.arguments, secrets)
            told["gen_ai.tool.call.result"] = words
        if not self._ended_tool(fact.call, fact.attempt, kind, told, words if kind and self._to.content else ""):
            self._event("legato.tool.answered", position, **_tool(name, fact.call), **{"legato.outcome": fact.status})

    def _decided(self, fact: Decided, position: int, state: State) -> None:
        told: Attributes = {"legato.kind": fact.kind, "legato.verdict": fact.verdict}
        if fact.call is not None:
            told |= {**_tool(_named(state, fact.call), fact.call), **_waited(state, fact.call, position + 1)}
        self._event("legato.decided", position, **told)

    def _handed_off(self, fact: HandedOff, position: int, state: State) -> None:
        """A handoff is a tool that was called; no attribute for it is accepted yet, so these are our own."""
        name = _named(state, fact.call)
        ends = {"legato.handoff.source": fact.source, "legato.handoff.target": fact.target, "legato.position": position}
        attributes = {**_tool(name, fact.call), "gen_ai.agent.name": fact.source, **ends}
        self._start(f"execute_tool {name}", "execute_tool", self._in(fact.source), attributes).end()
        self._leave_agent()

    def ended(self, status: str, requests: Sequence[Pending], error: BaseException | None) -> None:
        """The drive is over: what is still open will have no fact here."""
        self._drop_chat()
        for call, attempt in list(self._tools):
            self._ended_tool(call, attempt, self._tools[call, attempt].error or "left_running", {})
        for request in requests:
            told: Attributes = {"legato.kind": request.kind, "legato.request": request.id}
            self._event("legato.waits_for_people", None, **told, **({"gen_ai.tool.name": request.tool} if request.tool else {}))
        self._leave_agent()
        kind = type(error).__name__ if error is not None else "failed" if status == "failed" else ""
        self._workflow.set_attribute("legato.status", status)
        seconds = time.perf_counter() - self._begun
        attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": self._definition.graph.name}
        self._to.seconds.record(seconds, {**attributes, "error.type": kind} if kind else attributes)
        _end(Open(self._workflow, self._begun), kind, str(error) if error is not None and self._to.content else "")

    # -- parts ---------------------------------------------------------------------------------------------------------------

    def _start(self, name: str, operation: str, parent: Span | None, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        told = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session, **attributes}
        context = set_span_in_context(parent) if parent is not None else None
        return self._to.tracer.start_span(name, context, kind, told)

    def _in(self, agent: str) -> Span:
        """The span of the agent that has control; the one before is over."""
        if self._agent is None or self._agent[0] != agent:
            self._leave_agent()
            model = model_named(self._definition.agents[agent].model.name)
            span = self._start(f"invoke_agent {agent}", "invoke_agent", self._workflow, {"gen_ai.agent.name": agent, **model})
            self._agent, self._agent_usage = (agent, span), Usage()
        return self._agent[1]

    def _leave_agent(self) -> None:
        if self._agent is not None:
            self._agent[1].set_attributes(used(self._agent_usage))
            self._agent[1].end()
            self._agent = None

    def _event(self, name: str, position: int | None, **attributes: Any) -> None:
        span = self._agent[1] if self._agent is not None else self._workflow
        span.add_event(name, {**attributes, "legato.position": position} if position is not None else attributes)

    def _measured(self, agent: str, usage: Usage, took: int, more: Attributes) -> None:
        self._agent_usage = self._agent_usage + usage
        model = model_named(self._definition.agents[agent].model.name)
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.agent.name": agent, **model, **more}
        self._to.seconds.record(took / 1000, attributes)
        for kind, count in (("input", usage.input), ("output", usage.output)):
            if count:
                self._to.tokens.record(count, {**attributes, "gen_ai.token.type": kind})

    def _drop_chat(self) -> None:
        """End the span of a call that no fact tells of: nobody wanted its reply any more, or it was never sent."""
        if self._chat is not None:
            _end(self._chat, self._chat.error or "unrecorded")
            self._chat = None

    def _ended_tool(self, call: CallRef, attempt: int, error: str, attributes: Attributes, words: str = "") -> bool:
        opened = self._tools.pop((call, attempt), None)
        if opened is None:
            return False
        opened.span.set_attributes(attributes)
        kind = {"error.type": error} if error else {}
        self._to.seconds.record(time.perf_counter() - opened.begun, {"gen_ai.operation.name": "execute_tool", **kind})
        _end(opened, error, words)
        return True


def _end(opened: Open, error: str = "", words: str = "") -> None:
    if error:
        opened.span.set_attribute("error.type", error)
        opened.span.set_status(Status(StatusCode.ERROR, words or error))
    opened.span.end(opened.done)


def _tool(name: str, call: CallRef) -> Attributes:
    return {"gen_ai.tool.name": name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": str(call)}


def _waited(state: State, call: CallRef, upto: int) -> Attributes:
    """What people last decided about a call, and how long it had waited for them. It was often decided before this run began."""
    found = state.call(call)
    about = [state.facts[position] for position in (found.decisions if found is not None else ()) if position < upto]
    decided = next((index for index in reversed(range(len(about))) if isinstance(about[index], Decided)), None)
    if decided is None:
        return {}
    fact = about[decided]
    assert isinstance(fact, Decided)
    told: Attributes = {"legato.verdict": fact.verdict}
    return {**told, "legato.waited_ms": max(0, fact.at - about[decided - 1].at)} if decided else told


def _named(state: State, ref: CallRef) -> str:
    call = state.call(ref)
    return call.call.tool if call is not None else ""


def _agent(state: State, ref: CallRef) -> str:
    reply = state.facts[ref.position]
    return reply.agent if isinstance(reply, ModelReplied) else ""
