"""The `legato` command in a shell: completion, mistakes, narrow terminals, and `legato serve`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.cli.conftest import Shell
from tests.faces.tmux import TmuxScreen, make_environment, run_on_screen


def start_bash(shell: Shell) -> TmuxScreen:
    """Start an interactive shell in an environment where Legato is installed."""
    (shell.folder / ".bashrc").write_text("PS1='ready> '\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return TmuxScreen(["bash", "-i"], shell.folder, {**make_environment(shell), "PATH": path, "SHELL": "/bin/bash"})


def test_shell_completes_commands_options_and_session_ids(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "first-one", "-m", "hello").code == 0
    with start_bash(shell) as screen:
        screen.wait_for("ready>")
        screen.type("legato --install-completion")
        screen.wait_for("completion installed")
        screen.wait_for("ready>", 2)
        screen.type("exec bash -i")
        screen.wait_for("ready>", 3)
        screen.write("legato sh")
        screen.press("Tab")
        screen.wait_for("legato show")
        screen.write("fir")
        screen.press("Tab")
        screen.wait_for("legato show first-one")
        screen.write("--fa")
        screen.press("Tab")
        screen.wait_for("legato show first-one --facts")
        screen.press("Enter")
        screen.wait_for('"fact":"opened"')


def test_each_mistake_is_one_message(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text("desk = 1 / 0\n")
    assert shell("chat", "desk:desk", "-m", "hello").code == 0
    with start_bash(shell) as screen:
        screen.wait_for("ready>")
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
            shown = screen.wait_for("ready>", number)
            assert told in shown, shown
            assert "Traceback" not in shown


def test_session_list_fits_any_terminal_width(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "first-one", "-m", "hello " * 30).code == 0
    for columns in (40, 160):
        with run_on_screen(shell, "ls", columns=columns) as screen:
            shown = screen.wait_for("ended with 0")
            assert "first-one" in shown
            assert len(shown.split("ended")[0].strip().splitlines()) == 2, f"a session is one line:\n{shown}"


def test_serve_prints_console_url_until_interrupted(shell: Shell) -> None:
    with run_on_screen(shell, "serve", "desk:desk", "--port", "0", columns=120) as screen:
        shown = screen.wait_for("Ctrl-C stops")
        address = re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", shown)
        assert address, shown
        with run_on_screen(shell, "serve", "desk:desk", "--port", address[1]) as second:
            refused = second.wait_for("ended with 2")
            assert address[1] in refused
            assert "Traceback" not in refused
        screen.press("C-c")
        ended = screen.wait_for("ended with")
        assert re.search(r"ended with (0|130)\b", ended), ended
        assert "Traceback" not in ended
        assert ended.count(address[2]) == 1, "the token is shown once"


def test_serve_refuses_open_access_without_token(shell: Shell) -> None:
    with run_on_screen(shell, "serve", "desk:desk", "--host", "0.0.0.0", "--port", "0") as screen:
        shown = screen.wait_for("ended with 2")
        assert "error: " in shown
        assert "token" in shown
        assert "Traceback" not in shown
