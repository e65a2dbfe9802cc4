"""One step of an engine, without an engine: what `advance` says of how a session rests, and what follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, history, image, tool
from legato.core.facts import CallLost, CallReturned
from legato.engines.advance import Rest, advance, told
from legato.engines.pace import Pace, Step
from legato.errors import BadInput, ModelFailed, StoreError, StoreFull, StoreLocked, StoreReadOnly, StoreUnavailable, UnknownLedger
from legato.runtime.child_sessions import failed_requests
from legato.runtime.session_cache import SESSIONS
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call


def desk(*script: Any, name: str = "desk", **more: Any) -> Workflow:
    """A workflow of one agent, whose model is requested once."""
    agent = Agent("clerk", model=ScriptedModel(list(script)), **more)
    return HandoffBuilder(name, [agent]).with_model_attempts(1).build()


async def step(workflow: Workflow, store: Store, stop: asyncio.Event | None = None) -> Rest:
    return await advance({workflow.name: workflow}, store, "s", stop or asyncio.Event())


async def test_what_was_said_is_answered_and_the_session_waits() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    assert await step(workflow, store) == Rest("waiting")
    session = await workflow.session("s", store=store).refresh()
    assert [message.text for message in session.messages] == ["Hi", "Hello!"]


async def test_a_session_in_which_nothing_was_said_is_new() -> None:
    assert await step(desk(), MemoryStore()) == Rest("new")


async def test_while_another_holds_the_lease_the_step_says_so_and_changes_nothing() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    lease = await store.lease("s")
    assert lease is not None
    assert await step(workflow, store) == Rest("elsewhere")
    await store.release(lease)
    assert await step(workflow, store) == Rest("waiting")


async def test_when_it_should_stop_what_runs_is_finished_and_recorded_and_nothing_more_is_begun() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Takes its time."""
        begun.set()
        await go.wait()
        return "done"

    store, workflow, stop = MemoryStore(), desk(call("slow"), "It is done.", tools=[slow]), asyncio.Event()
    await workflow.session("s", store=store).say("Do it")
    under_way = asyncio.ensure_future(step(workflow, store, stop))
    await begun.wait()
    stop.set()
    await asyncio.sleep(0.01)
    assert not under_way.done()
    go.set()
    assert await under_way == Rest("left")
    facts = await store.read("s")
    assert isinstance(facts[-1], CallReturned)
    assert await step(workflow, store) == Rest("waiting")
    assert not any(isinstance(fact, CallLost) for fact in await store.read("s"))


async def test_user_code_that_raises_breaks_the_step_and_its_words_are_not_told() -> None:
    def provider(turn: object) -> str:
        raise ValueError("Jane Doe, 4111 1111")

    store, workflow = MemoryStore(), desk("Hello!", context_providers=[provider])
    await workflow.session("s", store=store).say("Hi")
    rest = await step(workflow, store)
    assert rest.how == "broken"
    assert "ValueError at test_advance.py" in rest.error
    assert "Jane" not in rest.error
    in_full = await advance({"desk": workflow}, store, "s", asyncio.Event(), errors_in_full=True)
    assert "Jane" in in_full.error


async def test_a_model_failure_that_may_pass_says_when_to_come_again_and_another_does_not() -> None:
    store = MemoryStore()
    slow_down, overloaded = ModelFailed("slow down", retryable=True, retry_after=900), ModelFailed("overloaded", retryable=True)
    workflow = desk(slow_down, overloaded, ModelFailed("no such key"), "Hello!")
    await workflow.session("s", store=store).say("Hi")
    rests = [await step(workflow, store) for _ in range(4)]
    assert [(rest.how, rest.again) for rest in rests[1:]] == [("failed", 0.0), ("failed", None), ("waiting", None)]
    assert (rests[0].how, rests[0].again) == ("failed", pytest.approx(900, abs=60))


async def test_failure_of_child_session_is_read_from_its_ledger() -> None:
    """The step's answer names the child's model and its wait, also in a process that did not see it fail."""
    failure = ModelFailed("slow down", retryable=True, retry_after=900, reason="rate_limited", status=429)
    helper = Agent("helper", model=ScriptedModel([failure], name="small"))

    def team(*script: Any) -> Workflow:
        tools = [helper.as_tool("ask_helper", "Helps.")]
        return HandoffBuilder("team", [Agent("boss", model=ScriptedModel(list(script)), tools=tools)]).with_model_attempts(1).build()

    store, workflow = MemoryStore(), team(call("ask_helper", task="help"))
    await workflow.session("s", store=store).say("Hi")
    rest = await step(workflow, store)
    assert (rest.how, rest.again) == ("failed", pytest.approx(900, abs=60))
    assert rest.error == "small, the model of 'helper': ModelFailed (rate_limited, HTTP:429)"
    session = await team().session("s", store=store).refresh()
    assert [(failed.final, failed.code) for _, failed in failed_requests(session)] == [(True, "rate_limited")]


async def test_a_store_that_cannot_be_reached_is_not_the_sessions_fault() -> None:
    class Away(MemoryStore):
        async def read(self, *given: Any, **more: Any) -> Any:
            raise StoreUnavailable("the database is away")

    with pytest.raises(StoreUnavailable):
        await step(desk(), Away())


async def test_a_store_of_user_code_that_is_not_there_breaks_the_step_as_all_user_code_does() -> None:
    def context(session: str) -> object:
        raise StoreError("there is no archive of mine")

    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    rest = await advance({"desk": workflow}, store, "s", asyncio.Event(), context)
    assert (rest.how, rest.error.partition(" at ")[0]) == ("broken", "StoreError (store)")


async def test_of_several_workflows_the_ledger_says_which_one_it_is() -> None:
    store = MemoryStore()
    workflows = {name: desk(f"{name} here", name=name) for name in ("sales", "support")}
    await workflows["support"].session("s", store=store).say("Hi")
    assert await advance(workflows, store, "s", asyncio.Event()) == Rest("waiting")
    session = await workflows["support"].session("s", store=store).refresh()
    assert session.messages[-1].text == "support here"
    rest = await advance({"sales": workflows["sales"]}, store, "s", asyncio.Event())
    assert (rest.how, rest.error.partition(" at ")[0]) == ("broken", "DefinitionChanged (definition_changed)")
    others = {name: desk(name=name) for name in ("sales", "billing")}
    assert (await advance(others, store, "s", asyncio.Event())).how == "broken"


async def test_a_session_that_was_deleted_is_gone_or_new_and_no_worker_breaks_on_it() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    await store.delete("s")
    assert await step(workflow, store) == Rest("new")


async def test_the_context_of_a_session_is_made_from_its_id() -> None:
    seen = []

    async def context(session: str) -> dict[str, str]:
        return {"customer": session}

    workflow = desk("Hello!", instructions=lambda given: seen.append(given) or "Be kind.")
    store = MemoryStore()
    await workflow.session("s", store=store).say("Hi")
    await advance({"desk": workflow}, store, "s", asyncio.Event(), context)
    assert seen == [{"customer": "s"}]


@pytest.mark.parametrize(
    ("rest", "failed", "broken", "step"),
    [
        (Rest("waiting"), 2, 1, Step("waiting")),
        (Rest("left"), 2, 1, Step("left", 0.0, failed=2, broken=1)),
        (Rest("retrying", 7.0, "x"), 2, 1, Step("retrying", 7.0, error="x", failed=2)),
        (Rest("busy", 2.0, model="m"), 2, 1, Step("busy", 2.0, failed=2, broken=1, model="m")),
        (Rest("elsewhere"), 0, 1, Step("elsewhere", 1.0, broken=1)),
        (Rest("failed", 0.0, "x"), 0, 0, Step("failed", 15, error="x", failed=1)),
        (Rest("failed", 900.0, "x"), 1, 0, Step("failed", 900, error="x", failed=2)),
        (Rest("failed", 0.0, "x"), 5, 0, Step("failed", error="x")),
        (Rest("failed", None, "x"), 0, 0, Step("failed", error="x")),
        (Rest("broken", error="x"), 0, 0, Step("broken", 1, error="x", broken=1)),
        (Rest("broken", error="x"), 0, 4, Step("broken", parked=True, error="x")),
    ],
)
def test_what_follows_a_step(rest: Rest, failed: int, broken: int, step: Step) -> None:
    assert Pace().after(rest, failed, broken) == step


def test_of_an_error_its_kind_and_place_are_told() -> None:
    assert told(BadInput("words")) == "BadInput (bad_input)"
    assert told(BadInput("words"), in_full=True) == "BadInput (bad_input): words"


@pytest.mark.parametrize("error", [StoreUnavailable, StoreReadOnly, StoreFull, StoreLocked, UnknownLedger])
@pytest.mark.parametrize("where", ["context", "provider", "filter", "model"])
async def test_what_a_store_of_user_code_raises_is_not_taken_for_what_the_sessions_own_store_raises(
    where: str, error: type[StoreError]
) -> None:
    def raises(*given: object) -> Any:
        raise error("my own knowledge base is away")

    if where == "filter":
        workflow = desk("Hello!", history=history.custom(raises))
    elif where == "provider":
        workflow = desk("Hello!", context_providers=[raises])
    else:
        workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(raises if where == "model" else ["Hello!"]))]).build()
    store = MemoryStore()
    await workflow.session("s", store=store).say("Hi")
    rest = await advance({"desk": workflow}, store, "s", asyncio.Event(), raises if where == "context" else None)
    assert (rest.how, rest.error.partition(" at ")[0]) == ("broken", f"{error.__name__} ({error.code})")


async def test_an_idempotent_tool_whose_own_store_is_away_has_failed_and_its_model_is_told() -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look it up."""
        raise StoreUnavailable("my own knowledge base is away")

    store, workflow = MemoryStore(), desk(call("look"), "I could not.", tools=[look])
    await workflow.session("s", store=store).say("Hi")
    assert await step(workflow, store) == Rest("waiting")
    assert (await workflow.session("s", store=store).refresh()).messages[-1].text == "I could not."


@pytest.mark.parametrize("operation", ["born", "read", "append", "content", "lease", "release"])
async def test_whatever_the_sessions_own_store_does_not_do_is_tried_again_and_nobodys_fault(operation: str) -> None:
    class Away(MemoryStore):
        away = False

        def __getattribute__(self, name: str) -> Any:
            if name != operation or not object.__getattribute__(self, "away"):
                return object.__getattribute__(self, name)

            async def refused(*given: Any, **more: Any) -> Any:
                raise StoreUnavailable("the database is away")

            return refused

    store, workflow = Away(), desk("Hello!", "Bye!")
    session = workflow.session("s", store=store)
    await session.run(["Hi", image(b"a picture")])
    await session.say("Bye")
    del session  # what it has read is not kept for the next
    SESSIONS.clear(store)
    store.away = True
    with pytest.raises(StoreUnavailable):
        await step(workflow, store)
