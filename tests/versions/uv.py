"""The location of uv. The modules of this package need only the standard library, so that they run before anything is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def find_uv() -> str:
    """Return uv's path. If none is on PATH, uv is installed into an environment of its own, `.venv-uv`."""
    if found := shutil.which("uv"):
        return found
    folder = ROOT / ".venv-uv"
    uv = folder / "bin" / "uv"
    if not uv.exists():
        print(f"installing uv into {folder.name} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "uv"], check=True)
    return str(uv)
