"""The command in a shell, on a screen: completion, mistakes, and what is shown on a terminal that has no room."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.cli.conftest import Shell
from tests.faces.tmux import Screen, environment, on_screen


def in_bash(shell: Shell) -> Screen:
    """A shell as somebody has it in whose environment Legato is installed."""
    (shell.folder / ".bashrc").write_text("PS1='ready> '\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return Screen(["bash", "-i"], shell.folder, {**environment(shell), "PATH": path, "SHELL": "/bin/bash"})


def test_a_shell_that_was_taught_completes_verbs_options_and_the_ids_of_sessions(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "first-one", "-m", "hello").code == 0
    with in_bash(shell) as screen:
        screen.until("ready>")
        screen.type("legato --install-completion")
        screen.until("completion installed")
        screen.until("ready>", 2)
        screen.type("exec bash -i")
        screen.until("ready>", 3)
        screen.write("legato sh")
        screen.press("Tab")
        screen.until("legato show")
        screen.write("fir")
        screen.press("Tab")
        screen.until("legato show first-one")
        screen.write("--fa")
        screen.press("Tab")
        screen.until("legato show first-one --facts")
        screen.press("Enter")
        screen.until('"fact":"opened"')


def test_a_mistake_is_one_message_and_the_shell_goes_on(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text("desk = 1 / 0\n")
    assert shell("chat", "desk:desk", "-m", "hello").code == 0
    with in_bash(shell) as screen:
        screen.until("ready>")
        for number, (typed, told) in enumerate(
            {
                "legato show nobody": "there is no session 'nobody'",
                "legato chat nowhere:desk": "there is no module 'nowhere'",
                "legato chat wrong:desk": "division by zero",
                "legato chta": "No such command 'chta'",
                "legato chat": "Missing argument 'MODULE:WORKFLOW'",
            }.items(),
            2,
        ):
            screen.type(typed)
            shown = screen.until("ready>", number)
            assert told in shown, shown
            assert "Traceback" not in shown


def test_sessions_are_listed_on_a_narrow_terminal_as_on_a_wide_one(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "first-one", "-m", "hello " * 30).code == 0
    for columns in (40, 160):
        with on_screen(shell, "ls", columns=columns) as screen:
            shown = screen.until("ended with 0")
            assert "first-one" in shown
            assert len(shown.split("ended")[0].strip().splitlines()) == 2, f"a session is one line:\n{shown}"


def test_serve_says_where_the_console_is_and_ctrl_c_ends_it(shell: Shell) -> None:
    with on_screen(shell, "serve", "desk:desk", "--port", "0", columns=120) as screen:
        shown = screen.until("Ctrl-C stops")
        address = re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", shown)
        assert address, shown
        with on_screen(shell, "serve", "desk:desk", "--port", address[1]) as second:
            refused = second.until("ended with 2")
            assert address[1] in refused
            assert "Traceback" not in refused
        screen.press("C-c")
        ended = screen.until("ended with")
        assert re.search(r"ended with (0|130)\b", ended), ended
        assert "Traceback" not in ended
        assert ended.count(address[2]) == 1, "the token is shown once"


def test_serve_refuses_to_let_everybody_in_and_says_why(shell: Shell) -> None:
    with on_screen(shell, "serve", "desk:desk", "--host", "0.0.0.0", "--port", "0") as screen:
        shown = screen.until("ended with 2")
        assert "error: " in shown
        assert "token" in shown
        assert "Traceback" not in shown
