"""Withheld messages: a conversation with a message that an input guardrail withholds goes on as if that message had never come."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder, Limits, guardrail, tool
from legato.core.counters import RunCounters
from legato.core.facts import CallReturned, GuardrailJudged, MessageReceived, ModelReplied
from legato.errors import ModelFailed
from legato.models import ModelReply, OutputText
from legato.runtime.clock import Clock
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.blocking import BlockingGuardrail, Breakpoint, count_facts, make_blocked_model, start, wait_for_facts

# -- idle sessions: a withheld message has the same effect as resume() -------------------------------------------------------

BAD = "bad " * 300  # long enough to use up any budget if it were counted


@guardrail("input")
def no_bad(context, text):
    return "withheld" if "bad" in text else None


@tool
async def look() -> str:
    return "seen"


@tool(needs_approval=True)
async def pay() -> str:
    return "paid"


def make_workflow(*settings, provider_inputs, **scripts):
    """Return a workflow with an agent for each script, and its model. The inputs of context providers are noted."""

    def provide(turn):
        provider_inputs.append([message.text for message in turn.messages])
        return f"You know of {len(turn.messages)} messages."

    model = ScriptedModel(by_agent=scripts)
    more = {"tools": [look, pay], "guardrails": [no_bad], "context_providers": [provide]}
    agents = [Agent(name, model=model, **more, **dict(each for each in settings if isinstance(each, tuple))) for name in scripts]
    builder = HandoffBuilder("w", agents)
    for setting in settings:
        if callable(setting):
            setting(builder)
    return builder.build(), model


def set_limits(**more):
    return lambda builder: builder.with_limits(Limits(**more))


def say(text):
    async def step(session, pending, is_disturbed):
        await session.run(text)

    return step


def queue(*texts):
    """Record several messages before the session is driven. Bad messages come first, in between and last."""

    async def step(session, pending, is_disturbed):
        queued = [BAD, *(each for text in texts for each in (text, BAD))] if is_disturbed else texts
        facts = [MessageReceived(at=1, content=text, awaits_guardrails=True) for text in queued]
        await session.store.append(session.id, len(await session.store.read(session.id)), facts)
        await session.resume()

    return step


async def approve(session, pending, is_disturbed):
    await session.approve(pending[0])
    await session.resume()


async def reject(session, pending, is_disturbed):
    await session.reject(pending[0], "no")
    await session.resume()


async def cancel(session, pending, is_disturbed):
    await session.cancel()


async def fork(session, pending, is_disturbed):
    return (await session.fork(id=f"{session.id}-fork")).id


def make_ping_pong(name, other):
    return {name: [handoff(other)] * 9, other: [handoff(name)] * 9}


def says_bye(messages):
    return messages[-1].text.endswith("bye")


STEPS = [say("go"), approve, say("again"), reject, say("and again")]
DONE = ["one", "two", "three", "four", "five", "six"]

SCENARIOS = {
    "it lifts no limit on tool calls": ([set_limits(tool_calls=1)], {"a": [[call("look")] * 3] * 9}, STEPS),
    "it lifts no limit on handoffs": ([set_limits(handoffs=2)], make_ping_pong("ping", "pong"), STEPS),
    "it lifts no limit on one edge": ([set_limits(same_edge=1)], make_ping_pong("ping", "pong"), STEPS),
    "it lifts no limit on turns": ([set_limits(turns=2)], {"a": [call("look")] * 12}, STEPS),
    "it lifts no limit on tool rounds": ([set_limits(tool_rounds=2)], {"a": [call("look")] * 12}, STEPS),
    "autonomous work and the limit that paused it are untouched": (
        [set_limits(turns=2), HandoffBuilder.with_autonomous_mode], {"a": DONE + DONE}, STEPS
    ),
    "its characters use up no budget": ([set_limits(tokens=120)], {"a": DONE}, [say("go"), say("more"), say("yet more"), say("enough")]),
    "a rejected limit stays rejected": ([set_limits(turns=1)], {"a": [call("look"), *DONE]}, [say("go"), reject, say("on")]),
    "what is pending stays pending": ([], {"a": [call("pay"), "two", "three"]}, [say("go"), fork, approve, say("on")]),
    "it supersedes nothing": (
        [lambda builder: builder.with_messages("supersede")], {"a": [call("pay"), "two", call("pay"), "four"]},
        [say("go"), approve, say("on"), fork, queue("good")],
    ),
    "what was cancelled stays cancelled": ([], {"a": [call("pay"), "two"]}, [say("go"), cancel, fork, say("on")]),
    "a rejected reply is still requested": (
        [("output_type", int), ("output_retries", 0)], {"a": ["x", "y", "z", "7", "8"]}, [say("go"), approve, reject, say("on"), approve]
    ),
    "a failure stays until the session is resumed": ([], {"a": [ModelFailed("down")]}, [say("go"), cancel, say("x")]),
    "what has ended is over": (
        [lambda builder: builder.with_termination_condition(says_bye)], {"a": ["bye", "again", "good bye"]},
        [say("go"), fork, say("x"), say("y")],
    ),
    "it begins no new turn at the start agent": (
        [lambda builder: builder.with_next_turn("start")],
        {"a": [handoff("b"), handoff("b"), "a"], "b": [call("pay"), "b", "b"]},
        [say("go"), queue("one"), approve, say("on"), say("and on")],
    ),
    "other messages in the queue are delivered in order": ([], {"a": DONE}, [say("go"), queue("one", "two"), fork, queue("three")]),
}  # fmt: skip


def describe_conversation(session, model, provider_inputs):
    """Return everything about a conversation except for withheld messages."""
    state = session.state
    withheld = {fact.position for fact in state.facts if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop}
    withheld |= {at for at, fact in enumerate(state.facts) if isinstance(fact, GuardrailJudged) and fact.position in withheld}
    return {
        "status": session.status,
        "pending": [(request.kind, request.agent, request.tool, request.limit, request.prompt) for request in session.pending],
        "control": state.active_agent,
        "frame": state.context_digest,
        "run": {name: getattr(state.run_counters, name) for name in RunCounters.__slots__ if name != "work_ms"},
        "spent": (session.usage, state.usage_totals.characters),
        "messages": [str(message) for message in session.messages if message.position not in withheld],
        "requests": [(request.agent, [str(message) for message in request.messages]) for request in model.requests],
        "providers": list(provider_inputs),
    }


async def play(store, name, settings, scripts, steps, is_disturbed):
    """Return the conversation after each step. Each step uses a new handle, and follows a bad message if `is_disturbed`."""
    provider_inputs, descriptions, answered = [], [], set()
    workflow, model = make_workflow(*settings, provider_inputs=provider_inputs, **scripts)
    for step in steps:
        session = await workflow.session(name, store=store).refresh()
        pending = session.pending
        if is_disturbed:
            assert (await session.run(BAD)).text == "withheld"
            assert [request.id for request in session.pending] == [request.id for request in pending], "the requests are the same"
        else:
            await session.resume()
        if step in (approve, reject):
            assert pending[0].id not in answered, "no request id is used twice"
            answered.add(pending[0].id)
        name = await step(session, pending, is_disturbed) or name
        descriptions.append(describe_conversation(await workflow.session(name, store=store).refresh(), model, provider_inputs))
    return descriptions


@pytest.mark.parametrize(("settings", "scripts", "steps"), SCENARIOS.values(), ids=SCENARIOS)
async def test_withheld_message_changes_nothing(store, settings, scripts, steps):
    """A conversation with a withheld message equals the conversation in which the message never came."""
    undisturbed = await play(store, "quiet", settings, scripts, steps, is_disturbed=False)
    assert await play(store, "disturbed", settings, scripts, steps, is_disturbed=True) == undisturbed
    assert undisturbed[-1]["requests"], "the test tests nothing"


# -- busy sessions ------------------------------------------------------------------------------------------------------------


INTERRUPTIONS = ["no message", "withheld at once", "withheld after the work"]


@pytest.fixture(params=INTERRUPTIONS)
def when(request):
    return INTERRUPTIONS.index(request.param)


async def run_disturbed(workflow, store, run, pause, guard, when, work=ModelReplied):
    """Run, and send a bad message at the breakpoint. The held up work is done when there is a new fact of the kind `work`."""
    driving = start(run)
    await pause.reached.wait()
    sending = None
    if when:
        messages, verdicts, done = [await count_facts(store, kind) for kind in (MessageReceived, GuardrailJudged, work)]
        sending = start(workflow.session("s", store=store).run("bad" if when == 1 else "bad and slow"))
        await (wait_for_facts(store, GuardrailJudged, verdicts + 1) if when == 1 else guard.reached.wait())
        assert await count_facts(store, MessageReceived) == messages + 1
    pause.go.set()
    if when == 2:
        await wait_for_facts(store, work, done + 1)
        guard.go.set()
    result = await asyncio.wait_for(driving, 60)
    if sending:
        await asyncio.wait_for(sending, 60)
    session = await workflow.session("s", store=store).refresh()
    assert session.status == result.status
    return session


def list_accepted_texts(session):
    return [str(message) for message in session.messages if "bad" not in message.text and message.text != "withheld"]


async def test_autonomous_agent_continues_after_withheld_message(store, when):
    guard, pause = BlockingGuardrail(), Breakpoint()
    model = make_blocked_model(pause, ["Chapter 1", "Chapter 2", "Chapter 3", "Chapter 4"], index=1)
    builder = HandoffBuilder("w", [Agent("writer", model=model, guardrails=[guard.guardrail])])
    workflow = builder.with_autonomous_mode(turn_limits={"writer": 3}).build()
    session = await run_disturbed(workflow, store, workflow.session("s", store=store).run("Write"), pause, guard, when)
    assert (session.status, len(model.requests)) == ("waiting", 4)
    assert list_accepted_texts(session) == ["user: Write", *(f"writer: Chapter {number}" for number in (1, 2, 3, 4))]


def make_polite_guardrail(pause):
    @guardrail("output")
    async def judge(context, output):
        if not pause.reached.is_set():
            await pause.hit()
        return "be polite" if "rude" in output else None

    return judge


async def test_autonomous_agent_continues_during_output_check(store, when):
    guard, pause = BlockingGuardrail(), Breakpoint()
    model = ScriptedModel(by_agent={"writer": ["Chapter 1", "Chapter 2", "Chapter 3"]})
    builder = HandoffBuilder("w", [Agent("writer", model=model, guardrails=[guard.guardrail, make_polite_guardrail(pause)])])
    workflow = builder.with_autonomous_mode(turn_limits={"writer": 2}).build()
    session = await run_disturbed(workflow, store, workflow.session("s", store=store).run("Write"), pause, guard, when, GuardrailJudged)
    assert (session.status, len(list_accepted_texts(session))) == ("waiting", 4)


@pytest.mark.parametrize("replies", [["goodbye"], ["rude", "goodbye"]], ids=["accepted reply", "rejected reply"])
async def test_termination_condition_sees_accepted_messages_only(store, when, replies):
    guard, pause, calls = BlockingGuardrail(), Breakpoint(), []

    def over(messages):
        calls.append([message.text for message in messages])
        return "goodbye" in messages[-1].text

    builder = HandoffBuilder("w", [Agent("a", model=ScriptedModel(replies), guardrails=[guard.guardrail, make_polite_guardrail(pause)])])
    workflow = builder.with_termination_condition(over).build()
    session = await run_disturbed(workflow, store, workflow.session("s", store=store).run("Hi"), pause, guard, when, GuardrailJudged)
    assert (session.status, list_accepted_texts(session)) == ("terminated", ["user: Hi", "a: goodbye"])
    assert calls == [["Hi", "goodbye"]]


async def test_following_message_goes_to_working_agent(store, when):
    guard, pause, again = BlockingGuardrail(), Breakpoint(), Breakpoint()
    replies = {"b": ["rude", "polite", "quick"]}

    async def reply(request):
        if request.agent == "a":
            return handoff("b") if request.agent_reply_count == 0 else "a again"
        if request.agent_reply_count == 1:
            await again.hit()
        return replies["b"][request.agent_reply_count]

    model = ScriptedModel(reply)
    agents = [
        Agent("a", model=model, guardrails=[guard.guardrail]),
        Agent("b", model=model, guardrails=[guard.guardrail, make_polite_guardrail(pause)]),
    ]
    workflow = HandoffBuilder("w", agents).add_handoff("a", "b").add_handoff("b", []).with_next_turn("start").build()
    first = start(run_disturbed(workflow, store, workflow.session("s", store=store).run("Hi"), pause, guard, when, GuardrailJudged))
    await again.reached.wait()
    verdicts = await count_facts(store, GuardrailJudged)
    second = start(workflow.session("s", store=store).run("and quickly"))
    await wait_for_facts(store, GuardrailJudged, verdicts + 1)
    again.go.set()
    await asyncio.gather(first, second)
    assert [request.agent for request in model.requests] == ["a", "b", "b", "b"]
    assert list_accepted_texts(await first) == ["user: Hi", "b: polite", "user: and quickly", "b: quick"]


async def test_message_after_idle_goes_to_start_agent(store):
    guard = BlockingGuardrail()
    model = ScriptedModel(by_agent={"a": [handoff("b"), "a again"], "b": ["b here"]})
    agents = [Agent(name, model=model, guardrails=[guard.guardrail]) for name in ("a", "b")]
    workflow = HandoffBuilder("w", agents).add_handoff("a", "b").add_handoff("b", []).with_next_turn("start").build()
    await workflow.session("s", store=store).run("Hi")
    bad = start(workflow.session("s", store=store).run("bad and slow"))
    await guard.reached.wait()
    good = start(workflow.session("s", store=store).run("a new question"))
    await wait_for_facts(store, MessageReceived, 3)
    guard.go.set()
    await asyncio.gather(bad, good)
    assert [request.agent for request in model.requests] == ["a", "b", "a"]


async def test_working_time_counts_towards_limit(store, when, monkeypatch):
    guard, pause, now = BlockingGuardrail(), Breakpoint(), [0.0]
    monkeypatch.setattr(Clock, "monotonic", lambda clock: now[0])

    @tool
    async def work() -> str:
        now[0] += 600
        await pause.hit()
        return "worked"

    model = ScriptedModel(by_agent={"a": [call("work"), "done"]})
    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[work], guardrails=[guard.guardrail])])
    workflow = builder.with_limits(Limits(seconds=500)).build()
    session = await run_disturbed(workflow, store, workflow.session("s", store=store).run("Go"), pause, guard, when, CallReturned)
    assert [request.limit for request in session.pending] == ["seconds"]
    await session.approve(session.pending[0])
    assert session.state.run_counters.allowances == {"seconds": 1}


async def test_resume_after_failure_retries_fully(store, when):
    guard, pause, calls = BlockingGuardrail(), Breakpoint(), 0

    async def reply(request):
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ModelFailed("down")
        await pause.hit()
        return "I am back"

    workflow = HandoffBuilder("w", [Agent("a", model=ScriptedModel(reply), guardrails=[guard.guardrail])]).build()
    session = workflow.session("s", store=store)
    assert (await session.run("Hi")).status == "failed"
    session = await run_disturbed(workflow, store, session.resume(), pause, guard, when)
    assert (session.status, list_accepted_texts(session), calls) == ("waiting", ["user: Hi", "a: I am back"], 2)


async def test_deltas_are_neither_repeated_nor_retracted(store, when):
    guard, pause = BlockingGuardrail(), Breakpoint()

    class Speaking:
        name = "speaking"

        async def reply(self, request, emit):
            emit("One ")
            await pause.hit()
            emit("two.")
            return ModelReply(items=(OutputText("One two."),))

    async def watch():
        shown.extend([event async for event in workflow.session("s", store=store).run("Hi", stream=True)])
        return await workflow.session("s", store=store).refresh()

    shown = []
    workflow = HandoffBuilder("w", [Agent("a", model=Speaking(), guardrails=[guard.guardrail])]).build()
    await run_disturbed(workflow, store, watch(), pause, guard, when)
    assert [event.data.text for event in shown if event.type == "output" and event.data.delta] == ["One ", "two."]
    assert "output_reset" not in {event.type for event in shown}
    assert [event.data.text for event in shown if event.type == "message" and event.data.author_name == "a"] == ["One two."]


# -- single cases -------------------------------------------------------------------------------------------------------------


def make_blocking_builder(model, **more):
    @guardrail("input")
    def no_bad(context, text):
        return "blocked" if "bad" in text else None

    return HandoffBuilder("w", [Agent("a", model=model, guardrails=[no_bad], **more)])


async def test_withheld_message_keeps_session_cancelled(store):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "revived")
    session = make_blocking_builder(model, tools=[pay]).build().session("s", store=store)
    await session.run("pay")
    await session.cancel()
    result = await session.run("bad")
    assert (result.status, result.text, len(model.requests)) == ("cancelled", "blocked", 1)


async def test_withheld_message_lifts_no_limit(store):
    @tool
    async def look() -> str:
        return "seen"

    model = ScriptedModel(lambda request: call("look"))
    session = make_blocking_builder(model, tools=[look]).with_limits(Limits(turns=2)).build().session("s", store=store)
    await session.run("go")
    for _ in range(3):
        result = await session.run("bad")
        assert [request.kind for request in result.pending] == ["limit"]
    assert len(model.requests) == 2


async def test_withheld_message_supersedes_no_call(store):
    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done")
    session = make_blocking_builder(model, tools=[pay]).with_messages("supersede").build().session("s", store=store)
    await session.run("pay")
    result = await session.run("bad")
    assert [request.kind for request in result.pending] == ["approval"]
    result = await session.run("good")
    assert result.text == "done"
    assert "new message first" in model.requests[-1].messages[2].text


async def test_messages_keep_order_around_withheld_message(store):
    @guardrail("input")
    def no_secrets(context, text):
        return "blocked" if "secret" in text else None

    agent = Agent("a", model=ScriptedModel(lambda request: "ok"), guardrails=[no_secrets])
    session = HandoffBuilder("w", [agent]).build().session("s", store=store)
    for words in ("hello", "secret", "again"):
        await session.run(words)
    assert [message.text for message in session.messages] == ["hello", "ok", "secret", "blocked", "again", "ok"]
    assert sum(isinstance(fact, MessageReceived) for fact in session.facts) == 3
