"""Scripted people. May know: sessions. Decides: what a person says and answers next, from the ledger alone.

A scripted person keeps no memory: what was said already is read from the ledger, so the same person can go on after a restart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from legato.core.facts import CallPaused, MessageReceived, ModelRequestFailed
from legato.core.messages import Sendable
from legato.core.pending_requests import Pending
from legato.errors import LegatoError, NotPending
from legato.runtime.definition import called
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.tools import ClientTool

Verdict: TypeAlias = str | tuple[str, Any] | None
"""`"approve"`, `"always"`, `("reject", words)`, `("edit", arguments)`, `("answer", value)`; None leaves the request pending."""

Decide: TypeAlias = Callable[[Pending], Verdict | Awaitable[Verdict]]


def approve_all(request: Pending) -> Verdict:
    """Answers every question with yes, and asks for a result with 'done'."""
    return ("answer", "done") if request.kind == "result" else "approve"


@dataclass(frozen=True)
class Person:
    """Says `messages` one after another, each once, and answers requests as `decide` says.

    >>> Person(["Order 7 arrived broken", "thanks"])
    Person(2 messages)
    """

    messages: Sequence[Sendable | Sequence[Sendable]]
    decide: Decide = approve_all
    stream: bool = False
    watch: Callable[[Event], None] | None = field(default=None, repr=False)
    steps: int = 2_000
    """So many things a person does before losing patience: a conversation that never ends is an error in a test."""

    tools: Sequence[ClientTool] = ()
    """Tools that this person offers with each message; calls of them are questions, as all others."""

    output_schema: Mapping[str, Any] | None = None
    """The JSON schema of the answers that this person wants."""

    resumes: int = 0
    """So many failures, of models and of child sessions, a person meets with `resume()`."""

    def __repr__(self) -> str:
        return f"Person({len(self.messages)} messages)"

    async def play(self, session: Session) -> Session:
        """Carry the conversation through to where this person has nothing left to say or answer."""
        for _ in range(self.steps):
            if not await self.act(session):
                return session
        raise LegatoError(f"the conversation {session.id!r} did not come to an end in {self.steps} steps", do="look at session.facts")

    async def act(self, session: Session) -> bool:
        """Do the next thing: drive, answer, or speak. False if there is nothing left to do."""
        await session.refresh()
        status = session.status
        if status == "running":
            await self._drive(session.resume(self.stream))
            return True
        if status == "failed" and _failures(session) <= self.resumes:
            await self._drive(session.resume(self.stream))
            return True
        if status == "failed":
            raise LegatoError(f"the model of session {session.id!r} failed: {session.error}")
        if await self.answer(session):
            return True
        spoken = sum(1 for fact in session.facts if isinstance(fact, MessageReceived))
        if spoken >= len(self.messages):
            return False
        message, key = self.messages[spoken], f"message-{spoken}"
        await self._drive(session.run(message, stream=self.stream, key=key, tools=self.tools, output_schema=self.output_schema))
        return True

    async def answer(self, session: Session) -> bool:
        """Answer what is pending. True if anything was answered."""
        answered = False
        for request in session.pending:
            verdict = await called(self.decide, request)
            if verdict is None:
                continue
            with suppress(NotPending):  # somebody else was first; the ledger has what they said
                await give(session, request, verdict)
            answered = True
        return answered

    async def _drive(self, run: Run) -> None:
        if not self.stream and self.watch is None:
            await run
            return
        async for event in run:
            if self.watch is not None:
                self.watch(event)


def _failures(session: Session) -> int:
    """How often the session has failed, by its ledger."""
    return sum(
        1
        for fact in session.facts
        if (isinstance(fact, ModelRequestFailed) and fact.final) or (isinstance(fact, CallPaused) and bool(fact.error))
    )


async def give(session: Session, request: Pending | str, verdict: Verdict) -> None:
    """Give one answer."""
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
            do = 'use "approve", "always", ("reject", words), ("edit", {...}) or ("answer", value)'
            raise LegatoError(f"{name!r} is not an answer", do=do)
