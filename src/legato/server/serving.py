"""What is served. May know: workflows, stores, engines. Decides: which handle a session's id stands for, and whether it can be driven.

Handles are kept while they are used: a handle reads only what is new. They are a projection of the ledger up to a position, and any of
them can be let go of at any time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

from legato.core.child_ids import max_id_chars, root_session_id
from legato.drive.clock import fresh_like, fresh_name
from legato.drive.ledger import meet
from legato.engines.contract import Engine, Submitted
from legato.errors import BadInput, DefinitionChanged, EngineUnavailable, LegatoError, UnknownLedger
from legato.nested import with_child_workflows
from legato.session import Session
from legato.shown.browsing import Browsing
from legato.shown.recorded import as_recorded
from legato.stores.contract import Store
from legato.workflow import Workflow

MOST_LETTERS = 50_000_000
MOST_HANDLES = 500
OF_A_FACT = 500
"""Handles that are kept, and letters that they may have in memory together, beside the newest one; and what a fact is taken for besides."""


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
        self.browsing = Browsing(store, self.look, lambda name: name in self._readable)
        self._readable = {each.name: each for each in reversed([*with_child_workflows(workflows.values())])}
        self._handles: OrderedDict[str, Session] = OrderedDict()  # the one that was used last is at the end

    # -- sessions that are there ---------------------------------------------------------------------------------------

    async def session(self, id: str) -> Session:
        """A handle on a session that is there, up to date; `UnknownLedger` if it is not.

        Of a workflow that is served here, what it is given wakes the engine. Of any other it is one to look at only.
        """
        session = await self.look(id)
        self._handles[id] = session
        self._handles.move_to_end(id)
        held = sum(map(_weight, self._handles.values()))
        while len(self._handles) > 1 and (held > MOST_LETTERS or len(self._handles) > MOST_HANDLES):
            _, oldest = self._handles.popitem(last=False)
            held -= _weight(oldest)
        return session

    async def look(self, id: str) -> Session:
        """The same, for whoever looks at many: no handle is kept for it."""
        known = self._handles.get(id)
        if known is not None:
            before = known.state.length
            try:
                await known.refresh()
            except UnknownLedger:  # it was deleted, and perhaps made anew
                self.forget(id)
            else:
                grown = known.state.length != before
                if known.state.facts and (known.workflow.name in self._readable or not grown):
                    return known
        return await self._opened(id)

    async def _opened(self, id: str) -> Session:
        _, facts = await meet(self.store, _checked(id))
        if not facts:
            raise UnknownLedger(f"there is no session {id!r}", found=f"looked in {self.place}", do="look at the list of sessions")
        name = getattr(facts[0], "workflow", "")
        if name in self.workflows and root_session_id(id) == id:
            return await self.engine.session(self.workflows[name], id, self.store).refresh()
        workflow = self._readable[name] if name in self._readable else as_recorded(facts)
        return await workflow.session(id, store=self.store).refresh()

    def forget(self, id: str) -> None:
        """Let go of what is known of a session."""
        self._handles.pop(id, None)

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


def _weight(session: Session) -> int:
    """What a handle keeps in memory, in letters."""
    return session.state.spent.letters + session.state.length * OF_A_FACT
