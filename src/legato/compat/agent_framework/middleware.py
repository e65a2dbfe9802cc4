"""Middleware under the framework's names, run by Legato's.

Function middleware wraps tools and chat middleware wraps models, wherever the agent works. Agent middleware wraps `agent.run`. None of
them can change what the ledger has recorded, or what follows from it: a call's arguments, and what a model is sent.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.contexts import AgentContext, ChatContext, FunctionInvocationContext
from legato.compat.agent_framework.message_conversion import convert_message, pieces_of, usage_details
from legato.compat.agent_framework.messages import AgentResponse, ChatResponse, Message
from legato.compat.agent_framework.providers import AgentSession
from legato.compat.gaps import explain
from legato.core.facts import NO_USAGE, Call, OutputText, Refusal
from legato.core.view import ModelRequest
from legato.errors import BadInput, ModelFailed
from legato.models.model import ModelReply
from legato.runtime.definition import Middleware
from legato.tools import Tool, ToolCall

CallNext: TypeAlias = Callable[..., Awaitable[None]]
Kind: TypeAlias = Literal["agent", "chat", "function"]
_MARK = "_middleware_type"
_CONTEXTS: dict[str, Kind] = {
    "AgentContext": "agent",
    "AgentRunContext": "agent",
    "ChatContext": "chat",
    "FunctionInvocationContext": "function",
}


class MiddlewareTermination(Exception):
    """Raised by middleware that wants nothing further to run. `result` stands for what would have come."""

    def __init__(self, message: str = "ended by middleware", *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class AgentMiddleware:
    """Wraps runs of an agent: override `process`, and call `call_next` once, or not at all, or again."""

    async def process(self, context: AgentContext, call_next: CallNext) -> None:
        await call_next()


class ChatMiddleware:
    """Wraps requests to a model: override `process`."""

    async def process(self, context: ChatContext, call_next: CallNext) -> None:
        await call_next()


class FunctionMiddleware:
    """Wraps tools: override `process`."""

    async def process(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        await call_next()


def agent_middleware(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as agent middleware."""
    return _marked(function, "agent")


def chat_middleware(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as chat middleware."""
    return _marked(function, "chat")


def function_middleware(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as function middleware."""
    return _marked(function, "function")


def _marked(function: Callable[..., Any], kind: Kind) -> Callable[..., Any]:
    setattr(function, _MARK, kind)
    return function


def find_middleware_kind(given: Any) -> Kind:
    """Return the kind of a middleware. `BadInput` if it cannot be told: a guard of unknown kind would guard nothing."""
    for base, kind in ((AgentMiddleware, "agent"), (ChatMiddleware, "chat"), (FunctionMiddleware, "function")):
        if isinstance(given, base):
            return kind  # type: ignore[return-value]  # a tuple's literals are seen as text
    if callable(given) and not isinstance(given, type):
        known: Kind | None = getattr(given, _MARK, None) or _annotated(given)
        if known is not None:
            return known
    raise BadInput(
        "it cannot be told what this middleware wraps, and what it guards would stand open",
        expected="an object of a class derived from AgentMiddleware, ChatMiddleware or FunctionMiddleware, or a function",
        found=repr(given)[:80],
        do="annotate its first parameter (AgentContext, ChatContext or FunctionInvocationContext), or mark it with @function_middleware",
    )


def _annotated(function: Callable[..., Any]) -> Kind | None:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    hint = first.annotation if first is not None else None
    name = hint if isinstance(hint, str) else getattr(hint, "__name__", "")
    return _CONTEXTS.get(name.strip("\"'").rpartition(".")[2])


def of_kind(given: Sequence[Any], kind: Kind) -> list[Any]:
    """Those of theirs that wrap this, in order."""
    return [each for each in given if not isinstance(each, Middleware) and find_middleware_kind(each) == kind]


async def through(chain: Sequence[Any], context: Any, innermost: Callable[[], Awaitable[None]]) -> None:
    """Call each with the context that they share; what is behind the last of them is `innermost`."""

    async def at(index: int) -> None:
        if index == len(chain):
            await innermost()
            return
        each = chain[index]

        async def call_next(_: Any = None) -> None:  # earlier releases passed the context on
            await at(index + 1)

        await (each.process if hasattr(each, "process") else each)(context, call_next)

    await at(0)


class AroundTools(Middleware):
    """Function middleware. A call runs with the arguments that were recorded, and approved."""

    def __init__(self, chain: Sequence[Any], tools: Sequence[Tool]) -> None:
        self._chain = chain
        self._tools = {tool.name: tool for tool in tools}

    async def around_tool(self, call: ToolCall, proceed: Callable[[], Awaitable[object]]) -> object:
        context = FunctionInvocationContext(self._tools[call.tool], deepcopy(call.arguments))

        async def run() -> None:
            if context.arguments != call.arguments:
                raise BadInput(
                    f"middleware changed the arguments of {call.tool!r}, which are on record; it was not run",
                    do="answer in its place (context.result = ...), or let a person edit the call: session.edit(request, {...})",
                )
            context.result = await proceed()

        try:
            await through(self._chain, context, run)
        except MiddlewareTermination as ended:
            explain("MiddlewareTermination of function middleware", "the call is answered with its result, and the model goes on")
            context.result = next((each for each in (ended.result, context.result) if each is not None), str(ended))
        return _returned(context.result)


def _returned(result: Any) -> Any:
    contents = [result] if isinstance(result, Content) else result
    if isinstance(contents, list) and contents and all(isinstance(each, Content) for each in contents):
        pieces = pieces_of(contents)
        return pieces[0] if len(pieces) == 1 else pieces
    return result


class AroundModels(Middleware):
    """Chat middleware. What a model is sent follows from the ledger; what it replied may be replaced before it is recorded."""

    def __init__(self, chain: Sequence[Any], client: Any) -> None:
        self._chain = chain
        self._client = client

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        context = ChatContext(self._client, _convert_messages(request), _options(request), AgentSession(session_id=request.session_id))
        reply: ModelReply | None = None

        async def ask() -> None:
            nonlocal reply
            if context.messages != _convert_messages(request) or context.options != _options(request):
                raise ModelFailed(
                    "chat middleware changed what the model is sent, which follows from the ledger; nothing was sent. "
                    "Write a ContextProvider that adds to it: what that adds is recorded"
                )
            reply = await proceed(request)
            context.result = _response(reply, request.agent)

        try:
            await through(self._chain, context, ask)
        except MiddlewareTermination as ended:
            context.result = context.result if ended.result is None else ended.result
        if reply is not None and context.result == _response(reply, request.agent):
            return reply
        return _replaced(context.result, reply)


def _convert_messages(request: ModelRequest) -> list[Message]:
    return [convert_message(message) for message in request.messages]


def _options(request: ModelRequest) -> dict[str, Any]:
    return {"instructions": request.turn_context.instructions, "tools": [tool.name for tool in request.turn_context.tools]}


def _response(reply: ModelReply, agent: str) -> ChatResponse:
    contents = [Content.from_text(item.text) for item in reply.items if isinstance(item, (OutputText, Refusal))]
    calls = [item for item in reply.items if isinstance(item, Call)]
    contents += [Content.from_function_call(call.call_id, call.tool, arguments=call.arguments) for call in calls]
    return ChatResponse(
        messages=[Message("assistant", contents, author_name=agent)],
        response_id=reply.response_id or None,
        model=reply.model or None,
        finish_reason={"filter": "content_filter"}.get(reply.finish, reply.finish),
        usage_details=usage_details(reply.usage),
    )


def _replaced(result: Any, reply: ModelReply | None) -> ModelReply:
    """The words of middleware as the reply that is recorded, which says whose they are. What the model cost is kept."""
    if not isinstance(result, AgentResponse):
        raise ModelFailed("chat middleware did not call call_next(), and set no ChatResponse as context.result: there is no reply")
    if any(content.type != "text" for message in result.messages for content in message.contents):
        raise ModelFailed("chat middleware changed a reply that asks for calls, or made one: only words can be put in a model's place")
    return ModelReply(items=(OutputText(result.text),), usage=reply.usage if reply else NO_USAGE, model="chat middleware")
