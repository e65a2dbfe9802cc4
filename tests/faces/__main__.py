"""`make faces`: tests in a real terminal, in a real browser and with third-party clients in Node, and a type check of the scripts.

    python -m tests.faces                     all tests
    python -m tests.faces -k phone            some tests: the arguments are pytest's

Missing programs are installed where possible. Otherwise the remaining tests run, the missing ones are named, and the run fails.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faces import installed_tools

HERE = Path(__file__).parent
CONSOLE, FROM_NPM = HERE / "console", (HERE / "agui", HERE / "ai_sdk", HERE / "types")


def main(arguments: list[str]) -> int:
    missing, folders = [], []
    if installed_tools.ensure_installed(installed_tools.find_tmux, "tmux"):
        folders += sorted(HERE.glob("test_*.py"))
    else:
        missing.append(installed_tools.NO_TMUX)
    if installed_tools.ensure_installed(installed_tools.find_browser, "chromium", "fonts-liberation"):
        folders.append(CONSOLE)
    else:
        missing.append(installed_tools.NO_BROWSER)
    if installed_tools.ensure_npm_packages():
        folders += FROM_NPM
    else:
        missing.append(installed_tools.NO_CLIENTS)
    code = 0
    if folders:
        code = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *map(str, folders), *arguments]).returncode
    for message in missing:
        print(f"make faces: {message}", file=sys.stderr)
    return code or bool(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
