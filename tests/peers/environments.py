"""The environments of the clients: one for each set of packages, installed again when their versions change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".venv-peers"
"""`make clean` removes it."""

PYTHON_PACKAGES = {
    "agents": ["openai-agents==0.24.0", "openai==3.51.0", "smg==1.13.0"],
    "langchain": ["langchain-openai==1.7.3", "openai==3.51.0"],
    "pydantic-ai": ["pydantic-ai-slim[openai]==2.68.0", "openai==3.51.0"],
    "litellm": ["litellm==1.106.2", "mcp==2.3.0"],
}
"""The packages of each environment. They need different versions of their dependencies, so each has its own."""

NPM_PACKAGES = ["openai@7.55.0", "ai@7.0.173", "@ai-sdk/openai@4.0.118", "zod@4.6.7"]
NPM_MISSING = "make peers needs node and npm, for clients from npm: install Node.js 20 or newer (or ARGS='--without-npm')"


def install_environments(names: Iterable[str]) -> None:
    """Install all environments before any client runs; npm first, because it may be missing."""
    for name in sorted(names, key=lambda name: (name != "npm", name)):
        if name == "npm":
            install_npm()
        else:
            install_python(name)


def install_python(name: str) -> Path:
    """Return the interpreter of an environment, which is installed if it is not current."""
    folder, packages = FOLDER / name, PYTHON_PACKAGES[name]
    python, stamp = folder / "bin" / "python", folder / "packages"
    if not _is_current(stamp, packages):
        print(f"installing {', '.join(packages)} ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages])
        stamp.write_text("\n".join(packages))
    return python


def install_npm() -> Path:
    """Return the folder with the packages from npm, which are installed if they are not current."""
    folder, stamp = FOLDER / "npm", FOLDER / "npm" / "packages"
    if not shutil.which("node") or not shutil.which("npm"):
        raise SystemExit(NPM_MISSING)
    if not _is_current(stamp, NPM_PACKAGES):
        print(f"installing {', '.join(NPM_PACKAGES)} ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM_PACKAGES])
        stamp.write_text("\n".join(NPM_PACKAGES))
    return folder


def _is_current(stamp: Path, packages: list[str]) -> bool:
    return stamp.exists() and stamp.read_text() == "\n".join(packages)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed; is there an index to install from?\n{(done.stderr or done.stdout)[-2000:]}")
