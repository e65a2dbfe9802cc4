"""The measured systems, their packages, and their environments.

An environment is installed once, and again when its list of packages or the interpreter changes. Versions of the measured packages are
pinned; their dependencies are those that a user would get today.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS_FOLDER = ROOT / "bench" / "systems"


@dataclass(frozen=True)
class System:
    """One measured system. `variants` has the variants of each workload; a workload that is not in it has only one."""

    name: str
    script: str
    environment: str
    packages: tuple[str, ...]
    base_distributions: tuple[str, ...]
    """W6: the distributions that a program with handoffs needs, without extras."""
    first_import: str
    """W6: the first import of a program."""
    full_imports: str
    """W6: the imports of a program with two agents and a store."""
    variants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_peer: bool = True

    @property
    def python(self) -> Path:
        return ROOT / f".venv-bench-{self.environment}" / "bin" / "python"


LEGATO = System(
    name="legato",
    script="legato_native.py",
    environment="legato",
    packages=("-e", f"{ROOT}[openai]"),
    base_distributions=("legato",),
    first_import="from legato import Agent, HandoffBuilder, tool",
    full_imports="from legato import Agent, HandoffBuilder, tool; from legato.stores import SQLiteStore",
    variants={"W2": ("effects", "full"), "W3": ("memory", "effects", "full"), "W4": ("store", "opened anew", "text")},
    is_peer=False,
)
BARE = System(
    name="bare limit",
    script="bare_limit.py",
    environment="legato",
    packages=LEGATO.packages,
    base_distributions=(),
    first_import="import asyncio, json, sqlite3",
    full_imports="import asyncio, json, sqlite3",
    variants={"W2": ("normal", "full"), "W3": ("memory", "effects", "full"), "W4": ("store", "opened anew", "whole state")},
    is_peer=False,
)
PEERS = (
    System(
        name="openai-agents",
        script="openai_agents.py",
        environment="openai_agents",
        packages=("openai-agents==0.24.0", "openai==3.51.0"),
        base_distributions=("openai-agents",),
        first_import="import agents",
        full_imports="from agents import Agent, Runner, SQLiteSession, function_tool, handoff",
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
        base_distributions=("agent-framework-core", "agent-framework-orchestrations"),
        first_import="import agent_framework",
        full_imports="from agent_framework import Agent, FileCheckpointStorage, tool; "
        "from agent_framework_orchestrations import HandoffBuilder",
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
        base_distributions=("langgraph", "langgraph-swarm"),
        first_import="import langgraph_swarm",
        full_imports="from langchain.agents import create_agent; from langgraph_swarm import create_handoff_tool, create_swarm; "
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
        base_distributions=("pydantic-ai-slim",),
        first_import="import pydantic_ai",
        full_imports="from pydantic_ai import Agent, Tool, ToolOutput; from pydantic_ai.conversation_store import ConversationStore",
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
        base_distributions=("google-adk",),
        first_import="import google.adk",
        full_imports="from google.adk.agents import LlmAgent; from google.adk.runners import Runner; "
        "from google.adk.sessions.sqlite_session_service import SqliteSessionService",
        variants={"W2": ("sqlite",), "W3": ("memory", "sqlite"), "W4": ("sqlite",)},
    ),
)
ALL_SYSTEMS = (LEGATO, BARE, *PEERS)

COMMON_VARIANTS = {"W5": ("0ms", "50ms", "memory"), "W7": ("whole", "streamed")}


def list_variants(system: System, workload: str) -> tuple[str, ...]:
    """Return the variants of a workload; an empty name if it has only one."""
    return COMMON_VARIANTS.get(workload) or system.variants.get(workload, ("",))


def install_environment(system: System) -> str:
    """Install the environment of a system, unless it is current. Return the error; empty if there is none."""
    folder = system.python.parent.parent
    stamp = folder / "packages"
    project = (ROOT / "pyproject.toml").read_text() if system.environment == "legato" else ""
    description = "\n".join([sys.version, *system.packages, project])
    if stamp.exists() and stamp.read_text() == description:
        return ""
    print(f"installing {folder.name}, once ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(system.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, *system.packages]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return "\n".join(line for line in done.stderr.splitlines() if line.startswith("ERROR")) or done.stderr[-500:]
    stamp.write_text(description)
    return ""
