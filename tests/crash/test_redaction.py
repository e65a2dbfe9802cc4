"""A process that redacts text dies before and after every store operation; the next process finds the text redacted once."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.facts import CallReturned, Redacted
from legato.core.texts_for_model import REDACTED_TEXT
from legato.core.view import ModelRequest
from legato.stores import MemoryStore, Store
from legato.testing import Died, FailingStore, Fault, ScriptedModel, call
from legato.testing.promise_checks import check_promises

SECRET = "my name is Ann Xylophone"


def build_desk() -> Workflow:
    @tool(idempotent=True)
    async def note(text: str) -> str:
        """Write something down."""
        return f"noted {text}"

    def reply(request: ModelRequest) -> object:
        return call("note", text="it") if request.messages[-1].role == "user" else f"after {len(request.messages)} messages"

    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply), tools=[note])]).build()


async def run_process(store: Store) -> None:
    """Run the process. A second run repeats nothing that is recorded already."""
    session = build_desk().session("s", store=store)
    await session.run(SECRET, key="one")
    if not await store.read("f"):
        await session.fork(id="f")
    await session.redact(1)
    await session.run("go on", key="two")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_redaction_survives_death_at_every_operation(when: str) -> None:
    deaths = 0
    for at in range(1, 200):
        store = MemoryStore()
        dying = FailingStore(store, [Fault(at, when, Died)])  # type: ignore[arg-type]
        try:
            await run_process(dying)
        except Died:
            deaths += 1
            await dying.release_leases()
            await run_process(store)
        for name in ("s", "f"):
            facts = list(await store.read(name))
            assert "Xylophone" not in str(facts)
            assert sum(isinstance(fact, Redacted) for fact in facts) == 1
            assert check_promises(facts, session=name) == []
        session = await build_desk().session("s", store=store).refresh()
        assert [message.text for message in session.messages][::2] == [REDACTED_TEXT, "go on"]
        assert sum(isinstance(fact, CallReturned) for fact in session.facts) == 2
        if not dying.is_dead:
            break
    assert deaths > 20
