"""Everything that the SDK has in public is here, or says what to write instead: its public names, walked over one by one."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import legato.compat.agents as facade
from legato.compat import migration
from legato.compat.agents import (
    Agent,
    AgentHooks,
    AgentOutputSchema,
    AgentsException,
    FunctionTool,
    GuardrailFunctionOutput,
    HandoffInputData,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    MaxTurnsExceeded,
    MeansNothingHere,
    ModelBehaviorError,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
    ReasoningItem,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    ToolContext,
    Usage,
    UserError,
    function_tool,
    handoff,
)
from legato.compat.agents.unsupported_errors import NameNotHere, NotHere, check_arguments
from legato.compat.gaps import explain
from tests.compat.agents.conftest import Provider
from tests.compat.agents.desk import Shop, desk, fake_model
from tests.compat.agents.public_names import HERE, NOT_HERE, PARAMETERS, PARTS

ROOT = Path(__file__).parents[3]
SAME_PLACE = (
    "agent",
    "agent_output",
    "exceptions",
    "guardrail",
    "handoffs",
    "items",
    "lifecycle",
    "memory",
    "model_settings",
    "models",
    "result",
    "run",
    "run_config",
    "run_context",
    "run_state",
    "stream_events",
    "tool",
    "tool_context",
    "tracing",
    "usage",
    "extensions.handoff_filters",
    "extensions.handoff_prompt",
)


def each(table: dict[str, dict[str, str]], standing: str) -> list[tuple[str, str]]:
    return [(owner, name) for owner, parts in table.items() for name in parts.get(standing, "").split()]


# -- names of the package ---------------------------------------------------------------------------------------------------


def test_every_package_name_exists_or_names_its_replacement() -> None:
    assert set(HERE.split()) <= set(facade.__all__)
    assert set(NOT_HERE.split()) == set(facade.NOT_HERE)
    assert not set(HERE.split()) & set(NOT_HERE.split())


@pytest.mark.parametrize("module", ["legato.compat.agents", "legato.compat.agents.tool", "legato.compat.agents.memory"])
def test_importing_an_unsupported_name_explains_it(module: str) -> None:
    with pytest.raises(NameNotHere, match=r"WebSearchTool is not here: .*OpenAIResponses"):
        exec(f"from {module} import WebSearchTool")
    with pytest.raises(UserError):
        importlib.import_module(module).Session
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):  # a mistake stays a mistake
        exec(f"from {module} import Nonsense")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("from legato.compat.agents.mcp import MCPServerStdio", "legato.mcp.MCPServer"),
        ("from legato.compat.agents.realtime import RealtimeAgent", "in words"),
        ("from legato.compat.agents.voice import VoicePipeline", "in words"),
        ("from legato.compat.agents.extensions.memory import SQLAlchemySession", "SQLiteSession"),
        ("from legato.compat.agents.extensions.models import litellm_model", "Anthropic"),
        ("from legato.compat.agents.extensions.visualization import draw_graph", "Mermaid"),
    ],
)
def test_importing_from_an_unsupported_module_explains_it(written: str, told: str) -> None:
    with pytest.raises(NameNotHere, match=told):
        exec(written)


@pytest.mark.parametrize("module", SAME_PLACE)
def test_names_are_in_the_sdks_modules(module: str) -> None:
    found = importlib.import_module(f"legato.compat.agents.{module}")
    for name in getattr(found, "__all__", ()):
        assert getattr(found, name) is getattr(facade, name, getattr(found, name))


# -- parts of classes -------------------------------------------------------------------------------------------------------


async def samples(provider: Provider) -> dict[str, Any]:
    """One of each, as a program meets it."""
    provider(fake_model)
    streamed = Runner.run_streamed(desk(), "I want my money back for A-1 and B-2.", context=Shop("Ladle & Co"))
    events = [event async for event in streamed.stream_events()]
    result = await Runner.run(desk(), "I want my money back for A-1 and B-2.", context=Shop("Ladle & Co"))
    state = result.to_state()
    state.reject(result.interruptions[0])
    done = Runner.run_streamed(desk(), state)
    events += [event async for event in done.stream_events()]
    agent, output = Agent[Any](name="clerk"), GuardrailFunctionOutput(None, True)
    came = InputGuardrailResult(InputGuardrail(len), output)
    went = OutputGuardrailResult(OutputGuardrail(len), "", agent, output)
    made = [
        agent, AgentHooks(), AgentOutputSchema(list[int]), AgentsException(), FunctionTool("f", "", {}, len), output, came.guardrail,
        handoff(agent), HandoffInputData((), (), ()), came, InputGuardrailTripwireTriggered(came), MaxTurnsExceeded(""),
        ModelBehaviorError(""), result.raw_responses[0], ModelSettings(), OpenAIChatCompletionsModel("m"), OpenAIResponsesModel("m"),
        went.guardrail, went, OutputGuardrailTripwireTriggered(went), ReasoningItem(agent, None), RunConfig(), result.context_wrapper,
        RunHooks(), result, streamed, state, Runner(), SQLiteSession("s"), ToolContext(None), Usage(), UserError(""),
        *events, *[event.item for event in events if event.type == "run_item_stream_event"], *result.interruptions,
    ]  # fmt: skip
    return {"ItemHelpers": ItemHelpers, **{type(one).__name__: one for one in made}}


async def test_every_class_part_exists_or_names_its_replacement(provider: Provider) -> None:
    made = await samples(provider)
    assert set(PARTS) <= set(made)
    for owner, name in each(PARTS, "here"):
        assert hasattr(made[owner], name), f"{owner}.{name}"
    for owner, name in [*each(PARTS, "instead"), *each(PARTS, "nothing")]:
        assert not hasattr(made[owner], name), f"{owner}.{name}"
        with pytest.raises(NotHere, match=rf"{name} is not here: \w+"):
            getattr(made[owner], name)
    for one in made.values():
        with pytest.raises(AttributeError, match="nonsense"):  # a mistake stays a mistake
            one.nonsense


# -- arguments --------------------------------------------------------------------------------------------------------------


def test_every_argument_works_or_names_its_replacement() -> None:
    explain.cache_clear()
    for owner, name in each(PARAMETERS, "here"):
        target: Any = facade
        for step in owner.split("."):
            target = getattr(target, step)
        taken = inspect.signature(target).parameters
        assert name in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values()), f"{owner}({name}=)"
    for owner, name in each(PARAMETERS, "instead"):
        with pytest.raises(UserError, match=rf"\({name}=...\) is not here: \w+"):
            check_arguments(find_mirrored_names(owner), {name: object()})
    for owner, name in each(PARAMETERS, "nothing"):
        explain.cache_clear()
        with pytest.warns(MeansNothingHere, match=rf"\({name}=...\) means nothing here: \w+"):
            check_arguments(find_mirrored_names(owner), {name: object()})


def find_mirrored_names(owner: str) -> tuple[str, ...]:
    """Return the names of the SDK's classes whose rows of the table apply."""
    kind = getattr(facade, owner, None)
    if owner.startswith("Runner.run"):
        return ("Runner.run",)
    return tuple(vars(each)["__mirrors__"] for each in kind.__mro__ if "__mirrors__" in vars(each)) if isinstance(kind, type) else (owner,)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: RunConfig(sandbox=object()), "RunConfig\\(sandbox"),
        (lambda: FunctionTool("f", "", {}, len, tool_input_guardrails=[len]), "@guardrail"),
        (lambda: function_tool(tool_output_guardrails=[len]), "@guardrail"),
        (lambda: facade.Handoff(tool_name="t", input_json_schema={}, on_invoke_handoff=len, agent_name="a"), "handoff"),
        (lambda: facade.RunState(object(), original_input="Hi", starting_agent=None), "to_state"),
        (lambda: facade.RunResult(input="Hi", new_items=[1]), "Runner.run"),
        (lambda: ModelSettings(context_management=[1]), "summarised"),
        (lambda: Agent(name="a").as_tool("t", "d", on_stream=len), "run_streamed"),
        (lambda: SQLiteSession("s", session_settings=object()), "legato.history"),
        (lambda: OpenAIResponsesModel("m").get_response(), "docs/agents.md#your-own-model"),
    ],
)
def test_unsupported_arguments_are_refused_at_the_call(make: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        make()
    with pytest.raises(TypeError, match="nonsense"):  # a mistake stays a mistake
        RunConfig(nonsense=1)


def test_redundant_or_unset_arguments_pass_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function_tool(timeout_behavior="error_as_result", defer_loading=False, strict_mode=None, tool_input_guardrails=None)
        RunConfig(tool_not_found_behavior="return_error_to_model", tool_name_collision_policy="error", session_settings=None)


def test_strict_mode_warns_once_at_its_line() -> None:
    explain.cache_clear()

    def look() -> str:
        """Look."""
        return ""

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            function_tool(look, strict_mode=True)
            FunctionTool("f", "", {}, len, strict_json_schema=True)
    assert [(each.category, Path(each.filename).name) for each in caught] == [(MeansNothingHere, "test_public_names.py")] * 2
    assert "no schema is sent as strict" in str(caught[0].message)


# -- what is pointed to ------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_messages_point_to_pages_that_explain_them() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/legato/compat").rglob("*.py")]
    pointers = {match for source in sources for match in re.findall(r"docs/[\w/.-]+\.md(?:#[\w-]+)?", source)}
    assert len(pointers) > 10
    for pointer in pointers:
        page, _, anchor = pointer.partition("#")
        assert (ROOT / page).is_file(), pointer
        assert not anchor or anchor in anchors(ROOT / page), pointer


def test_every_replacement_text_points_somewhere() -> None:
    done = migration.migrate_program("from agents import Agent, Session, ShellTool, Nonsense\n", migration.covered_names())
    told = {name.name: name.instead for name in done.missing}
    assert "SQLiteSession" in told["Session"]
    assert "@function_tool" in told["ShellTool"]
    assert told["Nonsense"].startswith("there is no counterpart; docs/migrate/openai-agents.md#names lists what is covered")
    done = migration.migrate_program("from agent_framework import Nonsense\n", migration.covered_names())
    assert "docs/migrate/agent-framework.md#names" in done.missing[0].instead
