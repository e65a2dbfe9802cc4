"""The sessions of a store, page by page, and everything that people are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.errors import BadInput, UnknownLedger
from legato.inspection import browsing
from legato.inspection.browsing import Browsing
from legato.inspection.recorded import as_recorded
from legato.runtime.session import Session
from legato.runtime.session_cache import SESSIONS, CachedState, SessionCache
from legato.stores import MemoryStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call
from tests.inspection.desk import desk, refunding


class Shelf:
    """A store whose sessions are opened by one workflow, and counted."""

    def __init__(self, store: Store, workflow: Workflow) -> None:
        self.store = store
        self.workflow = workflow
        self.opened: list[str] = []
        self.browsing = Browsing(store, self._open, lambda name: name == workflow.name)

    async def _open(self, id: str) -> Session:
        """By the workflow, or as it is recorded if it is of another."""
        self.opened.append(id)
        facts = await self.store.read(id)
        if not facts:
            raise UnknownLedger(f"there is no session {id!r}")
        recorded = as_recorded(facts)
        return await (self.workflow if recorded.name == self.workflow.name else recorded).session(id, store=self.store).refresh()

    async def ids(self, **asked: str) -> list[str]:
        return [row.id for row in (await self.browsing.page(**asked)).sessions]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.sqlite") as made:
        yield made


async def told(store: Store, *ids: str) -> Shelf:
    for id in ids:
        await desk(f"I am {id.upper()}.").session(id, store=store).run(f"Hello {id}")
    return Shelf(store, desk("Well."))


async def test_pages_go_through_all_sessions_newest_first_each_once(store: Store) -> None:
    shelf = await told(store, *"abcdefg")
    first = await shelf.browsing.page(limit=3)
    assert [row.id for row in first.sessions] == ["g", "f", "e"]
    await desk("Again.").session("f", store=store).run("More")  # it moves to the front, and is not told again behind the cursor
    await desk("New.").session("h", store=store).run("Hello")
    rest: list[str] = []
    after = first.next
    while after:
        page = await shelf.browsing.page(limit=3, after=after)
        rest += [row.id for row in page.sessions]
        after = page.next
    assert rest == ["d", "c", "b", "a"]
    assert (await shelf.ids())[:2] == ["h", "f"]


async def test_a_search_finds_ids_and_words_in_any_case_also_beyond_the_first_lines(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "AT_ONCE", 2)
    shelf = await told(store, "ann", "bob", "cyd", "dan", "eve")
    assert await shelf.ids(search="BOB") == ["bob"]
    assert await shelf.ids(search="i am c") == ["cyd"]
    assert await shelf.ids(search="hello") == ["eve", "dan", "cyd", "bob", "ann"]
    assert await shelf.ids(search="nobody said this") == []


async def test_a_search_that_looks_at_much_says_where_to_go_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "LOOKED_AT", 2)
    shelf = await told(store, *"abcde")
    page = await shelf.browsing.page(search="I am A")
    assert (page.sessions, bool(page.next)) == ([], True)
    page = await shelf.browsing.page(search="I am A", after=page.next)
    page = await shelf.browsing.page(search="I am A", after=page.next)
    assert [row.id for row in page.sessions] == ["a"]


async def test_sessions_are_chosen_by_status_and_workflow(store: Store) -> None:
    shelf = await told(store, "a", "b")
    await refunding().session("p", store=store).run("I want my money back")
    assert await shelf.ids(status="pending") == ["p"]
    assert await shelf.ids(status="waiting") == ["b", "a"]
    assert await shelf.ids(workflow="desk", status="waiting", search="hello a") == ["a"]
    assert await shelf.ids(workflow="another") == []


async def test_a_session_is_read_again_only_when_it_has_moved(store: Store) -> None:
    shelf = await told(store, "a", "b")
    await shelf.ids()
    shelf.opened.clear()
    assert await shelf.ids(search="hello") == ["b", "a"]
    assert shelf.opened == []
    await desk("Changed.").session("a", store=store).run("More")
    page = await shelf.browsing.page()
    assert [(row.id, row.last.text) for row in page.sessions] == [("a", "Changed."), ("b", "I am B.")]
    assert shelf.opened == ["a"]


async def test_words_that_were_erased_are_not_found_any_more(store: Store) -> None:
    shelf = await told(store, "a")
    assert await shelf.ids(search="hello a") == ["a"]
    session = await desk("Well.").session("a", store=store).refresh()
    await session.redact(session.messages[0])
    assert await shelf.ids(search="hello a") == []


async def test_what_is_kept_for_searches_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "SESSIONS", SessionCache(2_500))
    shelf = await told(store, *"abcde")
    assert await shelf.ids(search="hello") == [*"edcba"]
    shelf.opened.clear()
    assert await shelf.ids(search="hello") == [*"edcba"]
    assert shelf.opened == [*"edcba"], "two rows are kept, and those of the end"


async def test_listing_many_sessions_keeps_no_state(store: Store) -> None:
    shelf = await told(store, "a", "b")
    SESSIONS.clear(store)
    await desk("Well.").session("a", store=store).refresh()
    assert await shelf.ids() == ["b", "a"]
    kept = [SESSIONS.get(store, name, CachedState) is not None for name in "ab"]
    assert kept == [True, False]


async def test_a_cursor_that_is_none_is_refused(store: Store) -> None:
    shelf = await told(store, "a")
    for cursor in ("-1", "x", "1.5", "9" * 40):
        with pytest.raises(BadInput):
            await shelf.browsing.page(after=cursor)


# -- the inbox ---------------------------------------------------------------------------------------------------------------


async def test_the_inbox_has_what_is_pending_anywhere(store: Store) -> None:
    shelf = await told(store, "quiet")
    workflow = refunding()
    shelf = Shelf(store, workflow)
    for id in ("one", "two"):
        await refunding().session(id, store=store).run("I want my money back")
    inbox = await shelf.browsing.inbox()
    assert [(each.where, each.tool, each.workflow) for each in inbox.requests] == [("two", "refund", "desk"), ("one", "refund", "desk")]
    assert msgspec.to_builtins(inbox)["requests"][0]["in"] == "two"
    session = await workflow.session("two", store=store).refresh()
    await session.reject(session.pending[0])
    assert [each.where for each in (await shelf.browsing.inbox()).requests] == ["one"]


async def test_the_inbox_comes_in_pages_that_part_no_session(store: Store) -> None:
    both = [call("refund", order_id="1", amount=1.0, pin="x"), call("refund", order_id="2", amount=1.0, pin="x")]
    for id in "abc":
        await desk(call("handoff_to_refunds"), both).session(id, store=store).run("Both, please")
    shelf = Shelf(store, desk("Well."))
    first = await shelf.browsing.inbox(limit=1)
    assert [each.where for each in first.requests] == ["c", "c"]
    rest = await shelf.browsing.inbox(limit=4, after=first.next)
    assert [each.where for each in rest.requests] == ["b", "b", "a", "a"]


def office() -> Workflow:
    """A boss whose helper, an agent as a tool, has to ask before it pays."""

    @tool(needs_approval=True)
    def pay(cents: int) -> str:
        return f"paid {cents}"

    helper = Agent("payer", model=ScriptedModel([call("pay", cents=5), "Paid."]), tools=[pay], description="Pays.")
    model = ScriptedModel([call("ask_payer", task="Pay"), "Done."])
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()


async def test_what_an_agent_asks_that_works_as_a_tool_is_asked_once_where_it_is_answered(store: Store) -> None:
    workflow = office()
    session = workflow.session("work", store=store)
    await session.run("Pay the bill")
    shelf = Shelf(store, workflow)
    page = await shelf.browsing.page()
    assert {row.id: (row.status, row.within) for row in page.sessions if row.id == "work"} == {"work": ("pending", "")}
    held = next(row for row in page.sessions if row.id != "work")
    assert (held.within, held.status, held.pending) == ("work", "pending", 1)
    inbox = await shelf.browsing.inbox()
    assert [(each.where, each.tool, each.session) for each in inbox.requests] == [("work", "pay", held.id)]
    await session.approve(session.pending[0])
    assert (await shelf.browsing.inbox()).requests == []
    rows = {row.id: (row.status, row.pending) for row in (await shelf.browsing.page()).sessions}
    assert rows["work"] == ("running", 0), "the answer is in the other ledger, and this one's line did not move"


async def test_a_handle_that_had_not_read_all_is_asked_again(store: Store) -> None:
    shelf = await told(store, "a")
    stale = await desk("Well.").session("a", store=store).refresh()
    await desk("News.").session("a", store=store).run("More")

    async def behind(id: str) -> Session:
        return stale

    opened, shelf.browsing._opened = shelf.browsing._opened, behind
    await shelf.browsing.page()
    shelf.browsing._opened = opened
    assert [row.last.text for row in (await shelf.browsing.page()).sessions] == ["News."]
