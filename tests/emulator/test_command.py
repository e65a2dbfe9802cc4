"""The commands `legato emulator` and `legato check`."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import openai
import pytest

import legato.emulator
from legato.cli import main
from legato.emulator import Emulator
from legato.emulator.faults import FAULT_KINDS
from legato.errors import BadInput
from tests.emulator.conftest import fetch

LEGATO = [sys.executable, "-W", "error", "-m", "legato.cli"]
SCRIPT = """
- said: refund
  say: I will see to it.
- said: trouble
  say: Never said.
  fault: server_error
"""


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: object
    out: str
    err: str


Run = Callable[..., CommandResult]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, and return its output and exit code."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str | Path, stdin: bytes = b"") -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["legato", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as result:
            main()
        output = capsys.readouterr()
        assert "Traceback" not in output.out + output.err
        return CommandResult(result.value.code or 0, output.out, output.err)

    return command


@contextmanager
def start_emulator(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start the emulator in a process of its own. Yields the process and its first lines of output."""
    command = [*LEGATO, "emulator", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines: list[str] = []
        while not lines or "Ctrl-C stops" not in lines[-1]:
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            lines.append(line.rstrip())
        yield process, lines
    finally:
        process.kill()
        process.communicate()


# -- legato emulator ---------------------------------------------------------------------------------------------------


def test_emulator_serves_until_ctrl_c(tmp_path: Path) -> None:
    script, log, state = tmp_path / "desk.yaml", tmp_path / "log.jsonl", tmp_path / "state.db"
    script.write_text(SCRIPT)
    files = ["--fake-model", script, "--log", log, "--state", state]
    with start_emulator(*files, "--fault", "rate_limit@3", "--key", "sk-never-printed") as (process, lines):
        assert [line.split()[0] for line in lines] == ["OpenAI", "Anthropic", "Azure", "live", "Ctrl-C"]
        base, page = lines[0].partition("base_url=")[2], lines[3].split()[-1]
        with openai.OpenAI(base_url=base, api_key="sk-never-printed", max_retries=0) as client:
            assert client.responses.create(model="gpt-4.1", input="A refund, please").output_text == "I will see to it."
            with pytest.raises(openai.BadRequestError):
                client.responses.create(model="gpt-4.1", input="Hi", previous_response_id="resp_none")
            with pytest.raises(openai.RateLimitError):
                client.responses.create(model="gpt-4.1", input="Hi")
            with pytest.raises(openai.InternalServerError):
                client.responses.create(model="gpt-4.1", input="trouble", stream=True)
        assert fetch("GET", page).status_code == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    rows, _, summary = out.partition("\n\n")
    assert [row.split()[:3] for row in rows.splitlines()] == [
        ["1", "responses", "200"],
        ["2", "responses", "400"],
        ["3", "responses", "429"],
        ["4", "responses", "500"],
    ]
    assert "I will see to it." in rows
    assert "S1  Previous response with id 'resp_none' not found." in rows
    assert "[rate_limit]" in rows
    assert summary.splitlines() == [
        "4 requests: 200 x1, 400 x1, 429 x1, 500 x1",
        "refused by rule: responses S1 x1",
        "faults: rate_limit x1, server_error x1",
    ]
    assert "sk-never-printed" not in out + log.read_text()
    assert len(log.read_text().splitlines()) == 4
    assert state.exists()


def test_support_desk_can_be_named() -> None:
    with start_emulator("--fake-model", "desk") as (process, lines):
        assert lines
        process.terminate()
        process.communicate(timeout=60)


def test_missing_web_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("legato.emulator.server", "legato.emulator.app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(BadInput, match="the emulator needs a web server") as missing:
        legato.emulator.serve()
    assert "pip install '.[emulator]'" in missing.value.do


def test_quiet_emulator_stops_on_sigterm() -> None:
    with start_emulator("--quiet", "--switch", "responses.zero_data_retention=true", "--seed", "3") as (process, lines):
        assert lines[-1] == "any key is accepted; Ctrl-C stops"
        base = lines[0].partition("base_url=")[2]
        body = {"model": "gpt-4.1", "input": "Hi", "previous_response_id": "resp_1"}
        rejection = fetch("POST", f"{base}/responses", json=body, headers={"authorization": "Bearer k"})
        assert "Zero Data Retention" in rejection.json()["error"]["message"]
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines() == ["", "1 requests: 400 x1", "refused by rule: responses S5 x1"]


def test_help_shows_all_options(run: Run) -> None:
    result = run("emulator", "--help")
    assert result.code == 0
    for option in ("port", "host", "fake-model", "seed", "fault", "state", "log", "switch", "key", "latency", "quiet"):
        assert f"--{option}" in result.out
    for text in ((), ("-h",), ("--help",)):
        output = run(*text).out
        assert "emulator" in output
        assert "check" in output
    assert run("--version").out.startswith("legato ")


def test_every_fault_is_listed_with_options(run: Run) -> None:
    result = run("emulator", "--faults")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines] == list(FAULT_KINDS)
    assert all(kind.description in line for kind, line in zip(FAULT_KINDS.values(), lines, strict=True))
    assert "[event=N byte=N]" in result.out
    assert "kind=server_error|rate_limit|" in result.out


INVALID_OPTIONS = {
    "a port beyond all ports": (["--port", "99999"], "--port"),
    "a seed that is no number": (["--seed", "x"], "--seed"),
    "an option that is none": (["--nonsense"], "--nonsense"),
    "a negative latency": (["--latency", "-1"], "--latency"),
    "a script that is not there": (["--fake-model", "no-such.yaml"], "no-such.yaml"),
    "a log that is not there": (["--fake-model", "no-such.jsonl"], "no-such.jsonl"),
    "an unknown kind of fake model": (["--fake-model", "model.txt"], "expected  desk, or a file: .yaml, .yml or .jsonl"),
    "a fault that is none": (["--fault", "rain"], "there is no fault 'rain'"),
    "a switch without a value": (["--switch", "responses.zero_data_retention"], "has no value"),
    "a switch that is none": (["--switch", "responses.rain=true"], "there is no switch 'responses.rain'"),
    "a switch that cannot be so": (["--switch", "responses.tools_limit=many"], "the switch responses.tools_limit cannot be 'many'"),
    "a switch that is misspelt": (["--switch", "chat.tools_limit=3"], "did you mean 'chat.tool_limit'?"),
    "a switch that is neither": (["--switch", "responses.zero_data_retention=perhaps"], "true or false"),
    "a profile's name as a switch": (["--switch", "responses.name=azure"], "there is no switch 'responses.name'"),
    "a fault that is misspelt": (["--fault", "rate_limits@3"], "did you mean 'rate_limit'?"),
    "a request before the first": (["--fault", "quota@0"], "count from 1"),
    "a log on standard output": (["--log", "-"], "the log goes to a file"),
    "a host that is nowhere": (["--host", "no-such-host.invalid", "--key", "k"], "name an address of this machine"),
    "a host that others reach": (["--host", "0.0.0.0"], "needs a key"),
    "a state file in no folder": (["--state", "no/such/folder/state.db"], "the emulator's state file cannot be used"),
    "a log in no folder": (["--log", "no/such/folder/log.jsonl"], "the log cannot be written"),
}


@pytest.mark.parametrize("name", INVALID_OPTIONS)
def test_invalid_option_exits_with_code_2(run: Run, name: str) -> None:
    arguments, text = INVALID_OPTIONS[name]
    result = run("emulator", *arguments)
    assert result.code == 2
    assert text in result.err
    assert result.out == ""


def test_invalid_script_error_has_line(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "bad.yaml"
    script.write_text("- said: refund\n  says: Oops.\n")
    result = run("emulator", "--fake-model", script)
    assert result.code == 2
    assert "bad.yaml, line 2" in result.err
    assert "says" in result.err


def test_occupied_port_exits_with_code_2(emulator: Emulator) -> None:
    port = emulator.url.rpartition(":")[2]
    result = subprocess.run([*LEGATO, "emulator", "--port", port], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: the emulator cannot listen on 127.0.0.1:{port}\n")


def test_missing_typer_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "legato.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as result:
        main()
    assert result.value.code == 2
    assert "error: this command needs typer, which is not installed" in capsys.readouterr().err


# -- legato check ------------------------------------------------------------------------------------------------------

LEGAL = {
    "responses": {"model": "gpt-4.1", "input": "Hi"},
    "chat": {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi"}]},
    "anthropic": {"model": "claude-sonnet-5", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]},
}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
TOOL_MESSAGE = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
ILLEGAL = {
    "responses": ("T1", {"model": "gpt-4.1", "input": [CALL]}, "No tool output found for function call call_1."),
    "chat": ("C2", {"model": "gpt-4.1", "messages": [TOOL_MESSAGE]}, "must be a response to a preceeding message"),
    "anthropic": ("M13a", {"model": "claude-sonnet-5", "max_tokens": 10, "messages": []}, "at least one message is required"),
}


@pytest.mark.parametrize("api", LEGAL)
def test_legal_request_exits_with_code_0(run: Run, tmp_path: Path, api: str) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps(LEGAL[api]))
    assert run("check", request, "--api", api) == CommandResult(0, "legal\n", "")
    assert run("check", "--json", request, "--api", api) == CommandResult(0, "[]\n", "")


@pytest.mark.parametrize("api", ILLEGAL)
def test_illegal_request_exits_with_code_1(run: Run, tmp_path: Path, api: str) -> None:
    rule_id, body, text = ILLEGAL[api]
    request = tmp_path / "request.json"
    request.write_text(json.dumps(body))
    result = run("check", request, "--api", api)
    assert result.code == 1
    assert result.out.startswith(f"{rule_id} 400 ")
    assert text in result.out
    assert re.search(r"\n +rule .+ \(grade [ABCD], seen \d{4}-\d\d\)\n", result.out)
    json_result = run("check", request, "--api", api, "--json")
    assert json_result.code == 1
    violation = json.loads(json_result.out)[0]
    assert violation.keys() == {"clause", "rule", "grade", "status", "message", "param", "code", "path"}
    assert (violation["clause"], violation["status"]) == (rule_id, 400)


@pytest.mark.parametrize("api", ILLEGAL)
def test_body_determines_its_rule_set(run: Run, api: str) -> None:
    """Without `--api` a request is checked by the API that it fits, which is printed unless it is Responses."""
    rule_id, body, _ = ILLEGAL[api]
    result = run("check", "-", stdin=json.dumps(body).encode())
    note = f"legato: checked by the rules of {api}: it looks like a request of that API; --api chooses another\n"
    assert (result.code, result.out.split()[0], result.err) == (1, rule_id, "" if api == "responses" else note)


def test_ambiguous_body_is_a_responses_request(run: Run) -> None:
    result = run("check", "-", stdin=b'{"model": "gpt-4.1"}')
    assert (result.code, result.out.split()[0], result.err) == (1, "P2", "")


MODEL_RULES = {
    "chat": ("CP4", {**LEGAL["chat"], "max_tokens": 5}, "gpt-5.1"),
    "responses": ("O10", {**LEGAL["responses"], "temperature": 0.5}, "gpt-5"),
}


@pytest.mark.parametrize("state", ["unknown", "empty"])
@pytest.mark.parametrize("api", MODEL_RULES)
def test_known_model_has_its_own_rules(run: Run, api: str, state: str) -> None:
    """Rules of some models only are applied to models that the emulator knows, and to no others."""
    rule_id, body, model = MODEL_RULES[api]
    for name, first_word in ((model, rule_id), ("gpt-4.1", "legal"), ("a-model-of-tomorrow", "legal")):
        result = run("check", "-", "--provider-state", state, stdin=json.dumps({**body, "model": name}).encode())
        assert result.out.split()[0] == first_word


def test_request_may_come_from_stdin(run: Run) -> None:
    assert run("check", "-", stdin=json.dumps(LEGAL["responses"]).encode()) == CommandResult(0, "legal\n", "")
    assert run("check", "-", "--api", "chat", stdin=json.dumps(ILLEGAL["chat"][1]).encode()).code == 1


def test_log_line_is_checked_by_its_api(run: Run) -> None:
    line = {"number": 3, "api": "chat", "path": "/v1/chat/completions", "request": ILLEGAL["chat"][1], "status": 400}
    result = run("check", "-", stdin=json.dumps(line).encode())
    assert (result.code, result.out.split()[0]) == (1, "C2")


def test_file_may_have_byte_order_mark(run: Run) -> None:
    assert run("check", "-", stdin=b"\xef\xbb\xbf" + json.dumps(LEGAL["responses"]).encode()).code == 0


def test_request_without_headers_may_use_betas(run: Run) -> None:
    body = {**LEGAL["anthropic"], "context_management": {"edits": []}}
    assert run("check", "-", "--api", "anthropic", stdin=json.dumps(body).encode()) == CommandResult(0, "legal\n", "")
    body["context_management"] = {"edits": [{"type": "forget"}]}
    assert run("check", "-", "--api", "anthropic", stdin=json.dumps(body).encode()).out.startswith("MS5 400 ")


def test_check_accepts_rule_switches(run: Run) -> None:
    outputs = [{"type": "function_call_output", "call_id": "call_1", "output": "x"}] * 2
    duplicate_outputs = json.dumps({"model": "gpt-4.1", "input": [CALL, *outputs]}).encode()
    assert run("check", "-", stdin=duplicate_outputs).code == 0
    assert run("check", "-", "--switch", "responses.single_outputs=true", stdin=duplicate_outputs).out.startswith("T5b ")
    assert run("check", "-", "--switch", "responses.rain=1", stdin=duplicate_outputs).code == 2


OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
CONTINUATION = {"model": "gpt-4.1", "previous_response_id": "resp_1", "input": [OUTPUT]}
NOT_FOUND = "S1 400 Previous response with id 'resp_1' not found."


def test_stored_objects_may_exist_by_default(run: Run) -> None:
    continuation = json.dumps(CONTINUATION).encode()
    output = f"legal, if the provider has stored what it refers to\n     if not {NOT_FOUND}\n"
    assert (
        run("check", "-", stdin=continuation)
        == run("check", "-", "--provider-state", "unknown", stdin=continuation)
        == CommandResult(0, output, "")
    )
    assert run("check", "-", "--json", stdin=continuation) == CommandResult(0, "[]\n", "")


def test_violation_is_found_despite_unknown_state(run: Run) -> None:
    result = run("check", "-", stdin=json.dumps({**CONTINUATION, "input": [CALL]}).encode())
    assert (result.code, result.out.split()[0]) == (1, "T1")


def test_empty_provider_has_no_response(run: Run) -> None:
    result = run("check", "-", "--provider-state", "empty", stdin=json.dumps(CONTINUATION).encode())
    assert (result.code, result.out.splitlines()[0]) == (1, NOT_FOUND)


def test_account_without_retention_has_no_items(run: Run) -> None:
    reference = json.dumps({"model": "gpt-4.1", "input": [{"type": "item_reference", "id": "msg_1"}]}).encode()
    assert run("check", "-", stdin=reference).code == 0
    result = run("check", "-", "--switch", "responses.zero_data_retention=true", stdin=reference)
    assert (result.code, result.out.split()[0]) == (1, "I2")


def test_workflow_check_rejects_provider_state(run: Run) -> None:
    result = run("check", "desk:desk", "--provider-state", "empty")
    assert result.code == 2
    assert "--provider-state are for requests" in result.err


@pytest.mark.parametrize(("request_api", "checked_api"), [("chat", "responses"), ("anthropic", "chat"), ("responses", "anthropic")])
def test_request_of_another_api_is_noticed(run: Run, request_api: str, checked_api: str) -> None:
    result = run("check", "-", "--api", checked_api, stdin=json.dumps({**LEGAL[request_api], "metadata": 7}).encode())
    assert (result.code, result.err) == (1, f"this looks like a request of another API: try --api {request_api}\n")
    result = run("check", "-", "--api", request_api, stdin=json.dumps({**LEGAL[request_api], "metadata": 7}).encode())
    assert (result.code, result.err) == (1, "")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no json", "request.json is not JSON"),
        (b"", "request.json is not JSON"),
        (b"\xff\xfe", "request.json is not JSON"),
        (b"[" * 100_000, "request.json is not JSON"),
        (b"[]", "request.json is not a request"),
        (b"7", "request.json is not a request"),
    ],
)
def test_invalid_request_file_exits_with_code_2(run: Run, tmp_path: Path, data: bytes, text: str) -> None:
    request = tmp_path / "request.json"
    request.write_bytes(data)
    result = run("check", request)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


def test_deeply_nested_request_is_handled(run: Run, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    for depth in (300, 700, 900, 960):
        request.write_bytes(b'{"model": "gpt-4.1", "input": ' + b"[" * depth + b"]" * depth + b"}")
        assert run("check", request, "--json").code in (1, 2)


def test_missing_file_or_api_exits_with_code_2(run: Run, tmp_path: Path) -> None:
    missing = run("check", tmp_path / "missing.json")
    assert missing.code == 2
    assert "missing.json cannot be read" in missing.err
    assert run("check", tmp_path).code == 2
    unknown = run("check", "-", "--api", "gemini", stdin=b"{}")
    assert unknown.code == 2
    assert "there are no rules for the API 'gemini'" in unknown.err
    assert run("check").code == 2
