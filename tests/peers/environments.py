"""The environments of other people's clients: one for each set of packages, made anew when their versions change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".venv-peers"
"""`make clean` removes it."""

PYTHON = {
    "agents": ["openai-agents==0.24.0", "openai==3.51.0", "smg==1.13.0"],
    "langchain": ["langchain-openai==1.7.3", "openai==3.51.0"],
    "pydantic-ai": ["pydantic-ai-slim[openai]==2.68.0", "openai==3.51.0"],
    "litellm": ["litellm==1.106.2", "mcp==2.3.0"],
}
"""The packages of each environment. They are apart, for they do not agree on versions of what they need."""

NPM = ["openai@7.55.0", "ai@7.0.173", "@ai-sdk/openai@4.0.118", "zod@4.6.7"]
NPM_MISSING = "make peers needs node and npm, for clients from npm: install Node.js 20 or newer (or ARGS='--without-npm')"


def set_up(names: Iterable[str]) -> None:
    """Make sure of all environments before anything runs; npm first, for it may be missing."""
    for name in sorted(names, key=lambda name: (name != "npm", name)):
        if name == "npm":
            npm_folder()
        else:
            python_of(name)


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is set up if it is not there."""
    folder, packages = FOLDER / name, PYTHON[name]
    python, stamp = folder / "bin" / "python", folder / "packages"
    if not _is_current(stamp, packages):
        print(f"installing {', '.join(packages)} ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages])
        stamp.write_text("\n".join(packages))
    return python


def npm_folder() -> Path:
    """The folder with the packages from npm, which are installed if they are not there."""
    folder, stamp = FOLDER / "npm", FOLDER / "npm" / "packages"
    if not shutil.which("node") or not shutil.which("npm"):
        raise SystemExit(NPM_MISSING)
    if not _is_current(stamp, NPM):
        print(f"installing {', '.join(NPM)} ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM])
        stamp.write_text("\n".join(NPM))
    return folder


def _is_current(stamp: Path, packages: list[str]) -> bool:
    return stamp.exists() and stamp.read_text() == "\n".join(packages)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed; is there an index to install from?\n{(done.stderr or done.stdout)[-2000:]}")
