"""Spans and metrics by the GenAI conventions: what a run did, how each part ended, and nothing that is nobody's business."""

import asyncio

import pytest
from opentelemetry import trace

from legato import Agent, HandoffBuilder, tool
from legato.errors import BadInput, ModelFailed
from legato.models import Reply, Usage, Words
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


async def told(workflow, stream=False):
    """The story: a handoff, an approval, a tool, an answer."""
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


STORY = [
    {
        "invoke_workflow desk": [
            {"invoke_agent triage": ["chat scripted", "execute_tool handoff_to_refunds"]},
            {"invoke_agent refunds": ["chat scripted"]},
        ]
    },
    {"invoke_workflow desk": [{"invoke_agent refunds": ["execute_tool refund", "chat scripted"]}]},
]


@pytest.mark.parametrize("stream", [False, True], ids=["awaited", "streamed"])
async def test_a_whole_story_is_a_tree_per_run_joined_by_the_conversations_id(kept, stream):
    await told(kept.instrument(desk()), stream)
    assert kept.tree() == STORY
    for span in kept.spans:
        assert span.attributes["gen_ai.conversation.id"] == "customer-42"
        assert span.attributes["gen_ai.operation.name"] == span.name.partition(" ")[0]
    first, second = kept.named("invoke_workflow desk")
    assert (first.attributes["gen_ai.workflow.name"], first.attributes["legato.status"]) == ("desk", "pending")
    assert second.attributes["legato.status"] == "waiting"
    handed = kept.one("execute_tool handoff_to_refunds").attributes
    assert (handed["legato.handoff.source"], handed["legato.handoff.target"], handed["legato.position"]) == ("triage", "refunds", 3)
    ran = kept.one("execute_tool refund").attributes
    assert (ran["gen_ai.tool.name"], ran["gen_ai.agent.name"], ran["gen_ai.tool.type"]) == ("refund", "refunds", "function")


async def test_what_was_waited_for_is_an_event_and_what_was_decided_is_with_the_call(kept):
    session = await told(kept.instrument(desk()))
    events = {event.name: event.attributes for span in kept.spans for event in span.events}
    assert events["legato.approval.requested"]["gen_ai.tool.name"] == "refund"
    assert events["legato.waits_for_people"]["legato.kind"] == "approval"
    ran = kept.one("execute_tool refund").attributes
    assert ran["legato.verdict"] == "approve", "it was decided between two runs: the call that ran says so"
    assert ran["legato.waited_ms"] >= 0
    assert type(session.facts[ran["legato.position"]]).__name__ == "CallReturned"


async def test_what_is_decided_while_it_runs_is_an_event(kept):
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "slow"

    model = ScriptedModel(lambda seen: [call("slow"), call("refund", order="7", pin="x")] if seen.turn == 0 else "done")
    session = kept.instrument(alone(model, slow, refund)).session("s", store=MemoryStore(), context={"key": CONTEXT})
    running = asyncio.ensure_future(_run(session))
    await started.wait()
    await session.refresh()
    await session.reject(session.pending[0], SPOKEN)
    go.set()
    await running
    (event,) = [event.attributes for span in kept.spans for event in span.events if event.name == "legato.decided"]
    assert (event["gen_ai.tool.name"], event["legato.verdict"]) == ("refund", "reject")
    assert SPOKEN not in kept.everything()


class Provider:
    """A model with a provider's name that tells what it used, after so many failures."""

    name = "openai:gpt-5.1"

    def __init__(self, failures=0, retryable=True):
        self.failures, self.retryable = failures, retryable

    async def reply(self, request, emit):
        if self.failures:
            self.failures -= 1
            raise ModelFailed(f"it is busy, {SPOKEN}", retryable=self.retryable, retry_after=0, reason="overloaded")
        usage = Usage(input=100, output=20, cached=60, reasoning=5, written=10, cost=2_000_000_000)
        return Reply(items=(Words("hello"),), usage=usage, model="gpt-5.1-2026-10-01", response_id="resp_1")


def alone(model, *tools):
    return HandoffBuilder("alone", [Agent("clerk", model=model, tools=tools)]).build()


async def test_a_call_of_a_model_says_who_was_asked_and_what_was_used(kept):
    await kept.instrument(alone(Provider())).run("hi")
    chat = kept.one("chat gpt-5.1")
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
    assert kept.one("invoke_agent clerk").attributes["gen_ai.usage.input_tokens"] == 100


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(5, cost=0), {"legato.usage.dollars": 0.0}),
        (Usage(5), {"legato.usage.unpriced_tokens": 5}),
        (Usage(5) + Usage(1, cost=2_000_000_000), {"legato.usage.dollars": 2.0, "legato.usage.unpriced_tokens": 5}),
    ],
    ids=["free", "unknown", "in part"],
)
async def test_spans_tell_unknown_cost_from_free(kept, usage, told):
    class Paid:
        name = "openai:gpt-5.1"

        async def reply(self, request, emit):
            return Reply(items=(Words("hello"),), usage=usage)

    await kept.instrument(alone(Paid())).run("hi")
    for span in (kept.one("chat gpt-5.1"), kept.one("invoke_agent clerk")):
        assert {name: value for name, value in span.attributes.items() if name.startswith("legato.usage")} == told


async def test_metrics_count_tokens_and_seconds_without_anything_that_names_a_conversation(kept):
    workflow = kept.instrument(alone(Provider(failures=1)))
    await workflow.run("hi")
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in kept.points("gen_ai.client.token.usage")}
    assert tokens == {"input": 100, "output": 20}
    durations = kept.points("gen_ai.client.operation.duration")
    chats = [point.attributes for point in durations if point.attributes["gen_ai.operation.name"] == "chat"]
    assert sorted(each.get("error.type", "") for each in chats) == ["", "overloaded"]
    for point in [*durations, *kept.points("gen_ai.client.token.usage")]:
        assert "gen_ai.conversation.id" not in point.attributes


async def test_a_model_that_failed_and_was_asked_again_is_two_spans_and_an_event(kept):
    await kept.instrument(alone(Provider(failures=1))).run("hi")
    assert kept.tree() == [{"invoke_workflow alone": [{"invoke_agent clerk": ["chat gpt-5.1!", "chat gpt-5.1"]}]}]
    failed, again = kept.named("chat gpt-5.1")
    assert failed.attributes["error.type"] == "overloaded"
    assert (failed.attributes["legato.attempt"], again.attributes["legato.attempt"]) == (1, 2)
    (event,) = [event for event in kept.one("invoke_agent clerk").events if event.name == "legato.model.failed"]
    assert (event.attributes["error.type"], event.attributes["legato.final"]) == ("overloaded", False)


async def test_a_run_that_failed_says_so(kept):
    await kept.instrument(alone(Provider(failures=9, retryable=False))).run("hi")
    run = kept.one("invoke_workflow alone")
    assert (run.attributes["error.type"], run.attributes["legato.status"]) == ("failed", "failed")
    assert not run.status.is_ok


def tools():
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


ENDS = {"raises": ("tool_error", "error"), "hangs": ("timeout", "timeout"), "unknown": ("outcome_unknown", "lost")}


@pytest.mark.parametrize("name", ENDS)
async def test_a_tool_that_failed_has_a_status_and_a_type_of_error(kept, name):
    model = ScriptedModel(lambda seen: call(name) if seen.turn == 0 else "done")
    session = kept.instrument(alone(model, *tools().values())).session()
    await session.run("go")
    await asyncio.sleep(0.4 if name == "hangs" else 0)
    span = kept.one(f"execute_tool {name}")
    assert (span.attributes["error.type"], span.attributes["legato.outcome"]) == ENDS[name]
    assert not span.status.is_ok
    assert SPOKEN not in kept.everything()


async def test_calls_that_never_ran_are_events(kept):
    model = ScriptedModel(lambda seen: [call("nonesuch"), call("refund", wrong=1)] if seen.turn == 0 else "done")
    await kept.instrument(alone(model, refund)).run("go")
    events = [event.attributes for event in kept.one("invoke_agent clerk").events if event.name == "legato.tool.answered"]
    assert [(each["gen_ai.tool.name"], each["legato.outcome"]) for each in events] == [("nonesuch", "error"), ("refund", "error")]


async def test_user_code_that_raises_ends_every_span_and_names_itself(kept):
    def fails(context):
        raise KeyError(SPOKEN)

    workflow = HandoffBuilder("w", [Agent("a", fails, ScriptedModel(["x"]))]).build()
    with pytest.raises(KeyError):
        await kept.instrument(workflow).run("go")
    assert kept.one("invoke_workflow w").attributes["error.type"] == "KeyError"
    assert SPOKEN not in kept.everything()


async def test_an_agent_that_works_as_a_tool_is_measured_inside_the_call(kept):
    helper = Agent("helper", model=ScriptedModel(["42"]))
    model = ScriptedModel(lambda seen: call("ask_helper", task="think") if seen.turn == 0 else "done")
    await kept.instrument(alone(model, helper.as_tool())).run("go")
    inner = {"invoke_workflow helper": [{"invoke_agent helper": ["chat scripted"]}]}
    ran = {"execute_tool ask_helper": [inner]}
    assert kept.tree() == [{"invoke_workflow alone": [{"invoke_agent clerk": ["chat scripted", ran, "chat scripted"]}]}]


async def test_what_models_and_tools_measure_themselves_belongs_to_their_span_and_the_run_to_the_callers(kept):
    tracer = kept.tracers.get_tracer("user")

    @tool
    async def queries() -> str:
        with tracer.start_as_current_span("SELECT"):
            return "rows"

    model = ScriptedModel(lambda seen: call("queries") if seen.turn == 0 else "done")
    with tracer.start_as_current_span("request"):
        await kept.instrument(alone(model, queries)).run("go")
    agent = {"invoke_agent clerk": ["chat scripted", {"execute_tool queries": ["SELECT"]}, "chat scripted"]}
    assert kept.tree() == [{"request": [{"invoke_workflow alone": [agent]}]}]


@pytest.mark.parametrize("content", [False, True])
async def test_what_is_said_is_captured_when_asked_for_and_secrets_and_context_never(kept, content):
    session = await told(kept.instrument(desk(), content=content))
    sent = kept.everything()
    assert (SPOKEN in sent) is content
    assert ("refunded 7" in sent) is content
    assert SECRET not in sent
    assert CONTEXT not in sent
    assert SECRET in repr(session.facts), "the harness would see it"
    if content:
        assert "secret:" in kept.one("execute_tool refund").attributes["gen_ai.tool.call.arguments"]
        chats = [span.attributes["gen_ai.output.messages"] for span in kept.named("chat scripted")]
        assert any('"tool_call"' in each and "secret:" in each for each in chats)


async def test_what_is_recorded_is_the_same_with_and_without(kept, tmp_path):
    async def facts(workflow, name):
        async with SQLiteStore(tmp_path / name) as store:
            session = workflow.session("s", store=store, context={"key": CONTEXT})
            await session.run("broken")
            await session.approve(session.pending[0])
            await session.resume()
            return [(type(fact).__name__, getattr(fact, "items", None)) for fact in session.facts]

    assert await facts(desk(), "off") == await facts(kept.instrument(desk(), content=True), "on")


async def test_one_who_follows_another_driver_has_no_spans_of_what_that_one_did(kept):
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "done"

    store = MemoryStore()
    workflow = alone(ScriptedModel(lambda seen: call("slow") if seen.turn == 0 else "done"), slow)

    async def drive(session):
        return await session.resume()

    session = workflow.session("s", store=store)
    leading = asyncio.ensure_future(_run(session))
    await started.wait()
    following = asyncio.ensure_future(drive(kept.instrument(workflow).session("s", store=store)))
    await asyncio.sleep(0.05)
    go.set()
    await asyncio.gather(leading, following)
    assert kept.tree() == ["invoke_workflow alone"]


async def _run(session):
    return await session.run("go")


def test_only_a_workflow_can_be_instrumented():
    with pytest.raises(BadInput):
        instrument(Agent("a", model=ScriptedModel([])))


async def test_without_an_sdk_it_does_nothing_and_harms_nothing():
    assert (await instrument(alone(ScriptedModel(["hello"]))).run("hi")).text == "hello"
