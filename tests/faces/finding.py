"""What the faces are tested with, found on this machine or installed: tmux for the terminal, a browser of Chromium's kind for the console,
and from npm the client of AG-UI, the AI SDK and TypeScript.

A Chrome that is on a laptop already will do, on macOS as well: no driver of its own is needed. Only root on a Debian is given anything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
APPLICATIONS = (
    "Google Chrome.app/Contents/MacOS/Google Chrome",
    "Chromium.app/Contents/MacOS/Chromium",
    "Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
CHOSEN = "LEGATO_BROWSER"

NO_BROWSER = (
    "no browser was found, so the console was not tested: `apt-get install chromium` or `brew install --cask google-chrome`,\n"
    f"or set {CHOSEN} to the program of a Chrome, Chromium or Edge that is elsewhere"
)
NPM = Path(__file__).parents[2] / "build" / "npm"
"""Where packages from npm are put."""

CLIENTS = {"@ag-ui/client": "1.0.0", "ai": "6.0.326", "@ai-sdk/openai": "3.0.141"}
"""Other people's clients of a served workflow, and their versions."""

TYPES = {"typescript": "5.9.3", "marked": "18.2.1"}
"""What checks the types of the console's scripts, and the package that its vendored file is from."""

NO_CLIENTS = (
    "node and npm were not found, or npm could not bring other people's clients and TypeScript: not tested were those, and the types of\n"
    "the console's scripts: install Node.js 20 or newer"
)
NO_TMUX = "tmux was not found, so the terminal was not tested: `apt-get install tmux` or `brew install tmux`"


def browser() -> str:
    """The path of a browser; empty if there is none."""
    if chosen := os.environ.get(CHOSEN):
        return shutil.which(chosen) or ""
    folders = [folder / "Applications" for folder in (Path("/"), Path.home())]
    installed = [str(folder / name) for folder in folders for name in APPLICATIONS if (folder / name).exists()]
    return next((path for path in [*map(shutil.which, NAMES), *installed] if path), "")


def tmux() -> str:
    """The path of tmux; empty if there is none."""
    return shutil.which("tmux") or ""


def packages() -> bool:
    """Whether other people's clients and TypeScript are there, if need be after npm has brought them."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    if not _are_installed():
        wanted = [f"{name}@{version}" for name, version in {**CLIENTS, **TYPES}.items()]
        print(f"installing {', '.join(wanted)} ...", flush=True)
        NPM.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", str(NPM)]
        done = subprocess.run([*npm, *wanted], capture_output=True, text=True)
        print(done.stderr.strip(), end="", flush=True)
    return _are_installed()


def _are_installed() -> bool:
    return all(_version(NPM / "node_modules" / name / "package.json") == version for name, version in {**CLIENTS, **TYPES}.items())


def _version(package: Path) -> str:
    return str(json.loads(package.read_text())["version"]) if package.exists() else ""


def ensured(find: Callable[[], str], *packages: str) -> bool:
    """Whether it is there, if need be after it was installed. Another program may be installing too: apt waits for it."""
    if find():
        return True
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not root or not shutil.which("apt-get") or (find is browser and CHOSEN in os.environ):
        return False
    print(f"installing {' and '.join(packages)} ...", flush=True)
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    subprocess.run([*apt, "update"], **quiet)
    done = subprocess.run([*apt, "install", "-y", "--no-install-recommends", *packages], **quiet)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "apt-get could not do it", flush=True)
    return bool(find())
