"""Tools under the framework's names."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import Field

from legato.compat.agent_framework.contexts import FunctionInvocationContext
from legato.compat.agent_framework.providers import AgentSession
from legato.compat.agent_framework.unsupported import MCP
from legato.compat.agent_framework.unsupported_errors import check_arguments
from legato.errors import BadInput
from legato.tools import Tool, ToolContext
from legato.tools import tool as native_tool


def tool(
    func: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    approval_mode: str | None = None,
    **more: Any,
) -> Any:
    """Make a function a tool. `approval_mode="always_require"` has a person decide before each call runs.

    >>> @tool(approval_mode="always_require")
    ... def pay(amount: Annotated[float, "In euros"]) -> str:
    ...     return "paid"
    >>> pay
    <Tool pay(amount): needs approval>
    """
    scope = dict(sys._getframe(1).f_locals)
    wanted = needs_approval(approval_mode)
    check_arguments("tool", more)

    def make(body: Callable[..., Any]) -> Tool:
        made: Tool = native_tool(name=name, description=description, needs_approval=wanted)(as_written_here(body, scope))
        return made

    return make if func is None else make(func)


def needs_approval(approval_mode: str | None) -> bool:
    """Translate an approval mode."""
    if approval_mode not in (None, "always_require", "never_require"):
        raise BadInput('approval_mode is "always_require" or "never_require"', found=repr(approval_mode))
    return approval_mode == "always_require"


def as_tool(given: Any) -> Tool:
    """A tool, or a plain function that is to be one."""
    if not isinstance(given, Tool) and not callable(given):
        mcp = any(each.__name__.startswith("MCP") for each in type(given).__mro__)  # the framework's own, of a program half moved
        raise BadInput("this is no tool", found=repr(given)[:80], do=MCP if mcp else "give a function, or what @tool made of one")
    return given if isinstance(given, Tool) else native_tool(as_written_here(given, {}))


def as_written_here(body: Callable[..., Any], scope: Mapping[str, Any]) -> Callable[..., Any]:
    """The same function with a signature that Legato reads: words in `Annotated` describe, `**kwargs` comes from the run."""
    if not inspect.isroutine(body):
        return body
    try:
        hints = get_type_hints(body, localns=dict(scope), include_extras=True)
    except Exception:  # what it names cannot be found: Legato says so, and where
        return body
    parameters = []
    rest = ""
    asks: list[str] = []
    for parameter in inspect.signature(body).parameters.values():
        hint = hints.get(parameter.name, parameter.annotation)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = parameter.name
        elif hint is FunctionInvocationContext:
            asks.append(parameter.name)
        else:
            parameters.append(parameter.replace(annotation=_described(hint)))
    if rest or asks:
        context = inspect.Parameter("legato_context", inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext[Any])
        parameters.append(context)
    signature = inspect.Signature(parameters)

    def given_to(values: dict[str, Any]) -> dict[str, Any]:
        context: ToolContext[Any] | None = values.pop("legato_context", None)
        kwargs = context.context if context is not None and isinstance(context.context, Mapping) else {}
        session = AgentSession(session_id=context.session_id) if context is not None else None
        invocation = FunctionInvocationContext(body, dict(values), session, kwargs=kwargs)
        return {**values, **(kwargs if rest else {}), **dict.fromkeys(asks, invocation)}

    if inspect.iscoroutinefunction(body):

        @functools.wraps(body)
        async def wrapped_async(*args: Any, **values: Any) -> Any:
            return await body(*args, **given_to(values))

        wrapped: Callable[..., Any] = wrapped_async
    else:

        @functools.wraps(body)
        def wrapped_sync(*args: Any, **values: Any) -> Any:
            return body(*args, **given_to(values))

        wrapped = wrapped_sync
    wrapped.__signature__ = signature  # type: ignore[attr-defined]  # how functools documents it
    return wrapped


def _described(hint: Any) -> Any:
    """`Annotated[str, "The city"]` as pydantic reads it."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    return Annotated[(kind, *(Field(description=note) if isinstance(note, str) else note for note in notes))]
