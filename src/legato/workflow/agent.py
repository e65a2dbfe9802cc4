"""Agents, as users define them, and the decorator of guardrails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from legato.core.argument_checks import require_function, require_list, require_text, require_whole_number
from legato.core.history_policies import Summarised
from legato.core.limits import Limits
from legato.core.secret_arguments import SecretNames
from legato.core.workflow_graph import AgentRules, HandoffEdge, ToolRules
from legato.errors import BadInput, BuildError
from legato.models.model import Model, resolve
from legato.models.model_names import parse_model_name
from legato.runtime.definition import AgentDefinition, ContextProvider, Guardrail, History, Middleware, OutputType
from legato.tools import Tool, tool
from legato.workflow.agent_as_tool import make_workflow_tool

if TYPE_CHECKING:
    from legato.runtime.run import Result, Run
    from legato.workflow.workflow import Workflow


class Agent:
    """An agent: a name, instructions, a model and tools. It is immutable and has no conversation.

    `instructions` is text, or a function of the user's context. `output_type` is a pydantic model (or any type pydantic knows): final
    replies are validated against it, and the model is told about errors up to `output_retries` times.

    >>> from legato.testing import ScriptedModel
    >>> triage = Agent(name="triage", instructions="Route the customer.", model=ScriptedModel(["Hello!"]))
    >>> triage
    <Agent triage: 0 tools>
    >>> triage.run_sync("Hi").text
    'Hello!'
    """

    def __init__(
        self,
        name: str,
        instructions: str | Callable[[Any], Any] = "",
        model: Model | str | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        description: str = "",
        output_type: Any = str,
        history: History | None = None,
        context_providers: Sequence[ContextProvider] = (),
        middleware: Sequence[Middleware] = (),
        guardrails: Sequence[Guardrail] = (),
        output_retries: int = 2,
    ) -> None:
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
            raise BadInput(
                "this cannot be the name of an agent",
                expected="1 to 200 printable characters",
                found=repr(name)[:80],
                do='write Agent(name="triage", ...)',
            )
        if not isinstance(instructions, str) and not callable(instructions):
            raise BadInput(
                f"the instructions of agent {name!r} are neither text nor a function of the context",
                found=type(instructions).__name__,
            )
        self.name = name
        self.instructions = instructions
        self.model = model
        if isinstance(model, str):
            parse_model_name(model, f"agent {name!r}")
        self.tools = _parse_tools(name, tools)
        self.description = require_text(f"the description of agent {name!r}", description)
        self.output_type = output_type
        self.history = _require_history(name, history)
        self.context_providers = require_list(f"the context providers of agent {name!r}", context_providers)
        self.middleware = require_list(f"the middleware of agent {name!r}", middleware)
        self.guardrails = require_list(f"the guardrails of agent {name!r}", guardrails)
        self.output_retries = require_whole_number(f"output_retries of agent {name!r}", output_retries, 0)
        for provider in self.context_providers:
            require_function(f"a context provider of agent {name!r}", provider)
        self._own_workflow: Workflow | None = None
        for each in self.middleware:
            if isinstance(each, type) or not isinstance(each, Middleware):
                raise BadInput(
                    f"agent {name!r}: middleware= takes objects of classes derived from Middleware",
                    found=repr(each)[:80],
                    do="write middleware=[MyMiddleware()]",
                )
        for guardrail in self.guardrails:
            if not isinstance(guardrail, Guardrail):
                raise BadInput(
                    f"agent {name!r}: a guardrail is made by @guardrail",
                    found=type(guardrail).__name__,
                    do='write @guardrail("input") above the function',
                )

    def __repr__(self) -> str:
        return f"<Agent {self.name}: {len(self.tools)} tool{'s' if len(self.tools) != 1 else ''}>"

    def run(self, message: Any, stream: bool = False, session_id: str | None = None) -> Run:
        """Run this agent alone, in a conversation of its own: await the result, or iterate over events."""
        return self._as_workflow().run(message, session_id=session_id, stream=stream)

    def run_sync(self, message: Any, session_id: str | None = None) -> Result:
        """Run like `run`, and return the result; for scripts without an event loop."""
        return self._as_workflow().run_sync(message, session_id=session_id)

    def _as_workflow(self, limits: Limits | None = None) -> Workflow:
        from legato.workflow.builder import HandoffBuilder

        if limits is not None:
            if not isinstance(limits, Limits):
                raise BuildError("as_tool takes Limits", found=type(limits).__name__, do="write as_tool(limits=Limits(turns=50))")
            return HandoffBuilder(name=self.name, participants=[self]).with_limits(limits).build()
        if self._own_workflow is None:
            self._own_workflow = HandoffBuilder(name=self.name, participants=[self]).build()
        return self._own_workflow

    def as_tool(self, name: str | None = None, description: str | None = None, *, limits: Limits | None = None) -> Tool:
        """Return this agent as a tool of other agents, which takes a task, works in a child session, and returns the reply.

        The child session has the id `<parent session>/<idempotency key of the call>`, in the same store. So a restart continues it, and a
        session that is deleted and created again under its id does not. Its requests to people are pending in the parent session, and are
        answered there.

        Its usage counts in the usage and limits of the parent session. `limits` are its own limits for each task; a request about a
        reached limit is pending in the parent session too.

        >>> Agent("poet", model="openai:gpt-5.1").as_tool(limits=Limits(turns=5)).name
        'ask_poet'
        """
        tool_name = require_text(f"the name of agent {self.name!r} as a tool", name or "ask_" + _to_tool_name(self.name))
        tool_description = description or self.description or f"Give a task to {self.name} and get its answer."
        return make_workflow_tool(self._as_workflow(limits), tool_name[:64], tool_description)

    # -- for the plan and the driver -----------------------------------------------------------------------------------

    def make_rules(self, edges: dict[str, HandoffEdge], autonomous: bool, prompt: str, prompt_limit: int) -> AgentRules:
        """Return the rules of this agent, which the plan depends on."""
        checked = {guardrail.on for guardrail in self.guardrails}
        summary = self.history.policy if isinstance(self.history.policy, Summarised) else None
        return AgentRules(
            name=self.name,
            tools={
                each.name: ToolRules(
                    each.name,
                    needs_check=bool(each.needs_approval) or "tool" in checked,
                    idempotent=each.idempotent,
                    alone=each.alone,
                    deferred=each.deferred,
                    secrets=_find_secrets(each),
                )
                for each in self.tools
            },
            edges=edges,
            has_input_guardrails="input" in checked,
            has_output_type=self.output_type is not str,
            checks_output=self.output_type is not str or "output" in checked,
            output_retries=self.output_retries,
            autonomous=autonomous,
            prompt=prompt,
            prompt_limit=prompt_limit,
            summarise_above=summary.tokens if summary else 0,
            keep_turns=summary.keep if summary else 0,
        )

    def make_definition(self) -> AgentDefinition:
        """Return the definition of this agent, for drivers."""
        return AgentDefinition(
            name=self.name,
            instructions=self.instructions,
            model=resolve(self.model, f"agent {self.name!r}"),
            tools={each.name: each for each in self.tools},
            history=self.history,
            output_type=make_output_type(self.output_type) if self.output_type is not str else None,
            context_providers=self.context_providers,
            middleware=self.middleware,
            guardrails=self.guardrails,
            description=self.description,
        )


def make_output_type(type_: Any) -> OutputType:
    """Return the schema and the parser of a type; `BadInput` if pydantic does not support it."""
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(type_)
        schema = msgspec.json.encode(adapter.json_schema()).decode()
    except Exception as error:  # pydantic documents its errors for types, and not for other values
        raise BadInput(f"{type_!r} cannot be an output type: {error}", do="give a pydantic model or a plain type") from error

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'reply'}: {each['msg']}" for each in error.errors()[:5])
            raise ValueError(f"it does not fit the expected type. {problems}") from None

    return OutputType(schema, parse)


def _parse_tools(agent: str, value: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    if isinstance(value, Tool) or not isinstance(value, Iterable):
        raise BuildError(f"agent {agent!r}: tools= takes a list", found=repr(value)[:80], do="write tools=[...]")
    tools = tuple(
        each if isinstance(each, Tool) else tool(require_function(f"a tool of agent {agent!r}", each, BuildError)) for each in value
    )
    for each in tools:
        require_text(f"the description of tool {each.name!r}", each.description, BuildError)
    names = [each.name for each in tools]
    for name in names:
        if names.count(name) > 1:
            raise BuildError(f"agent {agent!r} has two tools named {name!r}", do=f'give one another name: @tool(name="{name[:62]}_2")')
    return tools


def _find_secrets(tool: Tool) -> tuple[str, ...]:
    if not tool.secrets:
        return ()
    return SecretNames(sorted(tool.secrets), visible_names=msgspec.json.decode(tool.parameters).get("properties", {}).keys() - tool.secrets)


def _to_tool_name(name: str) -> str:
    return "".join(char if char.isalnum() and char.isascii() else "_" for char in name)


def _require_history(agent: str, history: Any) -> History:
    if history is None:
        return History()
    if not isinstance(history, History):
        raise BadInput(
            f"agent {agent!r}: history= takes a policy", found=type(history).__name__, do="write history=legato.history.dialogue()"
        )
    return history


def guardrail(on: str) -> Callable[[Callable[..., Any]], Guardrail]:
    """Make a function (sync or async) a guardrail on "input", "output" or "tool".

    The function receives the user's context, and the message's text, the reply's output or the call. It returns None or True to let it
    pass, and a reason (or False) to object. The verdict is recorded, and the function is not called again for it.

    >>> @guardrail("input")
    ... def no_card_numbers(context, text):
    ...     return "Please do not send card numbers." if "4111" in text else None
    >>> no_card_numbers.on
    'input'
    """
    if on not in ("input", "output", "tool"):
        raise BadInput('a guardrail is on "input", "output" or "tool"', found=repr(on), do='write @guardrail("input")')
    return lambda function: Guardrail(on, require_function("a guardrail", function))
