"""What people type: `legato emulator` and `legato check`."""

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
from legato.emulator.faults import KINDS
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


class Ended(NamedTuple):
    """How a command ended."""

    code: object
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, as the shell would: what it printed, and its exit code."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str | Path, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["legato", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        return Ended(ended.value.code or 0, told.out, told.err)

    return command


@contextmanager
def started(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The emulator in a process of its own, and the lines that it begins with."""
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


def test_the_emulator_shows_where_it_is_serves_and_sums_up_on_ctrl_c(tmp_path: Path) -> None:
    script, log, state = tmp_path / "desk.yaml", tmp_path / "log.jsonl", tmp_path / "state.db"
    script.write_text(SCRIPT)
    files = ["--mind", script, "--log", log, "--state", state]
    with started(*files, "--fault", "rate_limit@3", "--key", "sk-shown-to-nobody") as (process, lines):
        assert [line.split()[0] for line in lines] == ["OpenAI", "Anthropic", "Azure", "live", "Ctrl-C"]
        base, page = lines[0].partition("base_url=")[2], lines[3].split()[-1]
        with openai.OpenAI(base_url=base, api_key="sk-shown-to-nobody", max_retries=0) as client:
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
    shown, _, summary = out.partition("\n\n")
    assert [row.split()[:3] for row in shown.splitlines()] == [
        ["1", "responses", "200"],
        ["2", "responses", "400"],
        ["3", "responses", "429"],
        ["4", "responses", "500"],
    ]
    assert "I will see to it." in shown
    assert "S1  Previous response with id 'resp_none' not found." in shown
    assert "[rate_limit]" in shown
    assert summary.splitlines() == [
        "4 requests: 200 x1, 400 x1, 429 x1, 500 x1",
        "refused by clause: responses S1 x1",
        "faults: rate_limit x1, server_error x1",
    ]
    assert "sk-shown-to-nobody" not in out + log.read_text()
    assert len(log.read_text().splitlines()) == 4
    assert state.exists()


def test_the_desk_may_be_named_as_the_mind() -> None:
    with started("--mind", "desk") as (process, lines):
        assert lines
        process.terminate()
        process.communicate(timeout=60)


def test_a_web_server_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("legato.emulator.running", "legato.emulator.app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(BadInput, match="the emulator needs a web server") as missing:
        legato.emulator.serve()
    assert "pip install '.[emulator]'" in missing.value.do


def test_a_quiet_emulator_shows_no_exchanges_and_stops_on_sigterm_too() -> None:
    with started("--quiet", "--switch", "responses.zero_data_retention=true", "--seed", "3") as (process, lines):
        assert lines[-1] == "any key is accepted; Ctrl-C stops"
        base = lines[0].partition("base_url=")[2]
        asked = {"model": "gpt-4.1", "input": "Hi", "previous_response_id": "resp_1"}
        refused = fetch("POST", f"{base}/responses", json=asked, headers={"authorization": "Bearer k"})
        assert "Zero Data Retention" in refused.json()["error"]["message"]
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines() == ["", "1 requests: 400 x1", "refused by clause: responses S5 x1"]


def test_what_it_can_do_is_shown(run: Run) -> None:
    ended = run("emulator", "--help")
    assert ended.code == 0
    for option in ("port", "host", "mind", "seed", "fault", "state", "log", "switch", "key", "latency", "quiet"):
        assert f"--{option}" in ended.out
    for words in ((), ("-h",), ("--help",)):
        told = run(*words).out
        assert "emulator" in told
        assert "check" in told
    assert run("--version").out.startswith("legato ")


def test_every_fault_is_listed_with_its_options(run: Run) -> None:
    ended = run("emulator", "--faults")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines] == list(KINDS)
    assert all(kind.tells in line for kind, line in zip(KINDS.values(), lines, strict=True))
    assert "[event=N byte=N]" in ended.out
    assert "kind=server_error|rate_limit|" in ended.out


BAD = {
    "a port beyond all ports": (["--port", "99999"], "--port"),
    "a seed that is no number": (["--seed", "x"], "--seed"),
    "an option that is none": (["--nonsense"], "--nonsense"),
    "a negative latency": (["--latency", "-1"], "--latency"),
    "a script that is not there": (["--mind", "no-such.yaml"], "no-such.yaml"),
    "a log that is not there": (["--mind", "no-such.jsonl"], "no-such.jsonl"),
    "a mind of no known kind": (["--mind", "mind.txt"], "expected  desk, or a file: .yaml, .yml or .jsonl"),
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


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_used_ends_with_code_2_and_says_why(run: Run, what: str) -> None:
    arguments, words = BAD[what]
    ended = run("emulator", *arguments)
    assert ended.code == 2
    assert words in ended.err
    assert ended.out == ""


def test_a_bad_script_is_told_with_its_line(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "bad.yaml"
    script.write_text("- said: refund\n  says: Oops.\n")
    ended = run("emulator", "--mind", script)
    assert ended.code == 2
    assert "bad.yaml, line 2" in ended.err
    assert "says" in ended.err


def test_a_port_that_is_taken_is_told_in_a_process_of_its_own(emulator: Emulator) -> None:
    port = emulator.url.rpartition(":")[2]
    ended = subprocess.run([*LEGATO, "emulator", "--port", port], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: the emulator cannot listen on 127.0.0.1:{port}\n")


def test_a_part_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "legato.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "error: this command needs typer, which is not installed" in capsys.readouterr().err


# -- legato check ------------------------------------------------------------------------------------------------------

LEGAL = {
    "responses": {"model": "gpt-4.1", "input": "Hi"},
    "chat": {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi"}]},
    "anthropic": {"model": "claude-sonnet-5", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]},
}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
TOOL_MESSAGE = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
BROKEN = {
    "responses": ("T1", {"model": "gpt-4.1", "input": [CALL]}, "No tool output found for function call call_1."),
    "chat": ("C2", {"model": "gpt-4.1", "messages": [TOOL_MESSAGE]}, "must be a response to a preceeding message"),
    "anthropic": ("M13a", {"model": "claude-sonnet-5", "max_tokens": 10, "messages": []}, "at least one message is required"),
}


@pytest.mark.parametrize("api", LEGAL)
def test_a_legal_request_ends_with_code_0(run: Run, tmp_path: Path, api: str) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps(LEGAL[api]))
    assert run("check", request, "--api", api) == Ended(0, "legal\n", "")
    assert run("check", "--json", request, "--api", api) == Ended(0, "[]\n", "")


@pytest.mark.parametrize("api", BROKEN)
def test_an_illegal_request_ends_with_code_1_and_its_clause(run: Run, tmp_path: Path, api: str) -> None:
    clause, body, words = BROKEN[api]
    request = tmp_path / "request.json"
    request.write_text(json.dumps(body))
    ended = run("check", request, "--api", api)
    assert ended.code == 1
    assert ended.out.startswith(f"{clause} 400 ")
    assert words in ended.out
    assert re.search(r"\n +rule .+ \(grade [ABCD], seen \d{4}-\d\d\)\n", ended.out)
    as_json = run("check", request, "--api", api, "--json")
    assert as_json.code == 1
    verdict = json.loads(as_json.out)[0]
    assert verdict.keys() == {"clause", "rule", "grade", "status", "message", "param", "code", "path"}
    assert (verdict["clause"], verdict["status"]) == (clause, 400)


@pytest.mark.parametrize("api", BROKEN)
def test_the_body_shows_its_law_book(run: Run, api: str) -> None:
    """Without `--api` a request is judged by the API that it fits, and which one is said unless it is Responses."""
    clause, body, _ = BROKEN[api]
    ended = run("check", "-", stdin=json.dumps(body).encode())
    note = f"legato: judged by the rules of {api}, since it looks like a request of that API; --api chooses another\n"
    assert (ended.code, ended.out.split()[0], ended.err) == (1, clause, "" if api == "responses" else note)


def test_a_body_without_signs_is_of_responses(run: Run) -> None:
    ended = run("check", "-", stdin=b'{"model": "gpt-4.1"}')
    assert (ended.code, ended.out.split()[0], ended.err) == (1, "P2", "")


OF_THEIR_MODEL = {
    "chat": ("CP4", {**LEGAL["chat"], "max_tokens": 5}, "gpt-5.1"),
    "responses": ("O10", {**LEGAL["responses"], "temperature": 0.5}, "gpt-5"),
}


@pytest.mark.parametrize("state", ["unknown", "empty"])
@pytest.mark.parametrize("api", OF_THEIR_MODEL)
def test_a_known_model_is_held_to_its_rules(run: Run, api: str, state: str) -> None:
    """What only some models refuse is refused for a model that the emulator knows, and for no other."""
    clause, body, model = OF_THEIR_MODEL[api]
    for name, begins in ((model, clause), ("gpt-4.1", "legal"), ("a-model-of-tomorrow", "legal")):
        ended = run("check", "-", "--provider-state", state, stdin=json.dumps({**body, "model": name}).encode())
        assert ended.out.split()[0] == begins


def test_a_request_may_come_from_standard_input(run: Run) -> None:
    assert run("check", "-", stdin=json.dumps(LEGAL["responses"]).encode()) == Ended(0, "legal\n", "")
    assert run("check", "-", "--api", "chat", stdin=json.dumps(BROKEN["chat"][1]).encode()).code == 1


def test_a_line_of_a_log_is_judged_by_its_own_api(run: Run) -> None:
    line = {"number": 3, "api": "chat", "path": "/v1/chat/completions", "request": BROKEN["chat"][1], "status": 400}
    ended = run("check", "-", stdin=json.dumps(line).encode())
    assert (ended.code, ended.out.split()[0]) == (1, "C2")


def test_a_file_may_begin_with_a_mark_of_its_byte_order(run: Run) -> None:
    assert run("check", "-", stdin=b"\xef\xbb\xbf" + json.dumps(LEGAL["responses"]).encode()).code == 0


def test_a_request_whose_headers_are_not_known_may_have_asked_for_any_beta(run: Run) -> None:
    body = {**LEGAL["anthropic"], "context_management": {"edits": []}}
    assert run("check", "-", "--api", "anthropic", stdin=json.dumps(body).encode()) == Ended(0, "legal\n", "")
    body["context_management"] = {"edits": [{"type": "forget"}]}
    assert run("check", "-", "--api", "anthropic", stdin=json.dumps(body).encode()).out.startswith("MS5 400 ")


def test_a_switch_is_turned_for_a_check(run: Run) -> None:
    outputs = [{"type": "function_call_output", "call_id": "call_1", "output": "x"}] * 2
    twice = json.dumps({"model": "gpt-4.1", "input": [CALL, *outputs]}).encode()
    assert run("check", "-", stdin=twice).code == 0
    assert run("check", "-", "--switch", "responses.single_outputs=true", stdin=twice).out.startswith("T5b ")
    assert run("check", "-", "--switch", "responses.rain=1", stdin=twice).code == 2


OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
GO_ON = {"model": "gpt-4.1", "previous_response_id": "resp_1", "input": [OUTPUT]}
NOT_FOUND = "S1 400 Previous response with id 'resp_1' not found."


def test_stored_things_may_exist_by_default(run: Run) -> None:
    go_on = json.dumps(GO_ON).encode()
    told = f"legal, if the provider holds what it refers to\n     if not {NOT_FOUND}\n"
    assert run("check", "-", stdin=go_on) == run("check", "-", "--provider-state", "unknown", stdin=go_on) == Ended(0, told, "")
    assert run("check", "-", "--json", stdin=go_on) == Ended(0, "[]\n", "")


def test_a_visible_fault_is_found_beside_unknown_state(run: Run) -> None:
    ended = run("check", "-", stdin=json.dumps({**GO_ON, "input": [CALL]}).encode())
    assert (ended.code, ended.out.split()[0]) == (1, "T1")


def test_an_empty_provider_finds_no_stored_response(run: Run) -> None:
    ended = run("check", "-", "--provider-state", "empty", stdin=json.dumps(GO_ON).encode())
    assert (ended.code, ended.out.splitlines()[0]) == (1, NOT_FOUND)


def test_an_account_that_keeps_nothing_has_no_unknown_items(run: Run) -> None:
    reference = json.dumps({"model": "gpt-4.1", "input": [{"type": "item_reference", "id": "msg_1"}]}).encode()
    assert run("check", "-", stdin=reference).code == 0
    ended = run("check", "-", "--switch", "responses.zero_data_retention=true", stdin=reference)
    assert (ended.code, ended.out.split()[0]) == (1, "I2")


def test_a_workflow_is_checked_without_provider_state(run: Run) -> None:
    ended = run("check", "desk:desk", "--provider-state", "empty")
    assert ended.code == 2
    assert "--provider-state are for requests" in ended.err


@pytest.mark.parametrize(("theirs", "judged"), [("chat", "responses"), ("anthropic", "chat"), ("responses", "anthropic")])
def test_a_request_of_another_api_is_noticed(run: Run, theirs: str, judged: str) -> None:
    ended = run("check", "-", "--api", judged, stdin=json.dumps({**LEGAL[theirs], "metadata": 7}).encode())
    assert (ended.code, ended.err) == (1, f"this looks like a request of another API: try --api {theirs}\n")
    ended = run("check", "-", "--api", theirs, stdin=json.dumps({**LEGAL[theirs], "metadata": 7}).encode())
    assert (ended.code, ended.err) == (1, "")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"no json", "request.json is no JSON"),
        (b"", "request.json is no JSON"),
        (b"\xff\xfe", "request.json is no JSON"),
        (b"[" * 100_000, "request.json is no JSON"),
        (b"[]", "request.json is no request"),
        (b"7", "request.json is no request"),
    ],
)
def test_what_is_no_request_ends_with_code_2(run: Run, tmp_path: Path, data: bytes, words: str) -> None:
    request = tmp_path / "request.json"
    request.write_bytes(data)
    ended = run("check", request)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_a_request_that_is_nested_as_deeply_as_can_be_read_is_judged_or_refused(run: Run, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    for deep in (300, 700, 900, 960):
        request.write_bytes(b'{"model": "gpt-4.1", "input": ' + b"[" * deep + b"]" * deep + b"}")
        assert run("check", request, "--json").code in (1, 2)


def test_a_file_that_is_not_there_and_a_law_book_that_is_none_end_with_code_2(run: Run, tmp_path: Path) -> None:
    missing = run("check", tmp_path / "missing.json")
    assert missing.code == 2
    assert "missing.json cannot be read" in missing.err
    assert run("check", tmp_path).code == 2
    unknown = run("check", "-", "--api", "gemini", stdin=b"{}")
    assert unknown.code == 2
    assert "there is no law book 'gemini'" in unknown.err
    assert run("check").code == 2
