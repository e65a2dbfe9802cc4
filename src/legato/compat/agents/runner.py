"""Running agents, under the SDK's name."""

from __future__ import annotations

import asyncio
import atexit
from typing import Any

from legato.compat.agents.agent import Agent
from legato.compat.agents.context import RunContextWrapper
from legato.compat.agents.conversation_storage import default_store, fork_at_response, open_conversation, origin_of, record_items
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.items import TResponseInputItem
from legato.compat.agents.lifecycle import RunHooks, checked_hooks
from legato.compat.agents.run_result import RunResult, problem_of, tell_end
from legato.compat.agents.sessions import SQLiteSession, session_of
from legato.compat.agents.state import RunState
from legato.compat.agents.streaming import RunResultStreaming
from legato.compat.agents.unsupported_errors import check_arguments
from legato.compat.agents.workflow_builder import RunConfig, Team, team_of
from legato.runtime.clock import new_id
from legato.runtime.session import Session

DEFAULT_MAX_TURNS = 10


class Runner:
    """Runs agents: a workflow of those that can be reached, in a conversation that `session`, `conversation_id`, `previous_response_id` or
    nothing names."""

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        error_handlers: Any = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Any = None,
    ) -> RunResult:
        """Run to the end, or until a person has to decide."""
        check_arguments("Runner.run", {"error_handlers": error_handlers})
        begun = _RunStart(
            starting_agent, input, context, max_turns, hooks, run_config, previous_response_id, conversation_id, session_of(session)
        )
        team, conversation, wrapper = await begun.prepare()
        since = conversation.state.length
        await conversation.resume()
        result = RunResult(team, conversation, wrapper)
        if error := problem_of(result):
            raise error
        await tell_end(team, conversation, wrapper, since)
        return result

    @classmethod
    def run_sync(cls, starting_agent: Agent[Any], input: str | list[TResponseInputItem] | RunState[Any], **options: Any) -> RunResult:
        """The same for scripts without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return _loop().run(cls.run(starting_agent, input, **options))
        raise UserError("run_sync cannot be used where an event loop runs: write `await Runner.run(...)`")

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Any = None,
        *,
        error_handlers: Any = None,
    ) -> RunResultStreaming:
        """Begin a run, and look on with `stream_events()`."""
        check_arguments("Runner.run", {"error_handlers": error_handlers})
        begun = _RunStart(
            starting_agent, input, context, max_turns, hooks, run_config, previous_response_id, conversation_id, session_of(session)
        )
        return RunResultStreaming(starting_agent, begun.prepare)


class _RunStart:
    """The start of a run: its team is built, its ledger found, and its input recorded. The plan does the rest."""

    def __init__(
        self,
        agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],
        context: Any,
        max_turns: int | None,
        hooks: RunHooks[Any] | None,
        config: RunConfig | dict[str, Any] | None,
        previous: str | None,
        conversation: str | None,
        session: SQLiteSession | None,
    ) -> None:
        named = [name for name, id in (("previous_response_id", previous), ("conversation_id", conversation), ("session", session)) if id]
        if len(named) > 1:
            raise UserError(f"{' and '.join(named)} each name a conversation: give one of them")
        self._agent = agent
        self._input = input
        self._context = context
        self._max_turns = max_turns
        self._hooks = checked_hooks(hooks, RunHooks, "Runner.run")
        self._config = RunConfig(**config) if isinstance(config, dict) else config or RunConfig()
        self._previous = previous
        self._conversation = conversation
        self._given = session

    async def prepare(self) -> tuple[Team, Session, RunContextWrapper[Any]]:
        """The team, its session with what is said recorded in it, and the context."""
        state = self._input if isinstance(self._input, RunState) else None
        context = self._context if self._context is not None or state is None else state.wrapper.context
        wrapper: RunContextWrapper[Any] = RunContextWrapper(context)
        team = await team_of(self._agent, wrapper, self._config, self._max_turns, self._conversation, self._hooks)
        if state is not None:
            session = await self._resumed(state, team, wrapper)
        else:
            session = await self._begun(team, wrapper)
        wrapper.session = await session.refresh()
        return team, session, wrapper

    async def _resumed(self, state: RunState[Any], team: Team, wrapper: RunContextWrapper[Any]) -> Session:
        session = team.workflow.session(state.id, store=state.store, context=wrapper)
        given = self._given
        if given is None or given.store is state.store:
            return session
        # The state was read into another store than the one that its session lives in: it goes on there, or is told that it cannot.
        text = await session.to_string(strict=False)
        return team.workflow.load(text, wrapper, id=given.session_id, store=given.store, move=True)

    async def _begun(self, team: Team, wrapper: RunContextWrapper[Any]) -> Session:
        store, id = default_store(), new_id()
        if self._given is not None:
            store, id = self._given.store, self._given.session_id
        elif self._conversation is not None:
            id = await open_conversation(team, store, self._conversation, self._config.model)
        elif self._previous is not None:
            id = await fork_at_response(team, store, self._previous, self._config.model)
        await record_items(store, id, self._input, self._agent.name, team.workflow.definition.graph, origin_of(team), run=True)
        return team.workflow.session(id, store=store, context=wrapper)


_loops: list[asyncio.Runner] = []


def _loop() -> asyncio.Runner:
    """One event loop for all runs of a script: the connections of a client that the program made belong to it."""
    if not _loops:
        runner = asyncio.Runner()
        atexit.register(runner.close)
        _loops.append(runner)
    return _loops[0]
