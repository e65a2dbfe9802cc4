"""Followers get the events that the driver's client gets: from any cursor on, completely and once."""

import asyncio
from contextlib import aclosing

import pytest

from legato import Agent, HandoffBuilder, guardrail, tool
from legato.core.facts import OutputText
from legato.core.texts_for_model import REDACTED_TEXT
from legato.errors import BadInput, ModelFailed, StoreError
from legato.models import ModelReply
from legato.runtime.events import Event
from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.event_page import EventPage


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request, tmp_path):
    if request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("database"))
    else:
        opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


class PacedModel:
    """A model that emits a word when the test releases it."""

    name = "paced"

    def __init__(self, *replies):
        self._replies = list(replies)
        self.next = asyncio.Queue()
        self.reply_text = asyncio.Event()

    async def reply(self, request, emit):
        text = self._replies.pop(0)
        for word in text:
            await self.next.get()
            if isinstance(word, Exception):
                raise word
            emit(word)
            self.reply_text.set()
        await self.next.get()
        return ModelReply(items=(OutputText("".join(text)),))

    @property
    def remaining_replies(self):
        """The number of replies that were not requested yet."""
        return len(self._replies)

    def release(self, times):
        for _ in range(times):
            self.next.put_nowait(None)


class Follower:
    """A page that follows a session in a task."""

    def __init__(self, session, **options):
        self.page, self.events = EventPage(), []
        self._seen = asyncio.Condition()
        self.task = asyncio.ensure_future(self._follow(session, options))

    async def _follow(self, session, options):
        async with aclosing(session.follow(**options)) as events:
            async for event in events:
                async with self._seen:
                    self.page.show_event(event)
                    self.events.append(event)
                    self._seen.notify_all()

    async def until(self, prefix):
        async with asyncio.timeout(60), self._seen:
            await self._seen.wait_for(lambda: any(str(event).startswith(prefix) for event in self.events))

    async def until_said(self, text):
        """Wait until this text has come. The number of deltas depends on when the follower started."""
        async with asyncio.timeout(60), self._seen:
            await self._seen.wait_for(lambda: "".join(event.data.text for event in self.events if event.type == "output") == text)

    async def stop(self):
        self.task.cancel()
        await asyncio.wait([self.task])


def make_chat_workflow(model, store, **more):
    return HandoffBuilder("w", [Agent("a", model=model, **more)]).with_checkpointing(store).build()


def make_desk_workflow(store):
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


async def read_events(session, after=None):
    return [event async for event in session.follow(after=after, until_idle=True)]


def without_output(events):
    """Leave out `output` events: text comes in any number of deltas, and the messages have it too."""
    return [event for event in events if not event.type.startswith("output")]


async def test_follower_gets_same_events_as_driver(store):
    workflow = make_desk_workflow(store)
    following = asyncio.ensure_future(read_events(workflow.session("s")))
    await asyncio.sleep(0.05)
    driven = [event async for event in workflow.session("s").run("Order 7 arrived broken", stream=True)]
    assert without_output(await following) == without_output(driven)
    assert [event.type for event in driven[-2:]] == ["request_info", "status"]


async def test_late_follower_gets_same_events(store):
    workflow = make_desk_workflow(store)
    driven = [event async for event in workflow.session("s").run("Order 7 arrived broken", stream=True)]
    late = await read_events(workflow.session("s"))
    assert without_output(late) == without_output(driven)


async def test_every_cursor_resumes_exactly_behind_its_event(store):
    workflow = make_desk_workflow(store)
    session = workflow.session("s")
    await session.run("Order 7 arrived broken")
    await session.approve(session.pending[0])
    await session.resume()
    whole = await read_events(workflow.session("s"))
    assert len(whole) > 8
    for number, event in enumerate(whole):
        assert await read_events(workflow.session("s"), event.cursor) == whole[number + 1 :]


async def test_follower_continues_from_last_event_of_run(store):
    workflow = make_desk_workflow(store)
    async with aclosing(aiter(workflow.session("s").run("Order 7 arrived broken"))) as events:
        first_events = [await anext(events) for _ in range(3)]
    await workflow.session("s").resume()
    later_events = await read_events(workflow.session("s"), first_events[-1].cursor)
    assert [*first_events, *later_events] == await read_events(workflow.session("s"))


async def test_position_resumes_with_events_of_later_facts(store):
    workflow = make_desk_workflow(store)
    await workflow.session("s").run("Order 7 arrived broken")
    whole = await read_events(workflow.session("s"))
    assert await read_events(workflow.session("s"), -1) == whole
    assert await read_events(workflow.session("s"), 2) == [event for event in whole if event.position > 2]


async def test_deltas_reach_follower_during_reply(store):
    model = PacedModel(["Hello", " there"])
    workflow = make_chat_workflow(model, store)
    follower = Follower(workflow.session("s"), until_idle=True)
    await asyncio.sleep(0)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.release(1)
    await follower.until("output: a: Hello")
    assert follower.page.reply_text == "Hello"
    assert [type for type, _ in follower.page.ledger_events] == ["said"]
    model.release(2)
    await running
    await follower.task
    assert follower.page.lines == [("user", "Hi"), ("a", "Hello there")]
    assert [event.data.text for event in follower.events if event.type == "output"] == ["Hello", " there"], "the text comes in deltas only"


async def test_follower_during_reply_gets_it_from_beginning(store):
    model = PacedModel(["Hello", " there", " you"])
    workflow = make_chat_workflow(model, store)
    first = Follower(workflow.session("s"), until_idle=True)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.release(1)
    await first.until("output: a: Hello")
    second = Follower(workflow.session("s"), until_idle=True)
    await second.until("said")
    model.release(1)
    await second.until_said("Hello there")
    model.release(2)
    await asyncio.gather(running, first.task, second.task)
    for page in (first.page, second.page):
        assert page.lines == [("user", "Hi"), ("a", "Hello there you")]


async def test_interrupted_reply_is_retracted_before_retry(store):
    model = PacedModel(["Hel", ModelFailed("broke off", retryable=True)], ["Hello", " there"])
    workflow = make_chat_workflow(model, store)
    follower = Follower(workflow.session("s"), until_idle=True)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.release(1)
    await follower.until("output: a: Hel")
    model.release(4)
    await asyncio.gather(running, follower.task)
    types = [event.type for event in follower.events]
    assert types.index("output") < types.index("output_reset") < types.index("model_failed")
    assert follower.page.lines == [("user", "Hi"), ("a", "Hello there")]


async def test_deltas_are_retracted_after_cancel(store):
    model = PacedModel(["Hello", " there"])
    workflow = make_chat_workflow(model, store)
    follower = Follower(workflow.session("s"), until_idle=True)
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.release(1)
    await follower.until("output: a: Hello")
    await workflow.session("s").cancel()
    await asyncio.gather(running, follower.task)
    assert follower.page.reply_text == ""
    assert follower.page.lines == [("user", "Hi")]


async def test_deltas_are_retracted_after_erasure(store):
    """A reply in progress about erased text is retracted, and the model is requested again."""
    model = PacedModel(["You are", " Ann"], ["You are", " somebody"])
    workflow = make_chat_workflow(model, store)
    follower = Follower(workflow.session("s"), until_idle=True)
    running = asyncio.ensure_future(workflow.session("s").run("I am Ann")._complete())
    model.release(1)
    await follower.until("output: a: You are")
    await workflow.session("s").redact(1)
    await follower.until("redacted: the words at 1")
    assert follower.page.reply_text == ""
    async with asyncio.timeout(60):
        while model.remaining_replies:  # noqa: ASYNC110 - until the model is requested again
            await asyncio.sleep(0.01)
    model.release(3)
    await asyncio.gather(running, follower.task)
    assert follower.page.lines == [("user", REDACTED_TEXT), ("a", "You are somebody")]
    assert "Ann" not in str(await read_events(workflow.session("s")))


async def test_older_cursor_shows_erasure_without_text(store):
    workflow = make_chat_workflow(ScriptedModel(lambda request: f"Hello {request.messages[0].text}"), store)
    await workflow.session("s").run("Ann")
    before = await read_events(workflow.session("s"))
    await workflow.session("s").redact(1, 2, reason="asked for", by="ada")
    for number, event in enumerate(before):
        after = await read_events(workflow.session("s"), event.cursor)
        assert "Ann" not in str(after)
        assert [each.type for each in after if each.type in ("said", "message")] == [
            each.type for each in before[number + 1 :] if each.type in ("said", "message")
        ]
        (redacted,) = [each.data for each in after if each.type == "redacted"]
        assert (redacted.positions, redacted.reason, redacted.by) == ((1, 2), "asked for", "ada")


async def test_deltas_of_failed_drive_are_retracted(store):
    model = PacedModel(["Hello", " there"])
    workflow = make_chat_workflow(model, store)
    follower = Follower(workflow.session("s"))
    running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
    model.release(1)
    await follower.until("output: a: Hello")
    running.cancel()
    await follower.until("output_reset")
    assert follower.page.reply_text == ""
    await follower.stop()


async def test_text_with_output_guardrails_is_not_published(store):
    @guardrail("output")
    async def object_to_secrets(context, output):
        return "no" if "secret" in output else None

    model = ScriptedModel(["a secret", "nothing special"])
    workflow = make_chat_workflow(model, store, guardrails=[object_to_secrets])
    published = []
    async with store.delta_channel.subscribe("s", published.append):
        follower = Follower(workflow.session("s"), until_idle=True)
        await asyncio.sleep(0)
        await workflow.session("s").run("Hi")
        await follower.task
    assert published == []
    assert follower.page.lines == [("user", "Hi"), ("a", "nothing special")]


async def test_session_without_followers_publishes_no_deltas(store, monkeypatch):
    read_events = []
    monkeypatch.setattr(type(store.delta_channel), "publish", lambda self, ledger, note: read_events.append(note))
    workflow = make_chat_workflow(ScriptedModel(["Hello there"]), store)
    async with aclosing(workflow.session("another").follow()) as events:
        waiting = asyncio.ensure_future(anext(events))
        await workflow.session("s").run("Hi")
        waiting.cancel()
        await asyncio.wait([waiting])
    assert read_events == []


async def test_failing_delta_channel_does_not_affect_driver(store, monkeypatch):
    def tell(self, ledger, note):
        raise OSError("the line is dead")

    monkeypatch.setattr(type(store.delta_channel), "publish", tell)
    workflow = make_chat_workflow(ScriptedModel(["Hello there"]), store)
    follower = Follower(workflow.session("s"), until_idle=True)
    await asyncio.sleep(0.01)
    assert (await workflow.session("s").run("Hi")).text == "Hello there"
    await follower.task
    assert follower.page.lines == [("user", "Hi"), ("a", "Hello there")]


async def test_follower_ends_when_session_is_deleted(store, monkeypatch):
    """A follower continues while the session is idle in between."""
    monkeypatch.setattr("legato.runtime.event_follower.EXISTENCE_CHECK_INTERVAL_S", 0.05)
    workflow = make_chat_workflow(ScriptedModel(["one", "two"]), store)
    follower = Follower(workflow.session("s"))
    await workflow.session("s").run("first")
    await workflow.session("s").run("second")
    await follower.until("message: a: two")
    await store.delete("s")
    async with asyncio.timeout(60):
        await follower.task
    assert [event.data for event in follower.events if event.type == "status"][-1] == "waiting"


async def test_cursor_of_deleted_session_is_refused(store):
    """Also if another session has its id now."""
    workflow = make_chat_workflow(ScriptedModel(["one", "two", "three"]), store)
    await workflow.session("s").run("first")
    last = (await read_events(workflow.session("s")))[-1].cursor
    await store.delete("s")
    with pytest.raises(BadInput, match="not of the conversation"):
        await read_events(workflow.session("s"), last)
    await workflow.session("s").run("first")
    with pytest.raises(BadInput, match="not of the conversation"):
        await read_events(workflow.session("s"), last)


INVALID_CURSORS = ["", "x", "7", "-7", "0000000-7", "00000000-7.", "00000000-7.1.", "00000000-\u0667", -2, 1.0, True, b"0", "9" * 5000]


@pytest.mark.parametrize("after", INVALID_CURSORS, ids=lambda after: ascii(after)[:20])
async def test_invalid_cursor_is_refused_before_reading(after):
    with pytest.raises(BadInput, match="cursor"):
        make_chat_workflow(ScriptedModel(["one"]), MemoryStore()).session("s").follow(after=after)


@pytest.mark.parametrize("after", [5, "ffffffff-1", "ffffffff-0.1"])
async def test_cursor_of_other_conversation_is_refused(after, store):
    """A cursor beyond the end, or of another ledger."""
    workflow = make_chat_workflow(ScriptedModel(["one"]), store)
    await workflow.session("s").run("first")
    with pytest.raises(BadInput, match="not of the conversation"):
        await read_events(workflow.session("s"), after)


async def test_requests_of_child_sessions_are_shown(store):
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
    await session.find_session_of(first).resume()  # appends to the child session only
    await session.refresh()
    second = session.pending[0]
    await follower.until(f"request_info: {second}")
    await session.approve(second)
    await session.resume()
    await follower.until("message: chief: It is done.")
    await follower.stop()


async def test_closed_store_ends_following_with_error(store):
    workflow = make_chat_workflow(ScriptedModel(["one"]), store)
    follower = Follower(workflow.session("s"))
    await asyncio.sleep(0.05)
    await store.close()
    with pytest.raises(StoreError):
        await follower.task


async def test_follower_reads_only_new_facts(store, monkeypatch):
    workflow = make_chat_workflow(ScriptedModel(lambda request: f"answer {request.reply_count}"), store)
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
    await follower.stop()


async def test_one_handle_drives_for_many_followers(store):
    session = make_chat_workflow(ScriptedModel(["one", "two"]), store).session("s")
    followers = [Follower(session) for _ in range(20)]
    await session.run("first")
    await session.run("second")
    for follower in followers:
        await follower.until("message: a: two")
        assert follower.page.lines == [("user", "first"), ("a", "one"), ("user", "second"), ("a", "two")]
        await follower.stop()


async def test_leaving_follower_releases_its_subscriptions(store):
    workflow = make_chat_workflow(ScriptedModel(["one"]), store)
    followers = [Follower(workflow.session("s")) for _ in range(3)]
    await workflow.session("s").run("first")
    for follower in followers:
        await follower.until("status")
        await follower.stop()
    on_postgres = isinstance(store, PostgresStore)
    here, waiters = (
        (store.delta_channel._notifications._local_channel, store._database.watchers)
        if on_postgres
        else (store.delta_channel, store._watchers)
    )
    assert (here.ledgers(), waiters.ledgers()) == ([], [])
    await store.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def test_event_cursor_defaults_to_empty():
    assert Event("status", "waiting", 3) == Event("status", "waiting", 3, "")
