"""Functions as tools, as the SDK has it. May know: Legato's tools. Decides: what of the SDK's options is Legato's."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_origin, get_type_hints

from pydantic import BaseModel

from legato.compat.agents.context import RunContextWrapper, ToolContext
from legato.compat.agents.exceptions import UserError, means_nothing
from legato.core.facts import CallRef
from legato.tools import BadArguments, Tool, ToolCall
from legato.tools import ToolContext as NativeContext
from legato.tools.docstring import describe
from legato.tools.schema import Arguments

Enabled: TypeAlias = bool | Callable[..., Any]
Approval: TypeAlias = bool | Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]

_UNSET: Any = object()


@dataclass
class FunctionTool:
    """A tool: made by `function_tool`, or by hand from a JSON schema and a function of (context, arguments as JSON text)."""

    name: str
    description: str
    params_json_schema: dict[str, Any]
    on_invoke_tool: Callable[[ToolContext[Any], str], Awaitable[Any]]
    strict_json_schema: bool = True
    is_enabled: Enabled = True
    needs_approval: Approval = False
    timeout_seconds: float | None = None
    idempotent: bool = False
    """Ours: it may be started again if a process died while it ran. Otherwise a person is asked."""
    arguments: Arguments | None = field(default=None, repr=False)
    body: Callable[..., Any] | None = field(default=None, repr=False)

    def native(self) -> Tool:
        """As Legato knows it."""
        arguments, body = self.arguments, self.body
        if arguments is None or body is None:
            arguments, body = _as_text(self.params_json_schema), _invoking(self.on_invoke_tool)
        return Tool(
            name=self.name,
            description=self.description,
            function=body,
            arguments=arguments,
            needs_approval=_approval(self.needs_approval),
            timeout=self.timeout_seconds,
            idempotent=self.idempotent,
        )


def function_tool(
    func: Callable[..., Any] | None = None,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: str | None = None,
    use_docstring_info: bool = True,
    failure_error_function: Any = _UNSET,
    strict_mode: bool = True,
    is_enabled: Enabled = True,
    needs_approval: Approval = False,
    timeout: float | None = None,
    tool_input_guardrails: Any = None,
    tool_output_guardrails: Any = None,
    idempotent: bool = False,
) -> Any:
    """Make a function, sync or async, a tool. Its first parameter may be annotated `RunContextWrapper` or `ToolContext`."""
    if tool_input_guardrails or tool_output_guardrails:
        raise UserError('guardrails of tools are Legato\'s @guardrail("tool"): build this agent natively, or check within the tool')
    if failure_error_function is None:
        means_nothing("failure_error_function=None", "a tool that raises never takes the run with it; the model is told what was raised")
    if docstring_style is not None:
        means_nothing("docstring_style", "the style is seen from the docstring")
    scope = dict(sys._getframe(1).f_locals)

    def make(function: Callable[..., Any]) -> FunctionTool:
        name = name_override or function.__name__
        about = describe(inspect.getdoc(function) or "") if use_docstring_info else describe("")
        told = failure_error_function if callable(failure_error_function) else None
        wanted = _wanted(function, scope)
        body = _body(name, function, wanted, told)
        arguments = Arguments.of(name, body, inspect.unwrap(function), scope, about.arguments)

        async def invoke(context: ToolContext[Any], given: str) -> Any:
            made = function(**arguments.validate(name, given), **({wanted: context} if wanted else {}))
            return await made if inspect.isawaitable(made) else made

        return FunctionTool(
            name=name,
            description=about.summary if description_override is None else description_override,
            params_json_schema=json.loads(arguments.schema),
            on_invoke_tool=invoke,
            strict_json_schema=strict_mode,
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


def _body(name: str, function: Callable[..., Any], wanted: str, told: Callable[..., Any] | None) -> Callable[..., Any]:
    """The function as Legato calls it: with Legato's context, where it wants the SDK's."""
    parameters = list(inspect.signature(function).parameters.values())

    def given(values: dict[str, Any]) -> tuple[dict[str, Any], ToolContext[Any] | None]:
        native = values.pop(_CONTEXT)
        context = tool_context(native)
        return ({**values, wanted: context} if wanted else values), context

    async def later(**values: Any) -> Any:
        values, context = given(values)
        try:
            return await function(**values)
        except Exception as error:
            return await _failed(told, context, error)

    def at_once(**values: Any) -> Any:
        values, context = given(values)
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


def tool_context(native: NativeContext[Any]) -> ToolContext[Any]:
    """The SDK's context of a call, from Legato's."""
    wrapper: RunContextWrapper[Any] = native.context
    call_id, arguments = written(wrapper, native.call)
    return ToolContext(
        wrapper.context, wrapper.session, wrapper.judged, native.call.tool, call_id, arguments, native.idempotency_key
    )


def written(wrapper: RunContextWrapper[Any], call: ToolCall) -> tuple[str, str]:
    """The provider's id of a call, and its arguments as they are to run: both from the ledger."""
    assert wrapper.session is not None
    position, _, index = call.id.partition(".")
    found = wrapper.session.state.call(CallRef(int(position), int(index)))
    return (found.call.call_id, found.arguments) if found is not None else ("", "{}")


def _approval(rule: Approval) -> Any:
    if isinstance(rule, bool):
        return rule
    if not callable(rule):
        raise UserError(f"needs_approval takes True, False or a function of (context, params, call_id), not {rule!r}")

    async def needed(native: NativeContext[Any], values: dict[str, Any], call: ToolCall) -> bool:
        call_id, arguments = written(native.context, call)
        verdict: Any = rule(native.context, json.loads(arguments or "{}"), call_id)
        return bool(await verdict if inspect.isawaitable(verdict) else verdict)

    return needed


# -- tools made by hand -------------------------------------------------------------------------------------------------


class _AsText(Arguments):
    """Arguments that a tool takes as JSON text, and checks by itself."""

    __slots__ = ()

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


def _as_text(schema: Mapping[str, Any]) -> Arguments:
    return _AsText((), json.dumps(schema, ensure_ascii=False, separators=(",", ":")), frozenset(), (_CONTEXT,), BaseModel)


def _invoking(invoke: Callable[[ToolContext[Any], str], Awaitable[Any]]) -> Callable[..., Any]:
    async def body(text: str, **contexts: Any) -> Any:
        return await invoke(tool_context(contexts[_CONTEXT]), text)

    return body
