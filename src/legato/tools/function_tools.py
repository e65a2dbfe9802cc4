"""Tools made of Python functions, and the call of such a function.

The driver decides whether and when a tool runs: approval, timeout, running alone and recording. Here they are only attributes.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast, overload

from msgspec import Struct

from legato.core.workflow_graph import HANDOFF_PREFIX
from legato.errors import BadInput
from legato.tools.tool_arguments import ToolArguments
from legato.tools.tool_context import ToolCall, ToolContext

if TYPE_CHECKING:
    # With defaults, a plain `Tool` means "any tool". Only type checkers need them, and they have `typing_extensions`.
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

NeedsApproval: TypeAlias = bool | Callable[[ToolContext[Any], dict[str, Any], ToolCall], bool | Awaitable[bool]]
"""True or False, or a sync or async function of context, arguments and call that returns True if a call needs an approval."""

ChildSessionOpener: TypeAlias = Callable[[str, Any, Any], Awaitable[Any]]
"""A function that opens a child session, given its id, its store, and the context of the parent session."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # every provider accepts these


class Tool(Struct, Generic[P, R], frozen=True, eq=False, kw_only=True, dict=True):
    """A function that a model may call. `tool` makes it of a function; it can still be called like the function."""

    name: str
    description: str
    function: Callable[P, R]
    arguments: ToolArguments
    needs_approval: NeedsApproval = False
    idempotent: bool = False
    alone: bool = False
    timeout: float | None = None
    deferred: bool = False
    open_child_session: ChildSessionOpener | None = None
    """Opens the child session of a tool that works in one, such as an agent as a tool. None for other tools."""

    @cached_property
    def is_async(self) -> bool:
        """True for an async function. The check costs as much as a call, so it is cached."""
        return _is_async(cast(Callable[..., Any], self.function))

    @cached_property
    def is_cancellable(self) -> bool:
        """True if a call can be cancelled: a coroutine can, a thread cannot; cancelling the wait for a thread would lose its outcome."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def parameters(self) -> str:
        """The JSON schema of the arguments, as text that is the same in every process."""
        return self.arguments.schema

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the arguments annotated `Secret`."""
        return self.arguments.secrets

    def validate(self, arguments: str) -> dict[str, object]:
        """Return the values that the function receives for a model's arguments. Raise `BadArguments`, written for that model.

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
        arguments = {**values, **dict.fromkeys(self.arguments.context_parameters, context)} if self.arguments.context_parameters else values
        function = cast("Callable[..., Any]", self.function)  # a string, so that the type is not evaluated for every call
        try:
            if self.is_async:
                return await function(**arguments)
            result = await run_in_daemon_thread(partial(_call_without_stop_iteration, function, arguments))
            return await result if inspect.isawaitable(result) else result
        except (SystemExit, KeyboardInterrupt) as error:  # a failing tool must not end the process
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
    """Make a tool of a sync or async function, so that a model may call it.

    The first paragraph of the docstring becomes the description. The schema comes from the annotations, with the descriptions of
    arguments in the docstring. A parameter annotated `ToolContext` receives the context and is not shown to the model.

    - `needs_approval`: a person must approve each call: `True`, or a function of (context, arguments, call).
    - `idempotent`: the tool may be started again if a process died while it ran. Otherwise a person is asked for the outcome.
    - `alone`: no other call of the same reply runs at the same time.
    - `timeout`: seconds after which the model gets the output that the call may have taken effect.
    - `deferred`: the function is never called; the result is supplied later, from outside.

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
    # Annotations may refer to local names of the decorating scope; `from __future__ import annotations` leaves them as text.
    scope = dict(sys._getframe(1).f_locals)

    def make(target: Callable[..., Any]) -> Tool[..., Any]:
        # Imported with the first tool: one brings pydantic, the other compiles patterns.
        from legato.tools.docstring_parser import parse_docstring
        from legato.tools.signature_arguments import SignatureArguments

        _check_function(target)
        source_function = _find_source_function(target)
        tool_name = _choose_name(name, target)
        docstring = parse_docstring(inspect.getdoc(source_function) or "")
        return Tool(
            name=tool_name,
            description=docstring.summary if description is None else description,
            function=target,
            arguments=SignatureArguments.from_signature(tool_name, target, source_function, scope, docstring.arguments),
            needs_approval=_check_approval(tool_name, needs_approval),
            idempotent=idempotent,
            alone=alone,
            timeout=_check_timeout(tool_name, timeout),
            deferred=deferred,
        )

    return make if function is None else make(function)


def _unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function


def _find_source_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in the user's source code, behind partials, wrappers and callable objects."""
    function = _unwrap_partial(function)
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    source_function: Callable[..., Any] = inspect.unwrap(function)
    return source_function


def _is_async(function: Callable[..., Any]) -> bool:
    function = _unwrap_partial(function)
    return any(inspect.iscoroutinefunction(each) for each in (function, type(function).__call__))


def _call_without_stop_iteration(function: Callable[..., Any], arguments: dict[str, object]) -> object:
    """Call a function and replace `StopIteration` by another error: awaiting a future with a `StopIteration` would never end."""
    try:
        return function(**arguments)
    except StopIteration as error:
        raise RuntimeError("the tool let StopIteration escape: it called next() on an iterator that had ended") from error


def _check_function(function: object) -> None:
    if isinstance(function, Tool):
        raise BadInput(f"{function.name!r} is a tool already", do="decorate the function once")
    if not callable(function):
        raise BadInput(
            "only a function can be a tool", found=f"{type(function).__name__}", do="write @tool or @tool(name=...) above a function"
        )
    if isinstance(function, type):
        raise BadInput(f"class {function.__name__!r} cannot be a tool", do="write a function that returns an instance of it")
    source_function = _find_source_function(function)
    if inspect.isgeneratorfunction(source_function) or inspect.isasyncgenfunction(source_function):
        raise BadInput(
            f"{source_function.__name__!r} yields: a call has one output", do="return the output, for example ''.join(...) of the parts"
        )


def _choose_name(name: str | None, function: Callable[..., Any]) -> str:
    return check_tool_name(getattr(_unwrap_partial(function), "__name__", "") if name is None else name)


def check_tool_name(name: object, do: str = 'write @tool(name="{}")') -> str:
    """Return the name if every provider accepts it and it is not a handoff's. `do` is the advice how to rename this kind of tool."""
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


def _check_timeout(name: str, timeout: object) -> float | None:
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


def _check_approval(name: str, rule: NeedsApproval) -> NeedsApproval:
    if not isinstance(rule, bool) and not callable(rule):
        raise BadInput(
            f"needs_approval of tool {name!r} cannot be used",
            expected="True, False, or a function of (context, arguments, call)",
            found=type(rule).__name__,
        )
    return rule


class DaemonThreadExecutor:
    """An `Executor` that calls each function in a daemon thread of its own.

    A program cannot end before every thread of the event loop's own executor has ended, and a tool that never returns would keep it alive
    forever. Daemon threads end with the process, and the ledger then says that the outcome is unknown.

    This class has no base class: Temporal's sandbox, in which workflows are imported, forbids subclasses of those in `concurrent.futures`.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        threading.Thread(target=work, name="legato-tool", daemon=True).start()
        return future


DAEMON_THREAD_EXECUTOR = cast("Executor", DaemonThreadExecutor())


async def run_in_daemon_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own, with the caller's contextvars."""
    call = partial(contextvars.copy_context().run, function)
    return await asyncio.get_running_loop().run_in_executor(DAEMON_THREAD_EXECUTOR, call)
