"""Functions as tools, under the SDK's names."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, get_origin, get_type_hints

from legato.compat.agents.context import RunContextWrapper, ToolContext
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.ledger_items import raw_call
from legato.compat.agents.unsupported_errors import check_arguments, mirrors
from legato.compat.gaps import explain
from legato.core.facts import CallRef
from legato.core.groups import CallState
from legato.tools import BadArguments, ToolCall
from legato.tools import Tool as NativeTool
from legato.tools import ToolContext as NativeContext
from legato.tools.docstring_parser import parse_docstring
from legato.tools.signature_arguments import SignatureArguments
from legato.tools.tool_arguments import ToolArguments

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent

Enabled: TypeAlias = bool | Callable[..., Any]
Approval: TypeAlias = bool | Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]


def default_tool_error_function(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """Return the text for the model about a tool that raised, where the program sets none."""
    return f"{type(error).__name__}: {error}"


@mirrors("FunctionTool")
@dataclass
class FunctionTool:
    """A tool: made by `function_tool`, or by hand from a JSON schema and a function of (context, arguments as JSON text)."""

    name: str
    description: str
    params_json_schema: dict[str, Any]
    on_invoke_tool: Callable[[ToolContext[Any], str], Awaitable[Any]]
    strict_json_schema: bool | None = None
    is_enabled: Enabled = True
    needs_approval: Approval = field(default=False, kw_only=True)
    timeout_seconds: float | None = field(default=None, kw_only=True)
    idempotent: bool = field(default=False, kw_only=True)
    """Ours: it may be started again if a process died while it ran. Otherwise a person is asked."""
    arguments: ToolArguments | None = field(default=None, repr=False, kw_only=True)
    body: Callable[[Agent[Any] | None], Callable[..., Any]] | None = field(default=None, repr=False, kw_only=True)
    works_in: Any = field(default=None, repr=False, kw_only=True)
    """Ours: of an agent as a tool, opens the conversation in which it works."""

    def __post_init__(self) -> None:
        check_arguments("FunctionTool", {"strict_json_schema": self.strict_json_schema})

    @property
    def qualified_name(self) -> str:
        return self.name

    def native(self, agent: Agent[Any] | None = None) -> NativeTool:
        """As Legato knows it, for an agent."""
        arguments, body = self.arguments, self.body
        if arguments is None or body is None:
            arguments, body = _as_text(self.params_json_schema), _invoking(self.on_invoke_tool)
        return NativeTool(
            name=self.name,
            description=self.description,
            function=body(agent),
            arguments=arguments,
            needs_approval=_approval(self.needs_approval),
            timeout=self.timeout_seconds,
            idempotent=self.idempotent,
            open_child_session=self.works_in,
        )


Tool: TypeAlias = FunctionTool | NativeTool
"""What an agent may be given as a tool; one of Legato's will do too."""


def function_tool(
    func: Callable[..., Any] | None = None,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: str | None = None,
    use_docstring_info: bool = True,
    failure_error_function: Any = default_tool_error_function,
    strict_mode: bool | None = None,
    is_enabled: Enabled = True,
    needs_approval: Approval = False,
    timeout: float | None = None,
    idempotent: bool = False,
    **others: Any,
) -> Any:
    """Make a function, sync or async, a tool. Its first parameter may be annotated `RunContextWrapper` or `ToolContext`."""
    check_arguments("function_tool", {"strict_mode": strict_mode, "docstring_style": docstring_style, **others})
    if failure_error_function is None:
        explain("failure_error_function=None", "a tool that raises never takes the run with it; the model is told what was raised")
    scope = dict(sys._getframe(1).f_locals)

    def make(function: Callable[..., Any]) -> FunctionTool:
        name = name_override or function.__name__
        about = parse_docstring(inspect.getdoc(function) or "") if use_docstring_info else parse_docstring("")
        told = failure_error_function if failure_error_function is not default_tool_error_function else None
        wanted = _wanted(function, scope)
        body = functools.partial(_body, name, function, wanted, told)
        arguments = SignatureArguments.from_signature(name, body(None), inspect.unwrap(function), scope, about.arguments)

        async def invoke(context: ToolContext[Any], given: str) -> Any:
            made = function(**arguments.validate(name, given), **({wanted: context} if wanted else {}))
            return await made if inspect.isawaitable(made) else made

        return FunctionTool(
            name=name,
            description=about.summary if description_override is None else description_override,
            params_json_schema=json.loads(arguments.schema),
            on_invoke_tool=invoke,
            is_enabled=is_enabled,
            needs_approval=needs_approval,
            timeout_seconds=timeout,
            idempotent=idempotent,
            arguments=arguments,
            body=body,
        )

    return make if func is None else make(func)


def _wanted(function: Callable[..., Any], scope: Mapping[str, Any]) -> str:
    """The name of the parameter that takes the context: the first, or none."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first.name if first is not None and _is_context(function, first, scope) else ""


def _body(
    name: str, function: Callable[..., Any], wanted: str, told: Callable[..., Any] | None, agent: Agent[Any] | None
) -> Callable[..., Any]:
    """The function as Legato calls it: with Legato's context, where it wants the SDK's."""
    parameters = list(inspect.signature(function).parameters.values())

    def split_context(values: dict[str, Any]) -> tuple[dict[str, Any], ToolContext[Any] | None]:
        native = values.pop(_CONTEXT)
        context = tool_context(native.context, native.call, agent, native.idempotency_key)
        return ({**values, wanted: context} if wanted else values), context

    async def later(**values: Any) -> Any:
        values, context = split_context(values)
        try:
            return await function(**values)
        except Exception as error:
            return await _failed(told, context, error)

    def at_once(**values: Any) -> Any:
        values, context = split_context(values)
        try:
            return function(**values)
        except Exception as error:
            return _failed(told, context, error)

    body: Any = later if inspect.iscoroutinefunction(function) else at_once
    body.__name__ = body.__qualname__ = name
    rest = parameters[1:] if wanted else parameters
    context = inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=NativeContext)
    taken = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) if _named(each) else each for each in rest]
    body.__signature__ = inspect.Signature([*taken, context])
    made: Callable[..., Any] = body
    return made


_CONTEXT = "legato_tool_context"


def _named(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


async def _failed(told: Callable[..., Any] | None, context: Any, error: Exception) -> Any:
    if told is None:
        raise error
    words = told(context, error)
    return await words if inspect.isawaitable(words) else words


def _is_context(function: Callable[..., Any], parameter: inspect.Parameter, scope: Mapping[str, Any]) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            one = type("One", (), {"__annotations__": {"it": annotation}})
            annotation = get_type_hints(one, getattr(function, "__globals__", {}), dict(scope))["it"]
        except Exception:  # what it names is not there to be read; the schema will say so
            return False
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, RunContextWrapper)


def tool_context(wrapper: RunContextWrapper[Any], call: ToolCall, agent: Agent[Any] | None, key: str = "") -> ToolContext[Any]:
    """The SDK's context of a call, from Legato's."""
    found = written(wrapper, call)
    return ToolContext(
        wrapper.context,
        call.tool,
        found.call.call_id,
        found.arguments,
        raw_call(found.call, found.arguments),
        agent,
        session=wrapper.session,
        judged=wrapper.judged,
        idempotency_key=key,
    )


def written(wrapper: RunContextWrapper[Any], call: ToolCall) -> CallState:
    """A call that runs, or is to run, as the ledger has it."""
    assert wrapper.session is not None
    position, _, index = call.id.partition(".")
    found = wrapper.session.state.find_call(CallRef(int(position), int(index)))
    assert found is not None  # nothing runs that is not recorded
    return found


def _approval(rule: Approval) -> Any:
    if isinstance(rule, bool):
        return rule
    if not callable(rule):
        raise UserError(f"needs_approval takes True, False or a function of (context, params, call_id), not {rule!r}")

    async def needed(native: NativeContext[Any], values: dict[str, Any], call: ToolCall) -> bool:
        found = written(native.context, call)
        verdict: Any = rule(native.context, json.loads(found.arguments or "{}"), found.call.call_id)
        return bool(await verdict if inspect.isawaitable(verdict) else verdict)

    return needed


# -- tools made by hand -------------------------------------------------------------------------------------------------


class _AsText(ToolArguments, frozen=True, eq=False):
    """Arguments that a tool takes as JSON text, and checks by itself."""

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """The text, if it is an object."""
        text = arguments if arguments.strip() else "{}"
        try:
            given = json.loads(text)
        except ValueError as error:
            raise BadArguments(f"the arguments of {tool} are not JSON, and it did not run: {error}") from None
        if not isinstance(given, dict):
            raise BadArguments(f"the arguments of {tool} are not one JSON object, and it did not run")
        return {"text": text}


def _as_text(schema: Mapping[str, Any]) -> ToolArguments:
    return _AsText((), json.dumps(schema, ensure_ascii=False, separators=(",", ":")), frozenset(), (_CONTEXT,))


def _invoking(invoke: Callable[[ToolContext[Any], str], Awaitable[Any]]) -> Callable[[Agent[Any] | None], Callable[..., Any]]:
    def of(agent: Agent[Any] | None) -> Callable[..., Any]:
        async def body(text: str, **contexts: Any) -> Any:
            native = contexts[_CONTEXT]
            return await invoke(tool_context(native.context, native.call, agent, native.idempotency_key), text)

        return body

    return of
