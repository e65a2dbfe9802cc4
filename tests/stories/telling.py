"""How the stories of this folder are declared. May know: stories and their world. Decides: what an honest person says of a lost attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from legato import ToolContext
from legato.core.facts import AnyFact, MessageReceived, Opened
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.runtime.definition import called
from legato.stores.contract import Store
from legato.testing.people import Decide, Person, Verdict, approve_all
from legato.testing.story import Story, Told, World
from legato.workflow.workflow import Workflow
from tests.stories import checking

Check = Callable[[Told, list[Request]], Any]

_here: ContextVar[tuple[Store, World]] = ContextVar("here")


def story(build: Callable[[World], Workflow], messages: Sequence[Any], check: Check, decide: Decide = approve_all) -> Story:
    """A story that is held to `checking.check` first, and then to its own check, which is given the request behind each reply."""

    def built(store: Store, world: World) -> Workflow:
        _here.set((store, world))
        return build(world)

    async def checked(told: Told) -> None:
        requests = await checking.check(told)
        await called(check, told, requests)

    return Story(built, Person(messages, honest(decide)), checked)


def honest(decide: Decide) -> Decide:
    """Decides as told, but answers for a lost attempt by looking: if the world shows the deed, that was its outcome; else it may run."""

    async def decided(request: Pending) -> Verdict:
        if request.kind != "outcome":
            return await called(decide, request)  # type: ignore[no-any-return]
        _, world = _here.get()
        facts = await facts_of(request)
        opened = next(fact for fact in facts if isinstance(fact, Opened))
        deeds = [what for key, what in world.deeds if key == f"{opened.ledger}:{request.call}"]
        return ("answer", deeds[-1]) if deeds else "approve"

    return decided


async def facts_of(request: Pending) -> Sequence[AnyFact]:
    """The ledger that a request belongs to. People of stories look there, because what they remember dies with the process."""
    store, _ = _here.get()
    for info in await store.list():
        facts = await store.read(info.ledger)
        names = [fact.ledger for fact in facts if isinstance(fact, Opened)]
        if names and request.id.startswith(names[-1][:8]):
            return facts
    raise LookupError(request.id)


async def messages_said(request: Pending) -> int:
    """How many messages the user has sent in the session of this request, or in the outermost that it is asked for."""
    store, _ = _here.get()
    return sum(isinstance(fact, MessageReceived) for fact in await store.read(request.session.partition("/")[0]))


def done(world: World, ctx: ToolContext[Any], what: str) -> str:
    """Note a deed and return it as the tool's output, so that a person who finds it in the world tells the model the same words."""
    world.did(ctx, what)
    return what
