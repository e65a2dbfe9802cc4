"""A process that erases words dies before and after every operation on its store; whoever comes after it finds them gone, once."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.facts import CallReturned, Redacted
from legato.core.messages_to_model import ERASED
from legato.stores import MemoryStore, Store
from legato.testing import Died, FailingStore, Fault, ScriptedModel, call
from legato.testing.promises import check_promises

SECRET = "my name is Ann Xylophone"


def desk() -> Workflow:
    @tool(idempotent=True)
    async def note(text: str) -> str:
        """Write something down."""
        return f"noted {text}"

    def reply(seen: object) -> object:
        last = seen.messages[-1]  # type: ignore[attr-defined]
        return call("note", text="it") if last.role == "user" else f"after {len(seen.messages)} messages"  # type: ignore[attr-defined]

    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply), tools=[note])]).build()


async def life(store: Store) -> None:
    """What the process does; done again, it finds done what was done before it died."""
    session = desk().session("s", store=store)
    await session.run(SECRET, key="one")
    if not await store.read("f"):
        await session.fork(id="f")
    await session.redact(1)
    await session.run("go on", key="two")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_erasure_survives_a_death_at_every_operation(when: str) -> None:
    deaths = 0
    for at in range(1, 200):
        store = MemoryStore()
        dying = FailingStore(store, [Fault(at, when, Died)])  # type: ignore[arg-type]
        try:
            await life(dying)
        except Died:
            deaths += 1
            await dying.bury()
            await life(store)
        for name in ("s", "f"):
            facts = list(await store.read(name))
            assert "Xylophone" not in str(facts)
            assert sum(isinstance(fact, Redacted) for fact in facts) == 1
            assert check_promises(facts, session=name) == []
        session = await desk().session("s", store=store).refresh()
        assert [message.text for message in session.messages][::2] == [ERASED, "go on"]
        assert sum(isinstance(fact, CallReturned) for fact in session.facts) == 2
        if not dying.dead:
            break
    assert deaths > 20
