"""Scripted users, who send messages and answer requests.

A scripted user keeps no state: the messages already sent are read from the ledger, so the same user can continue after a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from legato.core.facts import CallPaused, MessageReceived, ModelRequestFailed
from legato.core.messages import MessageInput
from legato.core.pending_requests import Pending
from legato.errors import LegatoError, NotPending
from legato.runtime.definition import call_user_code
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.tools import ClientTool

Verdict: TypeAlias = str | tuple[str, Any] | None
"""`"approve"`, `"always"`, `("reject", reason)`, `("edit", arguments)`, `("answer", value)`; None leaves the request pending."""

DecisionFunction: TypeAlias = Callable[[Pending], Verdict | Awaitable[Verdict]]


def approve_all(request: Pending) -> Verdict:
    """Approve every request; answer requests for a result with "done"."""
    return ("answer", "done") if request.kind == "result" else "approve"


@dataclass(frozen=True)
class ScriptedUser:
    """A user who sends `messages` one after another, each once, and answers requests by the function `decide`.

    >>> ScriptedUser(["Order 7 arrived broken", "thanks"])
    ScriptedUser(2 messages)
    """

    messages: Sequence[MessageInput | Sequence[MessageInput]]
    decide: DecisionFunction = approve_all
    stream: bool = False
    on_event: Callable[[Event], None] | None = field(default=None, repr=False)
    max_steps: int = 2_000
    """The number of steps after which `play` raises, because a conversation that never ends is an error in a test."""

    tools: Sequence[ClientTool] = ()
    """Client tools that the user offers with each message. Calls of them are requests to the user."""

    output_schema: Mapping[str, Any] | None = None
    """The JSON schema of the output that the user asks for."""

    max_resumes: int = 0
    """The number of failures, of models and of child sessions, after which the user calls `resume()`."""

    def __repr__(self) -> str:
        return f"ScriptedUser({len(self.messages)} messages)"

    async def play(self, session: Session) -> Session:
        """Drive the conversation until this user has nothing left to send or answer."""
        for _ in range(self.max_steps):
            if not await self.take_step(session):
                return session
        raise LegatoError(f"the conversation {session.id!r} did not end within {self.max_steps} steps", do="look at session.facts")

    async def take_step(self, session: Session) -> bool:
        """Drive, answer, or send a message. Return False if nothing is left to do."""
        await session.refresh()
        status = session.status
        if status == "running":
            await self._drive(session.resume(self.stream))
            return True
        if status == "failed" and _count_failures(session) <= self.max_resumes:
            await self._drive(session.resume(self.stream))
            return True
        if status == "failed":
            raise LegatoError(f"the model of session {session.id!r} failed: {session.error}")
        if await self.answer_requests(session):
            return True
        count = sum(1 for fact in session.facts if isinstance(fact, MessageReceived))
        if count >= len(self.messages):
            return False
        message, key = self.messages[count], f"message-{count}"
        await self._drive(session.run(message, stream=self.stream, key=key, tools=self.tools, output_schema=self.output_schema))
        return True

    async def answer_requests(self, session: Session) -> bool:
        """Answer the pending requests. Return True if any was answered."""
        has_answered = False
        for request in session.pending:
            verdict = await call_user_code(self.decide, request)
            if verdict is None:
                continue
            with suppress(NotPending):  # another user has answered it; the ledger has that answer
                await give_answer(session, request, verdict)
            has_answered = True
        return has_answered

    async def _drive(self, run: Run) -> None:
        if not self.stream and self.on_event is None:
            await run
            return
        async for event in run:
            if self.on_event is not None:
                self.on_event(event)


def _count_failures(session: Session) -> int:
    """Count the failures in the session's ledger."""
    return sum(
        1
        for fact in session.facts
        if (isinstance(fact, ModelRequestFailed) and fact.final) or (isinstance(fact, CallPaused) and bool(fact.error))
    )


async def give_answer(session: Session, request: Pending | str, verdict: Verdict) -> None:
    """Answer one request with this verdict."""
    name: str | None
    value: Any
    name, value = verdict if isinstance(verdict, tuple) else (verdict, None)
    match name:
        case "approve" | "always":
            await session.approve(request, always=name == "always")
        case "reject":
            await session.reject(request, value)
        case "edit":
            await session.edit(request, value)
        case "answer":
            await session.answer(request, value)
        case _:
            do = 'return "approve", "always", ("reject", reason), ("edit", {...}) or ("answer", value)'
            raise LegatoError(f"{name!r} is not a verdict", do=do)
