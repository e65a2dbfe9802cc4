"""A run that can be decided on, serialized and resumed.

A state is a session: a store, an id, and the caller's context. Decisions are recorded at once, so a decision cannot be made twice.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Generic

from legato.compat.agents.agent import Agent
from legato.compat.agents.context import RunContextWrapper, TContext
from legato.compat.agents.conversation_storage import default_store, record_items, run_in_loop
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.items import ToolApprovalItem, TResponseInputItem
from legato.compat.agents.ledger_items import approval_items
from legato.compat.agents.sessions import SQLiteSession, session_of
from legato.compat.agents.unsupported_errors import mirrors
from legato.compat.agents.workflow_builder import NAME, RunConfig, Team, team_of
from legato.compat.gaps import find_stack_level
from legato.errors import CodecError
from legato.runtime.session import Session
from legato.stores.contract import Store


class ContextLeftBehind(UserWarning):
    """A state was written down without the caller's context, because nothing says how to write that; or read without it."""


@mirrors("RunState")
class RunState(Generic[TContext]):
    """A handle on a run: made by `result.to_state()`, or from a string."""

    def __init__(self, team: Team, store: Store, id: str, wrapper: RunContextWrapper[TContext]) -> None:
        self._team = team
        self.store = store
        self.id = id
        self.wrapper = wrapper

    def __repr__(self) -> str:
        return f"<RunState of session {self.id!r}>"

    def _session(self) -> Session:
        return self._team.workflow.session(self.id, store=self.store, context=self.wrapper)

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """The calls that wait for a person."""

        async def look() -> list[ToolApprovalItem]:
            session = await self._session().refresh()
            return approval_items(session, self._team.find)

        return run_in_loop(look)

    def approve(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:
        """Let a call run; `always_approve`: and all others of this tool by this agent, for this conversation.

        `NotPending` if it was decided before, or is no call of this run: then nothing is changed.
        """
        request = _request(approval_item)
        run_in_loop(lambda: self._session().approve(request, always=always_approve))

    def reject(self, approval_item: ToolApprovalItem, always_reject: bool = False, *, rejection_message: str | None = None) -> None:
        """Decline a call, in words that the model is given. `NotPending` if it is not there to be decided: then nothing is changed."""
        if always_reject:
            raise UserError("always_reject cannot be had here: leave the tool out with is_enabled=False, or reject each call")
        request = _request(approval_item)
        run_in_loop(lambda: self._session().reject(request, rejection_message or ""))

    def add_input(self, input: str | list[TResponseInputItem]) -> None:
        """Say something more before the run goes on. It is recorded at once, and seen when the calls that wait have their outputs."""
        graph, speaker = self._team.workflow.definition.graph, self._team.start.name
        run_in_loop(lambda: record_items(self.store, self.id, input, speaker, graph, "", run=True))

    @staticmethod
    async def from_session(initial_agent: Agent[Any], session: SQLiteSession, context: Any = None) -> RunState[Any]:
        """Ours: the run that a session is in, wherever it was left, also in another process: nothing has to be written down."""
        if (kept := session_of(session)) is None:
            raise UserError("RunState.from_session takes a SQLiteSession")
        wrapper: RunContextWrapper[Any] = RunContextWrapper(context)
        return RunState(await team_of(initial_agent, wrapper, RunConfig(), None), kept.store, kept.session_id, wrapper)

    # -- as text -------------------------------------------------------------------------------------------------------

    def to_string(
        self,
        *,
        context_serializer: Callable[[TContext], Any] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> str:
        """The whole conversation as Legato's portable text, with the caller's context.

        A context that is a mapping goes along as it is, any other through `context_serializer`. Without one it stays behind, which
        `strict_context` refuses, and which is told otherwise.
        """
        context = self.wrapper.context
        write: Callable[[Any], Any]
        if context_serializer is not None:
            write = lambda wrapper: {"by": "serializer", "value": context_serializer(wrapper.context)}  # noqa: E731
        elif context is None or isinstance(context, Mapping):
            write = lambda wrapper: {"by": "itself", "value": wrapper.context}  # noqa: E731
        elif strict_context:
            raise UserError(
                f"the context is a {type(context).__name__}, and nothing says how to write it down: pass context_serializer=..., or "
                "strict_context=False to leave it behind"
            )
        else:
            told = f"the context, a {type(context).__name__}, stays behind: pass context_serializer=... to take it along"
            warnings.warn(told, ContextLeftBehind, stacklevel=find_stack_level())
            write = lambda wrapper: {"by": "nobody", "value": type(wrapper.context).__name__}  # noqa: E731
        return run_in_loop(lambda: self._session().to_string(write, strict=False))

    def to_json(
        self,
        *,
        context_serializer: Callable[[TContext], Any] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
    ) -> dict[str, Any]:
        """The same as a dict."""
        made: dict[str, Any] = json.loads(self.to_string(context_serializer=context_serializer, strict_context=strict_context))
        return made

    @staticmethod
    async def from_string(
        initial_agent: Agent[Any],
        state_string: str,
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        store: Store | None = None,
    ) -> RunState[Any]:
        """The run that a string holds, in this process's store (or the one given), to go on with these agents.

        Where the store has that conversation already, it is the same one: what was decided there is decided. A context that the string
        had to leave behind, or that was written by a serializer and is not read by a deserializer, is told; `strict_context` refuses it.
        """
        _check_not_theirs(state_string)
        wrapper: RunContextWrapper[Any] = RunContextWrapper(None)
        if isinstance(context_override, RunContextWrapper):
            context_override = context_override.context
        team = await team_of(initial_agent, wrapper, RunConfig(), None)

        def read(carried: Any) -> RunContextWrapper[Any]:
            by, value = _read_carried_context(carried)
            if context_override is not None:
                wrapper.context = context_override
                return wrapper
            if by == "nobody":
                missing = f"the string had to leave its context behind, a {value}: pass context_override=... to go on with one"
            elif context_deserializer is not None and value is not None:
                wrapper.context = context_deserializer(value)
                return wrapper
            else:
                wrapper.context = value
                missing = "the string's context was written by a serializer: pass context_deserializer=..., or context_override=..."
            if by != "itself" and strict_context:
                raise UserError(missing)
            if by != "itself":
                warnings.warn(missing, ContextLeftBehind, stacklevel=find_stack_level())
            return wrapper

        wrapper.context = context_override
        session = team.workflow.load(state_string, store=store or default_store(), deserialize_context=read, move=True)
        session.context = wrapper
        await session.refresh()
        return RunState(team, session.store, session.id, wrapper)

    @staticmethod
    async def from_json(
        initial_agent: Agent[Any],
        state_json: Mapping[str, Any],
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        store: Store | None = None,
    ) -> RunState[Any]:
        """The same from a dict."""
        return await RunState.from_string(
            initial_agent,
            json.dumps(state_json, ensure_ascii=False),
            context_override=context_override,
            context_deserializer=context_deserializer,
            strict_context=strict_context,
            store=store,
        )


def _request(item: ToolApprovalItem) -> Any:
    if not isinstance(item, ToolApprovalItem) or item.pending is None:
        raise UserError("only an item of result.interruptions or state.get_interruptions() can be decided")
    return item.pending


def _read_carried_context(carried: Any) -> tuple[str, Any]:
    """Return the kind of writer of the context, and the context as it was written."""
    if not isinstance(carried, dict) or carried.keys() != {"by", "value"} or carried["by"] not in ("serializer", "itself", "nobody"):
        raise CodecError(
            "the context in this string was not written by state.to_string()",
            found=repr(carried)[:80],
            do="get it anew; a session of Legato's own is loaded with workflow.load(text)",
        )
    return carried["by"], carried["value"]


def _check_not_theirs(text: str) -> None:
    """Refuse a state that the SDK itself wrote, before it would be refused as just anything."""
    try:
        theirs = "$schemaVersion" in json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return  # what else is wrong with it is told when it is read
    if theirs:
        raise CodecError(
            "this is a RunState that the SDK itself wrote",
            expected="text made by state.to_string() here",
            do=f"write it to a file and bring it along: legato import FILE --store sqlite:NEW.db --session ID --workflow {NAME}, then "
            "RunState.from_session(agent, SQLiteSession(ID, 'NEW.db')); see docs/migrate/index.md#the-conversations",
        )
