"""The `legato` command: errors, completion, imports, missing extras, and chat for programs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from tests.cli.conftest import REFUND, Shell

MISTAKES = {
    "no such module": (["chat", "dusk:desk"], "there is no module 'dusk'"),
    "no such name": (["chat", "desk:dusk"], "desk has no 'dusk'"),
    "no colon": (["chat", "desk"], "'desk' does not name a workflow"),
    "no workflow": (["chat", "desk:clerk"], "desk:clerk is not a workflow"),
    "a program with a mistake": (["chat", "wrong:desk"], "wrong cannot be imported"),
    "no such file": (["chat", "nowhere.py:desk"], "there is no file nowhere.py"),
    "no such session": (["show", "nobody", "--store", "s.sqlite"], "there is no session 'nobody'"),
    "an unreachable server": (["ls", "--store", "postgresql://user:hunter2@127.0.0.1:9/desk"], "127.0.0.1"),
    "an unknown kind of store": (["ls", "--store", "redis://user:hunter2@host"], "redis"),
}


def test_mistakes_print_one_error_without_traceback(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text("import desk\nx = 1 / 0\n")
    assert shell("chat", "desk:desk", "-m", "hello", "--store", "s.sqlite").code == 0
    for about, (arguments, expected_text) in MISTAKES.items():
        result = shell(*arguments)
        assert result.code == 2, about
        assert result.err.startswith("error: "), about
        assert expected_text in result.err, about
        assert "Traceback" not in result.out + result.err, about
        assert "hunter2" not in result.out + result.err, about


def test_error_names_the_line_of_the_program(shell: Shell) -> None:
    """An error in the user's program names its line; --debug shows the traceback."""
    (shell.folder / "wrong.py").write_text("import desk\nx = 1 / 0\n")
    result = shell("check", "wrong:desk", "--json")
    assert result.json["error"]["code"] == "bad_input"
    assert "ZeroDivisionError: division by zero" in result.json["error"]["found"]
    assert "wrong.py:2" in result.json["error"]["found"]
    assert "Traceback" in shell("--debug", "check", "wrong:desk").err


def test_failing_tool_ends_neither_chat_nor_session(shell: Shell) -> None:
    (shell.folder / "seconds.txt").write_text("soon")
    result = shell("chat", "desk:desk", stdin="pay\nhello\n")
    assert result.code == 0, result.err
    assert "✗ pay: " in result.out
    assert "Hello, I am triage." in result.out


def test_failing_instructions_do_not_end_the_chat(shell: Shell) -> None:
    (shell.folder / "odd.py").write_text(
        "from pathlib import Path\nfrom legato import Agent\nfrom desk import clerk\n"
        "odd = Agent('odd', instructions=lambda context: Path('words.txt').read_text(), model=clerk)\n"
    )
    result = shell("chat", "odd:odd", stdin="hello\n/usage\n")
    assert result.code == 0, result.err
    assert "error: FileNotFoundError" in result.out
    assert "total" in result.out
    assert "Traceback" not in result.out + result.err


def test_poor_encoding_and_closed_pipe_are_tolerated(shell: Shell) -> None:
    """An encoding without symbols, and a reader that closes the pipe early, are not errors."""
    plain = shell("chat", "desk:desk", "-s", "one", stdin=f"{REFUND}\nl\n", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert plain.code == 0, plain.err
    assert "-> triage to refunds" in plain.out
    command = f"{sys.executable} -m legato.cli show one --facts | head -n 1"
    process = subprocess.run(["/bin/sh", "-c", command], env=shell.environment, cwd=shell.folder, capture_output=True, text=True)
    assert "Traceback" not in process.stderr
    assert "error" not in process.stderr


def test_shell_completes_commands_and_session_ids(shell: Shell) -> None:
    for id in ("customer-1", "customer-2", "visitor"):
        assert shell("chat", "desk:desk", "-s", id, "-m", "hello").code == 0
    completion = {"COMP_CWORD": "2"}

    def completed(arguments: str) -> list[str]:
        environment = {**completion, "_LEGATO_COMPLETE": "complete_bash", "COMP_WORDS": arguments}
        program = "import sys; sys.argv[0] = 'legato'; from legato.cli import main; main()"
        process = subprocess.run(
            [sys.executable, "-c", program], env={**shell.environment, **environment}, cwd=shell.folder, capture_output=True, text=True
        )
        return process.stdout.split()

    assert sorted(completed("legato show cust")) == ["customer-1", "customer-2"]
    assert completed("legato seen v") == ["visitor"]


def test_help_does_not_import_heavy_packages() -> None:
    program = (
        "import sys, legato.cli.app\n"
        "heavy = {'rich.console', 'openai', 'anthropic', 'starlette', 'pydantic', 'sqlite3'}\n"
        "heavy |= {'legato.emulator', 'legato.models.sdk_client'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.stdout.strip() == "[]", process.stderr


def test_json_chat_answers_requests_by_id(shell: Shell) -> None:
    first = shell("chat", "desk:desk", "-s", "one", "-m", REFUND, "--json")
    assert first.code == 3, "requests wait for answers"
    request = next(line["data"] for line in first.lines if line["type"] == "request_info")
    assert (request["tool"], request["kind"]) == ("refund", "approval")
    arguments = [
        {"edit": request["id"], "arguments": {"order_id": "8", "amount": 3, "pin": "1"}},
        {"approve": request["id"]},
        {"dance": True},
    ]
    lines = "".join(json.dumps(each) + "\n" for each in arguments) + "hello\n"
    result = shell("chat", "desk:desk", "-s", "one", "--json", stdin=lines)
    assert result.code == 0, result.err
    by_type = {line["type"]: line["data"] for line in result.lines}
    assert by_type["tool_returned"]["output"] == "3.00 for order 8 is on its way"
    error_codes = [line["data"]["code"] for line in result.lines if line["type"] == "error"]
    assert error_codes == ["not_pending", "bad_input"], "an error is reported, and the next line is read"
    assert by_type["message"]["parts"][0]["text"] == "Hello, I am triage. "


def test_failed_model_sets_the_exit_code(shell: Shell) -> None:
    result = shell("chat", "desk:desk", "-m", "fail")
    assert result.code == 1
    assert result.out.count("the provider is on holiday") == 1


def write_provider_program(shell: Shell) -> None:
    (shell.folder / "asks.py").write_text("from legato import Agent\nclerk = Agent('clerk', model='openai:gpt-5.1')\n")


def test_missing_key_is_reported_once(shell: Shell) -> None:
    write_provider_program(shell)
    result = shell("chat", "asks:clerk", "-m", "hello", "--no-stand-in")
    assert result.code == 1
    assert result.out.count("OpenAI's client cannot be made") == 1
    assert "set OPENAI_API_KEY" in result.out
    assert "`legato chat`" in result.out


def test_missing_emulator_names_its_extra(shell: Shell) -> None:
    write_provider_program(shell)
    shell.hide_packages("uvicorn")
    result = shell("chat", "asks:clerk", "-m", "hello")
    assert "the emulator that would stand in is not installed" in result.err
    assert "pip install '.[emulator]'" in result.err
    assert "OPENAI_API_KEY is not set: the emulator, which could stand in, is not installed" in shell("doctor").out


def test_missing_model_package_is_reported_by_check(shell: Shell) -> None:
    """A model's package that is not installed is reported before any request."""
    write_provider_program(shell)
    shell.hide_packages("openai")
    checked = shell("check", "asks:clerk")
    assert checked.code == 1
    assert "clerk: openai:gpt-5.1 cannot be requested: this model needs the package 'openai'; pip install '.[openai]'" in checked.out
    served = shell("serve", "asks:clerk", "--token", "short")
    assert "warning: clerk: openai:gpt-5.1 cannot be requested" in served.err


def test_missing_extra_is_a_plain_error(shell: Shell) -> None:
    shell.hide_packages("mcp")
    result = shell("mcp", "desk:desk")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: this command needs mcp")
    assert "pip install '.[cli,mcp]'" in result.err


def test_taken_mcp_port_prints_no_token(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = shell("mcp", "desk:desk", "--http", "--port", str(taken.getsockname()[1]))
    assert result.code == 2
    assert result.err.startswith("error: the MCP server cannot listen on 127.0.0.1:")
    assert "token" not in result.err


def test_counts_have_singular_and_plural(shell: Shell) -> None:
    write_provider_program(shell)
    assert shell("check", "asks:clerk").out.startswith("clerk: 1 agent, 0 handoffs\n")


def test_doctor_names_keys_without_their_values(shell: Shell) -> None:
    shell.environment["ANTHROPIC_API_KEY"] = "sk-hunter2"
    result = shell("doctor")
    assert result.code == 0, result.out
    assert "ANTHROPIC_API_KEY is set" in result.out
    assert "OPENAI_API_KEY is not set" in result.out
    assert "sessions.sqlite: does not exist yet" in result.out
    assert "hunter2" not in result.out + shell("doctor", "--json").out
