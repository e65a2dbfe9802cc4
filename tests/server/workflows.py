"""Workflows for tests of the server, and a function that serves them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Secret, Workflow, tool
from legato.engines import RetryPolicy
from legato.errors import ModelFailed
from legato.models.model import Emit, ModelReply
from legato.runtime.session import Session
from legato.server import Server, serve
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff

NO_RETRIES = RetryPolicy(failure_delays=())
"""A failed session stays failed until it is resumed."""


class InterruptedModel(ScriptedModel):
    """A scripted model whose first `times` replies break off. With `wait_until_free=True` they break off only after `free` is set."""

    def __init__(self, *arguments: Any, times: int = 1, wait_until_free: bool = False, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._times = times
        self.free = threading.Event()
        if not wait_until_free:
            self.free.set()

    async def reply(self, request: Any, emit: Emit) -> ModelReply:
        if self._times:
            self._times -= 1
            emit("I was about to")
            while not self.free.is_set():
                emit(" say")
                await asyncio.sleep(0.01)  # a new subscriber gets the next delta
            raise ModelFailed("the line broke", retryable=True, retry_after=0.0)
        return await super().reply(request, emit)


class PausedModel(ScriptedModel):
    """A scripted model that sends the last character of a reply only after `free` is set."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.free = threading.Event()

    async def _emit_text(self, text: str, emit: Emit) -> None:
        for letter in text[:-1]:
            emit(letter)
            if not self.free.is_set():
                await asyncio.sleep(0.01)
        await asyncio.to_thread(self.free.wait, 60)
        emit(text[-1])


class RefundDesk:
    """A workflow with a handoff, a plain tool, a tool with approval and a secret argument, and a deferred tool."""

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
            raise AssertionError("a deferred tool is never run")

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


def make_refund_desk() -> RefundDesk:
    """Return a desk where triage looks up an order and hands off, and refunds needs approval to pay it back."""
    return RefundDesk(
        [call("look_up", order="7"), ["I hand you over.", handoff("refunds", "money back")]],
        [["I will pay that back.", call("refund", order="7", card="4111-canary")], "It is paid.", "You are welcome."],
    )


class PayerOffice:
    """A workflow with an agent as a tool, which needs approval to pay."""

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


def make_chat(script: list[Any] | Callable[..., Any], name: str = "chat", model: Any = None, limits: Limits | None = None) -> Workflow:
    """Return a workflow of one agent."""
    builder = HandoffBuilder(name, [Agent("ada", model=model or ScriptedModel(script))])
    return (builder.with_limits(limits) if limits else builder).with_model_attempts(2).build()


@contextmanager
def run_server(*workflows: Workflow, **options: Any) -> Iterator[Server]:
    """Serve workflows during a with block. The server drives their sessions."""
    defaults = {"store": MemoryStore(), "retry_policy": NO_RETRIES, "grace": 2.0}
    with serve(list(workflows), **{**defaults, **options}) as server:
        yield server


def load_session(server: Server, workflow: Workflow, id: str) -> Session:
    """Return a new, up-to-date handle on a session."""
    return asyncio.run(workflow.session(id, store=server.registry.store).refresh())


def list_messages(server: Server, workflow: Workflow, id: str) -> list[str]:
    """Return the messages of a session as texts."""
    return [str(message) for message in load_session(server, workflow, id).messages]
