"""Every command that docs/command-line.md shows is run, and prints what the page says.

Lines that begin with `$ ` are typed; what stands below them is printed, `...` for anything. What a person types in a chat stands behind
`›`: those lines are its input.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.docs.pages import FENCE, _matches

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
TYPED = re.compile(r"^(?:you(?: \(\d+ pending\))?|  ) ?› (.*)$")


class Wrong(AssertionError):
    """The page says something else than the command."""


def commands(text: str) -> list[tuple[str, list[str]]]:
    """What is typed, and what is printed below it."""
    found: list[tuple[str, list[str]]] = []
    for block in FENCE.finditer(text):
        if block[1] != "console":
            continue
        for line in block[2].splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif not line.startswith("legato: "):  # who answers is told on standard error
                found[-1][1].append(line)
    return found


def run_page(text: str, shell: Shell) -> int:
    """Run all that a page shows; `Wrong` if something else is printed."""
    bin = shell.folder / "bin"
    bin.mkdir()
    (bin / "legato").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m legato.cli "$@"\n')
    (bin / "legato").chmod(0o755)
    environment = {**shell.environment, "PATH": f"{bin}:{shell.environment['PATH']}"}
    folder, shown = shell.folder, commands(text)
    for typed, expected in shown:
        if typed.startswith("cd "):
            folder = folder / typed.removeprefix("cd ")
            continue
        said = "".join(f"{match[1]}\n" for line in expected if (match := TYPED.match(line)))
        done = subprocess.run(["/bin/sh", "-c", typed], input=said, text=True, capture_output=True, cwd=folder, env=environment, timeout=60)
        told = done.stderr if "error: " in done.stderr else ""
        if not _matches("\n".join(expected), done.stdout + told):
            raise Wrong(f"{typed}\n--- expected\n" + "\n".join(expected) + f"\n--- printed\n{done.stdout}{done.stderr}")
    return len(shown)


def test_every_command_of_the_page_prints_what_it_says(shell: Shell) -> None:
    assert run_page(PAGE.read_text(encoding="utf-8"), shell) > 10


def test_a_page_that_says_something_else_is_noticed(shell: Shell) -> None:
    with pytest.raises(Wrong):
        run_page("```console\n$ legato ls\nthree sessions\n```\n", shell)


def test_every_verb_is_on_the_page() -> None:
    from legato.cli.app import VERBS

    told = PAGE.read_text(encoding="utf-8")
    assert not [verb for verb in VERBS if f"`legato {verb}" not in told and f"`{verb}`" not in told]
