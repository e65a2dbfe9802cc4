"""Erasing a person's words in a session: what agents see afterwards, what other handles have, and what is told of what remains."""

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
from legato.core.messages_to_model import ERASED, ERASED_ARGUMENTS
from legato.errors import BadInput, LedgerExists, ModelFailed, StoreError
from legato.runtime.session_cache import SESSIONS, CachedState
from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.testing import FailingStore, Fault, ScriptedModel, call, handoff
from tests.runtime.holding import Held, begin

SECRET = "my name is Ann Xylophone"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request, tmp_path):
    if request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("database"))
    else:
        opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


def replying(seen):
    return f"{len(seen.messages)} messages"


def hall(model=None, **more):
    return HandoffBuilder("hall", [Agent("clerk", instructions="You greet.", model=model or ScriptedModel(replying), **more)]).build()


def everything_of(store, session):
    """All that a handle can show."""
    return str(session.facts) + str(session.messages)


async def test_agents_see_a_short_text_in_place_of_what_was_erased_and_so_does_seen(store):
    model = ScriptedModel(replying)
    session = hall(model).session("s", store=store)
    await session.run(SECRET)
    await session.run("go on")
    redaction = await session.redact(session.messages[0], reason="asked for", by="ada")
    assert (redaction.positions, redaction.quoted) == ((1,), ())
    assert [message.text for message in session.messages] == [ERASED, "1 messages", "go on", "3 messages"]
    assert [message.text for message in (await session.seen(0)).messages] == [ERASED]
    await session.run("and now?")
    assert [message.text for message in model.requests[-1].messages] == [ERASED, "1 messages", "go on", "3 messages", "and now?"]
    (fact,) = [fact for fact in session.facts if isinstance(fact, Redacted)]
    assert (fact.reason, fact.by) == ("asked for", "ada")


async def test_a_reply_with_calls_its_outputs_and_their_files_are_erased_and_every_call_stays_answered(store):
    @tool
    async def look_up(name: str) -> list:
        """Look somebody up."""
        return [f"{name} lives in Bremen", file(b"passport " * 10, "passport.pdf", "application/pdf")]

    model = ScriptedModel([call("look_up", name="Ann Xylophone"), "Found.", "Hm."])
    session = hall(model, tools=[look_up]).session("s", store=store)
    await session.run("who is it?")
    answered, output = (await session.seen()).messages[1:]
    (digest,) = [part.digest for part in output.parts if hasattr(part, "digest")]
    redaction = await session.redact(answered, output)
    assert redaction.positions == (2, 4)
    assert "Xylophone" not in everything_of(store, session)
    with pytest.raises(StoreError):
        await store.content("s", digest)
    await session.run("again?")
    said, asked, got, *_ = model.requests[-1].messages
    assert (said.text, asked.calls[0].arguments, got.text, got.call) == ("who is it?", ERASED_ARGUMENTS, ERASED, asked.calls[0].id)


async def test_another_handle_has_the_words_no_more_once_it_has_looked(store):
    workflow = hall()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    await session.run(SECRET)
    await other.refresh()
    await session.redact(1)
    await other.refresh()
    assert "Xylophone" not in everything_of(store, other)


async def test_a_handle_that_has_not_looked_writes_nothing_back(store):
    workflow = hall()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    await session.run(SECRET)
    await other.refresh()
    await session.redact(1)
    await other._ledger.append(lambda state: iter([MessageReceived(at=1, content="hello")]))  # it learns at its append that it is late
    assert "Xylophone" not in everything_of(store, other)
    assert [type(fact) for fact in await store.read("s")] == [type(fact) for fact in other.facts]


async def test_erased_words_are_not_cached(store):
    workflow = hall()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    await workflow.session("s", store=store).redact(1)
    assert SESSIONS.get(store, "s", CachedState) is None
    fresh = await workflow.session("s", store=store).refresh()
    assert "Xylophone" not in everything_of(store, fresh)


async def test_what_another_process_erased_is_read_anew(store):
    workflow = hall()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    cached = SESSIONS.get(store, "s", CachedState)
    await session.redact(1)
    SESSIONS.put(store, "s", CachedState, cached, cached.size)  # as it is in a process that was not told
    fresh = await workflow.session("s", store=store).refresh()
    assert "Xylophone" not in everything_of(store, fresh)


async def test_forks_lose_the_words_too_and_are_named(store):
    workflow = hall()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    fork = await session.fork(id="branch")
    await fork.run("here it goes on")
    early = await session.fork(1, id="early")
    redaction = await session.redact(1)
    assert redaction.forks == ("branch",)
    await fork.refresh()
    assert "Xylophone" not in everything_of(store, fork)
    assert isinstance(fork.facts[-1], Redacted)
    assert not any(isinstance(fact, Redacted) for fact in (await early.refresh()).facts)
    await fork.run("and on")
    assert fork.messages[0].text == ERASED


async def test_a_branch_from_before_the_erasure_knows_what_is_gone(store):
    session = hall().session("s", store=store)
    await session.run(SECRET, key="mail-1")
    await session.run("go on")
    await session.redact(1, reason="asked for")
    branch = await session.fork(at=2)
    assert [message.text for message in branch.messages] == [ERASED]
    assert [fact.positions for fact in branch.facts if isinstance(fact, Redacted)] == [(1,)]
    await branch.run(SECRET, key="mail-1")
    assert "Xylophone" not in everything_of(store, branch), "delivered once, although nobody can tell any more what it was"
    assert (await branch.redact(1)).positions == (), "there is nothing more to erase"


async def test_a_call_whose_arguments_are_gone_is_not_run_in_a_branch_from_before_the_erasure(store):
    ran = []

    @tool(needs_approval=True)
    async def pay(to: str = "anybody") -> str:
        """Pay somebody."""
        ran.append(to)
        return "paid"

    session = hall(ScriptedModel([call("pay", to="Ann Xylophone"), "Done."] * 2), tools=[pay]).session("s", store=store)
    await session.run("pay her")
    await session.reject(session.pending[0], "no")
    await session.resume()
    await session.redact(2)
    branch = await session.fork(at=4)
    assert branch.pending == []
    await branch.resume()
    assert ran == []
    assert "Not run: the arguments of 'pay' were erased" in str(branch.facts)


async def test_an_erasure_that_comes_while_a_branch_is_made_is_known_there(store, monkeypatch):
    session = hall().session("s", store=store)
    await session.run(SECRET)
    fork, other = store.fork, hall().session("s", store=store)

    async def erased_first(*given, **options):
        monkeypatch.undo()
        await other.redact(1)
        return await fork(*given, **options)

    monkeypatch.setattr(store, "fork", erased_first)
    branch = await session.fork(at=2)
    assert [fact.positions for fact in branch.facts if isinstance(fact, Redacted)] == [(1,)]


async def test_a_message_that_is_delivered_again_after_it_was_erased_is_not_recorded_again(store):
    session = hall().session("s", store=store)
    await session.run(SECRET, key="k")
    await session.redact(1)
    before = len(session.facts)
    await session.run(SECRET, key="k")
    assert len(session.facts) == before


async def test_a_model_that_is_thinking_about_the_words_is_asked_again_and_its_reply_is_not_recorded(store):
    held = Held()
    asked = []

    async def reply(seen):
        asked.append([message.text for message in seen.messages])
        if len(asked) == 1:
            await held.here()
        return f"you said: {asked[-1][0]}"

    workflow = hall(ScriptedModel(reply))
    running = begin(workflow.session("s", store=store).run(SECRET))
    await held.reached.wait()
    other = workflow.session("s", store=store)
    await other.redact(1)
    result = await asyncio.wait_for(running, 60)
    held.go.set()
    assert result.text == f"you said: {ERASED}"
    assert asked == [[SECRET], [ERASED]]
    assert "Xylophone" not in str(await store.read("s"))


async def test_a_reply_that_comes_at_the_same_moment_leaves_its_cost_and_nothing_else(store, monkeypatch):
    session = hall().session("s", store=store)
    erase = hall().session("s", store=store)
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
    assert (attempted.code, attempted.frame) == ("erased", "")
    assert [fact.upto for fact in session.facts if isinstance(fact, ModelReplied)] == [3]


async def test_a_session_whose_attempt_lost_its_frame_is_whole_as_text(store):
    held, asked = Held(), []

    async def reply(seen):
        asked.append(seen)
        if len(asked) == 1:
            await held.here()
            raise ModelFailed(f"{SECRET} is not a question", retryable=True)
        return "hello"

    workflow = hall(ScriptedModel(reply))
    session = workflow.session("s", store=store)
    running = begin(session.run(SECRET))
    await held.reached.wait()
    await workflow.session("s", store=store).redact(1)
    held.go.set()
    await asyncio.wait_for(running, 60)
    text = await session.to_string()
    assert "Xylophone" not in text
    again = workflow.load(text, id="t", store=MemoryStore())
    await again.refresh()
    assert again.facts[: len(session.facts)] == session.facts
    assert again.state.erasures.facts == session.state.erasures.facts == {1: 2}


async def test_what_was_recorded_after_a_conflict_has_its_contents(store):
    workflow = hall()
    session = workflow.session("s", store=store)
    await session.run("hi")
    await workflow.session("s", store=store).say("meanwhile")
    attempted = ModelRequestFailed(at=1, agent="clerk", frame="f", upto=3, error="no", code="no", number=1)

    def propose(state):
        yield MessageReceived(at=1, content="first") if state.length == 3 else attempted

    await session._ledger.append(propose, {"f": b"a frame"})
    assert await store.content("s", "f") == b"a frame"


async def test_a_summary_is_made_anew_without_the_words(store):
    def summarise(text):
        return f"in short: {text}"

    model = ScriptedModel(replying)
    session = hall(model, history=history.summarised(10, keep=1, by=summarise)).session("s", store=store)
    for words in (SECRET, "long words " * 10, "and more " * 10):
        await session.run(words)
    assert "Xylophone" in model.requests[-1].summary
    redaction = await session.redact(1)
    assert [type(session.facts[position]) for position in redaction.along] == [Compacted] * len(redaction.along)
    await session.run("and now?")
    assert "Xylophone" not in str(model.requests[-1].messages)
    assert f"user: {ERASED}" in model.requests[-1].summary
    assert "Xylophone" not in everything_of(store, session)


async def test_what_user_code_retold_in_a_frame_is_kept_without_it(store):
    def memory(turn):
        return f"The user once said: {turn.messages[0].text}"

    model = ScriptedModel(replying)
    session = hall(model, context_providers=[memory]).session("s", store=store)
    await session.run(SECRET)
    await session.run("go on")
    assert SECRET in (await session.seen(0)).frame.instructions
    await session.redact(1)
    assert (await session.seen(0)).frame.instructions == ERASED
    await session.run("again")
    assert model.requests[-1].frame.instructions.endswith(f"said: {ERASED}")


async def test_where_the_words_are_still_quoted_and_who_else_has_them_is_told(store):
    helper = Agent("helper", model=ScriptedModel(replying))
    model = ScriptedModel([f"You said: {SECRET}", call("ask_helper", task="look up Ann"), "Done."])
    session = hall(model, tools=[helper.as_tool()]).session("s", store=store)
    await session.run(SECRET)
    await session.run("look")
    redaction = await session.redact(1)
    assert redaction.quoted == (2,)
    assert len(redaction.nested) == 1
    assert redaction.nested[0].startswith("s/")
    assert redaction.providers == ()
    again = await session.redact(*redaction.quoted)
    assert (again.positions, again.quoted) == ((2,), ())


async def test_a_call_that_waits_for_a_person_is_not_run_when_its_arguments_are_erased(store):
    ran = []

    @tool(needs_approval=True)
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    model = ScriptedModel([call("pay", to="Ann Xylophone"), "As you like."])
    session = hall(model, tools=[pay]).session("s", store=store)
    (request,) = (await session.run("pay her")).pending
    await session.redact(2)
    assert session.pending == []
    await session.resume()
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert returned.output == "Not run: the arguments of 'pay' were erased on request before it started."
    assert ran == []
    with pytest.raises(Exception, match="not pending"):
        await session.approve(request)


async def test_started_tool_runs_with_its_erased_arguments(store):
    """The words are erased right after its start was recorded: a tool that runs comes to its end, and its body has not begun yet."""
    ran = []

    class Erasing(FailingStore):
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

    other = hall(ScriptedModel([])).session("s", store=store)
    session = hall(ScriptedModel([call("look_up", name="Ann Xylophone"), "Done."]), tools=[look_up]).session("s", store=Erasing(store))
    assert (await session.run("look her up")).text == "Done."
    assert ran == ["Ann Xylophone"]
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert (returned.status, returned.output) == ("ok", "found")
    assert "Xylophone" not in str(await store.read("s"))


@pytest.mark.parametrize("on", ["input", "output", "tool"])
async def test_a_verdict_about_words_that_were_erased_meanwhile_is_not_recorded(store, on):
    held, asked = Held(), []

    @guardrail(on)
    async def guard(context, what):
        asked.append(str(what.arguments if on == "tool" else what))
        if "Xylophone" in asked[-1]:
            await held.here()
            return f"not this: {asked[-1]}"
        return None

    @tool
    async def look_up(name: str) -> str:
        """Look somebody up."""
        raise AssertionError("its arguments are gone")

    script = {"input": ["Hello."], "output": [SECRET, "Hello."], "tool": [call("look_up", name=SECRET), "Hello."]}[on]
    session = hall(ScriptedModel(script), tools=[look_up], guardrails=[guard]).session("s", store=store)
    running = begin(session.run(SECRET if on == "input" else "hi"))
    await asyncio.wait_for(held.reached.wait(), 60)
    other = hall(ScriptedModel([])).session("s", store=store)
    await other.redact(1 if on == "input" else 2)
    held.go.set()
    result = await asyncio.wait_for(running, 60)
    assert result.status == "waiting"
    assert "Xylophone" not in str(await store.read("s"))
    assert result.text == (ERASED if on == "output" else "Hello.")


async def test_a_call_runs_with_its_verdict_on_record_although_words_were_erased_meanwhile(store):
    held, asked = Held(), []

    @guardrail("tool")
    async def guard(context, call):
        asked.append(call.tool)
        await held.here()

    @tool
    async def look_up(name: str) -> str:
        """Look somebody up."""
        return "found"

    model = ScriptedModel([call("look_up", name="Bob"), "Hello."])
    session = hall(model, tools=[look_up], guardrails=[guard]).session("s", store=store)
    running = begin(session.run(SECRET))
    await asyncio.wait_for(held.reached.wait(), 60)
    await hall(ScriptedModel([])).session("s", store=store).redact(1)
    held.go.set()
    assert (await asyncio.wait_for(running, 60)).text == "Hello."
    kinds = [type(fact) for fact in session.facts]
    assert kinds[3:] == [Redacted, GuardrailJudged, ApprovalChecked, CallStarted, CallReturned, ModelReplied]
    assert asked == ["look_up", "look_up"], "it was asked about what is there now"


async def test_the_key_proves_what_was_erased_and_is_kept_nowhere(store):
    session = hall().session("s", store=store)
    await session.run("yes")
    original = session.facts[1]
    redaction = await session.redact(1)
    assert redaction.proves(1, original)
    assert not redaction.proves(1, session.facts[1])
    assert redaction.key not in str(session.facts)


async def test_everything_can_be_erased_and_the_conversation_goes_on(store):
    scripts = {"clerk": [handoff("payer", "it is Ann Xylophone"), "again?"], "payer": ["Hello Ann Xylophone!", "Yes?"]}
    model = ScriptedModel(by_agent=scripts)
    workflow = HandoffBuilder("w", [Agent("clerk", model=model), Agent("payer", model=model)]).build()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    await session.redact(everything=True)
    assert "Xylophone" not in everything_of(store, session)
    assert (await session.run("so?")).text == "Yes?"
    assert (await session.redact(1)).positions == ()  # nothing more to erase there


async def test_text_made_afterwards_has_no_words_and_text_made_before_is_not_let_in_again(store):
    workflow = hall()
    session = workflow.session("s", store=store)
    await session.run(SECRET)
    before = await session.to_string()
    await session.redact(1)
    after = await session.to_string()
    assert ("Xylophone" in before, "Xylophone" in after) == (True, False)
    with pytest.raises(LedgerExists, match="went different ways"):
        await workflow.load(before, store=store).refresh()
    copy = await workflow.load(after, store=MemoryStore()).refresh()
    assert copy.messages[0].text == ERASED
    await copy.run("go on")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_erasure_that_failed_or_only_seemed_to_is_asked_for_again(store, when):
    workflow = hall()
    await workflow.session("s", store=store).run(SECRET)
    failing = FailingStore(store, [Fault(1, when)], only=["redact"])
    session = workflow.session("s", store=failing)
    with pytest.raises(StoreError):
        await session.redact(1)
    await session.redact(1)
    assert "Xylophone" not in everything_of(store, session)
    assert sum(isinstance(fact, Redacted) for fact in session.facts) == 1


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ((), "nothing was named"),
        ((7,), "has 3 facts"),
        ((-1,), "has 3 facts"),
        ((0,), "no words to erase at position 0"),
        (("1",), "a position or a message"),
    ],
)
async def test_what_cannot_be_erased_is_told(store, what, told):
    session = hall().session("s", store=store)
    await session.run("hello")
    with pytest.raises(BadInput, match=told):
        await session.redact(*what)
    assert len(await store.read("s")) == 3
