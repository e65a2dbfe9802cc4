"""Where conversations live. May know: stores and OpenAI's client. Decides: which ledger a run goes on with.

A run without a session has a ledger of its own in one store of the process. `previous_response_id` names a reply: the ledger that holds it
is forked there. An id that no ledger here knows is looked up at the provider, and what it holds begins a ledger by value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import openai

from legato.compat.agents.building import NAME, Team
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.importing import brought, frame_contents, recording
from legato.compat.agents.settings import OpenAIChatCompletionsModel, default_client, openai_model
from legato.core.facts import AnyFact, MessageReceived, ModelReplied, Opened, Origin
from legato.core.state import fold
from legato.core.workflow_graph import WorkflowGraph
from legato.runtime.clock import new_id, now_ms
from legato.runtime.ledger import Ledger
from legato.stores import MemoryStore
from legato.stores.contract import Store

T = TypeVar("T")

_stores: list[Store] = [MemoryStore()]


def default_store() -> Store:
    """Where runs without a session live: one `MemoryStore` of the process, unless `set_default_store` named another."""
    return _stores[-1]


def set_default_store(store: Store) -> None:
    """Ours: keep runs without a session in this store, for example `SQLiteStore("runs.db")`, so that they outlive the process."""
    _stores[-1] = store


def at_once(doing: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do something for a method that is not async in the SDK: in an event loop of its own, whether or not one is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(doing())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(doing())).result()


async def going_on(team: Team, store: Store, response: str, run_model: Any) -> str:
    """The id of a new ledger that begins with the conversation up to this reply."""
    new = new_id()
    for ledger in await store.list(limit=1_000_000_000):
        facts = await store.read(ledger.ledger)
        at = next((place for place, fact in enumerate(facts) if isinstance(fact, ModelReplied) and fact.response_id == response), None)
        if at is not None:
            length = _end_of(list(facts), at, response)
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
    await record(store, new, [*before, *held.output], team.start.name, team.workflow.definition.graph, origin_of(team))
    return new


def _end_of(facts: list[AnyFact], at: int, response: str) -> int:
    """How many facts belong to the conversation up to the reply at this position: with the outputs of its calls."""
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


async def in_conversation(team: Team, store: Store, conversation: str, run_model: Any) -> str:
    """The id of the ledger of a conversation: its own, or one that begins with what the provider holds in there."""
    ledger = f"conversation {conversation}"
    if await store.read(ledger):
        return ledger
    client = _client(team, run_model)
    try:
        items = [item async for item in client.conversations.items.list(conversation, order="asc", limit=100)]
    except (openai.APIError, AttributeError) as error:
        raise _unknown("conversation_id", conversation, error) from error
    if items:
        await record(store, ledger, items, team.start.name, team.workflow.definition.graph, origin_of(team))
    return ledger


def _unknown(what: str, id: str, error: Exception) -> UserError:
    return UserError(
        f"{what}={id!r}: no conversation here holds it, and the provider gave none either ({error}). Pass the conversation itself as "
        "input: result.to_input_list() of the run that you want to go on with"
    )


def _client(team: Team, run_model: Any) -> Any:
    """The client that the first agent's model is asked by."""
    asked = openai_model(run_model if run_model is not None else team.start.model)
    if isinstance(asked, OpenAIChatCompletionsModel):
        return object()  # Chat Completions holds no conversations: there is nothing to look up
    return asked.openai_client if asked is not None and asked.openai_client is not None else default_client()


async def record(store: Store, id: str, items: Any, agent: str, graph: WorkflowGraph, origin: str, run: bool = False) -> None:
    """Record what these items say, in the ledger of this id: as what it begins with, or as what is said next."""
    what = brought(items)
    ledger = Ledger(store, id, NAME)
    await ledger.refresh()
    propose = recording(what, agent, NAME, graph, origin, run)
    await ledger.append(propose, {**what.contents, **frame_contents(agent)})


def origin_of(team: Team) -> str:
    """Who is taken to have made the replies that a caller brings: the model that goes on with them. Only it could read their reasoning."""
    model = team.workflow.definition.agents[team.start.name].model
    model = getattr(model, "_told", model)
    find = getattr(model, "_origin", None)
    clients = getattr(model, "_clients", None)
    return str(find(clients())) if find is not None and clients is not None else ""
