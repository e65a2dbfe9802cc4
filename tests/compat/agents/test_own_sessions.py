"""A session whose history methods a run would not call is refused: what they redact would be sent."""

from __future__ import annotations

from typing import Any

import pytest

from legato.compat.agents import Agent, RunConfig, Runner, RunState, SQLiteSession, UserError, default_store
from legato.testing import ScriptedModel


def clerk() -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(["Hello.", "Again."])
    return Agent(name="clerk", model=model), model


async def redact(*given: Any, **named: Any) -> list[Any]:
    return []


def session_subclass(method: str) -> SQLiteSession:
    made: SQLiteSession = type("Redacting", (SQLiteSession,), {method: redact})("s")
    return made


def patched_session(method: str) -> SQLiteSession:
    session = SQLiteSession("s")
    setattr(session, method, redact)
    return session


@pytest.mark.parametrize("method", ["get_items", "add_items", "pop_item"])
@pytest.mark.parametrize("make", [session_subclass, patched_session])
async def test_overridden_history_is_refused(make: Any, method: str) -> None:
    agent, model = clerk()
    session = make(method)
    with pytest.raises(UserError, match=f"has its own {method}, which a run would not call"):
        await Runner.run(agent, "My card is 4111", session=session)
    with pytest.raises(UserError, match=method):
        Runner.run_streamed(agent, "My card is 4111", session=session)
    with pytest.raises(UserError, match=method):
        await RunState.from_session(agent, session)
    assert model.requests == []
    assert await session.store.list() == []


async def test_class_with_patched_history_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SQLiteSession, "get_items", redact)
    with pytest.raises(UserError, match=r"legato\.history"):
        await Runner.run(clerk()[0], "Hi", session=SQLiteSession("s"))


async def test_subclass_with_other_methods_is_used() -> None:
    class Named(SQLiteSession):
        """It only adds to the SDK's session."""

        async def clear_session(self) -> None:
            await super().clear_session()

        def title(self) -> str:
            return self.session_id.title()

    session = Named("customer")
    agent, model = clerk()
    await Runner.run(agent, "Hi", session=session)
    await Runner.run(agent, "And?", session=session)
    assert [message.text for message in model.requests[-1].messages] == ["Hi", "Hello.", "And?"]


def test_settings_set_later_are_refused() -> None:
    session = SQLiteSession("s")
    with pytest.raises(UserError, match="session_settings"):
        session.session_settings = {"limit": 1}


@pytest.mark.parametrize("name", ["session_input_callback", "session_settings", "call_model_input_filter"])
def test_run_config_cannot_filter_history(name: str) -> None:
    with pytest.raises(UserError, match=r"legato\.history"):
        RunConfig(**{name: redact})
    config = RunConfig()
    with pytest.raises(UserError, match=r"legato\.history"):
        setattr(config, name, redact)


async def test_other_session_classes_are_refused() -> None:
    class Mine:
        session_id = "mine"
        get_items = add_items = pop_item = clear_session = redact

    with pytest.raises(UserError, match="Mine keeps a history of its own"):
        await Runner.run(clerk()[0], "Hi", session=Mine())
    assert await default_store().list() == []
