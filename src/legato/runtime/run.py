"""One run of a session, and its result. May know: drivers. Decides: what awaiting and iterating mean.

A run is lazy: nothing happens until it is awaited (for a result) or iterated (for events). Leaving the iteration stops the driving at the
next fact: what runs is finished and recorded in the background, nothing is lost, and `session.resume()` goes on.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from legato.core.facts import NO_USAGE, Usage
from legato.core.groups import refusal_of, spoken
from legato.core.messages import Message
from legato.core.pending_requests import Pending
from legato.core.planner import Status, failure_of, resting
from legato.errors import BadInput
from legato.runtime.events import Event
from legato.runtime.transcript import messages_of

if TYPE_CHECKING:
    from legato.core.state import State
    from legato.runtime.definition import Definition
    from legato.runtime.driver import Driver
    from legato.runtime.session import Session
    from legato.runtime.user_input import UserInput
else:
    Session = Any  # what `typing.get_type_hints(Result)` finds: the module of sessions needs this one

_left: set[asyncio.Task[None]] = set()  # drivers whose observers have left, until they have recorded what was running


class Result(Struct, frozen=True, kw_only=True):
    """What a run led to.

    `text` is the last thing said to the user in this run, `output` the same, validated, where the agent has an output type; `messages` are
    the new ones; `pending` is what blocks the conversation; `error` says why the run failed, if its status is "failed"; `usage` is that
    of this run. `finish`: how the last reply ended: by itself ("stop"), cut short by a token limit ("length"), stopped by a content
    filter ("filter"). `refusal`: the words in which the model declined, if the last reply is that; `output` is then no value of a format.
    """

    text: str
    output: Any
    messages: list[Message]
    pending: list[Pending]
    status: Status
    usage: Usage
    session: Session
    error: str = ""
    finish: Literal["stop", "length", "filter"] = "stop"
    refusal: str = ""

    def __repr__(self) -> str:
        pending = f", {len(self.pending)} pending" if self.pending else ""
        return f"<Result {self.status}{pending}: {self.error or self.text!r}>"


class Run:
    """`await run` gives a `Result`; `async for event in run` gives events, and awaiting it afterwards the result as well."""

    def __init__(self, session: Session, stream: bool, given: UserInput | None = None) -> None:
        """`given` is the message that begins the run; without one it goes on with what is owed."""
        self.session = session
        self.since = 0
        """How many facts there were before the run."""
        self._spent = NO_USAGE  # before the run
        self._stream = stream
        self._given = given
        self._used = False
        self._iterated = False  # to its end
        self._driver: Driver | None = None
        self._left = False

    def __await__(self) -> Generator[Any, None, Result]:
        return self._complete().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    def __repr__(self) -> str:
        return f"<Run of session {self.session.id!r}>"

    def __del__(self) -> None:
        if not self._used:  # as Python says of a coroutine that nobody awaited
            warnings.warn(f"{self!r} was never awaited or iterated: nothing was said and nothing happened", RuntimeWarning, stacklevel=2)

    def leave(self) -> None:
        """Start nothing new. What runs is finished and recorded; then the run ends, and `session.resume()` goes on, here or elsewhere."""
        self._left = True
        if self._driver is not None:
            self._driver.leave()

    async def _begin(self, show: Callable[[Event], None] | None) -> Driver:
        """Record what the run was given, and make its driver."""
        session = self.session
        await session.refresh()
        self.since, self._spent = session.state.length, session.state.spent.total
        session._ledger.withdraw()
        try:
            if self._given is not None:
                await session._record_input(self._given)
            else:
                await session._wake_driver()
        except BaseException:
            session._ledger.share()
            raise
        self._driver = session._driver(show, self._stream, self.since)
        if self._left:
            self._driver.leave()
        return self._driver

    def _use(self) -> None:
        if self._used:
            raise BadInput("this run was used before", do="call session.run(...) or session.resume() again for a new one")
        self._used = True

    def __getattr__(self, name: str) -> Any:
        if name in Result.__struct_fields__:
            raise AttributeError(f"a run has no {name!r} before it has run: write `result = await session.run(...)`, then `result.{name}`")
        raise AttributeError(f"a run has no {name!r}")

    async def _complete(self) -> Result:
        if not self._iterated:
            self._use()
            driver = await self._begin(None)
            await driver.drive()
        return self._result()

    async def _events(self) -> AsyncIterator[Event]:
        self._use()
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        driver = await self._begin(queue.put_nowait)
        task = asyncio.get_running_loop().create_task(driver.drive())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            task.result()
            self._iterated = True
        finally:
            if not task.done():
                driver.leave()
                _left.add(task)
                task.add_done_callback(_forget)

    def _result(self) -> Result:
        session, state = self.session, self.session.state
        # A message that is delivered again gets what followed it when it came first.
        key = self._given.key if self._given is not None else ""
        messages = messages_of(state, min(self.since, state.keys.get(key, self.since)))
        said = [message for message in messages if message.role == "assistant"]
        text = said[-1].text if said else ""
        reply = state.reply.fact if said and state.reply is not None else None
        status, pending = resting(state, session.workflow.definition.graph, session._nested.known)
        return Result(
            text=text,
            output=_output(state, session.workflow.definition, text),
            messages=messages,
            pending=session._nested.requests(pending),
            status=status,
            error=failure_of(state) if status == "failed" else "",
            finish=reply.finish if reply is not None else "stop",
            usage=state.spent.total - self._spent,
            refusal=refusal_of(reply) if reply is not None else "",
            session=session,
        )


def _output(state: State, definition: Definition, text: str) -> Any:
    """The value that a run led to: its text, or what that says, if it was accepted as that."""
    reply = state.reply
    if reply is None or reply.fact is None or spoken(reply.fact) != text:
        return text
    kind = definition.agents.get(reply.agent)
    if not state.judgements.output or reply.rejected or reply.position in state.erasures.facts:
        return text
    if reply.calls:  # words that ended the run, and not the reply that was asked for
        return text
    if kind is not None and kind.output is not None:
        return kind.output.parse(text)
    if not reply.options.typed or refusal_of(reply.fact):
        return text
    return json.loads(text)  # it was checked against the schema when it was judged


def _forget(task: asyncio.Task[None]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # nobody is there to hear of it; the ledger has what happened
