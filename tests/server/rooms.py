"""Workflows behind a real server, for tests of what speaks to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Secret, Workflow, tool
from legato.engines import Pace
from legato.errors import ModelFailed
from legato.models.base import Emit, Reply
from legato.runtime.session import Session
from legato.server import Server, serve
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff

NEVER_AGAIN = Pace(failed=())
"""A session whose model failed stays failed until somebody says otherwise."""


class Broken(ScriptedModel):
    """Says something and breaks off, as often as it is told to, once it was heard (`free`); then it speaks as scripted."""

    def __init__(self, *arguments: Any, times: int = 1, heard: bool = False, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._times = times
        self.free = threading.Event()
        if not heard:
            self.free.set()

    async def reply(self, request: Any, emit: Emit) -> Reply:
        if self._times:
            self._times -= 1
            emit("I was about to")
            while not self.free.is_set():
                emit(" say")
                await asyncio.sleep(0.01)  # whoever begins to listen is told with the next word
            raise ModelFailed("the line broke", retryable=True, retry_after=0.0)
        return await super().reply(request, emit)


class Held(ScriptedModel):
    """Says what it says, except for its last letter, which it says when it is let go."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.free = threading.Event()

    async def _speak(self, text: str, emit: Emit) -> None:
        for letter in text[:-1]:
            emit(letter)
            if not self.free.is_set():
                await asyncio.sleep(0.01)
        await asyncio.to_thread(self.free.wait, 60)
        emit(text[-1])


class Refunds:
    """A desk with a handoff, a tool that is open, one that needs approval and has a secret, and one whose result comes from elsewhere."""

    def __init__(self, triage: list[Any] | None = None, refunds: list[Any] | None = None, **more: Any) -> None:
        self.paid: list[str] = []

        @tool
        def look_up(order: str) -> str:
            """Look up an order."""
            return f"order {order} cost 24.50"

        @tool(needs_approval=True)
        def refund(order: str, card: Secret[str]) -> str:
            """Pay it back."""
            self.paid.append(order)
            return f"24.50 for order {order}"

        @tool(deferred=True)
        def ask_bank(order: str) -> str:
            """Ask the bank."""
            raise AssertionError("its result comes from elsewhere")

        self.triage = more.pop("triage_model", None) or ScriptedModel(triage if triage is not None else ["How can I help?"])
        self.refunds = more.pop("refunds_model", None) or ScriptedModel(refunds or [])
        agents = [
            Agent("triage", instructions="Route.", model=self.triage, tools=[look_up]),
            Agent("refunds", instructions="Refund.", model=self.refunds, tools=[refund, ask_bank]),
        ]
        builder = HandoffBuilder("desk", agents)
        if "limits" in more:
            builder = builder.with_limits(more.pop("limits"))
        self.workflow: Workflow = builder.build()


def refunding() -> Refunds:
    """The usual story: triage looks the order up and hands over; refunds asks to pay, and says so when it is paid."""
    return Refunds(
        [call("look_up", order="7"), ["I hand you over.", handoff("refunds", "money back")]],
        [["I will pay that back.", call("refund", order="7", card="4111-canary")], "It is paid.", "You are welcome."],
    )


class Office:
    """A boss with an agent who works as a tool, and asks before it pays."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @tool(needs_approval=True)
        def pay(to: str) -> str:
            """Pay somebody."""
            self.paid.append(to)
            return f"{to} has it"

        payer = Agent("payer", model=ScriptedModel(by_agent={"payer": [call("pay", to="ann"), "Ann is paid."]}), tools=[pay])
        boss = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay ann"), "All done.", "Yes?"]})
        self.workflow = HandoffBuilder("office", [Agent("boss", model=boss, tools=[payer.as_tool(name="ask_payer")])]).build()


def chatting(script: list[Any] | Callable[..., Any], name: str = "chat", model: Any = None, limits: Limits | None = None) -> Workflow:
    """One agent that talks."""
    builder = HandoffBuilder(name, [Agent("ada", model=model or ScriptedModel(script))])
    return (builder.with_limits(limits) if limits else builder).with_model_attempts(2).build()


@contextmanager
def served(*workflows: Workflow, **options: Any) -> Iterator[Server]:
    """A server of these workflows, which drives them."""
    usual = {"store": MemoryStore(), "pace": NEVER_AGAIN, "grace": 2.0}
    with serve(list(workflows), **{**usual, **options}) as server:
        yield server


def session_of(server: Server, workflow: Workflow, id: str) -> Session:
    """A handle of one's own on a session, up to date."""
    return asyncio.run(workflow.session(id, store=server.serving.store).refresh())


def said(server: Server, workflow: Workflow, id: str) -> list[str]:
    """What users and agents said there."""
    return [str(message) for message in session_of(server, workflow, id).messages]
