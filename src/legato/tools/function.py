"""A function as a tool. May know: the function and its signature. Decides: what can be a tool, and how its body is called.

It does not decide *whether* a tool runs: approval, time limits, running alone and recording are the driver's, which reads
them here as plain attributes.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast, overload

from msgspec import Struct

from legato.core.workflow_graph import HANDOFF_PREFIX
from legato.errors import BadInput
from legato.tools.arguments import Arguments
from legato.tools.context import ToolCall, ToolContext
from legato.tools.threads import in_thread

if TYPE_CHECKING:
    # With defaults a plain `Tool` means "any tool". Only checkers need them, and they bring this module themselves.
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

NeedsApproval: TypeAlias = bool | Callable[[ToolContext[Any], dict[str, Any], ToolCall], bool | Awaitable[bool]]
"""Whether a call waits for a person: always, never, or as a (sync or async) function of context, arguments and call says."""

WorksIn: TypeAlias = Callable[[str, Any, Any], Awaitable[Any]]
"""Opens a session: given its id, the store it lives in, and the caller's context."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts


class Tool(Struct, Generic[P, R], frozen=True, eq=False, kw_only=True, dict=True):
    """A function that a model may call. Made by `tool`; still callable like the function itself."""

    name: str
    description: str
    function: Callable[P, R]
    arguments: Arguments
    needs_approval: NeedsApproval = False
    idempotent: bool = False
    alone: bool = False
    timeout: float | None = None
    deferred: bool = False
    works_in: WorksIn | None = None
    """Of a tool that works in a conversation of its own, and so may wait for people there: opens that conversation."""

    @cached_property
    def is_async(self) -> bool:
        """Asked once: it costs as much as a call."""
        return _is_async(cast(Callable[..., Any], self.function))

    @cached_property
    def can_stop(self) -> bool:
        """A coroutine can be stopped; a thread cannot, and cancelling the wait for it would only lose its outcome."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def parameters(self) -> str:
        """The JSON schema of the arguments, as text that is the same in every run."""
        return self.arguments.schema

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the arguments annotated `Secret`."""
        return self.arguments.secrets

    def validate(self, arguments: str) -> dict[str, object]:
        """The values that the function receives for a model's arguments, or `BadArguments` written for that model.

        >>> @tool
        ... def add(a: int, b: int = 1) -> int:
        ...     return a + b
        >>> add.validate('{"a": 2}')
        {'a': 2, 'b': 1}
        """
        return self.arguments.validate(self.name, arguments)

    async def run(self, context: ToolContext[Any], values: dict[str, object]) -> object:
        """Call the function with validated values. A sync function runs in a worker thread, with the caller's contextvars."""
        if self.deferred:
            raise BadInput(
                f"tool {self.name!r} is deferred: its body never runs", do="supply its result with session.answer(request, value)"
            )
        given = {**values, **dict.fromkeys(self.arguments.contexts, context)} if self.arguments.contexts else values
        function = cast("Callable[..., Any]", self.function)  # as text: the type is not made anew for every call
        try:
            if self.is_async:
                return await function(**given)
            result = await in_thread(partial(_contained, function, given))
            return await result if inspect.isawaitable(result) else result
        except (SystemExit, KeyboardInterrupt) as error:  # a tool may fail, but not take the process and its conversations with it
            raise RuntimeError(f"tool {self.name!r} tried to end the process ({error!r})") from error

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        rules = [rule for rule in ("idempotent", "alone", "deferred") if getattr(self, rule)]
        if self.needs_approval:
            rules.insert(0, "needs approval" if self.needs_approval is True else "may need approval")
        if self.timeout is not None:
            rules.append(f"timeout {self.timeout:g} s")
        return f"<Tool {self.name}({', '.join(self.arguments.names)}){': ' if rules else ''}{', '.join(rules)}>"


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    idempotent: bool = False,
    alone: bool = False,
    timeout: float | None = None,
    deferred: bool = False,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    idempotent: bool = False,
    alone: bool = False,
    timeout: float | None = None,
    deferred: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    idempotent: bool = False,
    alone: bool = False,
    timeout: float | None = None,
    deferred: bool = False,
) -> Any:
    """Make a function, sync or async, a tool that a model may call.

    The first paragraph of its docstring becomes the description, its annotations the schema, and what the docstring says
    about each argument goes with it. A parameter annotated `ToolContext` receives the context and is not shown to the model.

    - `needs_approval`: a person decides before it runs: `True`, or a function of (context, arguments, call).
    - `idempotent`: it may be started again if a process died while it ran. Otherwise a person is asked.
    - `alone`: no other call of the same reply runs beside it.
    - `timeout`: seconds after which the model is told that the call may have taken effect.
    - `deferred`: the body never runs; the result arrives later, from outside.

    >>> @tool(needs_approval=True)
    ... def refund(order_id: str, cents: int) -> str:
    ...     '''Refund an order.
    ...
    ...     Args:
    ...         cents: how much, in cents
    ...     '''
    ...     return f"refunded {cents} on {order_id}"
    >>> refund
    <Tool refund(order_id, cents): needs approval>
    >>> refund.description
    'Refund an order.'
    >>> refund.validate('{"order_id": "A1", "cents": 250}')
    {'order_id': 'A1', 'cents': 250}
    >>> refund("A1", 250)
    'refunded 250 on A1'
    """
    # Annotations may name what is local to the place of decoration; `from __future__ import annotations` leaves them as text.
    scope = dict(sys._getframe(1).f_locals)

    def make(body: Callable[..., Any]) -> Tool[..., Any]:
        # With the first tool, not before: the one brings pydantic, the other its patterns.
        from legato.tools.docstring import describe
        from legato.tools.schema import SignatureArguments

        _check_body(body)
        written = _written(body)
        chosen = _name(name, body)
        about = describe(inspect.getdoc(written) or "")
        return Tool(
            name=chosen,
            description=about.summary if description is None else description,
            function=body,
            arguments=SignatureArguments.of(chosen, body, written, scope, about.arguments),
            needs_approval=_approval(chosen, needs_approval),
            idempotent=idempotent,
            alone=alone,
            timeout=_seconds(chosen, timeout),
            deferred=deferred,
        )

    return make if function is None else make(function)


def _whole(body: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(body, partial):
        body = body.func
    return body


def _written(body: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose text a person wrote: behind partials, wrappers and callable objects."""
    body = _whole(body)
    if not inspect.isroutine(body) and not isinstance(body, type):
        body = type(body).__call__
    written: Callable[..., Any] = inspect.unwrap(body)
    return written


def _is_async(body: Callable[..., Any]) -> bool:
    body = _whole(body)
    return any(inspect.iscoroutinefunction(each) for each in (body, type(body).__call__))


def _contained(function: Callable[..., Any], given: dict[str, object]) -> object:
    """Call in a worker thread. A future cannot carry `StopIteration`: awaiting it would never end."""
    try:
        return function(**given)
    except StopIteration as error:
        raise RuntimeError("the tool let StopIteration escape: it called next() on an iterator that had ended") from error


def _check_body(body: object) -> None:
    if isinstance(body, Tool):
        raise BadInput(f"{body.name!r} is a tool already", do="decorate the function once")
    if not callable(body):
        raise BadInput(
            "only a function can be a tool", found=f"{type(body).__name__}", do="write @tool or @tool(name=...) above a function"
        )
    if isinstance(body, type):
        raise BadInput(f"class {body.__name__!r} cannot be a tool", do="write a function that returns an instance of it")
    written = _written(body)
    if inspect.isgeneratorfunction(written) or inspect.isasyncgenfunction(written):
        raise BadInput(f"{written.__name__!r} yields: a call has one output", do="return the output, for example ''.join(...) of the parts")


def _name(given: str | None, body: Callable[..., Any]) -> str:
    return checked_name(getattr(_whole(body), "__name__", "") if given is None else given)


def checked_name(name: object, do: str = 'write @tool(name="{}")') -> str:
    """Return the name, if every provider accepts it and it is no handoff's. `do` says how this kind of tool is given another one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{str(name)[:80]!r} cannot be the name of a tool",
            expected="1 to 64 letters a-z A-Z, digits, '_' or '-'",
            do=do.format("look_up_order"),
        )
    if name.startswith(HANDOFF_PREFIX):
        other = name.removeprefix(HANDOFF_PREFIX) or "pass_on"
        raise BadInput(
            f"a tool cannot be named {name!r}: names that begin with {HANDOFF_PREFIX!r} are handoffs",
            do=f"{do.format(other)}, or add_handoff(...) if control should pass",
        )
    return name


def _seconds(name: str, timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise BadInput(
            f"the timeout of tool {name!r} cannot be used",
            expected="a positive number of seconds, or None",
            found=repr(timeout),
            do="write @tool(timeout=30)",
        )
    return float(timeout)


def _approval(name: str, rule: NeedsApproval) -> NeedsApproval:
    if not isinstance(rule, bool) and not callable(rule):
        raise BadInput(
            f"needs_approval of tool {name!r} cannot be used",
            expected="True, False, or a function of (context, arguments, call)",
            found=type(rule).__name__,
        )
    return rule
