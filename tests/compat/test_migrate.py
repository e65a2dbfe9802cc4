"""`legato migrate`: programs are read, never run; nothing but their imports changes."""

from __future__ import annotations

import ast
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from legato.compat.migration import Migration, covered_names, facades, migrate_program, programs
from legato.errors import BadInput

COVERED = {
    "agent_framework": {
        "Agent",
        "AgentResponseUpdate",
        "AzureOpenAIResponsesClient",
        "HandoffBuilder",
        "Message",
        "resolve_agent_id",
        "tool",
    },
    "agents": {"Agent", "RunContextWrapper", "RunState", "Runner", "function_tool"},
    "agents.extensions.handoff_filters": {"remove_all_tools"},
}
SEEDS = Path(__file__).parent.parent / "seeds" / "before"


def move(source: str, **more: list[str]) -> Migration:
    return migrate_program(source, COVERED, **more)


# -- what changes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from agents import Agent", "from legato.compat.agents import Agent"),
        ("from agents import Agent as A, Runner  # why", "from legato.compat.agents import Agent as A, Runner  # why"),
        ("from agent_framework.azure import tool", "from legato.compat.agent_framework import tool"),
        ("from agent_framework . azure import tool", "from legato.compat.agent_framework import tool"),
        (
            "from agents import (  # two\n    Agent,  # one\n    Runner,\n)\n",
            "from legato.compat.agents import (  # two\n    Agent,  # one\n    Runner,\n)\n",
        ),
        ("from agents import \\\n    Agent\n", "from legato.compat.agents import \\\n    Agent\n"),
        ("from \\\n  agents import Agent\n", "from legato.compat.agents import Agent\n"),
        ("import os, agents, sys\nagents.Agent()", "import os, legato.compat.agents as agents, sys\nagents.Agent()"),
        ("import agents as sdk\nsdk.Runner.run()", "import legato.compat.agents as sdk\nsdk.Runner.run()"),
        (
            "from agents.extensions.handoff_filters import remove_all_tools",
            "from legato.compat.agents.extensions.handoff_filters import remove_all_tools",
        ),
        ("def f():\n\tfrom agents import Agent\n\treturn Agent", "def f():\n\tfrom legato.compat.agents import Agent\n\treturn Agent"),
        ("x = 'ä'; from agents import Agent; y = 'ö'", "x = 'ä'; from legato.compat.agents import Agent; y = 'ö'"),
        ("a = 1\r\nfrom agents import Agent\r\nb = 2\r\n", "a = 1\r\nfrom legato.compat.agents import Agent\r\nb = 2\r\n"),
        ("a = '\x0c'\nfrom agents import Agent", "a = '\x0c'\nfrom legato.compat.agents import Agent"),
        ("if True: from agents import Agent", "if True: from legato.compat.agents import Agent"),
        (
            "try:\n    from agents import Agent\nexcept ImportError:\n    pass",
            "try:\n    from legato.compat.agents import Agent\nexcept ImportError:\n    pass",
        ),
    ],
)
def test_imports_are_changed_and_nothing_else(before: str, after: str) -> None:
    done = move(before)
    assert done.program == after
    assert done.missing == []
    ast.parse(done.program)


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from .agents import Agent",
        "from . import agents",
        "from my.agents import Agent",
        "import my.agents as agents\nagents.Agent()",
        "text = 'from agents import Agent'",
        "# from agents import Agent",
        "from agents_of_mine import Agent",
        "",
    ],
)
def test_what_only_looks_like_it_is_left_alone(source: str) -> None:
    done = move(source)
    assert done.program == source
    assert done.names == ()


def test_uncovered_imports_stay_and_name_replacements() -> None:
    done = move("if True:\n    from agents import (\n        Agent,  # ours\n        WebSearchTool,\n        trace,\n    )\n")
    assert done.program == (
        "if True:\n    # ours\n    from legato.compat.agents import Agent\n    from agents import WebSearchTool, trace\n"
    )
    ast.parse(done.program)
    assert [(name.name, name.line) for name in done.missing] == [("WebSearchTool", 2), ("trace", 2)]
    assert "docs/models.md" in done.missing[0].instead
    assert move("from agents import Agent, trace\r\nx = 1\r\n").program == (
        "from legato.compat.agents import Agent\r\nfrom agents import trace\r\nx = 1\r\n"
    )
    assert (
        move("x = 1; from agents import Agent, trace").program == "x = 1; from legato.compat.agents import Agent; from agents import trace"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from agents import *\nRunner.run(Agent())\nfunction_tool = 1", "name what is used: from agents import Agent, Runner"),
        ("import agents", "nothing is seen to be used"),
        ("import agents\nagents.trace()", "the ledger is the trace"),
        ("import agent_framework.azure", "so that the names can be seen"),
        ("import agent_framework.openai._responses_client as rc", "private part"),
        ("from agent_framework.openai._responses_client import RawOpenAIResponsesClient", "private part"),
        ("from agents import _private", "private part"),
        ("from agents import Nobody", "no counterpart"),
        ("from agent_framework import MagenticBuilder", "workflows are handoffs"),
    ],
)
def test_what_cannot_be_moved_is_said_and_left(source: str, said: str) -> None:
    done = move(source)
    assert done.program == source
    assert said in done.missing[0].instead


def test_name_with_a_new_meaning_is_noted() -> None:
    """A name that has another meaning in newer releases is moved, with a note."""
    done = migrate_program("from agent_framework.openai import OpenAIChatClient", covered_names())
    assert done.is_covered
    assert "write OpenAIResponsesClient for that" in done.notes[0]


def test_programs_own_shadowing_module_is_left_alone() -> None:
    done = move("from agents import Agent\nfrom agent_framework import tool", own_modules=["agents"])
    assert done.program == "from agents import Agent\nfrom legato.compat.agent_framework import tool"
    assert "of your own" in done.notes[0]


@pytest.mark.parametrize("source", ["def", "\x00", "(" * 5000 + ")" * 5000, "print 'hello'", "\ud800"])
def test_what_is_no_python_gets_one_error(source: str) -> None:
    with pytest.raises(BadInput):
        move(source)


def test_seed_programs_change_only_their_imports() -> None:
    for name, missing in (("000", []), ("001", []), ("004", ["ModelResponse", "OpenAIServerConversationTracker", "ToolApprovalItem"])):
        source = (SEEDS / f"seed_{name}.py").read_text()
        done = move(source)
        ast.parse(done.program)
        changed = [(old, new) for old, new in zip(source.splitlines(), done.program.splitlines(), strict=True) if old != new]
        assert changed
        assert all("legato.compat" in new and old.split(" import ")[1] == new.split(" import ")[1] for old, new in changed)
        assert {entry.name for entry in done.missing} >= set(missing)


def test_covered_names_come_from_the_facades(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "some_facade"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("__all__ = ['Agent']\nAgent = Other = object()\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "filters.py").write_text("from os import getcwd\nLIMIT = 7\ndef keep(): ...\ndef _hide(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    for module in (facades, programs):
        monkeypatch.setattr(module, "FACADES", {"agents": "some_facade", "agent_framework": "no_such_facade"})
    names = covered_names()
    assert names["agents"] == {"Agent"}
    assert names["agents.inner.filters"] == {"keep", "LIMIT"}
    assert names["agent_framework"] == frozenset()
    assert migrate_program("from agents.inner.filters import keep", names).program == "from some_facade.inner.filters import keep"


# -- the command -------------------------------------------------------------------------------------------------------------

FAKE = "import sys, types\nfor name, all_ in {names!r}.items():\n    m = types.ModuleType(name); m.__all__ = all_; sys.modules[name] = m\n"


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`legato migrate`, with facades that have exactly these names, whatever the real ones have."""
    names = {"legato.compat.agents": sorted(COVERED["agents"]), "legato.compat.agent_framework": sorted(COVERED["agent_framework"])}
    program = FAKE.format(names=names) + "import legato.compat\nfrom legato.cli import main\nmain()\n"
    return subprocess.run([sys.executable, "-c", program, "migrate", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_command_prints_and_writes_nothing_by_default(tmp_path: Path) -> None:
    """The command prints the program and the covered names, and writes nothing."""
    path = tmp_path / "desk.py"
    path.write_text("import sys\nfrom agents import Agent, Runner\n\nraise SystemExit('this program was run')\n")
    before = path.read_bytes()
    done = command(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == before.decode().replace("from agents", "from legato.compat.agents")
    assert "OpenAI Agents SDK" in done.stderr
    assert "Agent, Runner" in done.stderr
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["desk.py"]


def test_write_option_keeps_permissions_without_leftovers(tmp_path: Path) -> None:
    path = tmp_path / "desk.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nfrom agents import Agent\nname = 'Käse'\r\n".encode("latin-1"))
    path.chmod(0o750)
    done = command(path, "--write")
    assert (done.returncode, done.stdout) == (0, "")
    assert path.read_bytes() == "# -*- coding: latin-1 -*-\nfrom legato.compat.agents import Agent\nname = 'Käse'\r\n".encode("latin-1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert [entry.name for entry in tmp_path.iterdir()] == ["desk.py"]
    assert "nothing to change" in command(path, "--write").stderr


def test_folder_search_skips_environments(tmp_path: Path) -> None:
    """A folder is searched without environments, and the exit code tells whether all is covered."""
    (tmp_path / "app").mkdir()
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    for place in ("app/good.py", "env/other.py", ".hidden.txt"):
        (tmp_path / place).write_text("from agents import Agent\n")
    assert command(tmp_path).returncode == 0
    (tmp_path / "app" / "more.py").write_bytes(b"\xef\xbb\xbffrom agents import trace\n")
    done = command(tmp_path, "--json")
    assert done.returncode == 1
    told = {Path(entry["file"]).name: entry for entry in json.loads(done.stdout)}
    assert set(told) == {"good.py", "more.py"}
    assert told["good.py"]["changed"]
    assert told["more.py"]["names"][0]["covered"] is False
    (tmp_path / "app" / "broken.py").write_text("def\n")
    done = command(tmp_path, "--write")
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert "broken.py: this is no Python" in done.stderr
    assert "Traceback" not in done.stderr
    assert "legato.compat.agents" in (tmp_path / "app" / "good.py").read_text()


@pytest.mark.parametrize("data", [None, b"\xff\xfe\x00", b"# coding: nonsense\n", b"GIF89a\x00\x01", b"x = '\xe4'\n", b"print 'hello'\n"])
def test_invalid_python_exits_with_code_2(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "program.py"
    if data is not None:
        path.write_bytes(data)
    done = command(path)
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


def test_missing_openai_package_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text("from agents import Agent\n")
    program = "import sys; sys.modules['openai'] = None\nfrom legato.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "migrate", tmp_path / "desk.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: what is covered is asked of legato.compat.agent")
    assert "pip install '.[openai]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_notebook_is_refused_with_advice(tmp_path: Path) -> None:
    """A notebook is refused with advice, although its JSON looks like Python."""
    for name in ("desk.ipynb", "desk.py"):
        (tmp_path / name).write_text('{"cells": [{"source": ["from agents import Agent"]}], "nbformat": 4}')
        done = command(tmp_path / name)
        assert done.returncode == 2
        assert "jupyter nbconvert --to script" in done.stderr


def test_own_module_without_imported_names_is_ignored(tmp_path: Path) -> None:
    """A program's own module named `agents` that has none of the imported names is not meant."""
    package = tmp_path / "desk"
    (package / "agents").mkdir(parents=True)
    for place in ("__init__.py", "agents/__init__.py"):
        (package / place).touch()
    (package / "agents" / "triage.py").write_text("triage = 1\n")
    (package / "main.py").write_text("from agents import Agent\nfrom .agents.triage import triage\n")
    assert "from legato.compat.agents import Agent" in command(package / "main.py").stdout
    (package / "main.py").write_text("from agents.triage import triage\n")
    assert "of your own" in command(package / "main.py").stderr
    (package / "agents" / "__init__.py").write_text("from .triage import *\n")
    (package / "main.py").write_text("from agents import Agent\n")
    assert "of your own" in command(package / "main.py").stderr, "it may have anything"


def test_module_beside_the_program_shadows_the_framework(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text("Agent = 1\n")
    (tmp_path / "desk.py").write_text("from agents import Agent\n")
    done = command(tmp_path / "desk.py")
    assert done.returncode == 0
    assert done.stdout == "from agents import Agent\n"
    assert "of your own" in done.stderr


def test_submodule_can_be_imported_from_its_package() -> None:
    moved = migrate_program("from agents.extensions import handoff_filters", covered_names())
    assert moved.program == "from legato.compat.agents.extensions import handoff_filters"
    assert moved.missing == []
