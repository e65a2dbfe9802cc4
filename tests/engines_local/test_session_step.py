"""Steps without an engine: the results of `advance_session`, and the actions that follow them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, history, image, tool
from legato.core.facts import CallLost, CallReturned
from legato.engines.retry_policy import NextStep, RetryPolicy
from legato.engines.session_step import StepResult, advance_session, format_error
from legato.errors import BadInput, ModelFailed, StoreError, StoreFull, StoreLocked, StoreReadOnly, StoreUnavailable, UnknownLedger
from legato.runtime.child_sessions import iter_failed_requests
from legato.runtime.session_cache import SESSION_CACHE
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call


def desk(*script: Any, name: str = "desk", **more: Any) -> Workflow:
    """A workflow of one agent, whose model is requested once."""
    agent = Agent("clerk", model=ScriptedModel(list(script)), **more)
    return HandoffBuilder(name, [agent]).with_model_attempts(1).build()


async def step(workflow: Workflow, store: Store, stop: asyncio.Event | None = None) -> StepResult:
    return await advance_session({workflow.name: workflow}, store, "s", stop or asyncio.Event())


async def test_step_answers_message_and_waits() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    assert await step(workflow, store) == StepResult("waiting")
    session = await workflow.session("s", store=store).refresh()
    assert [message.text for message in session.messages] == ["Hi", "Hello!"]


async def test_empty_session_is_new() -> None:
    assert await step(desk(), MemoryStore()) == StepResult("new")


async def test_step_without_lease_changes_nothing() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    lease = await store.lease("s")
    assert lease is not None
    assert await step(workflow, store) == StepResult("leased_elsewhere")
    await store.release(lease)
    assert await step(workflow, store) == StepResult("waiting")


async def test_stop_finishes_running_work_only() -> None:
    """When `stop` is set, the running call is finished and recorded, and nothing more is begun."""
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Take some time."""
        started.set()
        await go.wait()
        return "done"

    store, workflow, stop = MemoryStore(), desk(call("slow"), "It is done.", tools=[slow]), asyncio.Event()
    await workflow.session("s", store=store).say("Do it")
    running = asyncio.ensure_future(step(workflow, store, stop))
    await started.wait()
    stop.set()
    await asyncio.sleep(0.01)
    assert not running.done()
    go.set()
    assert await running == StepResult("interrupted")
    facts = await store.read("s")
    assert isinstance(facts[-1], CallReturned)
    assert await step(workflow, store) == StepResult("waiting")
    assert not any(isinstance(fact, CallLost) for fact in await store.read("s"))


async def test_user_code_error_breaks_step_without_text() -> None:
    """The result has the error's kind and place, and its text only if that is asked for."""

    def provider(turn: object) -> str:
        raise ValueError("Jane Doe, 4111 1111")

    store, workflow = MemoryStore(), desk("Hello!", context_providers=[provider])
    await workflow.session("s", store=store).say("Hi")
    result = await step(workflow, store)
    assert result.status == "broken"
    assert "ValueError at test_session_step.py" in result.error
    assert "Jane" not in result.error
    with_text = await advance_session({"desk": workflow}, store, "s", asyncio.Event(), report_error_text=True)
    assert "Jane" in with_text.error


async def test_retryable_model_failure_has_retry_delay() -> None:
    store = MemoryStore()
    slow_down, overloaded = ModelFailed("slow down", retryable=True, retry_after=900), ModelFailed("overloaded", retryable=True)
    workflow = desk(slow_down, overloaded, ModelFailed("no such key"), "Hello!")
    await workflow.session("s", store=store).say("Hi")
    results = [await step(workflow, store) for _ in range(4)]
    assert [(result.status, result.retry_after) for result in results[1:]] == [("failed", 0.0), ("failed", None), ("waiting", None)]
    assert (results[0].status, results[0].retry_after) == ("failed", pytest.approx(900, abs=60))


async def test_child_session_failure_comes_from_its_ledger() -> None:
    """The result names the child's model and its retry delay, also in a process that did not see the failure."""
    failure = ModelFailed("slow down", retryable=True, retry_after=900, reason="rate_limited", status=429)
    helper = Agent("helper", model=ScriptedModel([failure], name="small"))

    def team(*script: Any) -> Workflow:
        tools = [helper.as_tool("ask_helper", "Helps.")]
        return HandoffBuilder("team", [Agent("boss", model=ScriptedModel(list(script)), tools=tools)]).with_model_attempts(1).build()

    store, workflow = MemoryStore(), team(call("ask_helper", task="help"))
    await workflow.session("s", store=store).say("Hi")
    result = await step(workflow, store)
    assert (result.status, result.retry_after) == ("failed", pytest.approx(900, abs=60))
    assert result.error == "small, the model of 'helper': ModelFailed (rate_limited, HTTP:429)"
    session = await team().session("s", store=store).refresh()
    assert [(failed.final, failed.code) for _, failed in iter_failed_requests(session)] == [(True, "rate_limited")]


async def test_unavailable_store_raises_from_the_step() -> None:
    class Away(MemoryStore):
        async def read(self, *arguments: Any, **more: Any) -> Any:
            raise StoreUnavailable("the database is away")

    with pytest.raises(StoreUnavailable):
        await step(desk(), Away())


async def test_store_error_of_user_code_breaks_step() -> None:
    def context(session: str) -> object:
        raise StoreError("there is no archive of mine")

    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    result = await advance_session({"desk": workflow}, store, "s", asyncio.Event(), context)
    assert (result.status, result.error.partition(" at ")[0]) == ("broken", "StoreError (store)")


async def test_ledger_names_one_of_several_workflows() -> None:
    store = MemoryStore()
    workflows = {name: desk(f"{name} here", name=name) for name in ("sales", "support")}
    await workflows["support"].session("s", store=store).say("Hi")
    assert await advance_session(workflows, store, "s", asyncio.Event()) == StepResult("waiting")
    session = await workflows["support"].session("s", store=store).refresh()
    assert session.messages[-1].text == "support here"
    result = await advance_session({"sales": workflows["sales"]}, store, "s", asyncio.Event())
    assert (result.status, result.error.partition(" at ")[0]) == ("broken", "DefinitionChanged (definition_changed)")
    others = {name: desk(name=name) for name in ("sales", "billing")}
    assert (await advance_session(others, store, "s", asyncio.Event())).status == "broken"


async def test_deleted_session_breaks_no_step() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    await store.delete("s")
    assert await step(workflow, store) == StepResult("new")


async def test_context_is_created_from_session_id() -> None:
    contexts = []

    async def context(session: str) -> dict[str, str]:
        return {"customer": session}

    workflow = desk("Hello!", instructions=lambda arguments: contexts.append(arguments) or "Be kind.")
    store = MemoryStore()
    await workflow.session("s", store=store).say("Hi")
    await advance_session({"desk": workflow}, store, "s", asyncio.Event(), context)
    assert contexts == [{"customer": "s"}]


@pytest.mark.parametrize(
    ("result", "failed", "broken", "step"),
    [
        (StepResult("waiting"), 2, 1, NextStep("waiting")),
        (StepResult("interrupted"), 2, 1, NextStep("interrupted", 0.0, failed=2, broken=1)),
        (StepResult("retrying", 7.0, "x"), 2, 1, NextStep("retrying", 7.0, error="x", failed=2)),
        (StepResult("no_free_slot", 2.0, model="m"), 2, 1, NextStep("no_free_slot", 2.0, failed=2, broken=1, model="m")),
        (StepResult("leased_elsewhere"), 0, 1, NextStep("leased_elsewhere", 1.0, broken=1)),
        (StepResult("failed", 0.0, "x"), 0, 0, NextStep("failed", 15, error="x", failed=1)),
        (StepResult("failed", 900.0, "x"), 1, 0, NextStep("failed", 900, error="x", failed=2)),
        (StepResult("failed", 0.0, "x"), 5, 0, NextStep("failed", error="x")),
        (StepResult("failed", None, "x"), 0, 0, NextStep("failed", error="x")),
        (StepResult("broken", error="x"), 0, 0, NextStep("broken", 1, error="x", broken=1)),
        (StepResult("broken", error="x"), 0, 4, NextStep("broken", parked=True, error="x")),
    ],
)
def test_retry_policy_plans_the_next_step(result: StepResult, failed: int, broken: int, step: NextStep) -> None:
    assert RetryPolicy().plan_next_step(result, failed, broken) == step


def test_format_error_has_kind_and_place() -> None:
    assert format_error(BadInput("words")) == "BadInput (bad_input)"
    assert format_error(BadInput("words"), includes_text=True) == "BadInput (bad_input): words"


@pytest.mark.parametrize("error", [StoreUnavailable, StoreReadOnly, StoreFull, StoreLocked, UnknownLedger])
@pytest.mark.parametrize("where", ["context", "provider", "filter", "model"])
async def test_user_code_store_error_breaks_step(where: str, error: type[StoreError]) -> None:
    """Errors of a store that user code uses are not taken for errors of the session's own store."""

    def raises(*arguments: object) -> Any:
        raise error("my own knowledge base is away")

    if where == "filter":
        workflow = desk("Hello!", history=history.custom(raises))
    elif where == "provider":
        workflow = desk("Hello!", context_providers=[raises])
    else:
        workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(raises if where == "model" else ["Hello!"]))]).build()
    store = MemoryStore()
    await workflow.session("s", store=store).say("Hi")
    result = await advance_session({"desk": workflow}, store, "s", asyncio.Event(), raises if where == "context" else None)
    assert (result.status, result.error.partition(" at ")[0]) == ("broken", f"{error.__name__} ({error.code})")


async def test_tool_store_error_is_a_failed_call() -> None:
    @tool(idempotent=True)
    async def look() -> str:
        """Look it up."""
        raise StoreUnavailable("my own knowledge base is away")

    store, workflow = MemoryStore(), desk(call("look"), "I could not.", tools=[look])
    await workflow.session("s", store=store).say("Hi")
    assert await step(workflow, store) == StepResult("waiting")
    assert (await workflow.session("s", store=store).refresh()).messages[-1].text == "I could not."


@pytest.mark.parametrize("operation", ["ledger_id", "read", "append", "content", "lease", "release"])
async def test_own_store_error_raises_from_step(operation: str) -> None:
    class Away(MemoryStore):
        away = False

        def __getattribute__(self, name: str) -> Any:
            if name != operation or not object.__getattribute__(self, "away"):
                return object.__getattribute__(self, name)

            async def raise_unavailable(*arguments: Any, **more: Any) -> Any:
                raise StoreUnavailable("the database is away")

            return raise_unavailable

    store, workflow = Away(), desk("Hello!", "Bye!")
    session = workflow.session("s", store=store)
    await session.run(["Hi", image(b"a picture")])
    await session.say("Bye")
    del session  # so that nothing is cached
    SESSION_CACHE.remove_store(store)
    store.away = True
    with pytest.raises(StoreUnavailable):
        await step(workflow, store)
