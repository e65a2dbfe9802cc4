"""One run of a session, and its result.

A run is lazy: nothing happens until it is awaited (for a result) or iterated (for events). If the iteration is left early, the run drains:
it starts nothing new, tools and requests in progress are finished and recorded in the background, and `session.resume()` continues.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from legato.core.facts import NO_USAGE, Usage
from legato.core.groups import extract_refusal, extract_reply_text
from legato.core.messages import Message
from legato.core.pending_requests import Pending
from legato.core.planner import SessionStatus, derive_status_and_requests, find_failure
from legato.errors import BadInput
from legato.runtime.events import Event
from legato.runtime.transcript import list_messages

if TYPE_CHECKING:
    from legato.core.state import State
    from legato.runtime.definition import WorkflowDefinition
    from legato.runtime.driver import Driver
    from legato.runtime.session import Session
    from legato.runtime.user_input import UserInput
else:
    Session = Any  # for `typing.get_type_hints(Result)`: the module of sessions imports this one

_draining_tasks: set[asyncio.Task[None]] = set()
"""The drivers of runs whose iteration was left, until they have recorded what was in progress."""


class Result(Struct, frozen=True, kw_only=True):
    """The result of a run.

    - `text`: the last message to the user in this run. `output`: its validated value, if the agent has an output type.
    - `messages`: the new messages. `usage`: the usage of this run.
    - `pending`: the requests that block the conversation. `error`: the reason of the failure, if the status is "failed".
    - `finish`: the end of the last reply: its own ("stop"), a token limit ("length") or a content filter ("filter").
    - `refusal`: the text of the last reply, if the model refused to answer. `output` is then no value of an output type.
    """

    text: str
    output: Any
    messages: list[Message]
    pending: list[Pending]
    status: SessionStatus
    usage: Usage
    session: Session
    error: str = ""
    finish: Literal["stop", "length", "filter"] = "stop"
    refusal: str = ""

    def __repr__(self) -> str:
        pending = f", {len(self.pending)} pending" if self.pending else ""
        return f"<Result {self.status}{pending}: {self.error or self.text!r}>"


class Run:
    """A run of a session. `await run` gives a `Result`, `async for event in run` gives events; after that, `await run` gives the result."""

    def __init__(self, session: Session, stream: bool, user_input: UserInput | None = None) -> None:
        """`user_input` is the message that begins the run. Without one, the run continues with pending work."""
        self.session = session
        self.length_before = 0
        """The number of facts before the run."""
        self._usage_before = NO_USAGE
        self._stream = stream
        self._user_input = user_input
        self._is_started = False
        self._is_iterated = False  # to the end
        self._driver: Driver | None = None
        self._is_draining = False

    def __await__(self) -> Generator[Any, None, Result]:
        return self._complete().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    def __repr__(self) -> str:
        return f"<Run of session {self.session.id!r}>"

    def __del__(self) -> None:
        if not self._is_started:  # like Python's warning about a coroutine that was never awaited
            warnings.warn(
                f"{self!r} was never awaited or iterated: nothing was recorded and nothing happened", RuntimeWarning, stacklevel=2
            )

    def drain(self) -> None:
        """Start nothing new, finish and record what is in progress, and end the run. `session.resume()` continues, in any process."""
        self._is_draining = True
        if self._driver is not None:
            self._driver.drain()

    async def _start(self, on_event: Callable[[Event], None] | None) -> Driver:
        """Record the run's input, and make its driver."""
        session = self.session
        await session.refresh()
        state = session.state
        self.length_before, self._usage_before = state.length, state.usage_totals.total
        session._ledger.take_from_cache()
        try:
            if self._user_input is not None:
                await session._record_input(self._user_input)
            else:
                await session._wake_driver()
        except BaseException:
            session._ledger.put_in_cache()
            raise
        self._driver = session._make_driver(on_event, self._stream, self.length_before)
        if self._is_draining:
            self._driver.drain()
        return self._driver

    def _mark_started(self) -> None:
        if self._is_started:
            raise BadInput("this run was used before", do="call session.run(...) or session.resume() again for a new one")
        self._is_started = True

    def __getattr__(self, name: str) -> Any:
        if name in Result.__struct_fields__:
            raise AttributeError(f"a run has no {name!r} before it has run: write `result = await session.run(...)`, then `result.{name}`")
        raise AttributeError(f"a run has no {name!r}")

    async def _complete(self) -> Result:
        if not self._is_iterated:
            self._mark_started()
            driver = await self._start(None)
            await driver.drive()
        return self._make_result()

    async def _events(self) -> AsyncIterator[Event]:
        self._mark_started()
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        driver = await self._start(queue.put_nowait)
        task = asyncio.get_running_loop().create_task(driver.drive())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            task.result()
            self._is_iterated = True
        finally:
            if not task.done():
                driver.drain()
                _draining_tasks.add(task)
                task.add_done_callback(_forget_task)

    def _make_result(self) -> Result:
        session, state = self.session, self.session.state
        # For a message that is delivered again, the result is what followed its first delivery.
        key = self._user_input.key if self._user_input is not None else ""
        messages = list_messages(state, min(self.length_before, state.delivery_keys.get(key, self.length_before)))
        replies = [message for message in messages if message.role == "assistant"]
        text = replies[-1].text if replies else ""
        reply = state.last_reply.fact if replies and state.last_reply is not None else None
        status, pending = derive_status_and_requests(state, session.workflow.definition.graph, session._child_sessions.status)
        return Result(
            text=text,
            output=_find_output(state, session.workflow.definition, text),
            messages=messages,
            pending=session._child_sessions.merge_requests(pending),
            status=status,
            error=find_failure(state) if status == "failed" else "",
            finish=reply.finish if reply is not None else "stop",
            usage=state.usage_totals.total - self._usage_before,
            refusal=extract_refusal(reply) if reply is not None else "",
            session=session,
        )


def _find_output(state: State, definition: WorkflowDefinition, text: str) -> Any:
    """Return the output of a run: the value of its text, if the text was checked against a type or schema, else the text."""
    reply = state.last_reply
    if reply is None or reply.fact is None or extract_reply_text(reply.fact) != text:
        return text
    agent = definition.agents.get(reply.agent)
    if not state.reply_checks.output_checked or reply.rejected or reply.position in state.redactions.facts:
        return text
    if reply.calls:  # the run ended at a reply with calls, whose text has no output type
        return text
    if agent is not None and agent.output_type is not None:
        return agent.output_type.parse(text)
    if not reply.options.typed or extract_refusal(reply.fact):
        return text
    return json.loads(text)  # it was checked against the client's schema


def _forget_task(task: asyncio.Task[None]) -> None:
    _draining_tasks.discard(task)
    if not task.cancelled():
        task.exception()  # marks the error as retrieved: its receiver has left, and the ledger has what happened
