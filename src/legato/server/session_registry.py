"""The served workflows, and handles on the sessions of their store.

Every request gets a new handle. A handle reads only new facts, because the process caches session states (`runtime/session_cache.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from legato.core.child_session_ids import find_max_id_chars, find_root_session_id
from legato.core.state import State
from legato.engines.engine import Engine, EngineSession
from legato.errors import BadInput, DefinitionChanged, EngineUnavailable, LegatoError, UnknownLedger
from legato.inspection.session_browser import SessionBrowser
from legato.inspection.workflow_from_ledger import rebuild_workflow
from legato.runtime.clock import new_id, new_id_like
from legato.runtime.ledger import read_state
from legato.runtime.session import Session
from legato.runtime.session_cache import BYTES_PER_FACT, SESSION_CACHE, CachedState
from legato.stores.contract import Store
from legato.workflow.agent_as_tool import iter_workflow_tree
from legato.workflow.workflow import Workflow


class SessionRegistry:
    """The served workflows, the store of their sessions, and the engine whose workers drive them.

    `drives`: the workers run in this process. `store_name` may be shown to clients. `closing` is set when the server stops, to end streams.
    """

    def __init__(self, workflows: Mapping[str, Workflow], store: Store, engine: Engine, store_name: str, drives: bool) -> None:
        self.workflows = workflows
        self.store = store
        self.engine = engine
        self.store_name = store_name
        self.drives = drives
        self.closing = asyncio.Event()
        self.session_browser = SessionBrowser(store, self.find_session, lambda name: name in self._known_workflows)
        self._known_workflows = {each.name: each for each in reversed([*iter_workflow_tree(workflows.values())])}

    # -- existing sessions ---------------------------------------------------------------------------------------------

    async def find_session(self, id: str) -> Session:
        """Return an up-to-date handle on an existing session; raises `UnknownLedger` if there is none.

        Input to a session of a served workflow wakes the engine. Sessions of other workflows are read-only.
        """
        cached: CachedState | None = SESSION_CACHE.get(self.store, _check_session_id(id), CachedState)
        is_served = cached is not None and cached.state.workflow in self._known_workflows
        try:
            state = cached.state if cached is not None and is_served else await read_state(self.store, id)
            session = await self._make_handle(id, state).refresh()
        except DefinitionChanged:  # the session was deleted since, and created again by another workflow
            session = await self._make_handle(id, await read_state(self.store, id)).refresh()
        if not session.state.facts:
            raise UnknownLedger(f"there is no session {id!r}", found=f"searched {self.store_name}", do="look at the list of sessions")
        return session

    def _make_handle(self, id: str, state: State) -> Session:
        """Return a handle on the session that has this state, or had it when it was cached."""
        name = state.workflow
        if name in self.workflows and find_root_session_id(id) == id:
            return self.engine.session(self.workflows[name], id, self.store)
        workflow = self._known_workflows[name] if name in self._known_workflows else self._workflow_from_ledger(id, state)
        return workflow.session(id, store=self.store)

    def _workflow_from_ledger(self, id: str, state: State) -> Workflow:
        """Return a read-only workflow for a session whose code is not served here, rebuilt from its ledger."""
        cached: tuple[str, int, Workflow] | None = SESSION_CACHE.get(self.store, id, rebuild_workflow)
        if cached is None or cached[:2] != (state.ledger_id, state.length):
            cached = state.ledger_id, state.length, rebuild_workflow(state.facts)
            SESSION_CACHE.put(self.store, id, rebuild_workflow, cached, BYTES_PER_FACT)
        return cached[2]

    def is_served(self, session: Session) -> bool:
        """Return True if the session's workflow is served here, so that more is known than its ledger contains."""
        return session.workflow.name in self._known_workflows

    def can_drive(self, session: Session) -> bool:
        """Return True if workers act on input: the workflow is served here, and the session is no child session."""
        return isinstance(session, EngineSession)

    def require_drivable(self, session: Session) -> EngineSession:
        """Return the same session if input is acted on; raises `DefinitionChanged` otherwise."""
        if isinstance(session, EngineSession):
            return session
        root = find_root_session_id(session.id)
        if root != session.id:
            do = "its requests are pending there too: answer them there"
            raise DefinitionChanged(f"session {session.id!r} is a child session of {root!r}", do=do)
        raise DefinitionChanged(
            f"session {session.id!r} belongs to workflow {session.state.workflow!r}, which is not served here",
            expected=" or ".join(self.workflows),
            do="it is read-only here; to continue it, serve its workflow too",
        )

    async def find_dead_letter_error(self, id: str) -> str:
        """Return the error for which the engine of this process set a session aside; empty if it did not."""
        dead_letters = await self.engine.list_parked(1_000_000) if self.drives else ()
        return next((each.error for each in dead_letters if each.session == id), "")

    async def retry_session(self, session: EngineSession) -> None:
        """Have a session resumed, also after it was set aside; raises `EngineUnavailable` if the engine cannot be reached."""
        try:
            try:
                await self.engine.retry(session.id)
            except BadInput:  # the session was not set aside
                await self.engine.wake(session.id)
        except LegatoError:
            raise
        except Exception as error:  # engine clients raise errors of any type
            raise EngineUnavailable("the engine cannot be reached", found=type(error).__name__, do="check that its server runs") from None

    # -- new sessions --------------------------------------------------------------------------------------------------

    def create_session(self, workflow: str = "", id: str = "") -> EngineSession:
        """Return a handle on a new session, which exists once it is opened. `workflow` may be empty if only one is served."""
        if not workflow and len(self.workflows) > 1:
            raise BadInput(
                "the workflow is missing, and several are served", expected=" or ".join(self.workflows), do='add "workflow" to the request'
            )
        if workflow and workflow not in self.workflows:
            raise BadInput(f"workflow {workflow!r} is not served here", expected=" or ".join(self.workflows))
        chosen = self.workflows[workflow] if workflow else next(iter(self.workflows.values()))
        return self.engine.session(chosen, id or f"{chosen.name[:40]}-{new_id()[:8]}", self.store)

    async def fork_session(self, session: Session, at: int | None, id: str) -> Session:
        """Fork a session. Any unfinished work at that point continues in the fork, as after a crash."""
        fork = await session.fork(at, _check_session_id(id) if id else new_id_like(session.id))
        handle = await self.find_session(fork.id) if fork.state.facts else fork
        if isinstance(handle, EngineSession):
            await handle.wake()
        return handle


def _check_session_id(id: str) -> str:
    if not 0 < len(id) <= (max_chars := find_max_id_chars(id)) or not id.isprintable():
        raise BadInput(f"a session id is 1 to {max_chars} printable characters", found=repr(id)[:80])
    return id
