"""A conversation with a message that an input guardrail withholds is the conversation in which that message never came."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder, Limits, guardrail, tool
from legato.core.counters import Tally
from legato.core.facts import CallReturned, GuardrailJudged, MessageReceived, ModelReplied
from legato.errors import ModelFailed
from legato.models import Reply, Words
from legato.runtime.clock import Clock
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.holding import Guard, Held, begin, counted, recorded, thinking


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


# -- at rest: saying something that is withheld is the same as resume() ------------------------------------------------------

BAD = "bad " * 300  # long enough to use up any budget, were it counted


@guardrail("input")
def no_bad(context, text):
    return "withheld" if "bad" in text else None


@tool
async def look() -> str:
    return "seen"


@tool(needs_approval=True)
async def pay() -> str:
    return "paid"


def cast(*settings, noted, **scripts):
    """Agents named and scripted so; what context providers were shown is noted."""

    def provide(turn):
        noted.append([message.text for message in turn.messages])
        return f"You know of {len(turn.messages)} messages."

    model = ScriptedModel(by_agent=scripts)
    more = {"tools": [look, pay], "guardrails": [no_bad], "context_providers": [provide]}
    agents = [Agent(name, model=model, **more, **dict(each for each in settings if isinstance(each, tuple))) for name in scripts]
    builder = HandoffBuilder("w", agents)
    for setting in settings:
        if callable(setting):
            setting(builder)
    return builder.build(), model


def limits(**more):
    return lambda builder: builder.with_limits(Limits(**more))


def say(words):
    async def step(session, pending, disturbed):
        await session.run(words)

    return step


def queue(*words):
    """Several messages are recorded before anybody drives; where there are bad ones, they come first, between and last."""

    async def step(session, pending, disturbed):
        texts = [BAD, *(each for word in words for each in (word, BAD))] if disturbed else words
        facts = [MessageReceived(at=1, content=text, guarded=True) for text in texts]
        await session.store.append(session.id, len(await session.store.read(session.id)), facts)
        await session.resume()

    return step


async def approve(session, pending, disturbed):
    await session.approve(pending[0])
    await session.resume()


async def reject(session, pending, disturbed):
    await session.reject(pending[0], "no")
    await session.resume()


async def cancel(session, pending, disturbed):
    await session.cancel()


async def fork(session, pending, disturbed):
    return (await session.fork(id=f"{session.id}-fork")).id


def rally(name, other):
    return {name: [handoff(other)] * 9, other: [handoff(name)] * 9}


def enough(messages):
    return messages[-1].text.endswith("bye")


STEPS = [say("go"), approve, say("again"), reject, say("and again")]
DONE = ["one", "two", "three", "four", "five", "six"]

AT_REST = {
    "it lifts no limit on tool calls": ([limits(tool_calls=1)], {"a": [[call("look")] * 3] * 9}, STEPS),
    "it lifts no limit on handoffs": ([limits(handoffs=2)], rally("ping", "pong"), STEPS),
    "it lifts no limit on one edge": ([limits(same_edge=1)], rally("ping", "pong"), STEPS),
    "it lifts no limit on turns": ([limits(turns=2)], {"a": [call("look")] * 12}, STEPS),
    "it lifts no limit on tool rounds": ([limits(tool_rounds=2)], {"a": [call("look")] * 12}, STEPS),
    "autonomous work and the limit that paused it are untouched": (
        [limits(turns=2), HandoffBuilder.with_autonomous_mode], {"a": DONE + DONE}, STEPS
    ),
    "its letters use up no budget": ([limits(tokens=120)], {"a": DONE}, [say("go"), say("more"), say("yet more"), say("enough")]),
    "a limit that was refused stays refused": ([limits(turns=1)], {"a": [call("look"), *DONE]}, [say("go"), reject, say("on")]),
    "what is pending stays pending": ([], {"a": [call("pay"), "two", "three"]}, [say("go"), fork, approve, say("on")]),
    "it supersedes nothing": (
        [lambda builder: builder.with_messages("supersede")], {"a": [call("pay"), "two", call("pay"), "four"]},
        [say("go"), approve, say("on"), fork, queue("good")],
    ),
    "what was cancelled stays cancelled": ([], {"a": [call("pay"), "two"]}, [say("go"), cancel, fork, say("on")]),
    "a reply that was not accepted is still asked for": (
        [("output_type", int), ("output_retries", 0)], {"a": ["x", "y", "z", "7", "8"]}, [say("go"), approve, reject, say("on"), approve]
    ),
    "a failure stands until somebody goes on": ([], {"a": [ModelFailed("down")]}, [say("go"), cancel, say("x")]),
    "what has ended is over": (
        [lambda builder: builder.with_termination_condition(enough)], {"a": ["bye", "again", "good bye"]},
        [say("go"), fork, say("x"), say("y")],
    ),
    "it begins no new turn at the start agent": (
        [lambda builder: builder.with_next_turn("start")],
        {"a": [handoff("b"), handoff("b"), "a"], "b": [call("pay"), "b", "b"]},
        [say("go"), queue("one"), approve, say("on"), say("and on")],
    ),
    "others in the same queue are heard, in order": ([], {"a": DONE}, [say("go"), queue("one", "two"), fork, queue("three")]),
}  # fmt: skip


def meaning(session, model, noted):
    """All that the conversation is, but for what was withheld from it."""
    state = session.state
    withheld = {fact.position for fact in state.facts if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop}
    withheld |= {at for at, fact in enumerate(state.facts) if isinstance(fact, GuardrailJudged) and fact.position in withheld}
    return {
        "status": session.status,
        "pending": [(request.kind, request.agent, request.tool, request.limit, request.prompt) for request in session.pending],
        "control": state.active,
        "frame": state.frame,
        "run": {name: getattr(state.tally, name) for name in Tally.__slots__ if name != "active_ms"},
        "spent": (session.usage, state.spent.letters),
        "messages": [str(message) for message in session.messages if message.position not in withheld],
        "requests": [(request.agent, [str(message) for message in request.messages]) for request in model.requests],
        "providers": list(noted),
    }


async def played(store, name, settings, scripts, steps, disturbed):
    """What the conversation is after each step; each step is done by another handle, and before each something bad is said, or nothing."""
    noted, told, answered = [], [], set()
    workflow, model = cast(*settings, noted=noted, **scripts)
    for step in steps:
        session = await workflow.session(name, store=store).refresh()
        pending = session.pending
        if disturbed:
            assert (await session.run(BAD)).text == "withheld"
            assert [request.id for request in session.pending] == [request.id for request in pending], "the request is the very same"
        else:
            await session.resume()
        if step in (approve, reject):
            assert pending[0].id not in answered, "no id is asked twice"
            answered.add(pending[0].id)
        name = await step(session, pending, disturbed) or name
        told.append(meaning(await workflow.session(name, store=store).refresh(), model, noted))
    return told


@pytest.mark.parametrize(("settings", "scripts", "steps"), AT_REST.values(), ids=AT_REST)
async def test_a_conversation_with_a_withheld_message_is_the_one_in_which_it_never_came(store, settings, scripts, steps):
    quiet = await played(store, "quiet", settings, scripts, steps, disturbed=False)
    disturbed = await played(store, "disturbed", settings, scripts, steps, disturbed=True)
    assert disturbed == quiet
    assert quiet[-1]["requests"], "something happened at all"


# -- in the middle of work ----------------------------------------------------------------------------------------------------


WHEN = ["nothing is said", "it is withheld at once", "it is withheld when the work is done"]


@pytest.fixture(params=WHEN)
def when(request):
    return WHEN.index(request.param)


async def disturbed(workflow, store, run, held, guard, when, work=ModelReplied):
    """Run; say something bad when `held` is reached; let go. `work` is the fact by which what is held up is known to be done."""
    driving = begin(run)
    await held.reached.wait()
    speaking = None
    if when:
        said, judged, done = [await counted(store, kind) for kind in (MessageReceived, GuardrailJudged, work)]
        speaking = begin(workflow.session("s", store=store).run("bad" if when == 1 else "bad and slow"))
        await (recorded(store, GuardrailJudged, judged + 1) if when == 1 else guard.reached.wait())
        assert await counted(store, MessageReceived) == said + 1
    held.go.set()
    if when == 2:
        await recorded(store, work, done + 1)
        guard.go.set()
    result = await asyncio.wait_for(driving, 60)
    if speaking:
        await asyncio.wait_for(speaking, 60)
    session = await workflow.session("s", store=store).refresh()
    assert session.status == result.status
    return session


def accepted(session):
    return [str(message) for message in session.messages if "bad" not in message.text and message.text != "withheld"]


async def test_an_autonomous_agent_works_on(store, when):
    guard, held = Guard(), Held()
    model = thinking(held, ["Chapter 1", "Chapter 2", "Chapter 3", "Chapter 4"], turn=1)
    builder = HandoffBuilder("w", [Agent("writer", model=model, guardrails=[guard.rail])])
    workflow = builder.with_autonomous_mode(turn_limits={"writer": 3}).build()
    session = await disturbed(workflow, store, workflow.session("s", store=store).run("Write"), held, guard, when)
    assert (session.status, len(model.requests)) == ("waiting", 4)
    assert accepted(session) == ["user: Write", *(f"writer: Chapter {number}" for number in (1, 2, 3, 4))]


def polite(held):
    @guardrail("output")
    async def judge(context, output):
        if not held.reached.is_set():
            await held.here()
        return "be polite" if "rude" in output else None

    return judge


async def test_an_autonomous_agent_whose_reply_is_being_judged_works_on(store, when):
    guard, held = Guard(), Held()
    model = ScriptedModel(by_agent={"writer": ["Chapter 1", "Chapter 2", "Chapter 3"]})
    builder = HandoffBuilder("w", [Agent("writer", model=model, guardrails=[guard.rail, polite(held)])])
    workflow = builder.with_autonomous_mode(turn_limits={"writer": 2}).build()
    session = await disturbed(workflow, store, workflow.session("s", store=store).run("Write"), held, guard, when, GuardrailJudged)
    assert (session.status, len(accepted(session))) == ("waiting", 4)


@pytest.mark.parametrize("replies", [["goodbye"], ["rude", "goodbye"]], ids=["of a good reply", "of a rude one, which was not accepted"])
async def test_the_termination_condition_is_asked_of_what_was_accepted(store, when, replies):
    guard, held, asked = Guard(), Held(), []

    def over(messages):
        asked.append([message.text for message in messages])
        return "goodbye" in messages[-1].text

    builder = HandoffBuilder("w", [Agent("a", model=ScriptedModel(replies), guardrails=[guard.rail, polite(held)])])
    workflow = builder.with_termination_condition(over).build()
    session = await disturbed(workflow, store, workflow.session("s", store=store).run("Hi"), held, guard, when, GuardrailJudged)
    assert (session.status, accepted(session)) == ("terminated", ["user: Hi", "a: goodbye"])
    assert asked == [["Hi", "goodbye"]]


async def test_a_good_message_that_follows_it_goes_to_the_agent_who_is_at_work(store, when):
    guard, held, again = Guard(), Held(), Held()
    replies = {"b": ["rude", "polite", "quick"]}

    async def reply(seen):
        if seen.agent == "a":
            return handoff("b") if seen.agent_turn == 0 else "a again"
        if seen.agent_turn == 1:
            await again.here()
        return replies["b"][seen.agent_turn]

    model = ScriptedModel(reply)
    agents = [Agent("a", model=model, guardrails=[guard.rail]), Agent("b", model=model, guardrails=[guard.rail, polite(held)])]
    workflow = HandoffBuilder("w", agents).add_handoff("a", "b").add_handoff("b", []).with_next_turn("start").build()
    first = begin(disturbed(workflow, store, workflow.session("s", store=store).run("Hi"), held, guard, when, GuardrailJudged))
    await again.reached.wait()
    judged = await counted(store, GuardrailJudged)
    second = begin(workflow.session("s", store=store).run("and quickly"))
    await recorded(store, GuardrailJudged, judged + 1)
    again.go.set()
    await asyncio.gather(first, second)
    assert [request.agent for request in model.requests] == ["a", "b", "b", "b"]
    assert accepted(await first) == ["user: Hi", "b: polite", "user: and quickly", "b: quick"]


async def test_a_good_message_that_finds_the_conversation_at_rest_behind_it_goes_to_the_start_agent(store):
    guard = Guard()
    model = ScriptedModel(by_agent={"a": [handoff("b"), "a again"], "b": ["b here"]})
    agents = [Agent(name, model=model, guardrails=[guard.rail]) for name in ("a", "b")]
    workflow = HandoffBuilder("w", agents).add_handoff("a", "b").add_handoff("b", []).with_next_turn("start").build()
    await workflow.session("s", store=store).run("Hi")
    bad = begin(workflow.session("s", store=store).run("bad and slow"))
    await guard.reached.wait()
    good = begin(workflow.session("s", store=store).run("a new question"))
    await recorded(store, MessageReceived, 3)
    guard.go.set()
    await asyncio.gather(bad, good)
    assert [request.agent for request in model.requests] == ["a", "b", "a"]


async def test_the_time_that_was_worked_counts(store, when, monkeypatch):
    guard, held, now = Guard(), Held(), [0.0]
    monkeypatch.setattr(Clock, "seconds", lambda clock: now[0])

    @tool
    async def work() -> str:
        now[0] += 600
        await held.here()
        return "worked"

    model = ScriptedModel(by_agent={"a": [call("work"), "done"]})
    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[work], guardrails=[guard.rail])])
    workflow = builder.with_limits(Limits(seconds=500)).build()
    session = await disturbed(workflow, store, workflow.session("s", store=store).run("Go"), held, guard, when, CallReturned)
    assert [request.limit for request in session.pending] == ["seconds"]
    await session.approve(session.pending[0])
    assert session.state.tally.allowances == {"seconds": 1}


async def test_resume_after_a_failure_asks_the_model_to_the_end(store, when):
    guard, held, asked = Guard(), Held(), 0

    async def reply(seen):
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ModelFailed("down")
        await held.here()
        return "I am back"

    workflow = HandoffBuilder("w", [Agent("a", model=ScriptedModel(reply), guardrails=[guard.rail])]).build()
    session = workflow.session("s", store=store)
    assert (await session.run("Hi")).status == "failed"
    session = await disturbed(workflow, store, session.resume(), held, guard, when)
    assert (session.status, accepted(session), asked) == ("waiting", ["user: Hi", "a: I am back"], 2)


async def test_no_piece_of_a_reply_is_shown_twice_or_taken_back(store, when):
    guard, held = Guard(), Held()

    class Speaking:
        name = "speaking"

        async def reply(self, request, emit):
            emit("One ")
            await held.here()
            emit("two.")
            return Reply(items=(Words("One two."),))

    async def watch():
        shown.extend([event async for event in workflow.session("s", store=store).run("Hi", stream=True)])
        return await workflow.session("s", store=store).refresh()

    shown = []
    workflow = HandoffBuilder("w", [Agent("a", model=Speaking(), guardrails=[guard.rail])]).build()
    await disturbed(workflow, store, watch(), held, guard, when)
    assert [event.data.text for event in shown if event.type == "output" and event.data.delta] == ["One ", "two."]
    assert "output_reset" not in {event.type for event in shown}
    assert [event.data.text for event in shown if event.type == "message" and event.data.author_name == "a"] == ["One two."]
