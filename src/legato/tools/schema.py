"""From a signature to a schema and a check. May know: annotations and pydantic. Decides: what a model may pass to a function.

The schema and the check are made from one pydantic model, once, when the function is decorated, so they cannot disagree.
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
from legato.tools.arguments import Arguments, BadArguments
from legato.tools.context import SecretMark, ToolContext

SHOWN = 80
"""How many characters of a wrong value an error repeats: enough to recognise it, too few to fill a context window."""

LISTED = 8
"""How many mistakes an error lists. A model that made more starts over anyway."""

# NaN and Infinity are not JSON: a person's approval is bound to the arguments as JSON, so they must be just that.
_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)

_PLAIN = (str, int, float, bool)


class SignatureArguments(Arguments, frozen=True, eq=False):
    """What a function takes, by its signature."""

    model: type[BaseModel]

    @classmethod
    def of(
        cls,
        tool: str,
        function: Callable[..., Any],
        written: Callable[..., Any],
        scope: Mapping[str, object],
        descriptions: Mapping[str, str],
    ) -> SignatureArguments:
        """Read the signature of `function`; `written` is where its annotations were, `scope` what they may name."""
        taken: dict[str, tuple[Any, Any]] = {}
        contexts: list[str] = []
        for parameter in _signature(tool, function).parameters.values():
            _check_parameter(tool, parameter, written)
            annotation = _annotation(tool, parameter, getattr(written, "__globals__", {}), scope)
            if _mentions(annotation, _is_context):
                contexts.append(parameter.name)
            else:
                taken[parameter.name] = (annotation, ... if parameter.default is parameter.empty else parameter.default)
        model, schema = _compile(tool, taken)
        secrets = frozenset(name for name, (annotation, _) in taken.items() if _mentions(annotation, _is_secret))
        for name, shown in schema["properties"].items():
            if name in descriptions:  # what an annotation says about itself (Field(description=...)) comes first
                shown.setdefault("description", descriptions[name])
            if name in secrets:
                shown.pop("default", None)  # pages show schemas
        return cls(
            names=tuple(taken),
            schema=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
            secrets=secrets,
            contexts=tuple(contexts),
            model=model,
        )

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """The values for the function, in the order of its parameters."""
        try:
            # Some servers write nothing at all for a call without arguments.
            checked = self.model.model_validate_json(arguments if arguments.strip() else "{}")
        except ValidationError as error:
            raise self._explain(tool, error, arguments) from None
        except Exception as error:  # a type's own validator failed in a way of its own: still no reason to run the tool
            told = BadArguments(f"the arguments of {tool} could not be checked: {type(error).__name__}")
            raise told from (None if self.secrets else error)
        return {name: getattr(checked, _field(index)) for index, name in enumerate(self.names)}

    def _explain(self, tool: str, error: ValidationError, arguments: str) -> BadArguments:
        mistakes = error.errors(include_url=False, include_context=False)
        lines = [f"  - {self._mistake(mistake, arguments)}" for mistake in mistakes[:LISTED]]
        if len(mistakes) > LISTED:
            lines.append(f"  - and {len(mistakes) - LISTED} more")
        return BadArguments("\n".join([f"the arguments of {tool} are not valid, and it did not run:", *lines]))

    def _mistake(self, mistake: Any, arguments: str) -> str:
        kind, location = mistake["type"], [str(step) for step in mistake["loc"]]
        if not location:
            came = "" if self.secrets else f"; came: {_shown(arguments)}"
            if kind == "model_type":
                return f"expected one JSON object{came}"
            return f"{_short(mistake['msg'])}{came}"
        where = _short(".".join(location))
        if kind == "extra_forbidden" and len(location) == 1:
            return f"{where}: there is no such argument; it takes {', '.join(self.names) or 'none'}"
        if location[0] in self.secrets and kind != "missing":  # an error is an output, and outputs are shown to people
            return f"{location[0]}: not valid ({kind})"
        if kind == "missing":
            return f"{where}: missing, and required"
        return f"{where}: {_short(mistake['msg'])}; came: {_shown(mistake['input'])}"


class _Schema(GenerateJsonSchema):
    """Pydantic's schema without what a model has no use for and without what changes between runs."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic declares it so

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # "Order Id" says nothing that "order_id" does not

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        if isinstance(dft, set | frozenset):
            return sorted(encoded, key=json.dumps)  # the order of a set depends on the hash seed of the process
        return json.loads(json.dumps(encoded), parse_constant=str)  # infinity is no JSON


def _compile(tool: str, taken: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        return _model(taken)
    except Exception as error:
        for name, each in taken.items():  # which of them is it?
            try:
                _model({name: each})
            except Exception as cause:
                raise BadInput(
                    f"parameter {name!r} of tool {tool!r} has a type that cannot become a JSON schema",
                    expected="a type that pydantic can read from JSON",
                    found=f"{_shown(each[0])}: {_short(str(cause).splitlines()[0])}",
                    do="use plain types, a dataclass or a pydantic model; annotate what Legato should pass as ToolContext",
                ) from cause
        raise BadInput(f"the parameters of tool {tool!r} cannot become a JSON schema", found=str(error)) from error


def _model(taken: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    """The pydantic model of these parameters, each an annotation and a default, and its schema, which the caller may change."""
    if all(default is ... and any(annotation is plain for plain in _PLAIN) for annotation, default in taken.values()):
        model, schema = _plain_model(tuple((name, annotation) for name, (annotation, _) in taken.items()))
        return model, deepcopy(schema)
    return _new_model(taken)


@lru_cache(maxsize=256)
def _plain_model(taken: tuple[tuple[str, Any], ...]) -> tuple[type[BaseModel], dict[str, Any]]:
    """The model of parameters of plain types. Tools that are made again for each session, as agents are, cost a tenth so."""
    return _new_model({name: (annotation, ...) for name, annotation in taken})


def _new_model(taken: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], dict[str, Any]]:
    # The fields have names of our own and the parameters' names as aliases: pydantic refuses some that Python allows
    # (`_x`, `schema`, `copy`).
    fields: dict[str, Any] = {
        _field(index): (annotation, Field(default, alias=name, validation_alias=name, serialization_alias=name))
        for index, (name, (annotation, default)) in enumerate(taken.items())
    }
    model: type[BaseModel] = create_model("Arguments", __config__=_CONFIG, **fields)
    schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return model, schema


def _field(index: int) -> str:
    return f"argument_{index}"


def _signature(tool: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"the signature of {tool!r} cannot be read: {error}", do="wrap it in a function with annotated parameters"
        ) from error


def _check_parameter(tool: str, parameter: inspect.Parameter, written: Callable[..., Any]) -> None:
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
    if name in ("self", "cls") and parameter.annotation is parameter.empty and "." in written.__qualname__:
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


def _annotation(tool: str, parameter: inspect.Parameter, module: dict[str, Any], scope: Mapping[str, object]) -> Any:
    """The annotation as an object. Each on its own, so that an error can name it, and the return type is never needed."""
    if parameter.annotation is parameter.empty:
        return Any
    try:
        one = SimpleNamespace(__annotations__={"it": parameter.annotation})
        return get_type_hints(one, module, dict(scope), include_extras=True)["it"]
    except Exception as error:
        raise BadInput(
            f"the annotation of parameter {parameter.name!r} of tool {tool!r} cannot be read: {error}",
            found=_shown(parameter.annotation),
            do="import or define what it names where the function is defined, and not under TYPE_CHECKING",
        ) from error


def _mentions(annotation: Any, wanted: Callable[[Any], bool]) -> bool:
    """Whether an annotation is, or anywhere contains, what is wanted: in a union, a list, an `Annotated`, an alias."""
    left, seen = [annotation], dict[int, Any]()  # by id: an annotation need not be hashable
    while left:
        each = left.pop()
        if wanted(each) or wanted(get_origin(each)):
            return True
        if id(each) not in seen:  # an alias may contain itself
            seen[id(each)] = each
            left += [*get_args(each), getattr(each, "__value__", None)]
    return False


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext


def _is_secret(annotation: Any) -> bool:
    return isinstance(annotation, SecretMark) or annotation is SecretStr or annotation is SecretBytes


def _short(text: str) -> str:
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}..."


def _shown(value: object) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = getattr(value, "__name__", None) or repr(value)
    rest = f"... ({len(text)} characters)" if len(text) > SHOWN else ""
    # `repr` keeps it on one line; a lone surrogate could not be written to the ledger.
    return repr(text[:SHOWN]).encode("utf-8", "backslashreplace").decode() + rest
