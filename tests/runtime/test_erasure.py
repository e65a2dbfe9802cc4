"""Erasure of text: what agents and other handles see afterwards, and what the report says about remaining copies."""

import asyncio

import pytest

from legato import Agent, HandoffBuilder, file, guardrail, history, tool
from legato.core.facts import (
    ApprovalChecked,
    CallReturned,
    CallStarted,
    Compacted,
    GuardrailJudged,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Redacted,
)
from legato.core.texts_for_model import REDACTED_ARGUMENTS, REDACTED_TEXT
from legato.errors import BadInput, LedgerExists, ModelFailed, StoreError
from legato.runtime.session_cache import SESSION_CACHE, CachedState
from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.testing import FailingStore, Fault, ScriptedModel, call, handoff
from tests.runtime.blocking import Breakpoint, start

SECRET = "my name is Ann Xylophone"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request, tmp_path):
    if request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("database"))
    else:
        opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


def reply_with_count(request):
    return f"{len(request.messages)} messages"


def make_workflow(model=None, **more):
    return HandoffBuilder(
        "hall", [Agent("clerk", instructions="You greet.", model=model or ScriptedModel(reply_with_count), **more)]
    ).build()


def read_all_text(store, session):
    """Return all text that a handle has."""
    return str(session.facts) + str(session.messages)


async def test_agents_see_placeholder_for_erased_text(store):
    model = ScriptedModel(reply_with_count)
    session = make_workflow(model).session("s", store=store)
    await session.run(SECRET)
    await session.run("go on")
    redaction = await session.redact(session.messages[0], reason="asked for", by="ada")
    assert (redaction.positions, redaction.quoting) == ((1,), ())
    assert [message.text for message in session.messages] == [REDACTED_TEXT, "1 messages", "go on", "3 messages"]
    assert [message.text for message in (await session.seen(0)).messages] == [REDACTED_TEXT]
    await session.run("and now?")
    assert [message.text for message in model.requests[-1].messages] == [REDACTED_TEXT, "1 messages", "go on", "3 messages", "and now?"]
    (fact,) = [fact for fact in session.facts if isinstance(fact, Redacted)]
    assert (fact.reason, fact.by) == ("asked for", "ada")


async def test_erased_calls_stay_answered(store):
    """A reply with calls, their outputs and their files are erased."""

    @tool
    async def look_up(name: str) -> list:
        """Look somebody up."""
        return [f"{name} lives in Bremen", file(b"passport " * 10, "passport.pdf", "application/pdf")]

    model = ScriptedModel([call("look_up", name="Ann Xylophone"), "Found.", "Hm."])
    session = make_workflow(model, tools=[look_up]).session("s", store=store)
    await session.run("who is it?")
    reply, output = (await session.seen()).messages[1:]
    (digest,) = [part.digest for part in output.parts if hasattr(part, "digest")]
    redaction = await session.redact(reply, output)
    assert redaction.positions == (2, 4)
    assert "Xylophone" not in read_all_text(store, session)
    with pytest.raises(StoreError):
        await store.content("s", digest)
    await session.run("again?")
    message, reply, output, *_ = model.requests[-1].messages
    (made_call,) = reply.calls
    assert (message.text, made_call.arguments) == ("who is it?", REDACTED_ARGUMENTS)
    assert (output.text, output.call) == (REDACTED_TEXT, made_call.id)


async def test_refreshed_handle_loses_erased_text(store):
    workflow = make_workflow()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    await session.run(SECRET)
    await other.refresh()
    await session.redact(1)
    await other.refresh()
    assert "Xylophone" not in read_all_text(store, other)


async def test_unrefreshed_handle_writes_no_erased_text(store):
    workflow = make_workflow()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    await session.run(SECRET)
    await other.refresh()
    await session.redact(1)
    await other._ledger.append(
        lambda state: iter([MessageReceived(at=1, content="hello")])
    )  # its append meets a conflict and reads the erasure
    assert "Xylophone" not in read_all_text(store, other)
    assert [type(fact) for fact in await store.read("s")] == [type(fact) for fact in other.facts]


async def test_erased_text_is_not_cached(store):
    workflow = make_workflow()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    await workflow.session("s", store=store).redact(1)
    assert SESSION_CACHE.get(store, "s", CachedState) is None
    fresh = await workflow.session("s", store=store).refresh()
    assert "Xylophone" not in read_all_text(store, fresh)


async def test_erasure_by_other_process_invalidates_cache(store):
    workflow = make_workflow()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    cached = SESSION_CACHE.get(store, "s", CachedState)
    await session.redact(1)
    SESSION_CACHE.put(store, "s", CachedState, cached, cached.size)  # like in a process that does not know of the erasure
    fresh = await workflow.session("s", store=store).refresh()
    assert "Xylophone" not in read_all_text(store, fresh)


async def test_forks_lose_erased_text_and_are_reported(store):
    workflow = make_workflow()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    fork = await session.fork(id="branch")
    await fork.run("here it goes on")
    early = await session.fork(1, id="early")
    redaction = await session.redact(1)
    assert redaction.forks == ("branch",)
    await fork.refresh()
    assert "Xylophone" not in read_all_text(store, fork)
    assert isinstance(fork.facts[-1], Redacted)
    assert not any(isinstance(fact, Redacted) for fact in (await early.refresh()).facts)
    await fork.run("and on")
    assert fork.messages[0].text == REDACTED_TEXT


async def test_fork_before_erasure_inherits_the_erasure(store):
    session = make_workflow().session("s", store=store)
    await session.run(SECRET, key="mail-1")
    await session.run("go on")
    await session.redact(1, reason="asked for")
    branch = await session.fork(at=2)
    assert [message.text for message in branch.messages] == [REDACTED_TEXT]
    assert [fact.positions for fact in branch.facts if isinstance(fact, Redacted)] == [(1,)]
    await branch.run(SECRET, key="mail-1")
    assert "Xylophone" not in read_all_text(store, branch), "the delivery is not recorded again, although its text is erased"
    assert (await branch.redact(1)).positions == (), "there is nothing more to erase"


async def test_fork_does_not_run_call_with_erased_arguments(store):
    ran = []

    @tool(needs_approval=True)
    async def pay(to: str = "anybody") -> str:
        """Pay somebody."""
        ran.append(to)
        return "paid"

    session = make_workflow(ScriptedModel([call("pay", to="Ann Xylophone"), "Done."] * 2), tools=[pay]).session("s", store=store)
    await session.run("pay her")
    await session.reject(session.pending[0], "no")
    await session.resume()
    await session.redact(2)
    branch = await session.fork(at=4)
    assert branch.pending == []
    await branch.resume()
    assert ran == []
    assert "Not run: the arguments of 'pay' were erased" in str(branch.facts)


async def test_erasure_during_fork_reaches_the_fork(store, monkeypatch):
    session = make_workflow().session("s", store=store)
    await session.run(SECRET)
    fork, other = store.fork, make_workflow().session("s", store=store)

    async def erased_first(*given, **options):
        monkeypatch.undo()
        await other.redact(1)
        return await fork(*given, **options)

    monkeypatch.setattr(store, "fork", erased_first)
    branch = await session.fork(at=2)
    assert [fact.positions for fact in branch.facts if isinstance(fact, Redacted)] == [(1,)]


async def test_erased_message_is_not_recorded_again(store):
    session = make_workflow().session("s", store=store)
    await session.run(SECRET, key="k")
    await session.redact(1)
    before = len(session.facts)
    await session.run(SECRET, key="k")
    assert len(session.facts) == before


async def test_request_with_erased_text_is_repeated(store):
    """The reply of a model that is working on erased text is dropped, and the model is requested again."""
    pause = Breakpoint()
    asked = []

    async def reply(request):
        asked.append([message.text for message in request.messages])
        if len(asked) == 1:
            await pause.hit()
        return f"you said: {asked[-1][0]}"

    workflow = make_workflow(ScriptedModel(reply))
    running = start(workflow.session("s", store=store).run(SECRET))
    await pause.reached.wait()
    other = workflow.session("s", store=store)
    await other.redact(1)
    result = await asyncio.wait_for(running, 60)
    pause.go.set()
    assert result.text == f"you said: {REDACTED_TEXT}"
    assert asked == [[SECRET], [REDACTED_TEXT]]
    assert "Xylophone" not in str(await store.read("s"))


async def test_reply_concurrent_with_erasure_records_usage_only(store, monkeypatch):
    session = make_workflow().session("s", store=store)
    erase = make_workflow().session("s", store=store)
    real = type(store).append
    done = []

    async def append(self, ledger, expected, facts, **options):
        if any(isinstance(fact, ModelReplied) for fact in facts) and not done:
            done.append(True)
            await erase.redact(1)
        return await real(self, ledger, expected, facts, **options)

    monkeypatch.setattr(type(store), "append", append)
    result = await session.run(SECRET)
    assert result.status == "waiting"
    (attempted,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
    assert (attempted.code, attempted.context_digest) == ("erased", "")
    assert [fact.upto for fact in session.facts if isinstance(fact, ModelReplied)] == [3]


async def test_session_with_erased_turn_context_can_be_exported(store):
    pause, asked = Breakpoint(), []

    async def reply(request):
        asked.append(request)
        if len(asked) == 1:
            await pause.hit()
            raise ModelFailed(f"{SECRET} is not a question", retryable=True)
        return "hello"

    workflow = make_workflow(ScriptedModel(reply))
    session = workflow.session("s", store=store)
    running = start(session.run(SECRET))
    await pause.reached.wait()
    await workflow.session("s", store=store).redact(1)
    pause.go.set()
    await asyncio.wait_for(running, 60)
    text = await session.to_string()
    assert "Xylophone" not in text
    again = workflow.load(text, id="t", store=MemoryStore())
    await again.refresh()
    assert again.facts[: len(session.facts)] == session.facts
    assert again.state.redactions.facts == session.state.redactions.facts == {1: 2}


async def test_contents_are_recorded_after_conflict(store):
    workflow = make_workflow()
    session = workflow.session("s", store=store)
    await session.run("hi")
    await workflow.session("s", store=store).say("meanwhile")
    attempted = ModelRequestFailed(at=1, agent="clerk", context_digest="f", upto=3, error="no", code="no", attempt=1)

    def propose(state):
        yield MessageReceived(at=1, content="first") if state.length == 3 else attempted

    await session._ledger.append(propose, {"f": b"a frame"})
    assert await store.content("s", "f") == b"a frame"


async def test_summary_is_made_again_without_erased_text(store):
    def summarise(text):
        return f"in short: {text}"

    model = ScriptedModel(reply_with_count)
    session = make_workflow(model, history=history.summarised(10, keep=1, by=summarise)).session("s", store=store)
    for words in (SECRET, "long words " * 10, "and more " * 10):
        await session.run(words)
    assert "Xylophone" in model.requests[-1].summary
    redaction = await session.redact(1)
    assert [type(session.facts[position]) for position in redaction.derived] == [Compacted] * len(redaction.derived)
    await session.run("and now?")
    assert "Xylophone" not in str(model.requests[-1].messages)
    assert f"user: {REDACTED_TEXT}" in model.requests[-1].summary
    assert "Xylophone" not in read_all_text(store, session)


async def test_erased_text_leaves_turn_contexts(store):
    def memory(turn):
        return f"The user once said: {turn.messages[0].text}"

    model = ScriptedModel(reply_with_count)
    session = make_workflow(model, context_providers=[memory]).session("s", store=store)
    await session.run(SECRET)
    await session.run("go on")
    assert SECRET in (await session.seen(0)).turn_context.instructions
    await session.redact(1)
    assert (await session.seen(0)).turn_context.instructions == REDACTED_TEXT
    await session.run("again")
    assert model.requests[-1].turn_context.instructions.endswith(f"said: {REDACTED_TEXT}")


async def test_report_names_quotes_and_child_sessions(store):
    helper = Agent("helper", model=ScriptedModel(reply_with_count))
    model = ScriptedModel([f"You said: {SECRET}", call("ask_helper", task="look up Ann"), "Done."])
    session = make_workflow(model, tools=[helper.as_tool()]).session("s", store=store)
    await session.run(SECRET)
    await session.run("look")
    redaction = await session.redact(1)
    assert redaction.quoting == (2,)
    assert len(redaction.child_sessions) == 1
    assert redaction.child_sessions[0].startswith("s/")
    assert redaction.providers == ()
    again = await session.redact(*redaction.quoting)
    assert (again.positions, again.quoting) == ((2,), ())


async def test_pending_call_with_erased_arguments_is_not_run(store):
    ran = []

    @tool(needs_approval=True)
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    model = ScriptedModel([call("pay", to="Ann Xylophone"), "As you like."])
    session = make_workflow(model, tools=[pay]).session("s", store=store)
    (request,) = (await session.run("pay her")).pending
    await session.redact(2)
    assert session.pending == []
    await session.resume()
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert returned.output == "Not run: the arguments of 'pay' were erased on request before it started."
    assert ran == []
    with pytest.raises(Exception, match="not pending"):
        await session.approve(request)


async def test_started_tool_runs_with_erased_arguments(store):
    """The arguments are erased after the start was recorded and before the tool's function runs: a started tool may finish."""
    ran = []

    class ErasingStore(FailingStore):
        async def append(self, ledger, expected, facts, **more):
            length = await self.store.append(ledger, expected, facts, **more)
            if any(isinstance(fact, CallStarted) for fact in facts):
                await other.redact(2)
            return length

    @tool
    async def look_up(name: str) -> str:
        """Look somebody up."""
        ran.append(name)
        return "found"

    other = make_workflow(ScriptedModel([])).session("s", store=store)
    session = make_workflow(ScriptedModel([call("look_up", name="Ann Xylophone"), "Done."]), tools=[look_up]).session(
        "s", store=ErasingStore(store)
    )
    assert (await session.run("look her up")).text == "Done."
    assert ran == ["Ann Xylophone"]
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert (returned.status, returned.output) == ("ok", "found")
    assert "Xylophone" not in str(await store.read("s"))


@pytest.mark.parametrize("on", ["input", "output", "tool"])
async def test_verdict_on_erased_text_is_not_recorded(store, on):
    pause, asked = Breakpoint(), []

    @guardrail(on)
    async def guard(context, what):
        asked.append(str(what.arguments if on == "tool" else what))
        if "Xylophone" in asked[-1]:
            await pause.hit()
            return f"not this: {asked[-1]}"
        return None

    @tool
    async def look_up(name: str) -> str:
        """Look somebody up."""
        raise AssertionError("its arguments are gone")

    script = {"input": ["Hello."], "output": [SECRET, "Hello."], "tool": [call("look_up", name=SECRET), "Hello."]}[on]
    session = make_workflow(ScriptedModel(script), tools=[look_up], guardrails=[guard]).session("s", store=store)
    running = start(session.run(SECRET if on == "input" else "hi"))
    await asyncio.wait_for(pause.reached.wait(), 60)
    other = make_workflow(ScriptedModel([])).session("s", store=store)
    await other.redact(1 if on == "input" else 2)
    pause.go.set()
    result = await asyncio.wait_for(running, 60)
    assert result.status == "waiting"
    assert "Xylophone" not in str(await store.read("s"))
    assert result.text == (REDACTED_TEXT if on == "output" else "Hello.")


async def test_call_is_checked_again_after_erasure(store):
    """A call runs only with a recorded verdict, also if text was erased during its check."""
    pause, asked = Breakpoint(), []

    @guardrail("tool")
    async def guard(context, call):
        asked.append(call.tool)
        await pause.hit()

    @tool
    async def look_up(name: str) -> str:
        """Look somebody up."""
        return "found"

    model = ScriptedModel([call("look_up", name="Bob"), "Hello."])
    session = make_workflow(model, tools=[look_up], guardrails=[guard]).session("s", store=store)
    running = start(session.run(SECRET))
    await asyncio.wait_for(pause.reached.wait(), 60)
    await make_workflow(ScriptedModel([])).session("s", store=store).redact(1)
    pause.go.set()
    assert (await asyncio.wait_for(running, 60)).text == "Hello."
    kinds = [type(fact) for fact in session.facts]
    assert kinds[3:] == [Redacted, GuardrailJudged, ApprovalChecked, CallStarted, CallReturned, ModelReplied]
    assert asked == ["look_up", "look_up"], "the call is checked again after the erasure"


async def test_redaction_key_proves_erased_text(store):
    session = make_workflow().session("s", store=store)
    await session.run("yes")
    original = session.facts[1]
    redaction = await session.redact(1)
    assert redaction.proves(1, original)
    assert not redaction.proves(1, session.facts[1])
    assert redaction.key not in str(session.facts)


async def test_conversation_continues_after_complete_erasure(store):
    scripts = {"clerk": [handoff("payer", "it is Ann Xylophone"), "again?"], "payer": ["Hello Ann Xylophone!", "Yes?"]}
    model = ScriptedModel(by_agent=scripts)
    workflow = HandoffBuilder("w", [Agent("clerk", model=model), Agent("payer", model=model)]).build()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    await session.redact(everything=True)
    assert "Xylophone" not in read_all_text(store, session)
    assert (await session.run("so?")).text == "Yes?"
    assert (await session.redact(1)).positions == ()  # nothing more to erase there


async def test_old_export_cannot_restore_erased_text(store):
    """An export after the erasure has no erased text, and one from before is refused."""
    workflow = make_workflow()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    before = await session.to_string()
    await session.redact(1)
    after = await session.to_string()
    assert ("Xylophone" in before, "Xylophone" in after) == (True, False)
    with pytest.raises(LedgerExists, match="went different ways"):
        await workflow.load(before, store=store).refresh()
    copy = await workflow.load(after, store=MemoryStore()).refresh()
    assert copy.messages[0].text == REDACTED_TEXT
    await copy.run("go on")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_failed_erasure_can_be_repeated(store, when):
    """The store fails before or after it has erased."""
    workflow = make_workflow()
    await workflow.session("s", store=store).run(SECRET)
    failing = FailingStore(store, [Fault(1, when)], only=["redact"])
    session = workflow.session("s", store=failing)
    with pytest.raises(StoreError):
        await session.redact(1)
    await session.redact(1)
    assert "Xylophone" not in read_all_text(store, session)
    assert sum(isinstance(fact, Redacted) for fact in session.facts) == 1


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ((), "nothing was named"),
        ((7,), "has 3 facts"),
        ((-1,), "has 3 facts"),
        ((0,), "no text to erase at position 0"),
        (("1",), "positions and messages"),
    ],
)
async def test_invalid_redaction_target_raises(store, what, told):
    session = make_workflow().session("s", store=store)
    await session.run("hello")
    with pytest.raises(BadInput, match=told):
        await session.redact(*what)
    assert len(await store.read("s")) == 3
