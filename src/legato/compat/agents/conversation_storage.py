"""Selection of the ledger that a run continues.

A run without a session has a ledger of its own in one store of the process. `previous_response_id` names a reply: the ledger that holds it
is forked there. An id that no ledger here knows is looked up at the provider, and its items begin a ledger by value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import openai

from legato.compat.agents.exceptions import UserError
from legato.compat.agents.input_items import propose_facts, read_items, turn_context_contents
from legato.compat.agents.settings import OpenAIChatCompletionsModel, ToolOnce, default_client, openai_model
from legato.compat.agents.workflow_builder import NAME, Team
from legato.core.facts import AnyFact, MessageReceived, ModelReplied, Opened, Origin
from legato.core.state import fold
from legato.core.workflow_graph import WorkflowGraph
from legato.models.provider_model import ProviderModel
from legato.runtime.clock import new_id, now_ms
from legato.runtime.ledger import Ledger
from legato.stores import MemoryStore
from legato.stores.contract import Store

T = TypeVar("T")

_stores: list[Store] = [MemoryStore()]


def default_store() -> Store:
    """Return the store of runs without a session: one `MemoryStore` of the process, unless `set_default_store` named another."""
    return _stores[-1]


def set_default_store(store: Store) -> None:
    """Ours: keep runs without a session in this store, for example `SQLiteStore("runs.db")`, so that they outlive the process."""
    _stores[-1] = store


def run_in_loop(doing: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine for a method that is not async in the SDK: in an event loop of its own, whether or not one is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(doing())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(doing())).result()


async def fork_at_response(team: Team, store: Store, response: str, run_model: Any) -> str:
    """Return the id of a new ledger that begins with the conversation up to this reply."""
    new = new_id()
    for ledger in await store.list(limit=1_000_000_000):
        facts = await store.read(ledger.ledger)
        at = next((place for place, fact in enumerate(facts) if isinstance(fact, ModelReplied) and fact.response_id == response), None)
        if at is not None:
            length = _find_reply_end(list(facts), at, response)
            origin = Origin(ledger.ledger, length)
            opened = Opened(at=now_ms(), ledger_id=new_id(), workflow=NAME, origin=origin)
            await Ledger(store, ledger.ledger, NAME).fork(length, new, opened)
            return new
    client = _client(team, run_model)
    try:
        held = await client.responses.retrieve(response)
        before = [item async for item in client.responses.input_items.list(response, order="asc", limit=100)]
    except (openai.APIError, AttributeError) as error:
        raise _unknown("previous_response_id", response, error) from error
    await record_items(store, new, [*before, *held.output], team.start.name, team.workflow.definition.graph, origin_of(team))
    return new


def _find_reply_end(facts: list[AnyFact], at: int, response: str) -> int:
    """Return the number of facts up to the reply at this position, including the outputs of its calls."""
    state = fold(facts[: at + 1])
    length = at + 1
    for fact in facts[at + 1 :]:
        if isinstance(fact, ModelReplied) or (isinstance(fact, MessageReceived) and not state.batch):
            break
        state.apply(fact)
        length += 1
    if state.batch:
        raise UserError(f"the reply {response!r} waits for a person's decision: go on with its run, result.to_state(), not with its id")
    return length


async def open_conversation(team: Team, store: Store, conversation: str, run_model: Any) -> str:
    """Return the id of a conversation's ledger: its own, or a new one that begins with the provider's items."""
    ledger = f"conversation {conversation}"
    if await store.read(ledger):
        return ledger
    client = _client(team, run_model)
    try:
        items = [item async for item in client.conversations.items.list(conversation, order="asc", limit=100)]
    except (openai.APIError, AttributeError) as error:
        raise _unknown("conversation_id", conversation, error) from error
    if items:
        await record_items(store, ledger, items, team.start.name, team.workflow.definition.graph, origin_of(team))
    return ledger


def _unknown(what: str, id: str, error: Exception) -> UserError:
    return UserError(
        f"{what}={id!r}: no conversation here holds it, and the provider gave none either ({error}). Pass the conversation itself as "
        "input: result.to_input_list() of the run that you want to go on with"
    )


def _client(team: Team, run_model: Any) -> Any:
    """Return the client of the first agent's model."""
    asked = openai_model(run_model if run_model is not None else team.start.model)
    if isinstance(asked, OpenAIChatCompletionsModel):
        return object()  # Chat Completions holds no conversations: there is nothing to look up
    return asked.openai_client if asked is not None and asked.openai_client is not None else default_client()


async def record_items(store: Store, id: str, items: Any, agent: str, graph: WorkflowGraph, origin: str, run: bool = False) -> None:
    """Record these items in the ledger of this id: as its beginning, or as what follows."""
    what = read_items(items)
    ledger = Ledger(store, id, NAME)
    await ledger.refresh()
    propose = propose_facts(what, agent, NAME, graph, origin, run)
    await ledger.append(propose, {**what.contents, **turn_context_contents(agent)})


def origin_of(team: Team) -> str:
    """Return the origin recorded for imported replies: the first agent's model. Only that model can read their reasoning."""
    model = team.workflow.definition.agents[team.start.name].model
    model = model._told if isinstance(model, ToolOnce) else model
    return model._make_origin(model._clients()) if isinstance(model, ProviderModel) else ""
