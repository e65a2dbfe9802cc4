"""Builder functions for the stories of this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from legato import ToolContext
from legato.core.facts import AnyFact, MessageReceived, Opened
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.runtime.definition import call_user_code
from legato.stores.contract import Store
from legato.testing.scripted_users import DecisionFunction, ScriptedUser, Verdict, approve_all
from legato.testing.story import Story, StoryResult, World
from legato.workflow.workflow import Workflow
from tests.stories import conversation_checks

Check = Callable[[StoryResult, list[ModelRequest]], Any]

_current: ContextVar[tuple[Store, World]] = ContextVar("current")


def make_story(build: Callable[[World], Workflow], messages: Sequence[Any], check: Check, decide: DecisionFunction = approve_all) -> Story:
    """Return a story that is checked by `conversation_checks.check_story`, and then by its own check.

    The story's own check receives the model request behind each reply.
    """

    def build_in_world(store: Store, world: World) -> Workflow:
        _current.set((store, world))
        return build(world)

    async def check_result(result: StoryResult) -> None:
        requests = await conversation_checks.check_story(result)
        await call_user_code(check, result, requests)

    return Story(build_in_world, ScriptedUser(messages, with_honest_outcomes(decide)), check_result)


def with_honest_outcomes(decide: DecisionFunction) -> DecisionFunction:
    """Return `decide` with honest answers for lost attempts: the deed that the world shows, or a rerun if there is none."""

    async def decide_honestly(request: Pending) -> Verdict:
        if request.kind != "outcome":
            return await call_user_code(decide, request)  # type: ignore[no-any-return]
        _, world = _current.get()
        facts = await read_facts(request)
        opened = next(fact for fact in facts if isinstance(fact, Opened))
        deeds = [deed for key, deed in world.effects if key == f"{opened.ledger_id}:{request.call}"]
        return ("answer", deeds[-1]) if deeds else "approve"

    return decide_honestly


async def read_facts(request: Pending) -> Sequence[AnyFact]:
    """Return the facts of the ledger that a request belongs to. People read them, because their memory would die with the process."""
    store, _ = _current.get()
    for info in await store.list():
        facts = await store.read(info.ledger)
        names = [fact.ledger_id for fact in facts if isinstance(fact, Opened)]
        if names and request.id.startswith(names[-1][:8]):
            return facts
    raise LookupError(request.id)


async def count_messages(request: Pending) -> int:
    """Return the number of messages that the user has sent in the outermost session of this request."""
    store, _ = _current.get()
    return sum(isinstance(fact, MessageReceived) for fact in await store.read(request.session.partition("/")[0]))


def do_deed(world: World, ctx: ToolContext[Any], deed: str) -> str:
    """Record a deed and return it as the tool's output, so that a person who finds it in the world gives the model the same text."""
    world.record_effect(ctx, deed)
    return deed
