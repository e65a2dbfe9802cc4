"""The commands of docs/command-line.md, run and compared with the output on the page.

Lines that begin with `$ ` are commands; their expected output is below them, with `...` for anything. The text after `›` is the input of a
chat.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.docs.pages import FENCE, matches_output

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
CHAT_INPUT = re.compile(r"^(?:you(?: \(\d+ pending\))?|  ) ?› (.*)$")


class PageMismatch(AssertionError):
    """The output of a command differs from the page."""


def parse_commands(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page, each with its expected output."""
    commands: list[tuple[str, list[str]]] = []
    for block in FENCE.finditer(text):
        if block[1] != "console":
            continue
        for line in block[2].splitlines():
            if line.startswith("$ "):
                commands.append((line.removeprefix("$ "), []))
            elif not line.startswith("legato: "):  # it is printed on standard error
                commands[-1][1].append(line)
    return commands


def run_page(text: str, shell: Shell) -> int:
    """Run the commands of a page and return their number; raise `PageMismatch` if an output differs."""
    bin = shell.folder / "bin"
    bin.mkdir()
    (bin / "legato").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m legato.cli "$@"\n')
    (bin / "legato").chmod(0o755)
    environment = {**shell.environment, "PATH": f"{bin}:{shell.environment['PATH']}"}
    folder, page_commands = shell.folder, parse_commands(text)
    for command, expected in page_commands:
        if command.startswith("cd "):
            folder = folder / command.removeprefix("cd ")
            continue
        chat_input = "".join(f"{match[1]}\n" for line in expected if (match := CHAT_INPUT.match(line)))
        process = subprocess.run(
            ["/bin/sh", "-c", command], input=chat_input, text=True, capture_output=True, cwd=folder, env=environment, timeout=60
        )
        error_text = process.stderr if "error: " in process.stderr else ""
        if not matches_output("\n".join(expected), process.stdout + error_text):
            raise PageMismatch(f"{command}\n--- expected\n" + "\n".join(expected) + f"\n--- printed\n{process.stdout}{process.stderr}")
    return len(page_commands)


def test_every_command_prints_what_page_says(shell: Shell) -> None:
    assert run_page(PAGE.read_text(encoding="utf-8"), shell) > 10


def test_wrong_page_is_noticed_by_check(shell: Shell) -> None:
    with pytest.raises(PageMismatch):
        run_page("```console\n$ legato ls\nthree sessions\n```\n", shell)


def test_every_command_is_on_the_page() -> None:
    from legato.cli.app import COMMANDS

    page = PAGE.read_text(encoding="utf-8")
    assert not [command for command in COMMANDS if f"`legato {command}" not in page and f"`{command}`" not in page]
