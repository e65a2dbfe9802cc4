"""Tools made of functions: their names, rules, and calls."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from legato.errors import BadInput
from legato.tools import Tool, ToolCall, ToolContext, tool


def make_context(**kwargs: Any) -> ToolContext[Any]:
    return ToolContext(**{"context": None, "call": ToolCall("1.0", "it", {}), **kwargs})


async def run_tool(tool: Tool, arguments: str = "{}", **kwargs: Any) -> object:
    return await tool.run(make_context(**kwargs), tool.validate(arguments))


async def test_plain_function_becomes_a_callable_tool() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    assert isinstance(add, Tool)
    assert (add.name, add.description) == ("add", "Add two numbers.")
    assert add(1, b=2) == 3
    assert await run_tool(add, '{"a": 1, "b": 2}') == 3


async def test_async_function_becomes_an_awaitable_tool() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        return a + b

    assert await add(1, 2) == 3
    assert await run_tool(add, '{"a": 1, "b": 2}') == 3


def test_every_rule_can_be_set() -> None:
    def ask(context: object, arguments: dict[str, object], call: object) -> bool:
        return True

    @tool(name="other", description="Said.", needs_approval=ask, idempotent=True, alone=True, timeout=3, deferred=True)
    def function() -> None:
        """Unsaid."""

    assert (function.name, function.description, function.needs_approval) == ("other", "Said.", ask)
    assert (function.idempotent, function.alone, function.timeout, function.deferred) == (True, True, 3.0, True)
    assert repr(function) == "<Tool other(): may need approval, idempotent, alone, deferred, timeout 3 s>"


def test_rules_have_cautious_defaults() -> None:
    @tool
    def function(a: int) -> None: ...

    assert (function.needs_approval, function.idempotent, function.alone) == (False, False, False)
    assert (function.timeout, function.deferred, function.description, function.secrets) == (None, False, "", frozenset())
    assert repr(function) == "<Tool function(a)>"


def test_a_tool_cannot_be_changed() -> None:
    @tool
    def function() -> None: ...

    with pytest.raises(AttributeError):
        function.needs_approval = False  # type: ignore[misc]


class Shop:
    def __init__(self) -> None:
        self.sold: list[str] = []

    def sell(self, what: str) -> str:
        """Sell something."""
        self.sold.append(what)
        return f"sold {what}"

    async def __call__(self, what: str) -> str:
        """Sell by calling."""
        return self.sell(what)


async def test_bound_method_becomes_a_tool() -> None:
    shop = Shop()
    sell = tool(shop.sell, needs_approval=True)
    assert (sell.name, sell.description) == ("sell", "Sell something.")
    assert await run_tool(sell, '{"what": "tea"}') == "sold tea"
    assert shop.sold == ["tea"]


async def test_callable_object_needs_a_name() -> None:
    shop = Shop()
    with pytest.raises(BadInput, match=r"@tool\(name="):
        tool(shop)
    assert await run_tool(tool(shop, name="sell"), '{"what": "tea"}') == "sold tea"


async def test_partial_function_keeps_only_open_parameters() -> None:
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    increment = tool(functools.partial(add, 1), name="increment")
    assert increment.arguments.names == ("b",)
    assert await run_tool(increment, '{"b": 2}') == 3


async def test_wrapped_function_keeps_its_original_signature() -> None:
    def shout(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def louder(*args: Any, **kwargs: Any) -> str:
            return function(*args, **kwargs).upper()

        return louder

    @tool
    @shout
    def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    assert greet.arguments.names == ("name",)
    assert await run_tool(greet, '{"name": "ada"}') == "HELLO ADA"


user = contextvars.ContextVar("user", default="nobody")


async def test_sync_tool_runs_in_thread_with_contextvars() -> None:
    @tool
    def who() -> tuple[str, bool]:
        return user.get(), threading.current_thread() is threading.main_thread()

    user.set("ada")
    assert await run_tool(who) == ("ada", False)


async def test_awaitable_result_of_sync_function_is_awaited() -> None:
    async def later() -> str:
        return "later"

    def now() -> Any:
        return later()

    assert await run_tool(tool(now)) == "later"


async def test_exception_of_a_tool_is_not_changed() -> None:
    @tool
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await run_tool(fail)


async def test_escaped_stop_iteration_fails_the_tool() -> None:
    @tool
    def first() -> object:
        return next(iter([]))

    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await run_tool(first)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_tool_cannot_end_the_process(kind: str) -> None:
    def leave() -> None:
        raise SystemExit(3)

    async def leave_later() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="'leave' tried to end the process"):
        await run_tool(tool(leave if kind == "sync" else leave_later, name="leave"))


async def test_the_body_of_a_deferred_tool_never_runs() -> None:
    @tool(deferred=True)
    def sign(document: str) -> str:
        raise AssertionError("ran")

    with pytest.raises(BadInput, match=r"session\.answer"):
        await run_tool(sign, '{"document": "d"}')


async def test_a_tool_receives_its_context_under_any_annotation() -> None:
    class Mine:
        user = "ada"

    @tool
    def plain(ctx: ToolContext, word: str) -> object:  # type: ignore[type-arg]
        return ctx.context.user + word

    @tool
    async def typed(word: str, ctx: ToolContext[Mine]) -> object:
        return ctx.context.user + word

    @tool
    def optional(word: str, *, ctx: ToolContext[Mine] | None = None) -> object:
        assert ctx is not None
        return ctx.context.user + word

    for each in (plain, typed, optional):
        assert each.arguments.names == ("word",)
        assert "ctx" not in each.parameters
        assert await run_tool(each, '{"word": "!"}', context=Mine()) == "ada!"


def test_a_model_cannot_supply_the_context() -> None:
    @tool
    def who(ctx: ToolContext[object]) -> None: ...

    with pytest.raises(ValueError, match="ctx: there is no such argument; it takes none"):
        who.validate('{"ctx": {"context": "root"}}')


def test_the_repr_of_a_context_gives_nothing_away() -> None:
    ctx = make_context(context={"api_key": "sk-1"}, call=ToolCall("1.0", "log_in", {"password": "sk-2"}))
    assert "sk-" not in repr(ctx)
    assert "log_in" in repr(ctx)


def stars(*things: str) -> None: ...
def twostars(**things: str) -> None: ...
def positional(a: int, /) -> None: ...
def unreadable(a: int, b: threading.Lock) -> None: ...
def unknown(a: int, b: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def yields() -> Any:
    yield 1


async def yields_later() -> Any:
    yield 1


REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "a name with a space": (lambda: tool(lambda: 1, name="look up"), "1 to 64 letters"),
    "an empty name": (lambda: tool(lambda: 1, name=""), "1 to 64 letters"),
    "a name of 65 characters": (lambda: tool(lambda: 1, name="a" * 65), "1 to 64 letters"),
    "a name that ends in a newline": (lambda: tool(lambda: 1, name="a\n"), "1 to 64 letters"),
    "a lambda without a name": (lambda: tool(lambda: 1), r'@tool\(name="look_up_order"\)'),
    "the name of a handoff": (lambda: tool(lambda: 1, name="handoff_to_refunds"), r'@tool\(name="refunds"\)'),
    "*args": (lambda: tool(stars), r"takes \*things.*(\n.*)*write things: list\[str\]"),
    "**kwargs": (lambda: tool(twostars), r"takes \*\*things.*(\n.*)*write things: dict\[str, str\]"),
    "a positional-only parameter": (lambda: tool(positional), "remove the '/'"),
    "a type without a schema": (lambda: tool(unreadable), "parameter 'b' of tool 'unreadable'"),
    "an annotation that names nothing": (lambda: tool(unknown), "parameter 'b' of tool 'unknown'.*Missing"),
    "a method without its object": (lambda: tool(Shop.sell), r"tool\(thing\.sell\)"),
    "a class": (lambda: tool(Shop), "class 'Shop'"),
    "a generator": (lambda: tool(yields), "'yields' yields"),
    "an async generator": (lambda: tool(yields_later), "'yields_later' yields"),
    "something that is no function": (lambda: tool("name"), "only a function"),  # type: ignore[call-overload]
    "a tool": (lambda: tool(tool(lambda: 1, name="a")), "'a' is a tool already"),
    "a timeout of zero": (lambda: tool(lambda: 1, name="a", timeout=0), "positive number of seconds"),
    "a negative timeout": (lambda: tool(lambda: 1, name="a", timeout=-1), "positive number of seconds"),
    "an endless timeout": (lambda: tool(lambda: 1, name="a", timeout=float("inf")), "positive number of seconds"),
    "a timeout that is no number": (lambda: tool(lambda: 1, name="a", timeout=float("nan")), "positive number of seconds"),
    "a timeout of True": (lambda: tool(lambda: 1, name="a", timeout=True), "positive number of seconds"),
    "an approval rule that is neither": (
        lambda: tool(lambda: 1, name="a", needs_approval="yes"),  # type: ignore[call-overload]
        "needs_approval of tool 'a'",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_tool_decorator_refuses_invalid_functions(refusal: str) -> None:
    make, message = REFUSALS[refusal]
    with pytest.raises(BadInput, match=message):
        make()
