"""The systems: what is installed for each, into an environment of its own, and how each is measured.

An environment is set up once, and anew when its list of packages or the interpreter changes. Versions of what is measured are pinned; what
they bring along is what a user would get today.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ROOT / "bench" / "systems"


@dataclass(frozen=True)
class System:
    """One contender. `variants` says what each workload is measured with; a workload that is not named has one way only."""

    name: str
    script: str
    environment: str
    packages: tuple[str, ...]
    base: tuple[str, ...]
    """The distributions whose install W6 weighs: what a program with handoffs needs, without extras."""
    imports: str
    """W6: what a program imports first."""
    ready: str
    """W6: what a program with two agents and a store imports."""
    variants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    peer: bool = True

    @property
    def python(self) -> Path:
        return ROOT / f".venv-bench-{self.environment}" / "bin" / "python"


LEGATO = System(
    name="legato",
    script="legato_native.py",
    environment="legato",
    packages=("-e", f"{ROOT}[openai]"),
    base=("legato",),
    imports="from legato import Agent, HandoffBuilder, tool",
    ready="from legato import Agent, HandoffBuilder, tool; from legato.stores import SQLiteStore",
    variants={"W2": ("effects", "full"), "W3": ("memory", "effects", "full"), "W4": ("store", "opened anew", "text")},
    peer=False,
)
BARE = System(
    name="bare limit",
    script="bare_limit.py",
    environment="legato",
    packages=LEGATO.packages,
    base=(),
    imports="import asyncio, json, sqlite3",
    ready="import asyncio, json, sqlite3",
    variants={"W2": ("normal", "full"), "W3": ("memory", "effects", "full"), "W4": ("store", "opened anew", "whole state")},
    peer=False,
)
PEERS = (
    System(
        name="openai-agents",
        script="openai_agents.py",
        environment="openai_agents",
        packages=("openai-agents==0.24.0", "openai==3.51.0"),
        base=("openai-agents",),
        imports="import agents",
        ready="from agents import Agent, Runner, SQLiteSession, function_tool, handoff",
        variants={"W2": ("sqlite",), "W3": ("memory", "sqlite"), "W4": ("session and run state", "session kept open")},
    ),
    System(
        name="agent-framework",
        script="agent_framework.py",
        environment="agent_framework",
        packages=(
            "agent-framework-core==1.23.0",
            "agent-framework-orchestrations==1.4.0",
            "agent-framework-openai==1.17.0",
            "openai==3.51.0",
        ),
        base=("agent-framework-core", "agent-framework-orchestrations"),
        imports="import agent_framework",
        ready="from agent_framework import Agent, FileCheckpointStorage, tool; from agent_framework_orchestrations import HandoffBuilder",
        variants={"W2": ("file checkpoints",), "W3": ("memory", "file history"), "W4": ("session as JSON",)},
    ),
    System(
        name="langgraph",
        script="langgraph.py",
        environment="langgraph",
        packages=(
            "langgraph==1.2.22",
            "langgraph-swarm==0.1.0",
            "langgraph-checkpoint-sqlite==3.1.2",
            "deepagents==0.7.32",
            "langchain-openai==1.7.3",
            "openai==3.51.0",
        ),
        base=("langgraph", "langgraph-swarm"),
        imports="import langgraph_swarm",
        ready="from langchain.agents import create_agent; from langgraph_swarm import create_handoff_tool, create_swarm; "
        "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver",
        variants={
            "W2": ("sqlite", "sqlite delta"),
            "W3": ("memory", "sqlite", "sqlite delta"),
            "W4": ("sqlite", "sqlite kept open", "sqlite delta", "sqlite delta kept open"),
        },
    ),
    System(
        name="pydantic-ai",
        script="pydantic_ai.py",
        environment="pydantic_ai",
        packages=("pydantic-ai-slim[openai]==2.66.0", "openai==3.51.0"),
        base=("pydantic-ai-slim",),
        imports="import pydantic_ai",
        ready="from pydantic_ai import Agent, Tool, ToolOutput; from pydantic_ai.conversation_store import ConversationStore",
        variants={
            "W2": ("json file", "sqlite store by us"),
            "W3": ("memory", "json file", "sqlite store by us"),
            "W4": ("json file", "sqlite store by us", "sqlite store by us, kept open"),
        },
    ),
    System(
        name="google-adk",
        script="google_adk.py",
        environment="google_adk",
        packages=("google-adk==2.13.0", "litellm==1.106.2"),
        base=("google-adk",),
        imports="import google.adk",
        ready="from google.adk.agents import LlmAgent; from google.adk.runners import Runner; "
        "from google.adk.sessions.sqlite_session_service import SqliteSessionService",
        variants={"W2": ("sqlite",), "W3": ("memory", "sqlite"), "W4": ("sqlite",)},
    ),
)
ALL = (LEGATO, BARE, *PEERS)

EVERYBODYS_VARIANTS = {"W5": ("0ms", "50ms", "memory"), "W7": ("whole", "streamed")}


def variants_of(system: System, workload: str) -> tuple[str, ...]:
    """What a workload is measured with; one that has one way only is measured with whatever that is called."""
    return EVERYBODYS_VARIANTS.get(workload) or system.variants.get(workload, ("",))


def install(system: System) -> str:
    """Set its environment up, once. What went wrong, if it cannot be."""
    folder = system.python.parent.parent
    stamp = folder / "packages"
    project = (ROOT / "pyproject.toml").read_text() if system.environment == "legato" else ""
    wanted = "\n".join([sys.version, *system.packages, project])
    if stamp.exists() and stamp.read_text() == wanted:
        return ""
    print(f"setting up {folder.name}, once ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(system.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, *system.packages]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return "\n".join(line for line in done.stderr.splitlines() if line.startswith("ERROR")) or done.stderr[-500:]
    stamp.write_text(wanted)
    return ""
