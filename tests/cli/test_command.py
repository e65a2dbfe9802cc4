"""The command itself: errors, completion, how quickly it starts, chat for programs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from tests.cli.conftest import REFUND, Shell

BROKEN = {
    "no such module": (["chat", "dusk:desk"], "there is no module 'dusk'"),
    "no such name": (["chat", "desk:dusk"], "desk has no 'dusk'"),
    "no colon": (["chat", "desk"], "'desk' names no workflow"),
    "no workflow": (["chat", "desk:clerk"], "desk:clerk is no workflow"),
    "a program with a mistake": (["chat", "wrong:desk"], "wrong cannot be imported"),
    "no such file": (["chat", "nowhere.py:desk"], "there is no file nowhere.py"),
    "no such session": (["show", "nobody", "--store", "s.sqlite"], "there is no session 'nobody'"),
    "a server that is not there": (["ls", "--store", "postgresql://user:hunter2@127.0.0.1:9/desk"], "127.0.0.1"),
    "a store that is none": (["ls", "--store", "redis://user:hunter2@host"], "redis"),
}


def test_a_mistake_is_told_in_one_message_without_a_traceback(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text("import desk\nx = 1 / 0\n")
    assert shell("chat", "desk:desk", "-m", "hello", "--store", "s.sqlite").code == 0
    for about, (typed, told) in BROKEN.items():
        ended = shell(*typed)
        assert ended.code == 2, about
        assert ended.err.startswith("error: "), about
        assert told in ended.err, about
        assert "Traceback" not in ended.out + ended.err, about
        assert "hunter2" not in ended.out + ended.err, about


def test_the_line_of_a_mistake_in_the_program_is_named_and_debug_shows_all_of_it(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text("import desk\nx = 1 / 0\n")
    told = shell("check", "wrong:desk", "--json")
    assert told.json["error"]["code"] == "bad_input"
    assert "ZeroDivisionError: division by zero" in told.json["error"]["found"]
    assert "wrong.py:2" in told.json["error"]["found"]
    assert "Traceback" in shell("--debug", "check", "wrong:desk").err


def test_a_mistake_in_a_tool_of_the_users_ends_neither_the_chat_nor_the_session(shell: Shell) -> None:
    (shell.folder / "seconds.txt").write_text("soon")
    ended = shell("chat", "desk:desk", stdin="pay\nhello\n")
    assert ended.code == 0, ended.err
    assert "✗ pay: " in ended.out
    assert "Hello, I am triage." in ended.out


def test_a_mistake_in_code_that_gives_instructions_is_told_and_the_chat_goes_on(shell: Shell) -> None:
    (shell.folder / "odd.py").write_text(
        "from pathlib import Path\nfrom legato import Agent\nfrom desk import clerk\n"
        "odd = Agent('odd', instructions=lambda context: Path('words.txt').read_text(), model=clerk)\n"
    )
    ended = shell("chat", "odd:odd", stdin="hello\n/usage\n")
    assert ended.code == 0, ended.err
    assert "error: FileNotFoundError" in ended.out
    assert "in all" in ended.out
    assert "Traceback" not in ended.out + ended.err


def test_an_encoding_that_lacks_letters_and_a_reader_that_leaves_early_are_no_mistakes(shell: Shell) -> None:
    plain = shell("chat", "desk:desk", "-s", "one", stdin=f"{REFUND}\nl\n", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert plain.code == 0, plain.err
    assert "-> triage to refunds" in plain.out
    command = f"{sys.executable} -m legato.cli show one --facts | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], env=shell.environment, cwd=shell.folder, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "error" not in done.stderr


def test_a_shell_completes_verbs_and_session_ids(shell: Shell) -> None:
    for id in ("customer-1", "customer-2", "visitor"):
        assert shell("chat", "desk:desk", "-s", id, "-m", "hello").code == 0
    words = {"COMP_CWORD": "2"}

    def completed(typed: str) -> list[str]:
        asked = {**words, "_LEGATO_COMPLETE": "complete_bash", "COMP_WORDS": typed}
        program = "import sys; sys.argv[0] = 'legato'; from legato.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], env={**shell.environment, **asked}, cwd=shell.folder, capture_output=True, text=True
        )
        return done.stdout.split()

    assert sorted(completed("legato show cust")) == ["customer-1", "customer-2"]
    assert completed("legato seen v") == ["visitor"]


def test_help_comes_without_importing_what_only_verbs_need() -> None:
    program = (
        "import sys, legato.cli.app\n"
        "heavy = {'rich.console', 'openai', 'anthropic', 'starlette', 'pydantic', 'sqlite3', 'legato.emulator', 'legato.models.sdk'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_programs_talk_in_json_lines_and_answer_questions_by_id(shell: Shell) -> None:
    first = shell("chat", "desk:desk", "-s", "one", "-m", REFUND, "--json")
    assert first.code == 3, "questions wait for answers"
    asked = next(line["data"] for line in first.lines if line["type"] == "request_info")
    assert (asked["tool"], asked["kind"]) == ("refund", "approval")
    typed = [{"edit": asked["id"], "arguments": {"order_id": "8", "amount": 3, "pin": "1"}}, {"approve": asked["id"]}, {"dance": True}]
    lines = "".join(json.dumps(each) + "\n" for each in typed) + "hello\n"
    ended = shell("chat", "desk:desk", "-s", "one", "--json", stdin=lines)
    assert ended.code == 0, ended.err
    by_type = {line["type"]: line["data"] for line in ended.lines}
    assert by_type["tool_returned"]["output"] == "3.00 for order 8 is on its way"
    told = [line["data"]["code"] for line in ended.lines if line["type"] == "error"]
    assert told == ["not_pending", "bad_input"], "what cannot be done is told, and the next line is read"
    assert by_type["message"]["parts"][0]["text"] == "Hello, I am triage. "


def test_a_failed_model_is_an_exit_code_for_programs(shell: Shell) -> None:
    ended = shell("chat", "desk:desk", "-m", "fail")
    assert ended.code == 1
    assert ended.out.count("the provider is on holiday") == 1


def with_a_provider(shell: Shell) -> None:
    (shell.folder / "asks.py").write_text("from legato import Agent\nclerk = Agent('clerk', model='openai:gpt-5.1')\n")


def test_without_a_key_and_a_stand_in_it_is_said_once_what_to_set(shell: Shell) -> None:
    with_a_provider(shell)
    ended = shell("chat", "asks:clerk", "-m", "hello", "--no-stand-in")
    assert ended.code == 1
    assert ended.out.count("OpenAI's client cannot be made") == 1
    assert "set OPENAI_API_KEY" in ended.out
    assert "`legato chat`" in ended.out


def test_an_emulator_that_is_not_installed_is_told_with_what_brings_it(shell: Shell) -> None:
    with_a_provider(shell)
    shell.without("uvicorn")
    ended = shell("chat", "asks:clerk", "-m", "hello")
    assert "the emulator that would stand in is not installed" in ended.err
    assert "pip install '.[emulator]'" in ended.err
    assert "OPENAI_API_KEY is not set: nobody answers, and the emulator that would stand in is not installed" in shell("doctor").out


def test_a_models_package_that_is_not_installed_is_told_before_anything_is_asked(shell: Shell) -> None:
    with_a_provider(shell)
    shell.without("openai")
    checked = shell("check", "asks:clerk")
    assert checked.code == 1
    assert "clerk: openai:gpt-5.1 cannot be asked: this model needs the package 'openai'; pip install '.[openai]'" in checked.out
    served = shell("serve", "asks:clerk", "--token", "short")
    assert "warning: clerk: openai:gpt-5.1 cannot be asked" in served.err


def test_an_extra_that_is_not_installed_is_an_error_like_any_other(shell: Shell) -> None:
    shell.without("mcp")
    ended = shell("mcp", "desk:desk")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: this command needs mcp")
    assert "pip install '.[cli,mcp]'" in ended.err


def test_mcp_on_a_port_that_is_taken_is_told_before_any_token_is_shown(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = shell("mcp", "desk:desk", "--http", "--port", str(taken.getsockname()[1]))
    assert ended.code == 2
    assert ended.err.startswith("error: the MCP server cannot listen on 127.0.0.1:")
    assert "token" not in ended.err


def test_one_thing_is_not_several(shell: Shell) -> None:
    with_a_provider(shell)
    assert shell("check", "asks:clerk").out.startswith("clerk: 1 agent, 0 handoffs\n")


def test_doctor_names_keys_that_are_set_and_never_shows_them(shell: Shell) -> None:
    shell.environment["ANTHROPIC_API_KEY"] = "sk-hunter2"
    told = shell("doctor")
    assert told.code == 0, told.out
    assert "ANTHROPIC_API_KEY is set" in told.out
    assert "OPENAI_API_KEY is not set" in told.out
    assert "sessions.sqlite: not there yet" in told.out
    assert "hunter2" not in told.out + shell("doctor", "--json").out
