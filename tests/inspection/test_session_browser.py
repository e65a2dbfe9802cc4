"""Pages of sessions, search, and the inbox of pending requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.errors import BadInput, UnknownLedger
from legato.inspection import session_browser
from legato.inspection.session_browser import SessionBrowser
from legato.inspection.workflow_from_ledger import rebuild_workflow
from legato.runtime.session import Session
from legato.runtime.session_cache import SESSION_CACHE, CachedState, SessionCache
from legato.stores import MemoryStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call
from tests.inspection.support_desk import build_desk, build_refund_desk


class BrowsedStore:
    """A store with its `SessionBrowser`. `opened_ids` lists the sessions that were opened."""

    def __init__(self, store: Store, workflow: Workflow) -> None:
        self.store = store
        self.workflow = workflow
        self.opened_ids: list[str] = []
        self.browser = SessionBrowser(store, self._open, lambda name: name == workflow.name)

    async def _open(self, id: str) -> Session:
        """Open a session with the workflow, or with one rebuilt from its ledger if it belongs to another."""
        self.opened_ids.append(id)
        facts = await self.store.read(id)
        if not facts:
            raise UnknownLedger(f"there is no session {id!r}")
        recorded = rebuild_workflow(facts)
        return await (self.workflow if recorded.name == self.workflow.name else recorded).session(id, store=self.store).refresh()

    async def list_ids(self, **filters: str) -> list[str]:
        return [row.id for row in (await self.browser.page(**filters)).sessions]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.sqlite") as new_store:
        yield new_store


async def run_sessions(store: Store, *ids: str) -> BrowsedStore:
    for id in ids:
        await build_desk(f"I am {id.upper()}.").session(id, store=store).run(f"Hello {id}")
    return BrowsedStore(store, build_desk("Well."))


async def test_pages_list_each_session_once_newest_first(store: Store) -> None:
    browsed = await run_sessions(store, *"abcdefg")
    first = await browsed.browser.page(limit=3)
    assert [row.id for row in first.sessions] == ["g", "f", "e"]
    await build_desk("Again.").session("f", store=store).run("More")  # it moves to the front, and does not come again after the cursor
    await build_desk("New.").session("h", store=store).run("Hello")
    rest: list[str] = []
    after = first.next
    while after:
        page = await browsed.browser.page(limit=3, after=after)
        rest += [row.id for row in page.sessions]
        after = page.next
    assert rest == ["d", "c", "b", "a"]
    assert (await browsed.list_ids())[:2] == ["h", "f"]


async def test_search_matches_ids_and_messages_ignoring_case(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search matches ids and messages in any case, also in ledgers after the store's first page."""
    monkeypatch.setattr(session_browser, "STORE_PAGE_SIZE", 2)
    browsed = await run_sessions(store, "ann", "bob", "cyd", "dan", "eve")
    assert await browsed.list_ids(search="BOB") == ["bob"]
    assert await browsed.list_ids(search="i am c") == ["cyd"]
    assert await browsed.list_ids(search="hello") == ["eve", "dan", "cyd", "bob", "ann"]
    assert await browsed.list_ids(search="nobody said this") == []


async def test_long_search_returns_a_cursor_instead(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that has read its maximum of sessions returns a cursor to continue from."""
    monkeypatch.setattr(session_browser, "MAX_SESSIONS_READ", 2)
    browsed = await run_sessions(store, *"abcde")
    page = await browsed.browser.page(search="I am A")
    assert (page.sessions, bool(page.next)) == ([], True)
    page = await browsed.browser.page(search="I am A", after=page.next)
    page = await browsed.browser.page(search="I am A", after=page.next)
    assert [row.id for row in page.sessions] == ["a"]


async def test_sessions_are_filtered_by_status_and_workflow(store: Store) -> None:
    browsed = await run_sessions(store, "a", "b")
    await build_refund_desk().session("p", store=store).run("I want my money back")
    assert await browsed.list_ids(status="pending") == ["p"]
    assert await browsed.list_ids(status="waiting") == ["b", "a"]
    assert await browsed.list_ids(workflow="desk", status="waiting", search="hello a") == ["a"]
    assert await browsed.list_ids(workflow="another") == []


async def test_only_changed_sessions_are_read_again(store: Store) -> None:
    browsed = await run_sessions(store, "a", "b")
    await browsed.list_ids()
    browsed.opened_ids.clear()
    assert await browsed.list_ids(search="hello") == ["b", "a"]
    assert browsed.opened_ids == []
    await build_desk("Changed.").session("a", store=store).run("More")
    page = await browsed.browser.page()
    assert [(row.id, row.last.text) for row in page.sessions] == [("a", "Changed."), ("b", "I am B.")]
    assert browsed.opened_ids == ["a"]


async def test_redacted_words_are_not_found(store: Store) -> None:
    browsed = await run_sessions(store, "a")
    assert await browsed.list_ids(search="hello a") == ["a"]
    session = await build_desk("Well.").session("a", store=store).refresh()
    await session.redact(session.messages[0])
    assert await browsed.list_ids(search="hello a") == []


async def test_cache_for_searches_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_browser, "SESSION_CACHE", SessionCache(2_500))
    browsed = await run_sessions(store, *"abcde")
    assert await browsed.list_ids(search="hello") == [*"edcba"]
    browsed.opened_ids.clear()
    assert await browsed.list_ids(search="hello") == [*"edcba"]
    assert browsed.opened_ids == [*"edcba"], "two summaries are cached, those at the end"


async def test_listing_sessions_evicts_no_cached_state(store: Store) -> None:
    browsed = await run_sessions(store, "a", "b")
    SESSION_CACHE.remove_store(store)
    await build_desk("Well.").session("a", store=store).refresh()
    assert await browsed.list_ids() == ["b", "a"]
    kept = [SESSION_CACHE.get(store, name, CachedState) is not None for name in "ab"]
    assert kept == [True, False]


async def test_malformed_cursor_is_refused(store: Store) -> None:
    browsed = await run_sessions(store, "a")
    for cursor in ("-1", "x", "1.5", "9" * 40):
        with pytest.raises(BadInput):
            await browsed.browser.page(after=cursor)


# -- the inbox ---------------------------------------------------------------------------------------------------------------


async def test_inbox_lists_requests_of_all_sessions(store: Store) -> None:
    browsed = await run_sessions(store, "quiet")
    workflow = build_refund_desk()
    browsed = BrowsedStore(store, workflow)
    for id in ("one", "two"):
        await build_refund_desk().session(id, store=store).run("I want my money back")
    inbox = await browsed.browser.inbox()
    assert [(each.answered_in, each.tool, each.workflow) for each in inbox.requests] == [
        ("two", "refund", "desk"),
        ("one", "refund", "desk"),
    ]
    assert msgspec.to_builtins(inbox)["requests"][0]["in"] == "two"
    session = await workflow.session("two", store=store).refresh()
    await session.reject(session.pending[0])
    assert [each.answered_in for each in (await browsed.browser.inbox()).requests] == ["one"]


async def test_inbox_pages_never_split_a_session(store: Store) -> None:
    both = [call("refund", order_id="1", amount=1.0, pin="x"), call("refund", order_id="2", amount=1.0, pin="x")]
    for id in "abc":
        await build_desk(call("handoff_to_refunds"), both).session(id, store=store).run("Both, please")
    browsed = BrowsedStore(store, build_desk("Well."))
    first = await browsed.browser.inbox(limit=1)
    assert [each.answered_in for each in first.requests] == ["c", "c"]
    rest = await browsed.browser.inbox(limit=4, after=first.next)
    assert [each.answered_in for each in rest.requests] == ["b", "b", "a", "a"]


def build_office() -> Workflow:
    """Build a workflow with an agent as a tool, which asks before it pays."""

    @tool(needs_approval=True)
    def pay(cents: int) -> str:
        return f"paid {cents}"

    helper = Agent("payer", model=ScriptedModel([call("pay", cents=5), "Paid."]), tools=[pay], description="Pays.")
    model = ScriptedModel([call("ask_payer", task="Pay"), "Done."])
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()


async def test_child_request_is_listed_in_parent_only(store: Store) -> None:
    """A request of an agent that works as a tool is in the inbox once: in the session that takes the answer."""
    workflow = build_office()
    session = workflow.session("work", store=store)
    await session.run("Pay the bill")
    browsed = BrowsedStore(store, workflow)
    page = await browsed.browser.page()
    assert {row.id: (row.status, row.within) for row in page.sessions if row.id == "work"} == {"work": ("pending", "")}
    child = next(row for row in page.sessions if row.id != "work")
    assert (child.within, child.status, child.pending) == ("work", "pending", 1)
    inbox = await browsed.browser.inbox()
    assert [(each.answered_in, each.tool, each.session) for each in inbox.requests] == [("work", "pay", child.id)]
    await session.approve(session.pending[0])
    assert (await browsed.browser.inbox()).requests == []
    rows = {row.id: (row.status, row.pending) for row in (await browsed.browser.page()).sessions}
    assert rows["work"] == ("running", 0), "the answer is in the child's ledger, and this one's info did not change"


async def test_stale_handle_is_not_cached(store: Store) -> None:
    """The summary of a handle that had not read the whole ledger is not cached."""
    browsed = await run_sessions(store, "a")
    stale = await build_desk("Well.").session("a", store=store).refresh()
    await build_desk("News.").session("a", store=store).run("More")

    async def open_stale(id: str) -> Session:
        return stale

    open_session, browsed.browser._open_session = browsed.browser._open_session, open_stale
    await browsed.browser.page()
    browsed.browser._open_session = open_session
    assert [row.last.text for row in (await browsed.browser.page()).sessions] == ["News."]
