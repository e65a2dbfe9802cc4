"""Spans and metrics by the GenAI conventions: the parts of a run, how each ended, and no confidential data."""

import asyncio

import pytest
from opentelemetry import trace

from legato import Agent, HandoffBuilder, tool
from legato.errors import BadInput, ModelFailed
from legato.models import ModelReply, OutputText, Usage
from legato.stores import MemoryStore, SQLiteStore
from legato.telemetry import instrument
from legato.testing import ScriptedModel, call, handoff
from legato.tools import OutcomeUnknown, Secret, ToolContext

SECRET, CONTEXT, SPOKEN = "canary-of-a-secret", "canary-of-the-context", "canary-of-the-words"


@tool(needs_approval=True)
async def refund(order: str, pin: Secret[str], ctx: ToolContext) -> str:
    """Refund an order."""
    assert ctx.context["key"] == CONTEXT
    return f"refunded {order}"


def desk(**more):
    model = ScriptedModel(
        by_agent={
            "triage": [handoff("refunds", "money")],
            "refunds": [call("refund", order="7", pin=SECRET), f"It is done, {SPOKEN}."],
        }
    )
    agents = [Agent("triage", model=model), Agent("refunds", model=model, tools=[refund], **more)]
    return HandoffBuilder("desk", agents).add_handoff("triage", ["refunds"]).add_handoff("refunds", ["triage"]).build()


async def play_story(workflow, stream=False):
    """Run a handoff, an approval, a tool and an answer."""
    session = workflow.session("customer-42", store=MemoryStore(), context={"key": CONTEXT})
    run = session.run(f"Order 7 arrived broken, {SPOKEN}", stream=stream)
    if stream:
        async for _ in run:
            pass
    else:
        await run
    await session.approve(session.pending[0])
    result = await session.resume()
    assert result.status == "waiting"
    return session


STORY_TREE = [
    {
        "invoke_workflow desk": [
            {"invoke_agent triage": ["chat scripted", "execute_tool handoff_to_refunds"]},
            {"invoke_agent refunds": ["chat scripted"]},
        ]
    },
    {"invoke_workflow desk": [{"invoke_agent refunds": ["execute_tool refund", "chat scripted"]}]},
]


@pytest.mark.parametrize("stream", [False, True], ids=["awaited", "streamed"])
async def test_each_run_is_one_span_tree(telemetry, stream):
    await play_story(telemetry.instrument(desk()), stream)
    assert telemetry.span_tree() == STORY_TREE
    for span in telemetry.spans:
        assert span.attributes["gen_ai.conversation.id"] == "customer-42"
        assert span.attributes["gen_ai.operation.name"] == span.name.partition(" ")[0]
    first, second = telemetry.find_spans("invoke_workflow desk")
    assert (first.attributes["gen_ai.workflow.name"], first.attributes["legato.status"]) == ("desk", "pending")
    assert second.attributes["legato.status"] == "waiting"
    handoff_attributes = telemetry.find_span("execute_tool handoff_to_refunds").attributes
    assert (
        handoff_attributes["legato.handoff.source"],
        handoff_attributes["legato.handoff.target"],
        handoff_attributes["legato.position"],
    ) == ("triage", "refunds", 3)
    tool_attributes = telemetry.find_span("execute_tool refund").attributes
    assert (tool_attributes["gen_ai.tool.name"], tool_attributes["gen_ai.agent.name"], tool_attributes["gen_ai.tool.type"]) == (
        "refund",
        "refunds",
        "function",
    )


async def test_approval_wait_is_event_and_call_attribute(telemetry):
    session = await play_story(telemetry.instrument(desk()))
    events = {event.name: event.attributes for span in telemetry.spans for event in span.events}
    assert events["legato.approval.requested"]["gen_ai.tool.name"] == "refund"
    assert events["legato.waits_for_people"]["legato.kind"] == "approval"
    tool_attributes = telemetry.find_span("execute_tool refund").attributes
    assert tool_attributes["legato.verdict"] == "approve", "the decision came between two runs, so it is on the span of the call"
    assert tool_attributes["legato.waited_ms"] >= 0
    assert type(session.facts[tool_attributes["legato.position"]]).__name__ == "CallReturned"


async def test_decision_during_a_run_is_an_event(telemetry):
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "slow"

    model = ScriptedModel(lambda seen: [call("slow"), call("refund", order="7", pin="x")] if seen.reply_count == 0 else "done")
    session = telemetry.instrument(make_single_agent(model, slow, refund)).session("s", store=MemoryStore(), context={"key": CONTEXT})
    running = asyncio.ensure_future(_run(session))
    await started.wait()
    await session.refresh()
    await session.reject(session.pending[0], SPOKEN)
    go.set()
    await running
    (event,) = [event.attributes for span in telemetry.spans for event in span.events if event.name == "legato.decided"]
    assert (event["gen_ai.tool.name"], event["legato.verdict"]) == ("refund", "reject")
    assert SPOKEN not in telemetry.to_text()


class UsageModel:
    """A model with a provider's name and usage, after some failures."""

    name = "openai:gpt-5.1"

    def __init__(self, failures=0, retryable=True):
        self.failures, self.retryable = failures, retryable

    async def reply(self, request, emit):
        if self.failures:
            self.failures -= 1
            raise ModelFailed(f"it is busy, {SPOKEN}", retryable=self.retryable, retry_after=0, reason="overloaded")
        usage = Usage(input=100, output=20, cached=60, reasoning=5, written=10, cost=2_000_000_000)
        return ModelReply(items=(OutputText("hello"),), usage=usage, model="gpt-5.1-2026-10-01", response_id="resp_1")


def make_single_agent(model, *tools):
    return HandoffBuilder("alone", [Agent("clerk", model=model, tools=tools)]).build()


async def test_chat_span_has_provider_and_usage(telemetry):
    await telemetry.instrument(make_single_agent(UsageModel())).run("hi")
    chat = telemetry.find_span("chat gpt-5.1")
    assert chat.kind is trace.SpanKind.CLIENT
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.1",
        "gen_ai.response.model": "gpt-5.1-2026-10-01",
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "legato.usage.dollars": 2.0,
        "gen_ai.agent.name": "clerk",
    }
    assert {name: chat.attributes[name] for name in expected} == expected
    assert telemetry.find_span("invoke_agent clerk").attributes["gen_ai.usage.input_tokens"] == 100


@pytest.mark.parametrize(
    ("usage", "attributes"),
    [
        (Usage(5, cost=0), {"legato.usage.dollars": 0.0}),
        (Usage(5), {"legato.usage.unpriced_tokens": 5}),
        (Usage(5) + Usage(1, cost=2_000_000_000), {"legato.usage.dollars": 2.0, "legato.usage.unpriced_tokens": 5}),
    ],
    ids=["free", "unknown", "in part"],
)
async def test_spans_distinguish_unknown_cost_from_free(telemetry, usage, attributes):
    class Paid:
        name = "openai:gpt-5.1"

        async def reply(self, request, emit):
            return ModelReply(items=(OutputText("hello"),), usage=usage)

    await telemetry.instrument(make_single_agent(Paid())).run("hi")
    for span in (telemetry.find_span("chat gpt-5.1"), telemetry.find_span("invoke_agent clerk")):
        assert {name: value for name, value in span.attributes.items() if name.startswith("legato.usage")} == attributes


async def test_metrics_name_no_conversation(telemetry):
    workflow = telemetry.instrument(make_single_agent(UsageModel(failures=1)))
    await workflow.run("hi")
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in telemetry.metric_points("gen_ai.client.token.usage")}
    assert tokens == {"input": 100, "output": 20}
    durations = telemetry.metric_points("gen_ai.client.operation.duration")
    chats = [point.attributes for point in durations if point.attributes["gen_ai.operation.name"] == "chat"]
    assert sorted(each.get("error.type", "") for each in chats) == ["", "overloaded"]
    for point in [*durations, *telemetry.metric_points("gen_ai.client.token.usage")]:
        assert "gen_ai.conversation.id" not in point.attributes


async def test_retried_model_request_has_two_spans(telemetry):
    await telemetry.instrument(make_single_agent(UsageModel(failures=1))).run("hi")
    assert telemetry.span_tree() == [{"invoke_workflow alone": [{"invoke_agent clerk": ["chat gpt-5.1!", "chat gpt-5.1"]}]}]
    failed, again = telemetry.find_spans("chat gpt-5.1")
    assert failed.attributes["error.type"] == "overloaded"
    assert (failed.attributes["legato.attempt"], again.attributes["legato.attempt"]) == (1, 2)
    (event,) = [event for event in telemetry.find_span("invoke_agent clerk").events if event.name == "legato.model.failed"]
    assert (event.attributes["error.type"], event.attributes["legato.final"]) == ("overloaded", False)


async def test_failed_run_has_error_attributes(telemetry):
    await telemetry.instrument(make_single_agent(UsageModel(failures=9, retryable=False))).run("hi")
    run = telemetry.find_span("invoke_workflow alone")
    assert (run.attributes["error.type"], run.attributes["legato.status"]) == ("failed", "failed")
    assert not run.status.is_ok


def make_failing_tools():
    @tool
    async def raises() -> str:
        raise ValueError(f"no, {SPOKEN}")

    @tool(timeout=0.05)
    async def hangs() -> str:
        await asyncio.sleep(0.3)
        return "late"

    @tool
    async def unknown() -> str:
        raise OutcomeUnknown

    return {each.name: each for each in (raises, hangs, unknown)}


EXPECTED_ENDS = {"raises": ("tool_error", "error"), "hangs": ("timeout", "timeout"), "unknown": ("outcome_unknown", "lost")}


@pytest.mark.parametrize("name", EXPECTED_ENDS)
async def test_failed_tool_has_status_and_error_type(telemetry, name):
    model = ScriptedModel(lambda seen: call(name) if seen.reply_count == 0 else "done")
    session = telemetry.instrument(make_single_agent(model, *make_failing_tools().values())).session()
    await session.run("go")
    await asyncio.sleep(0.4 if name == "hangs" else 0)
    span = telemetry.find_span(f"execute_tool {name}")
    assert (span.attributes["error.type"], span.attributes["legato.outcome"]) == EXPECTED_ENDS[name]
    assert not span.status.is_ok
    assert SPOKEN not in telemetry.to_text()


async def test_calls_without_runs_are_events(telemetry):
    model = ScriptedModel(lambda seen: [call("nonesuch"), call("refund", wrong=1)] if seen.reply_count == 0 else "done")
    await telemetry.instrument(make_single_agent(model, refund)).run("go")
    events = [event.attributes for event in telemetry.find_span("invoke_agent clerk").events if event.name == "legato.tool.answered"]
    assert [(each["gen_ai.tool.name"], each["legato.outcome"]) for each in events] == [("nonesuch", "error"), ("refund", "error")]


async def test_user_code_error_ends_all_spans(telemetry):
    def fails(context):
        raise KeyError(SPOKEN)

    workflow = HandoffBuilder("w", [Agent("a", fails, ScriptedModel(["x"]))]).build()
    with pytest.raises(KeyError):
        await telemetry.instrument(workflow).run("go")
    assert telemetry.find_span("invoke_workflow w").attributes["error.type"] == "KeyError"
    assert SPOKEN not in telemetry.to_text()


async def test_agent_as_tool_is_traced_inside_its_call(telemetry):
    helper = Agent("helper", model=ScriptedModel(["42"]))
    model = ScriptedModel(lambda seen: call("ask_helper", task="think") if seen.reply_count == 0 else "done")
    await telemetry.instrument(make_single_agent(model, helper.as_tool())).run("go")
    inner = {"invoke_workflow helper": [{"invoke_agent helper": ["chat scripted"]}]}
    ran = {"execute_tool ask_helper": [inner]}
    assert telemetry.span_tree() == [{"invoke_workflow alone": [{"invoke_agent clerk": ["chat scripted", ran, "chat scripted"]}]}]


async def test_user_spans_nest_in_their_model_or_tool(telemetry):
    """Spans of models and tools belong to their span, and the run belongs to the caller's span."""
    tracer = telemetry.tracers.get_tracer("user")

    @tool
    async def queries() -> str:
        with tracer.start_as_current_span("SELECT"):
            return "rows"

    model = ScriptedModel(lambda seen: call("queries") if seen.reply_count == 0 else "done")
    with tracer.start_as_current_span("request"):
        await telemetry.instrument(make_single_agent(model, queries)).run("go")
    agent = {"invoke_agent clerk": ["chat scripted", {"execute_tool queries": ["SELECT"]}, "chat scripted"]}
    assert telemetry.span_tree() == [{"request": [{"invoke_workflow alone": [agent]}]}]


@pytest.mark.parametrize("content", [False, True])
async def test_content_is_recorded_only_on_request(telemetry, content):
    """Secrets and the caller's context are never recorded."""
    session = await play_story(telemetry.instrument(desk(), content=content))
    text = telemetry.to_text()
    assert (SPOKEN in text) is content
    assert ("refunded 7" in text) is content
    assert SECRET not in text
    assert CONTEXT not in text
    assert SECRET in repr(session.facts), "the search would find it"
    if content:
        assert "secret:" in telemetry.find_span("execute_tool refund").attributes["gen_ai.tool.call.arguments"]
        chats = [span.attributes["gen_ai.output.messages"] for span in telemetry.find_spans("chat scripted")]
        assert any('"tool_call"' in each and "secret:" in each for each in chats)


async def test_ledger_is_the_same_without_telemetry(telemetry, tmp_path):
    async def facts(workflow, name):
        async with SQLiteStore(tmp_path / name) as store:
            session = workflow.session("s", store=store, context={"key": CONTEXT})
            await session.run("broken")
            await session.approve(session.pending[0])
            await session.resume()
            return [(type(fact).__name__, getattr(fact, "items", None)) for fact in session.facts]

    assert await facts(desk(), "off") == await facts(telemetry.instrument(desk(), content=True), "on")


async def test_follower_has_no_spans_of_the_driver(telemetry):
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "done"

    store = MemoryStore()
    workflow = make_single_agent(ScriptedModel(lambda seen: call("slow") if seen.reply_count == 0 else "done"), slow)

    async def drive(session):
        return await session.resume()

    session = workflow.session("s", store=store)
    leading = asyncio.ensure_future(_run(session))
    await started.wait()
    following = asyncio.ensure_future(drive(telemetry.instrument(workflow).session("s", store=store)))
    await asyncio.sleep(0.05)
    go.set()
    await asyncio.gather(leading, following)
    assert telemetry.span_tree() == ["invoke_workflow alone"]


async def _run(session):
    return await session.run("go")


def test_only_a_workflow_can_be_instrumented():
    with pytest.raises(BadInput):
        instrument(Agent("a", model=ScriptedModel([])))


async def test_telemetry_without_sdk_has_no_effect():
    assert (await instrument(make_single_agent(ScriptedModel(["hello"]))).run("hi")).text == "hello"
