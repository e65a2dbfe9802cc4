"""What is served. May know: workflows, stores, engines. Decides: which handle a session's id stands for, and whether it can be driven.

Handles are kept while they are used: a handle reads only what is new. They are a projection of the ledger up to a position, and any of
them can be let go of at any time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

from legato.drive.clock import fresh_name
from legato.drive.ledger import meet
from legato.engines.contract import Engine, Submitted
from legato.errors import BadInput, DefinitionChanged, UnknownLedger
from legato.session import Session
from legato.stores.contract import Store
from legato.workflow import Workflow

MOST_FACTS = 100_000
"""Facts that the handles which are kept may have in memory together, beside the newest one."""


class Serving:
    """Workflows, the store of their sessions, and the engine that sees to it that somebody drives them.

    `drives`: whether that somebody is in this process. `place` is the store's name as it may be shown.
    """

    def __init__(self, workflows: Mapping[str, Workflow], store: Store, engine: Engine, place: str, drives: bool) -> None:
        self.workflows = workflows
        self.store = store
        self.engine = engine
        self.place = place
        self.drives = drives
        self.closing = asyncio.Event()  # set when the server ends: streams end with it
        self._handles: OrderedDict[str, Session] = OrderedDict()  # the one that was used last is at the end

    async def session(self, id: str) -> Session:
        """A handle on a session that is there, up to date; `UnknownLedger` if it is not.

        Of a workflow that is served here, what it is given wakes the engine.
        """
        known = self._handles.pop(id, None)
        if known is not None:
            try:
                session = await known.refresh()
                if not session.state.facts:
                    raise UnknownLedger(id)
            except UnknownLedger:  # it was deleted, and perhaps made anew
                session = await self._opened(id)
        else:
            session = await self._opened(id)
        self._handles[id] = session
        self._let_go()
        return session

    async def _opened(self, id: str) -> Session:
        _, facts = await meet(self.store, _checked(id))
        if not facts:
            raise UnknownLedger(f"there is no session {id!r}", found=f"looked in {self.place}", do="look at the list of sessions")
        name = getattr(facts[0], "workflow", "")
        if name not in self.workflows:
            raise DefinitionChanged(
                f"session {id!r} belongs to workflow {name!r}, which is not served here", expected=", ".join(self.workflows)
            )
        return await self.engine.session(self.workflows[name], id, self.store).refresh()

    def _let_go(self) -> None:
        held = sum(each.state.length for each in self._handles.values())
        while len(self._handles) > 1 and held > MOST_FACTS:
            _, oldest = self._handles.popitem(last=False)
            held -= oldest.state.length

    def forget(self, id: str) -> None:
        """Let go of what is known of a session."""
        self._handles.pop(id, None)

    def begin(self, workflow: str = "", id: str = "") -> Submitted:
        """A handle on a new session, which is there once something was said in it. Which workflow may be left out if one is served."""
        if not workflow and len(self.workflows) > 1:
            raise BadInput("say which workflow", expected=" or ".join(self.workflows), do='add "workflow" to what you send')
        if workflow and workflow not in self.workflows:
            raise BadInput(f"workflow {workflow!r} is not served here", expected=" or ".join(self.workflows), found=repr(workflow)[:80])
        chosen = self.workflows[workflow] if workflow else next(iter(self.workflows.values()))
        return self.engine.session(chosen, id or f"{chosen.name[:40]}-{fresh_name()[:8]}", self.store)

    def can_drive(self, session: Session) -> bool:
        """Whether what it is given is acted on: it is a session of a workflow that is served."""
        return isinstance(session, Submitted)

    def drivable(self, session: Session) -> Submitted:
        """The same session, to be given something; `DefinitionChanged` if nobody here would act on it."""
        if isinstance(session, Submitted):
            return session
        raise DefinitionChanged(
            f"session {session.id!r} belongs to workflow {session.state.workflow!r}, which is not served here",
            expected=" or ".join(self.workflows),
            do="it can be looked at; to go on with it, serve its workflow too",
        )


def _checked(id: str) -> str:
    if not id or len(id) > 400 or not id.isprintable():
        raise BadInput("a session id is 1 to 400 printable characters", found=repr(id)[:80])
    return id
