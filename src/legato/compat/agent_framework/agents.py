"""Agents under the framework's names.

An agent holds its definition and a store. A conversation with one agent is a session in that store, named by an `AgentSession`.
In a workflow, only the definition counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import GenericAlias
from typing import Any, ClassVar

from msgspec.structs import replace

from legato.compat.agent_framework.clients import _ChatClient
from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.contexts import AgentContext
from legato.compat.agent_framework.events import ResponseStream
from legato.compat.agent_framework.message_conversion import as_list, convert_input, convert_message, usage_details
from legato.compat.agent_framework.messages import AgentResponse, AgentResponseUpdate, Message
from legato.compat.agent_framework.middleware import AroundModels, AroundTools, MiddlewareTermination, of_kind, through
from legato.compat.agent_framework.providers import AgentSession, ContextProvider, after_run, contributes, warn_about_history_providers
from legato.compat.agent_framework.requests import decide, find_request, requests_from_session
from legato.compat.agent_framework.tools import as_tool, needs_approval
from legato.compat.agent_framework.unsupported_errors import check_arguments, mirrors
from legato.compat.agent_framework.updates import update_of
from legato.compat.gaps import explain
from legato.errors import BadInput, BuildError, ModelFailed
from legato.models.model import Model
from legato.runtime.clock import new_id
from legato.runtime.definition import Middleware
from legato.runtime.run import Result
from legato.stores import MemoryStore, Store
from legato.tools import Tool
from legato.workflow.agent import Agent as NativeAgent
from legato.workflow.builder import HandoffBuilder as NativeBuilder
from legato.workflow.workflow import Workflow as NativeWorkflow


@mirrors("Agent")
class Agent:
    """One participant: a client, instructions, tools. Immutable, and holds no conversation."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # `Agent[ChatOptions]`, as programs annotate it

    def __init__(
        self,
        client: _ChatClient | Model | str | None = None,
        instructions: str | None = None,
        *,
        id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        tools: Any = None,
        default_options: Mapping[str, Any] | None = None,
        context_providers: Sequence[ContextProvider] | ContextProvider | None = None,
        middleware: Sequence[Any] | None = None,
        chat_client: _ChatClient | Model | str | None = None,
        store: Store | None = None,
        **more: Any,
    ) -> None:
        options = {**(default_options or {}), **more}
        self.default_options = dict(options)
        self.client = client or chat_client
        self.id = id or name or "agent"
        self.name = name
        self.description = description
        self.context_providers = [context_providers] if isinstance(context_providers, ContextProvider) else list(context_providers or ())
        warn_about_history_providers(self.context_providers)
        self.middleware = [*(middleware or ()), *(self.client.middleware if isinstance(self.client, _ChatClient) else ())]
        self.agent_middleware = of_kind(self.middleware, "agent")
        hosted, usable = _split_tools(tools)
        output = options.pop("response_format", None)
        self.native = NativeAgent(
            name=resolve_agent_id(self),
            instructions=instructions or "",
            model=_model(self.client, options, hosted),
            tools=usable,
            description=description or "",
            output_type=output if isinstance(output, type) else str,
            context_providers=contributes(self, self.context_providers),
            middleware=[*after_run(self, self.context_providers), *self._list_middleware(usable)],
        )
        self.store: Store = store if store is not None else MemoryStore()

    def __repr__(self) -> str:
        return f"<Agent {resolve_agent_id(self)}>"

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing: an agent holds no connection."""

    def _list_middleware(self, tools: Sequence[Tool]) -> list[Middleware]:
        """The middleware around this agent's models and tools."""
        chats, functions = of_kind(self.middleware, "chat"), of_kind(self.middleware, "function")
        return [
            *(each for each in self.middleware if isinstance(each, Middleware)),
            *([AroundModels(chats, self.client)] if chats else []),
            *([AroundTools(functions, tools)] if functions else []),
        ]

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        """The name of a conversation with this agent."""
        return AgentSession(session_id=session_id)

    get_new_thread = create_session  # what it was called before

    def run(
        self,
        messages: Any = None,
        *,
        stream: bool = False,
        session: AgentSession | None = None,
        thread: AgentSession | None = None,
        function_invocation_kwargs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """Ask this agent: await an `AgentResponse`, or with `stream=True` iterate over updates.

        Without a session it is a conversation of its own, which is forgotten as soon as nothing in it waits for an approval.
        """
        check_arguments("Agent.run", more)
        named, kwargs = session or thread, function_invocation_kwargs or {}
        if self.agent_middleware:
            spoken = [each if isinstance(each, Message) else Message("user", [each]) for each in as_list(messages)]
            updates = self._wrapped(AgentContext(self, spoken, named, stream, function_invocation_kwargs=kwargs))
        else:
            updates = self._updates(messages, named, stream, kwargs)
        coming = ResponseStream(updates, _response)
        return coming if stream else coming.get_final_response()

    def run_stream(self, messages: Any = None, **more: Any) -> Any:
        """The same with `stream=True`, as it was written before."""
        return self.run(messages, stream=True, **more)

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_name: str = "task",
        arg_description: str | None = None,
        approval_mode: str = "never_require",
        stream_callback: Any = None,
        propagate_session: bool = False,
    ) -> Any:
        """This agent as a tool of another."""
        self.works_for_others("as a tool")
        if arg_name != "task" or arg_description is not None:
            explain("as_tool(arg_name=, arg_description=)", "the agent is given its task as `task`")
        if stream_callback is not None:
            explain("as_tool(stream_callback=)", "the agent's words are the tool's output; what it does is in its own session")
        if propagate_session:
            explain("as_tool(propagate_session=)", "the agent works in a session of its own, which the calling session knows")
        return replace(self.native.as_tool(name, description), needs_approval=needs_approval(approval_mode))

    def works_for_others(self, where: str) -> None:
        """`BuildError` if it has middleware that would not be called there: what that guards would stand open."""
        for each in self.agent_middleware:
            raise BuildError(
                f"agent middleware wraps agent.run(...), and is not called {where}",
                found=f"{each!r} of agent {resolve_agent_id(self)!r}"[:120],
                do="write it as chat middleware, or as a @legato.guardrail('input') of a native agent",
            )

    async def _wrapped(self, context: AgentContext) -> AsyncIterator[AgentResponseUpdate]:
        """A run with agent middleware around it."""

        async def run() -> None:
            updates = self._updates(context.messages, context.session, context.stream, context.function_invocation_kwargs)
            coming = ResponseStream(updates, _response)
            context.result = coming if context.stream else await coming.get_final_response()

        try:
            await through(self.agent_middleware, context, run)
        except MiddlewareTermination as ended:
            context.result = context.result if ended.result is None else ended.result
        if isinstance(context.result, ResponseStream):
            async for update in context.result:
                yield update
            context.result = await context.result.get_final_response()
        if context.result is not None and not isinstance(context.result, AgentResponse):
            raise BadInput("agent middleware sets an AgentResponse as context.result", found=repr(context.result)[:80])
        yield _Last(context.result or AgentResponse())

    async def _updates(
        self, messages: Any, named: AgentSession | None, stream: bool, kwargs: Mapping[str, Any]
    ) -> AsyncIterator[AgentResponseUpdate]:
        answers = _answers(messages)
        # A run without a session is found again by the requests that it left open: their ids begin with its name, which has no slash.
        id = named.session_id if named else next((each.partition("/")[0] for each in answers), "") or new_id()
        session = _alone(self.native, self.store).session(id, context=kwargs)
        if answers:
            await session.refresh()
            for asked, content in answers.items():
                await decide(session, find_request(session, asked.removeprefix(f"{id}/")), content)
            run = session.resume(stream)
        else:
            run = session.run(convert_input(messages), stream)
        async for event in run:
            if (update := update_of(event)) is not None:
                yield update
        result = await run
        if result.status == "failed":
            raise ModelFailed(result.error)
        yield _Last(_build_response(result))
        if named is None and result.status != "pending":
            await self.store.delete(id)


class _Last(AgentResponseUpdate):
    """The last update of a run: it has no words, names what is pending, and knows the whole answer."""

    def __init__(self, whole: AgentResponse) -> None:
        super().__init__(contents=whole.user_input_requests, finish_reason=whole.finish_reason)
        self.whole = whole


def _build_response(result: Result) -> AgentResponse:
    """Return the framework's response for a finished run of the session."""
    session = result.session
    asked = [
        replaced(each.data, f"{session.id}/{each.request_id}") for each in requests_from_session(session).values() if is_approval(each.data)
    ]
    new = [convert_message(message) for message in result.messages if message.role == "assistant"]
    return AgentResponse(
        messages=[*new, *([Message("assistant", asked)] if asked else [])],
        agent_id=session.workflow.agents[0],
        finish_reason={"filter": "content_filter"}.get(result.finish, result.finish),
        usage_details=usage_details(result.usage),
        value=None if isinstance(result.output, str) else result.output,
    )


def is_approval(data: Any) -> bool:
    return isinstance(data, Content) and data.type == "function_approval_request"


def replaced(request: Content, id: str) -> Content:
    """The same request under another id."""
    assert request.function_call is not None
    return Content.from_function_approval_request(id, request.function_call)


def _response(updates: list[AgentResponseUpdate]) -> AgentResponse:
    rest = updates[-1] if updates else None
    return rest.whole if isinstance(rest, _Last) else AgentResponse()


def _answers(messages: Any) -> dict[str, Content]:
    """The answers to approval requests among what was handed to `run`."""
    contents = [content for each in as_list(messages) for content in (each.contents if isinstance(each, Message) else [each])]
    return {
        content.id: content
        for content in contents
        if isinstance(content, Content) and content.type == "function_approval_response" and content.id
    }


def _alone(agent: NativeAgent, store: Store) -> NativeWorkflow:
    return NativeBuilder(name=agent.name, participants=[agent]).with_checkpointing(store).build()


def _model(client: _ChatClient | Model | str | None, options: Mapping[str, Any], hosted: tuple[dict[str, Any], ...]) -> Model | str | None:
    if isinstance(client, _ChatClient):
        return client.native({**options, **({"hosted": hosted} if hosted else {})})
    if options or hosted:
        raise BadInput("a native model has its options already", found=", ".join([*options, *["tools"] * bool(hosted)]))
    return client


def _split_tools(tools: Any) -> tuple[tuple[dict[str, Any], ...], list[Tool]]:
    """Those that the provider runs by itself, and ours. One may be given without a list around it."""
    given = [tools] if callable(tools) or isinstance(tools, Mapping) else list(tools or ())
    hosted = tuple(dict(each) for each in given if isinstance(each, Mapping))
    return hosted, [as_tool(each) for each in given if not isinstance(each, Mapping)]


def resolve_agent_id(agent: Any) -> str:
    """The name by which a workflow knows an agent."""
    name: str = agent.name or agent.id
    return name
