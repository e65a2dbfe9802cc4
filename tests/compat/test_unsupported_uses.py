"""`legato migrate` tells what a program uses of covered classes and will not find here. It says nothing that is not certain."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from legato.compat import MeansNothingHere, agents
from legato.compat.migration import covered_names, facades, migrate_program
from legato.compat.migration.advice_texts import MEANS_NOTHING
from legato.errors import LegatoError
from legato.testing import ScriptedModel

TESTS = Path(__file__).parent.parent
HEAD = """
from agent_framework import Agent as FrameworkAgent, HandoffBuilder, OpenAIResponsesClient, InMemoryCheckpointStorage, FileCheckpointStorage
from agents import Agent, ItemHelpers, ModelSettings, RunConfig, Runner, RunResult, SQLiteSession, function_tool
import agents as sdk
workflow = HandoffBuilder(name="desk", participants=[]).with_start_agent("triage").build()
"""


def uses(program: str) -> list[str]:
    """`Class.attribute`; with a `~` what is accepted."""
    found = migrate_program(HEAD + program, covered_names()).uses
    assert all(use.instead for use in found)
    return [("~" if use.accepted else "") + use.use for use in found]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("workflow.something_unknown", "Workflow.something_unknown"),
        ("HandoffBuilder(name='x')\\\n  .with_nothing(1)\\\n  .build()", "HandoffBuilder.with_nothing"),
        ("async def f():\n  async for event in workflow.run_stream('x'):\n    print(event.type, event.nothing)", "WorkflowEvent.nothing"),
        ("async def f():\n  for event in await workflow.run('x'):\n    event.nothing", "WorkflowEvent.nothing"),
        ("async def f():\n  (await workflow.run('x')).get_nothing()", "WorkflowRunResult.get_nothing"),
        ("async def f():\n  result = await Runner.run(Agent(name='x'), 'x')\n  result.nothing", "RunResult.nothing"),
        ("async def f():\n  result = await sdk.Runner.run(sdk.Agent(name='x'), 'x')\n  result.nothing", "RunResult.nothing"),
        ("result = None\nresult = Runner.run_sync(Agent(name='x'), 'x')\nresult.nothing", "RunResult.nothing"),
        ("for item in Runner.run_sync(Agent(name='x'), 'x').new_items:\n  item.nothing", "RunItem.nothing"),
        ("def f(result: RunResult): return [each.nothing for each in result.interruptions]", "ToolApprovalItem.nothing"),
        ("def f(result: 'RunResult | None'): result.nothing", "RunResult.nothing"),
        ("agent = Agent[int](name='x'); agent.nothing", "Agent.nothing"),
        ("Runner.run_everything()", "Runner.run_everything"),
        ("Agent(name='x')._secret", "Agent._secret"),
        ("try:\n  pass\nexcept sdk.MaxTurnsExceeded as error:\n  error.nothing", "MaxTurnsExceeded.nothing"),
        ("if workflow:\n  thing = Agent(name='x')\nelse:\n  thing = RunConfig()\nthing.nothing", "Agent.nothing"),
        # -- arguments
        ("RunConfig(tracing_disabled=True)", "~RunConfig(tracing_disabled=...)"),
        ("RunConfig(\n  nothing=1,\n)", "RunConfig(nothing=...)"),
        ("Agent(name='x', mcp_servers=[object()])", "Agent(mcp_servers=...)"),
        ("RunConfig(sandbox=object())", "RunConfig(sandbox=...)"),
        ("RunConfig(reasoning_item_id_policy='omit')", "~RunConfig(reasoning_item_id_policy=...)"),
        ("Runner.run_sync(Agent(name='x'), 'x', error_handlers={1: 2})", "Runner.run_sync(error_handlers=...)"),
        ("@function_tool(docstring_style='google')\ndef f(): ...", "~function_tool(docstring_style=...)"),
        ("Runner.run_sync(Agent(name='x'), 'x', nothing=1)", "Runner.run_sync(nothing=...)"),
        ("workflow.run_stream('x', nothing=1)", "Workflow.run_stream(nothing=...)"),
        ("HandoffBuilder(nothing=1)", "HandoffBuilder(nothing=...)"),
        ("HandoffBuilder(participant_factories={'a': print})", "HandoffBuilder(participant_factories=...)"),
        ("OpenAIResponsesClient('m').as_agent().run('x', options={'a': 1})", "Agent.run(options=...)"),
        ("OpenAIResponsesClient('m').as_agent().run_stream('x', tools=[print])", "Agent.run_stream(tools=...)"),
        ("HandoffBuilder(output_from=[1])", "~HandoffBuilder(output_from=...)"),
        ("OpenAIResponsesClient(model='m', env_file_path='.env')", "~OpenAIResponsesClient(env_file_path=...)"),
        ("OpenAIResponsesClient(model='m').as_agent(tokenizer=1)", "~OpenAIResponsesClient.as_agent(tokenizer=...)"),
        (
            "(FileCheckpointStorage('x') if workflow else InMemoryCheckpointStorage()).list_checkpoints()",
            "FileCheckpointStorage.list_checkpoints(...)",
        ),
        ("SQLiteSession()", "SQLiteSession(...)"),
    ],
)
def test_what_is_used_and_not_here_is_told(program: str, told: str) -> None:
    facades.try_argument.cache_clear()
    reset_warnings()
    assert uses(program) == [told]


@pytest.mark.parametrize(
    "program",
    [
        "somebody.something",
        "def f(workflow): workflow.something",
        "workflow.something = 1\nworkflow.something",
        "setattr(workflow, 'something', 1)\nworkflow.something",
        "class Mine(Agent):\n  def more(self): ...\nMine(name='x').more()\ndef f(agent: Agent): agent.more()",
        "agent = Agent(name='x')\nagent = something()\nagent.more",
        "agent = Agent(name='x')\nfor agent in agents_of_mine:\n  agent.more",
        "def f():\n  global agent\n  agent = 7\nagent = Agent(name='x')\nagent.more",
        "agent, other = Agent(name='x'), 7\nother.more",
        "agent, *rest = everybody()\nagent.more",
        "with Agent(name='x') as agent:\n  agent.more",
        "if hasattr(workflow, 'more'): workflow.more",
        "if isinstance(workflow, Other): workflow.more",
        "match workflow:\n  case Other(): workflow.more",
        "try:\n  workflow.more\nexcept AttributeError:\n  pass",
        "Agent(name='x', hooks=None)\nAgent(name='x', hooks=mine())\nRunConfig(tracing_disabled=False)",
        "RunConfig(call_model_input_filter=None, tracing=None)",
        "Agent(**options)\nRunConfig(**options)\nSQLiteSession(*arguments)",
        "FrameworkAgent(client=None, temperature=0.2, anything=1)",
        "async def f():\n  async for event in workflow.run_stream('x'):\n    event.data.whatever.it.has",
        "item = Runner.run_sync(Agent(name='x'), 'x').new_items[0]\nitem.output, item.target_agent, item.raw_item.whatever",
        "result = Runner.run_streamed(Agent(name='x'), 'x')\nresult.final_output, result.is_complete, result.context_wrapper",
        "from agents import Nobody\nNobody(1).more",
        "Agent = mine()\nAgent(more=1).more",
        "workflow.__class__, workflow.__dict__, Agent.__name__, Agent.mro()",
        "state = 1\nstate += Agent(name='x')\nstate.more",
        "a = b\nb = a\na.more",
        "x = x.y",
    ],
)
def test_what_is_not_certain_is_not_told(program: str) -> None:
    assert uses(program) == []


def test_reported_line_is_the_names_own() -> None:
    chain = "(\n  HandoffBuilder(\n    name='x',\n    nothing=1,\n  )\n  .with_start_agent('a')\n  .with_nothing()\n)"
    found = migrate_program(HEAD + chain, covered_names()).uses
    lines = [(use.use, use.line - HEAD.count("\n")) for use in found]
    assert lines == [("HandoffBuilder(nothing=...)", 4), ("HandoffBuilder.with_nothing", 7)]


def test_migrated_program_is_checked_too() -> None:
    moved = migrate_program(HEAD + "workflow.nothing", covered_names()).program
    assert "legato.compat" in moved
    assert [use.use for use in migrate_program(moved, covered_names()).uses] == ["Workflow.nothing"]


def test_running_programs_have_no_unsupported_uses() -> None:
    """Programs that run here have no findings; those of the seeds have the true ones."""
    covered = covered_names()
    ours = [*TESTS.glob("compat/*/samples/*.py"), *TESTS.glob("compat/samples/*.py"), *TESTS.glob("seeds/programs/*.txt")]
    assert len(ours) > 25
    for path in ours:
        assert migrate_program(path.read_text(), covered).uses == (), path.name
    for name, expected in (("000", []), ("001", []), ("002", []), ("003", ["FileCheckpointStorage.list_checkpoints(...)"])):
        found = migrate_program((TESTS / "seeds" / "before" / f"seed_{name}.py").read_text(), covered).uses
        assert [use.use for use in found] == expected


def test_facade_explains_its_own_missing_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def __get__(self, instance: object, owner: type) -> Any:
            raise AttributeError("RunResult.trace is not here: look at the ledger")

    Absent.__module__ = "legato.compat.absent"
    monkeypatch.setattr(agents.RunResult, "shape", Absent(), raising=False)
    monkeypatch.setattr(agents.RunConfig, "__getattr__", lambda self, name: exceptions_of(name), raising=False)
    told = migrate_program(HEAD + "Runner.run_sync(Agent(name='x'), 'x').shape\nRunConfig().shape", covered_names()).uses
    assert [use.instead for use in told] == ["look at the ledger", "write less"]


def exceptions_of(name: str) -> Any:
    raise LegatoError(f"there is no {name}", do="write less")


# -- the words are true ------------------------------------------------------------------------------------------------------


def reset_warnings() -> None:
    """Let each warning that is emitted once be emitted again."""
    from legato.compat.gaps import explain

    explain.cache_clear()


def use_it(use: str) -> None:
    """Use what a key of the table names, and let it run where that is what looks at it."""
    target, _, argument = use.removesuffix(")").partition("(")
    given: dict[str, Any] = {argument: ["something"]}
    match target:
        case "RunConfig":
            agent = agents.Agent(name="a", model=ScriptedModel(["Hello."]))
            asyncio.run(agents.Runner.run(agent, "Hi", run_config=agents.RunConfig(**given)))
        case "SQLiteSession":
            agents.SQLiteSession("s", **given)
        case "InputGuardrail":
            agents.InputGuardrail(print, **given)
        case name:
            getattr(agents, name)(**given)


@pytest.mark.parametrize("use", MEANS_NOTHING)
def test_what_is_said_to_mean_nothing_is_accepted(use: str) -> None:
    reset_warnings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeansNothingHere)
        use_it(use)


# -- the command -------------------------------------------------------------------------------------------------------------


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "legato.cli", "migrate"]
    return subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_command_reports_uses_and_still_writes_imports(tmp_path: Path) -> None:
    """The command lists uses, counts those that are not covered, and writes the imports all the same."""
    path = tmp_path / "desk.py"
    path.write_text("from agents import Agent, RunConfig\nRunConfig(tracing_disabled=True)\n")
    done = command(path)
    assert done.returncode == 0, "what means nothing does no harm"
    assert "accepted, means nothing here: RunConfig(tracing_disabled=...) (line 2): nothing is traced" in done.stderr
    path.write_text("from agents import Agent, RunConfig\nAgent(name='x').nothing\n")
    told = json.loads(command(path, "--json").stdout)[0]
    assert [(use["use"], use["line"], use["accepted"]) for use in told["uses"]] == [("Agent.nothing", 2, False)]
    done = command(path, "--write")
    assert done.returncode == 1
    assert "used and not covered: Agent.nothing (line 2): " in done.stderr
    assert path.read_text().startswith("from legato.compat.agents import Agent")
    again = command(path)
    assert again.returncode == 1
    assert "OpenAI Agents SDK" in again.stderr
