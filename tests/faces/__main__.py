"""`make faces`: what people see, in a real terminal and a real browser; what other people's clients see, in Node; and the types
of the console's scripts.

    python -m tests.faces                     all of it
    python -m tests.faces -k phone            some of it: what follows is pytest's

What is missing is installed where that may be done. Where it may not, the rest is tested, and it is said what was not: such a run has
failed, since it says nothing about that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faces import finding

HERE = Path(__file__).parent
CONSOLE, FROM_NPM = HERE / "console", (HERE / "agui", HERE / "ai_sdk", HERE / "types")


def main(arguments: list[str]) -> int:
    lacking, places = [], []
    if finding.ensured(finding.tmux, "tmux"):
        places += sorted(HERE.glob("test_*.py"))
    else:
        lacking.append(finding.NO_TMUX)
    if finding.ensured(finding.browser, "chromium", "fonts-liberation"):
        places.append(CONSOLE)
    else:
        lacking.append(finding.NO_BROWSER)
    if finding.packages():
        places += FROM_NPM
    else:
        lacking.append(finding.NO_CLIENTS)
    code = 0
    if places:
        code = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *map(str, places), *arguments]).returncode
    for words in lacking:
        print(f"make faces: {words}", file=sys.stderr)
    return code or bool(lacking)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
