"""What is served. May know: workflows, stores, engines. Decides: which handle a session's id stands for, and whether it can be driven.

A handle is made for every request. It reads only what is new, because the process keeps what was read before (`runtime/session_cache.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from legato.core.child_session_ids import max_id_chars, root_session_id
from legato.core.state import State
from legato.engines.contract import Engine, Submitted
from legato.errors import BadInput, DefinitionChanged, EngineUnavailable, LegatoError, UnknownLedger
from legato.inspection.browsing import Browsing
from legato.inspection.recorded import as_recorded
from legato.runtime.clock import fresh_like, fresh_name
from legato.runtime.ledger import read_state
from legato.runtime.session import Session
from legato.runtime.session_cache import BYTES_PER_FACT, SESSIONS, CachedState
from legato.stores.contract import Store
from legato.workflow.agent_as_tool import with_child_workflows
from legato.workflow.workflow import Workflow


class Serving:
    """Workflows, the store of their sessions, and the engine that sees to it that somebody drives them.

    `drives`: whether that somebody is in this process. `place` is the store's name as it may be shown. `closing` is set when the server
    ends: streams end with it.
    """

    def __init__(self, workflows: Mapping[str, Workflow], store: Store, engine: Engine, place: str, drives: bool) -> None:
        self.workflows = workflows
        self.store = store
        self.engine = engine
        self.place = place
        self.drives = drives
        self.closing = asyncio.Event()
        self.browsing = Browsing(store, self.session, lambda name: name in self._readable)
        self._readable = {each.name: each for each in reversed([*with_child_workflows(workflows.values())])}

    # -- sessions that are there ---------------------------------------------------------------------------------------

    async def session(self, id: str) -> Session:
        """A handle on a session that is there, up to date; `UnknownLedger` if it is not.

        Of a workflow that is served here, what it is given wakes the engine. Of any other it is one to look at only.
        """
        cached: CachedState | None = SESSIONS.get(self.store, _checked(id), CachedState)
        is_served = cached is not None and cached.state.workflow in self._readable
        try:
            state = cached.state if cached is not None and is_served else await read_state(self.store, id)
            session = await self._handle(id, state).refresh()
        except DefinitionChanged:  # it was deleted since, and made anew of another workflow
            session = await self._handle(id, await read_state(self.store, id)).refresh()
        if not session.state.facts:
            raise UnknownLedger(f"there is no session {id!r}", found=f"looked in {self.place}", do="look at the list of sessions")
        return session

    def _handle(self, id: str, state: State) -> Session:
        """A handle on the session that has this state, or had it a while ago."""
        name = state.workflow
        if name in self.workflows and root_session_id(id) == id:
            return self.engine.session(self.workflows[name], id, self.store)
        workflow = self._readable[name] if name in self._readable else self._recorded(id, state)
        return workflow.session(id, store=self.store)

    def _recorded(self, id: str, state: State) -> Workflow:
        """The workflow of a session whose program is not at hand."""
        made: tuple[str, int, Workflow] | None = SESSIONS.get(self.store, id, as_recorded)
        if made is None or made[:2] != (state.ledger, state.length):
            made = state.ledger, state.length, as_recorded(state.facts)
            SESSIONS.put(self.store, id, as_recorded, made, BYTES_PER_FACT)
        return made[2]

    def is_served(self, session: Session) -> bool:
        """Whether its workflow is at hand, so that more is known than the ledger tells."""
        return session.workflow.name in self._readable

    def can_drive(self, session: Session) -> bool:
        """Whether what it is given is acted on: it is a session of a workflow that is served, and not held for another one."""
        return isinstance(session, Submitted)

    def drivable(self, session: Session) -> Submitted:
        """The same session, to be given something; `DefinitionChanged` if nobody here would act on it."""
        if isinstance(session, Submitted):
            return session
        holder = root_session_id(session.id)
        if holder != session.id:
            do = "what it asks is asked there too, and answered there"
            raise DefinitionChanged(f"session {session.id!r} is held for a call of {holder!r}", do=do)
        raise DefinitionChanged(
            f"session {session.id!r} belongs to workflow {session.state.workflow!r}, which is not served here",
            expected=" or ".join(self.workflows),
            do="it can be looked at; to go on with it, serve its workflow too",
        )

    async def aside(self, id: str) -> str:
        """Why a session was set aside by the engine in this process; empty if it was not."""
        found = await self.engine.dead(1_000_000) if self.drives else ()
        return next((each.error for each in found if each.session == id), "")

    async def retry(self, session: Submitted) -> None:
        """Have a session gone on with, also if it was set aside; `EngineUnavailable` if the engine cannot be told."""
        try:
            try:
                await self.engine.retry(session.id)
            except BadInput:  # it was not set aside
                await self.engine.wake(session.id)
        except LegatoError:
            raise
        except Exception as error:  # whatever a client of an engine raises
            raise EngineUnavailable("the engine could not be told", found=type(error).__name__, do="see that its server runs") from None

    # -- new ones ------------------------------------------------------------------------------------------------------

    def begin(self, workflow: str = "", id: str = "") -> Submitted:
        """A handle on a new session, which is there once it was opened. Which workflow may be left out if one is served."""
        if not workflow and len(self.workflows) > 1:
            raise BadInput("say which workflow", expected=" or ".join(self.workflows), do='add "workflow" to what you send')
        if workflow and workflow not in self.workflows:
            raise BadInput(f"workflow {workflow!r} is not served here", expected=" or ".join(self.workflows))
        chosen = self.workflows[workflow] if workflow else next(iter(self.workflows.values()))
        return self.engine.session(chosen, id or f"{chosen.name[:40]}-{fresh_name()[:8]}", self.store)

    async def fork(self, session: Session, at: int | None, id: str) -> Session:
        """A branch of a session. What it owes is gone on with, as it would be if this had died at that point."""
        branch = await session.fork(at, _checked(id) if id else fresh_like(session.id))
        made = await self.session(branch.id) if branch.state.facts else branch
        if isinstance(made, Submitted):
            await made.wake()
        return made


def _checked(id: str) -> str:
    if not 0 < len(id) <= (longest := max_id_chars(id)) or not id.isprintable():
        raise BadInput(f"a session id is 1 to {longest} printable characters", found=repr(id)[:80])
    return id
