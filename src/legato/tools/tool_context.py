"""The context of a running tool, and the exceptions by which a tool reports an outcome that is neither a result nor an error.

The user's context may contain credentials, and arguments may be `Secret`. So neither is part of a `repr`, which ends up in logs and
tracebacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from msgspec import Struct

from legato.core.facts import NO_USAGE, Usage

if TYPE_CHECKING:
    # With a default, a plain `ToolContext` accepts any context. Only type checkers need it, and they have `typing_extensions`.
    from typing_extensions import TypeVar as DefaultTypeVar

    C = DefaultTypeVar("C", default=Any)
else:
    C = TypeVar("C")
T = TypeVar("T")


class SecretMark:
    """The mark of `Secret[...]` in an annotation."""

    def __repr__(self) -> str:
        return "secret"


Secret = Annotated[T, SecretMark()]
"""Marks a secret argument. Only the ledger and model requests contain it; everything else shows its digest.

The function receives the plain value, and type checkers see the plain type.

>>> from legato.tools import tool
>>> @tool
... def log_in(user: str, password: Secret[str]) -> str:
...     return f"welcome {user}"
>>> sorted(log_in.secrets)
['password']
"""


class ChildPaused(BaseException):
    """Raised by a tool that works in a child session, if that cannot continue now. The call has no outcome, and the tool has not failed.

    `session` is the child session, `length` the number of its facts that the tool has read. The child waits for people, or failed with
    `error`, or stopped before a model request of the size `needed` that a parent's budget does not allow, or waits until `retry_at`. It is
    a `BaseException`, so that code that catches a tool's errors does not catch it.
    """

    def __init__(self, session: str, length: int, error: str = "", needed: Usage = NO_USAGE, retry_at: int = 0) -> None:
        super().__init__(f"session {session!r} cannot go on now")
        self.session = session
        self.length = length
        self.error = error
        self.needed = needed
        self.retry_at = retry_at


class ChildMissing(BaseException):
    """Raised by a tool whose child session existed before and is missing now: its task may have been done already."""


class CallerStopped(BaseException):
    """Raised by a tool whose child session was stopped because the parent session is being stopped.

    `parent_lengths`: the number of facts of the parent session then, of its own parent, and so on. A `BaseException`, as the others here.
    """

    def __init__(self, reason: str, parent_lengths: tuple[int, ...]) -> None:
        super().__init__("the conversation that called it is being stopped")
        self.reason = reason
        self.parent_lengths = parent_lengths


class OutcomeUnknown(BaseException):
    """Raised by a tool that cannot know its outcome, for example because a connection broke after a request was sent.

    The session then asks for the outcome (rerun the tool, supply its output, or fail the call), as after a crash; an idempotent tool is
    started again. A `BaseException`, so that code that catches a tool's errors does not catch it.

    >>> from legato.tools import OutcomeUnknown, tool
    >>> @tool
    ... async def pay(cents: int) -> str:
    ...     raise OutcomeUnknown("the bank hung up before it answered")
    """


class ToolCall(Struct, frozen=True, eq=False):
    """The call that is running: its id in the session, the tool's name, and the arguments."""

    id: str
    tool: str
    arguments: dict[str, object]

    def __repr__(self) -> str:
        return f"ToolCall(id={self.id!r}, tool={self.tool!r})"


class ToolContext(Struct, Generic[C], frozen=True, eq=False, kw_only=True):
    """The context of a call, for a parameter annotated `ToolContext` or `ToolContext[MyContext]`. The model never sees it.

    `idempotency_key` identifies the call: it is the same for every attempt and in every fork. A service that supports such keys then
    ignores a repeated attempt. `attempt` is the 1-based attempt number.

    >>> from legato.tools import ToolCall, ToolContext, tool
    >>> @tool
    ... def whoami(ctx: ToolContext[dict[str, str]]) -> str:
    ...     return ctx.context["user"]
    >>> ctx = ToolContext(context={"user": "ada", "api_key": "hidden"}, call=ToolCall("3.0", "whoami", {}))
    >>> whoami(ctx)
    'ada'
    >>> ctx
    ToolContext(session_id='', agent='', call=ToolCall(id='3.0', tool='whoami'), idempotency_key='', attempt=1)
    """

    context: C
    session_id: str = ""
    agent: str = ""
    call: ToolCall
    idempotency_key: str = ""
    attempt: int = 1

    def __repr__(self) -> str:
        shown = ("session_id", "agent", "call", "idempotency_key", "attempt")
        return f"ToolContext({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
