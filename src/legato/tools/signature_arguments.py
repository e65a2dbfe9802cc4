"""Tool arguments from a function's signature, with pydantic.

The schema and the validation come from one pydantic model, which is built once, when the function is decorated. So they cannot disagree.
This module is imported with the first tool: pydantic takes as long to import as asyncio (docs/PERFORMANCE.md).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from legato.errors import BadInput
from legato.tools.tool_arguments import BadArguments, ToolArguments
from legato.tools.tool_context import SecretMark, ToolContext

MAX_VALUE_CHARS = 80
"""Characters of a wrong value in an error: enough to recognise it, too few to fill a context window."""

MAX_LISTED_ERRORS = 8
"""Mistakes that an error lists. A model that made more starts over anyway."""

# NaN and Infinity are not JSON, and an approval is bound to the arguments as JSON.
_MODEL_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)

_PLAIN_TYPES = (str, int, float, bool)


class SignatureArguments(ToolArguments, frozen=True, eq=False):
    """The arguments of a function, by its signature."""

    model: type[BaseModel]

    @classmethod
    def from_signature(
        cls,
        tool: str,
        function: Callable[..., Any],
        source_function: Callable[..., Any],
        scope: Mapping[str, object],
        descriptions: Mapping[str, str],
    ) -> SignatureArguments:
        """Read the signature of `function`. `source_function` has the annotations, `scope` the local names that they may use."""
        parameters: dict[str, tuple[Any, Any]] = {}
        context_parameters: list[str] = []
        for parameter in _read_signature(tool, function).parameters.values():
            _check_parameter(tool, parameter, source_function)
            annotation = _resolve_annotation(tool, parameter, getattr(source_function, "__globals__", {}), scope)
            if _contains(annotation, _is_context):
                context_parameters.append(parameter.name)
            else:
                parameters[parameter.name] = (annotation, ... if parameter.default is parameter.empty else parameter.default)
        model, schema = _build_model(tool, parameters)
        secrets = frozenset(name for name, (annotation, _) in parameters.items() if _contains(annotation, _is_secret))
        for name, property_schema in schema["properties"].items():
            if name in descriptions:  # Field(description=...) in an annotation wins
                property_schema.setdefault("description", descriptions[name])
            if name in secrets:
                property_schema.pop("default", None)  # pages show schemas
        return cls(
            names=tuple(parameters),
            schema=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
            secrets=secrets,
            context_parameters=tuple(context_parameters),
            model=model,
        )

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """Return the values for the function, in the order of its parameters."""
        try:
            # Some providers send an empty text for a call without arguments.
            values = self.model.model_validate_json(arguments if arguments.strip() else "{}")
        except ValidationError as error:
            raise self._make_error(tool, error, arguments) from None
        except Exception as error:  # a custom validator raised something else: the tool must not run
            failure = BadArguments(f"the arguments of {tool} could not be checked: {type(error).__name__}")
            raise failure from (None if self.secrets else error)
        return {name: getattr(values, _make_field_name(index)) for index, name in enumerate(self.names)}

    def _make_error(self, tool: str, error: ValidationError, arguments: str) -> BadArguments:
        errors = error.errors(include_url=False, include_context=False)
        lines = [f"  - {self._describe_error(each, arguments)}" for each in errors[:MAX_LISTED_ERRORS]]
        if len(errors) > MAX_LISTED_ERRORS:
            lines.append(f"  - and {len(errors) - MAX_LISTED_ERRORS} more")
        return BadArguments("\n".join([f"the arguments of {tool} are not valid, and it did not run:", *lines]))

    def _describe_error(self, error: Any, arguments: str) -> str:
        kind, location = error["type"], [str(step) for step in error["loc"]]
        if not location:
            value_text = "" if self.secrets else f"; came: {_format_value(arguments)}"
            if kind == "model_type":
                return f"expected one JSON object{value_text}"
            return f"{_shorten(error['msg'])}{value_text}"
        path = _shorten(".".join(location))
        if kind == "extra_forbidden" and len(location) == 1:
            return f"{path}: there is no such argument; it takes {', '.join(self.names) or 'none'}"
        if location[0] in self.secrets and kind != "missing":  # the error is an output, and people see outputs
            return f"{location[0]}: not valid ({kind})"
        if kind == "missing":
            return f"{path}: missing, and required"
        return f"{path}: {_shorten(error['msg'])}; came: {_format_value(error['input'])}"


class _SchemaGenerator(GenerateJsonSchema):
    """Generates pydantic's schema without parts that are useless to a model or differ between processes."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic declares it so

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # "Order Id" adds nothing to "order_id"

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        if isinstance(dft, set | frozenset):
            return sorted(encoded, key=json.dumps)  # the order of a set depends on the process's hash seed
        return json.loads(json.dumps(encoded), parse_constant=str)  # infinity is not JSON


def _build_model(tool: str, parameters: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        return _get_model(parameters)
    except Exception as error:
        for name, each in parameters.items():  # find the one at fault
            try:
                _get_model({name: each})
            except Exception as cause:
                raise BadInput(
                    f"parameter {name!r} of tool {tool!r} has a type that cannot become a JSON schema",
                    expected="a type that pydantic can read from JSON",
                    found=f"{_format_value(each[0])}: {_shorten(str(cause).splitlines()[0])}",
                    do="use plain types, a dataclass or a pydantic model; annotate what Legato should pass as ToolContext",
                ) from cause
        raise BadInput(f"the parameters of tool {tool!r} cannot become a JSON schema", found=str(error)) from error


def _get_model(parameters: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    """Return the pydantic model of these parameters (annotation and default), and its schema, which may be changed."""
    if all(default is ... and any(annotation is plain for plain in _PLAIN_TYPES) for annotation, default in parameters.values()):
        model, schema = _get_cached_model(tuple((name, annotation) for name, (annotation, _) in parameters.items()))
        return model, deepcopy(schema)
    return _create_model(parameters)


@lru_cache(maxsize=256)
def _get_cached_model(parameters: tuple[tuple[str, Any], ...]) -> tuple[type[BaseModel], dict[str, Any]]:
    """Return the cached model of parameters of plain types: tools that are made again for each session cost a tenth."""
    return _create_model({name: (annotation, ...) for name, annotation in parameters})


def _create_model(parameters: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    # The fields are numbered, with the parameters' names as aliases: pydantic refuses some names that Python allows (`_x`, `schema`,
    # `copy`).
    fields: dict[str, Any] = {
        _make_field_name(index): (annotation, Field(default, alias=name, validation_alias=name, serialization_alias=name))
        for index, (name, (annotation, default)) in enumerate(parameters.items())
    }
    model: type[BaseModel] = create_model("Arguments", __config__=_MODEL_CONFIG, **fields)
    schema = model.model_json_schema(by_alias=True, schema_generator=_SchemaGenerator)
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return model, schema


def _make_field_name(index: int) -> str:
    return f"argument_{index}"


def _read_signature(tool: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"the signature of {tool!r} cannot be read: {error}", do="wrap it in a function with annotated parameters"
        ) from error


def _check_parameter(tool: str, parameter: inspect.Parameter, source_function: Callable[..., Any]) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        instead = "list[str]" if parameter.kind is parameter.VAR_POSITIONAL else "dict[str, str]"
        raise BadInput(
            f"tool {tool!r} takes {parameter}, and a model can fill only parameters that have a name",
            do=f"write {name}: {instead} instead",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise BadInput(
            f"parameter {name!r} of tool {tool!r} is positional-only, and a model passes arguments by name",
            do="remove the '/' from the parameter list",
        )
    if name in ("self", "cls") and parameter.annotation is parameter.empty and "." in source_function.__qualname__:
        raise BadInput(
            f"tool {tool!r} is a method without its object",
            expected="a function, or a bound method",
            do=f"leave the method undecorated and pass tool(thing.{tool}) to the agent",
        )
    if isinstance(parameter.default, FieldInfo):
        raise BadInput(
            f"the default of parameter {name!r} of tool {tool!r} is a pydantic Field, and stays one when Python calls it",
            do=f"write {name}: Annotated[<type>, Field(...)] = <default>",
        )


def _resolve_annotation(tool: str, parameter: inspect.Parameter, namespace: dict[str, Any], scope: Mapping[str, object]) -> Any:
    """Return an annotation as an object. Each is resolved alone: an error can name it, and the return type is not needed."""
    if parameter.annotation is parameter.empty:
        return Any
    try:
        holder = SimpleNamespace(__annotations__={"it": parameter.annotation})
        return get_type_hints(holder, namespace, dict(scope), include_extras=True)["it"]
    except Exception as error:
        raise BadInput(
            f"the annotation of parameter {parameter.name!r} of tool {tool!r} cannot be read: {error}",
            found=_format_value(parameter.annotation),
            do="import or define what it names where the function is defined, and not under TYPE_CHECKING",
        ) from error


def _contains(annotation: Any, predicate: Callable[[Any], bool]) -> bool:
    """Return True if the predicate holds for an annotation or any part of it: in a union, a list, an `Annotated`, an alias."""
    pending, visited = [annotation], dict[int, Any]()  # by id: an annotation may not be hashable
    while pending:
        item = pending.pop()
        if predicate(item) or predicate(get_origin(item)):
            return True
        if id(item) not in visited:  # an alias may contain itself
            visited[id(item)] = item
            pending += [*get_args(item), getattr(item, "__value__", None)]
    return False


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext


def _is_secret(annotation: Any) -> bool:
    return isinstance(annotation, SecretMark) or annotation is SecretStr or annotation is SecretBytes


def _shorten(text: str) -> str:
    return text if len(text) <= 2 * MAX_VALUE_CHARS else f"{text[: 2 * MAX_VALUE_CHARS]}..."


def _format_value(value: object) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = getattr(value, "__name__", None) or repr(value)
    rest = f"... ({len(text)} characters)" if len(text) > MAX_VALUE_CHARS else ""
    # `repr` keeps it on one line; a lone surrogate could not be written to the ledger.
    return repr(text[:MAX_VALUE_CHARS]).encode("utf-8", "backslashreplace").decode() + rest
