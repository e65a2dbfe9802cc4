"""Whoever follows a conversation is told what whoever drives it is told: from any point on, whole and once."""

import asyncio
from contextlib import aclosing

import pytest

from legato import Agent, HandoffBuilder, guardrail, tool
from legato.core.facts import Words
from legato.core.messages_to_model import ERASED
from legato.errors import BadInput, ModelFailed, StoreError
from legato.models import Reply
from legato.runtime.events import Event
from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.streaming.page import Page


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request, tmp_path):
    if request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("database"))
    else:
        opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


class Paced:
    """A model whose words come when the test lets them."""

    name = "paced"

    def __init__(self, *replies):
        self._replies = list(replies)
        self.next = asyncio.Queue()
        self.said = asyncio.Event()

    async def reply(self, request, emit):
        words = self._replies.pop(0)
        for word in words:
            await self.next.get()
            if isinstance(word, Exception):
                raise word
            emit(word)
            self.said.set()
        await self.next.get()
        return Reply(items=(Words("".join(words)),))

    @property
    def left(self):
        """How many replies nobody has asked for."""
        return len(self._replies)

    def go_on(self, times):
        for _ in range(times):
            self.next.put_nowait(None)


class Follower:
    """A page that follows in the background."""

    def __init__(self, session, **how):
        self.page, self.events = Page(), []
        self._seen = asyncio.Condition()
        self.task = asyncio.ensure_future(self._follow(session, how))

    async def _follow(self, session, how):
        async with aclosing(session.follow(**how)) as events:
            async for event in events:
                async with self._seen:
                    self.page.see(event)
                    self.events.append(event)
                    self._seen.notify_all()

    async def until(self, what):
        async with asyncio.timeout(60), self._seen:
            await self._seen.wait_for(lambda: any(str(event).startswith(what) for event in self.events))

    async def until_said(self, words):
        """Wait until these words have come, in whatever pieces: how many there are depends on when the follower came."""
        async with asyncio.timeout(60), self._seen:
            await self._seen.wait_for(lambda: "".join(event.data.text for event in self.events if event.type == "output") == words)

    async def leave(self):
        self.task.cancel()
        await asyncio.wait([self.task])


def one(model, store, **more):
    return HandoffBuilder("w", [Agent("a", model=model, **more)]).with_checkpointing(store).build()


def desk(store):
    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    model = ScriptedModel(
        by_agent={
            "triage": [["One moment.", handoff("refunds", "broken")]],
            "refunds": [call("pay", amount=7), "Done.", "You are welcome."],
        }
    )
    agents = [Agent("triage", model=model), Agent("refunds", model=model, tools=[pay])]
    builder = HandoffBuilder("desk", agents).add_handoff("triage", ["refunds"]).add_handoff("refunds", ["triage"])
    return builder.with_checkpointing(store).build()


async def told(session, after=None):
    return [event async for event in session.follow(after=after, until_rest=True)]


def without_words(events):
    """All but `output`: words come in pieces or whole, as it happens; the messages have them too."""
    return [event for event in events if not event.type.startswith("output")]


async def test_who_follows_is_told_what_who_drives_is_told(store):
    workflow = desk(store)
    following = asyncio.ensure_future(told(workflow.session("s")))
    await asyncio.sleep(0.05)
    driven = [event async for event in workflow.session("s").run("Order 7 arrived broken", stream=True)]
    assert without_words(await following) == without_words(driven)
    assert [event.type for event in driven[-2:]] == ["request_info", "status"]


async def test_who_comes_when_all_is_over_is_told_the_same(store):
    workflow = desk(store)
    driven = [event async for event in workflow.session("s").run("Order 7 arrived broken", stream=True)]
    late = await told(workflow.session("s"))
    assert without_words(late) == without_words(driven)


async def test_from_every_event_on_who_comes_again_is_told_what_followed_it_and_nothing_else(store):
    workflow = desk(store)
    session = workflow.session("s")
    await session.run("Order 7 arrived broken")
    await session.approve(session.pending[0])
    await session.resume()
    whole = await told(workflow.session("s"))
    assert len(whole) > 8
    for number, event in enumerate(whole):
        assert await told(workflow.session("s"), event.cursor) == whole[number + 1 :]


async def test_a_run_that_was_left_is_gone_on_with_from_its_last_event(store):
    workflow = desk(store)
    async with aclosing(aiter(workflow.session("s").run("Order 7 arrived broken"))) as events:
        seen = [await anext(events) for _ in range(3)]
    await workflow.session("s").resume()
    rest = await told(workflow.session("s"), seen[-1].cursor)
    assert [*seen, *rest] == await told(workflow.session("s"))


async def test_after_a_position_come_the_events_of_later_facts(store):
    workflow = desk(store)
    await workflow.session("s").run("Order 7 arrived broken")
    whole = await told(workflow.session("s"))
    assert await told(workflow.session("s"), -1) == whole
    assert await told(workflow.session("s"), 2) == [event for event in whole if event.position > 2]


async def test_words_reach_a_follower_while_they_are_said(store):
    model = Paced(["Hello", " there"])
    workflow = one(model, store)
    follower = Follower(workflow.session("s"), until_rest=True)
    await asyncio.sleep(0)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.go_on(1)
    await follower.until("output: a: Hello")
    assert follower.page.said == "Hello"
    assert [type for type, _ in follower.page.happened] == ["said"]
    model.go_on(2)
    await running
    await follower.task
    assert follower.page.lines == [("user", "Hi"), ("a", "Hello there")]
    assert [event.data.text for event in follower.events if event.type == "output"] == ["Hello", " there"], "and not whole as well"


async def test_who_comes_in_the_middle_of_a_reply_is_told_it_from_its_beginning(store):
    model = Paced(["Hello", " there", " you"])
    workflow = one(model, store)
    first = Follower(workflow.session("s"), until_rest=True)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.go_on(1)
    await first.until("output: a: Hello")
    second = Follower(workflow.session("s"), until_rest=True)
    await second.until("said")
    model.go_on(1)
    await second.until_said("Hello there")
    model.go_on(2)
    await asyncio.gather(running, first.task, second.task)
    for page in (first.page, second.page):
        assert page.lines == [("user", "Hi"), ("a", "Hello there you")]


async def test_a_reply_that_broke_off_is_withdrawn_before_it_comes_again(store):
    model = Paced(["Hel", ModelFailed("broke off", retryable=True)], ["Hello", " there"])
    workflow = one(model, store)
    follower = Follower(workflow.session("s"), until_rest=True)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.go_on(1)
    await follower.until("output: a: Hel")
    model.go_on(4)
    await asyncio.gather(running, follower.task)
    types = [event.type for event in follower.events]
    assert types.index("output") < types.index("output_reset") < types.index("model_failed")
    assert follower.page.lines == [("user", "Hi"), ("a", "Hello there")]


async def test_words_that_a_cancel_cut_off_are_withdrawn(store):
    model = Paced(["Hello", " there"])
    workflow = one(model, store)
    follower = Follower(workflow.session("s"), until_rest=True)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.go_on(1)
    await follower.until("output: a: Hello")
    await workflow.session("s").cancel()
    await asyncio.gather(running, follower.task)
    assert follower.page.said == ""
    assert follower.page.lines == [("user", "Hi")]


async def test_what_is_said_about_words_that_are_erased_is_withdrawn_and_said_anew(store):
    model = Paced(["You are", " Ann"], ["You are", " somebody"])
    workflow = one(model, store)
    follower = Follower(workflow.session("s"), until_rest=True)
    running = asyncio.ensure_future(workflow.session("s").run("I am Ann")._complete())
    model.go_on(1)
    await follower.until("output: a: You are")
    await workflow.session("s").redact(1)
    await follower.until("redacted: the words at 1")
    assert follower.page.said == ""
    async with asyncio.timeout(60):
        while model.left:  # noqa: ASYNC110 - until it is asked again
            await asyncio.sleep(0.01)
    model.go_on(3)
    await asyncio.gather(running, follower.task)
    assert follower.page.lines == [("user", ERASED), ("a", "You are somebody")]
    assert "Ann" not in str(await told(workflow.session("s")))


async def test_who_comes_again_with_a_cursor_before_an_erasure_is_told_of_it_and_no_words(store):
    workflow = one(ScriptedModel(lambda seen: f"Hello {seen.messages[0].text}"), store)
    await workflow.session("s").run("Ann")
    before = await told(workflow.session("s"))
    await workflow.session("s").redact(1, 2, reason="asked for", by="ada")
    for number, event in enumerate(before):
        after = await told(workflow.session("s"), event.cursor)
        assert "Ann" not in str(after)
        assert [each.type for each in after if each.type in ("said", "message")] == [
            each.type for each in before[number + 1 :] if each.type in ("said", "message")
        ]
        (redacted,) = [each.data for each in after if each.type == "redacted"]
        assert (redacted.positions, redacted.reason, redacted.by) == ((1, 2), "asked for", "ada")


async def test_words_of_a_drive_that_ended_with_an_error_are_withdrawn(store):
    model = Paced(["Hello", " there"])
    workflow = one(model, store)
    follower = Follower(workflow.session("s"))
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.go_on(1)
    await follower.until("output: a: Hello")
    running.cancel()
    await follower.until("output_reset")
    assert follower.page.said == ""
    await follower.leave()


async def test_words_that_are_judged_are_not_heard_before_they_are_accepted(store):
    @guardrail("output")
    async def strict(context, output):
        return "no" if "secret" in output else None

    model = ScriptedModel(["a secret", "nothing special"])
    workflow = one(model, store, guardrails=[strict])
    carried = []
    async with store.live.hear("s", carried.append):
        follower = Follower(workflow.session("s"), until_rest=True)
        await asyncio.sleep(0)
        await workflow.session("s").run("Hi")
        await follower.task
    assert carried == []
    assert follower.page.lines == [("user", "Hi"), ("a", "nothing special")]


async def test_a_conversation_that_nobody_follows_has_nothing_told(store, monkeypatch):
    told = []
    monkeypatch.setattr(type(store.live), "tell", lambda self, ledger, note: told.append(note))
    workflow = one(ScriptedModel(["Hello there"]), store)
    async with aclosing(workflow.session("another").follow()) as events:
        waiting = asyncio.ensure_future(anext(events))
        await workflow.session("s").run("Hi")
        waiting.cancel()
        await asyncio.wait([waiting])
    assert told == []


async def test_what_carries_notes_may_fail_and_nobody_who_drives_is_told(store, monkeypatch):
    def tell(self, ledger, note):
        raise OSError("the line is dead")

    monkeypatch.setattr(type(store.live), "tell", tell)
    workflow = one(ScriptedModel(["Hello there"]), store)
    follower = Follower(workflow.session("s"), until_rest=True)
    await asyncio.sleep(0.01)
    assert (await workflow.session("s").run("Hi")).text == "Hello there"
    await follower.task
    assert follower.page.lines == [("user", "Hi"), ("a", "Hello there")]


async def test_it_goes_on_through_rests_and_ends_when_the_session_is_deleted(store, monkeypatch):
    monkeypatch.setattr("legato.runtime.event_follower.LOOK_SECONDS", 0.05)
    workflow = one(ScriptedModel(["one", "two"]), store)
    follower = Follower(workflow.session("s"))
    await workflow.session("s").run("first")
    await workflow.session("s").run("second")
    await follower.until("message: a: two")
    await store.delete("s")
    async with asyncio.timeout(60):
        await follower.task
    assert [event.data for event in follower.events if event.type == "status"][-1] == "waiting"


async def test_a_cursor_of_a_conversation_that_was_deleted_is_refused_in_the_one_that_has_its_id_now(store):
    workflow = one(ScriptedModel(["one", "two", "three"]), store)
    await workflow.session("s").run("first")
    last = (await told(workflow.session("s")))[-1].cursor
    await store.delete("s")
    with pytest.raises(BadInput, match="not of the conversation"):
        await told(workflow.session("s"), last)
    await workflow.session("s").run("first")
    with pytest.raises(BadInput, match="not of the conversation"):
        await told(workflow.session("s"), last)


NO_CURSORS = ["", "x", "7", "-7", "0000000-7", "00000000-7.", "00000000-7.1.", "00000000-\u0667", -2, 1.0, True, b"0", "9" * 5000]


@pytest.mark.parametrize("after", NO_CURSORS, ids=lambda after: ascii(after)[:20])
async def test_what_is_no_cursor_is_refused_before_anything_is_read(after):
    with pytest.raises(BadInput, match="cursor"):
        one(ScriptedModel(["one"]), MemoryStore()).session("s").follow(after=after)


@pytest.mark.parametrize("after", [5, "ffffffff-1", "ffffffff-0.1"])
async def test_what_is_beyond_the_end_or_of_another_conversation_is_refused(after, store):
    workflow = one(ScriptedModel(["one"]), store)
    await workflow.session("s").run("first")
    with pytest.raises(BadInput, match="not of the conversation"):
        await told(workflow.session("s"), after)


async def test_what_an_agent_asks_that_works_as_a_tool_is_told_and_so_is_what_it_asks_next(store):
    @tool(needs_approval=True)
    async def pay(cents: int) -> str:
        return "paid"

    replies = {"clerk": [call("pay", cents=1), call("pay", cents=2), "all paid"], "chief": [call("ask_clerk", task="pay"), "It is done."]}
    model = ScriptedModel(by_agent=replies)
    chief = Agent("chief", model=model, tools=[Agent("clerk", model=model, tools=[pay]).as_tool()])
    workflow = HandoffBuilder("office", [chief]).with_checkpointing(store).build()
    session = workflow.session("s")
    follower = Follower(workflow.session("s"))
    await session.run("Go")
    first = session.pending[0]
    await follower.until(f"request_info: {first}")
    await session.approve(first)
    await session.asking(first).resume()  # only there: nothing is appended here
    await session.refresh()
    second = session.pending[0]
    await follower.until(f"request_info: {second}")
    await session.approve(second)
    await session.resume()
    await follower.until("message: chief: It is done.")
    await follower.leave()


async def test_a_store_that_is_closed_is_told(store):
    workflow = one(ScriptedModel(["one"]), store)
    follower = Follower(workflow.session("s"))
    await asyncio.sleep(0.05)
    await store.close()
    with pytest.raises(StoreError):
        await follower.task


async def test_what_is_new_is_read_and_nothing_before_it(store, monkeypatch):
    workflow = one(ScriptedModel(lambda seen: f"answer {seen.turn}"), store)
    session = workflow.session("s")
    for number in range(20):
        await session.run(f"question {number}")
    follower = Follower(workflow.session("s"))
    await follower.until("message: a: answer 19")
    starts, read = [], type(store).read

    async def counted(self, ledger, start=0, **more):
        starts.append(start)
        return await read(self, ledger, start, **more)

    monkeypatch.setattr(type(store), "read", counted)
    await session.run("one more")
    await follower.until("message: a: answer 20")
    assert starts
    assert min(starts) >= 41
    await follower.leave()


async def test_one_handle_may_drive_and_be_followed_by_many(store):
    session = one(ScriptedModel(["one", "two"]), store).session("s")
    followers = [Follower(session) for _ in range(20)]
    await session.run("first")
    await session.run("second")
    for follower in followers:
        await follower.until("message: a: two")
        assert follower.page.lines == [("user", "first"), ("a", "one"), ("user", "second"), ("a", "two")]
        await follower.leave()


async def test_leaving_leaves_nothing_behind(store):
    workflow = one(ScriptedModel(["one"]), store)
    followers = [Follower(workflow.session("s")) for _ in range(3)]
    await workflow.session("s").run("first")
    for follower in followers:
        await follower.until("status")
        await follower.leave()
    on_postgres = isinstance(store, PostgresStore)
    here, waiters = (store.live._notes._here, store._server.waiters) if on_postgres else (store.live, store._waiters)
    assert (here.ledgers(), waiters.ledgers()) == ([], [])
    await store.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def test_an_event_without_a_cursor_is_what_it_was():
    assert Event("status", "waiting", 3) == Event("status", "waiting", 3, "")
