"""The programs that `make faces` needs: tmux, a Chromium-based browser, and from npm AG-UI's client, the AI SDK and TypeScript.

An installed Chrome is enough, also on macOS; no driver is needed. Missing programs are installed only for root on Debian.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MAC_APPLICATIONS = (
    "Google Chrome.app/Contents/MacOS/Google Chrome",
    "Chromium.app/Contents/MacOS/Chromium",
    "Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
BROWSER_VARIABLE = "LEGATO_BROWSER"

NO_BROWSER = (
    "no browser was found, so the console was not tested: `apt-get install chromium` or `brew install --cask google-chrome`,\n"
    f"or set {BROWSER_VARIABLE} to the program of a Chrome, Chromium or Edge that is elsewhere"
)
NPM_FOLDER = Path(__file__).parents[2] / "build" / "npm"
"""The folder of npm packages."""

CLIENT_PACKAGES = {"@ag-ui/client": "1.0.0", "ai": "6.0.326", "@ai-sdk/openai": "3.0.141"}
"""Third-party clients of a served workflow, and their versions."""

TYPE_PACKAGES = {"typescript": "5.9.3", "marked": "18.2.1"}
"""The type checker for the console's scripts, and the package of its vendored file."""

NO_CLIENTS = (
    "node or npm was not found, or npm could not install the clients and TypeScript. Their tests, and the type check of the console's\n"
    "scripts, did not run: install Node.js 20 or newer"
)
NO_TMUX = "tmux was not found, so the terminal was not tested: `apt-get install tmux` or `brew install tmux`"


def find_browser() -> str:
    """Return the path of a browser; empty if there is none."""
    if chosen := os.environ.get(BROWSER_VARIABLE):
        return shutil.which(chosen) or ""
    folders = [folder / "Applications" for folder in (Path("/"), Path.home())]
    installed = [str(folder / name) for folder in folders for name in MAC_APPLICATIONS if (folder / name).exists()]
    return next((path for path in [*map(shutil.which, BROWSER_NAMES), *installed] if path), "")


def find_tmux() -> str:
    """Return the path of tmux; empty if there is none."""
    return shutil.which("tmux") or ""


def ensure_npm_packages() -> bool:
    """Install the npm packages if they are missing. Return True if they are installed."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    if not _are_installed():
        wanted = [f"{name}@{version}" for name, version in {**CLIENT_PACKAGES, **TYPE_PACKAGES}.items()]
        print(f"installing {', '.join(wanted)} ...", flush=True)
        NPM_FOLDER.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", str(NPM_FOLDER)]
        done = subprocess.run([*npm, *wanted], capture_output=True, text=True)
        print(done.stderr.strip(), end="", flush=True)
    return _are_installed()


def _are_installed() -> bool:
    return all(
        _read_version(NPM_FOLDER / "node_modules" / name / "package.json") == version
        for name, version in {**CLIENT_PACKAGES, **TYPE_PACKAGES}.items()
    )


def _read_version(package: Path) -> str:
    return str(json.loads(package.read_text())["version"]) if package.exists() else ""


def ensure_installed(find: Callable[[], str], *packages: str) -> bool:
    """Install Debian packages if a program is missing. Return True if it is installed. apt waits for other installations."""
    if find():
        return True
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not root or not shutil.which("apt-get") or (find is find_browser and BROWSER_VARIABLE in os.environ):
        return False
    print(f"installing {' and '.join(packages)} ...", flush=True)
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    subprocess.run([*apt, "update"], **quiet)
    done = subprocess.run([*apt, "install", "-y", "--no-install-recommends", *packages], **quiet)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "apt-get could not do it", flush=True)
    return bool(find())
