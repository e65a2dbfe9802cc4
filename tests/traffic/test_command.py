"""The command `make traffic`: the table, the exchanges in a row, unreadable lines, and the exit code."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.traffic.__main__ import main
from tests.traffic.allowed_losses import ALLOWED_LOSSES, AllowedLoss, find_allowed_loss
from tests.traffic.allowed_refusals import ALLOWED_REFUSALS, AllowedRefusal
from tests.traffic.sample_exchanges import MESSAGE, REQUESTS, make_exchange, make_response, write_corpus

FALSE_REFUSAL = make_exchange("responses", request={**REQUESTS["responses"], "crystal_ball": True}, key="k-false")
UNKNOWN_MEMBER = make_exchange("responses", make_response({**MESSAGE, "mood": "calm"}), key="k-odd")


def test_goals_that_are_met_end_with_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_corpus(tmp_path / "corpus.jsonl", make_exchange("chat")))]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("goals: met") == 3
    assert "1 of 1 exchanges replayed" in printed.err


def test_goals_that_are_missed_end_with_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_corpus(tmp_path / "corpus.jsonl", FALSE_REFUSAL, UNKNOWN_MEMBER))]) == 1
    printed = capsys.readouterr().out
    assert "goals: missed" in printed
    assert "P3" in printed
    assert "output[message].mood" in printed


@pytest.mark.parametrize("arguments", [[], [""], ["nowhere.jsonl"]])
def test_missing_corpus_error_names_the_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "make traffic CORPUS=exchanges.jsonl.xz" in capsys.readouterr().err


def test_a_compressed_corpus_is_read_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "corpus.jsonl.xz"
    path.write_bytes(lzma.compress(json.dumps(FALSE_REFUSAL).encode()))
    assert main([str(path)]) == 1
    assert "1 exchanges in 1 recordings, 0 damaged lines" in capsys.readouterr().out


def test_damaged_lines_are_named_and_not_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[dict[str, Any] | str] = [
        make_exchange("chat"),
        "no json",
        "[]",
        {**make_exchange("chat"), "api": "gemini"},
        {"key": "k"},
        "",
    ]
    assert main([str(write_corpus(tmp_path / "corpus.jsonl", *lines))]) == 0
    printed = capsys.readouterr().out
    assert "1 exchanges in 1 recordings, 4 damaged lines" in printed
    assert all(f"damaged: line {number}: " in printed for number in (2, 3, 4, 5))


def test_truncated_archive_is_read_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps(make_exchange("chat")).encode() + b"\n"
    path = tmp_path / "corpus.jsonl.xz"
    path.write_bytes(lzma.compress(line) + lzma.compress(line)[:80])  # two streams, as archives may be joined
    assert main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert "1 exchanges in 1 recordings, 1 damaged lines" in printed
    assert "damaged: the archive ends early, after line 1: " in printed


def test_unreadable_corpus_ends_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_corpus(tmp_path / "corpus.jsonl", "no json"))]) == 2
    assert "line 1: " in capsys.readouterr().err


@pytest.mark.parametrize(("name", "key"), [("P3", "k-false"), ("output[message].mood", "k-odd"), ("lost in reading", "k-odd")])
def test_a_row_leads_to_its_exchanges(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, key: str) -> None:
    main([str(write_corpus(tmp_path / "corpus.jsonl", FALSE_REFUSAL, UNKNOWN_MEMBER)), "--list", name])
    assert f"{key}  some/project  tape.yaml  #0" in capsys.readouterr().out


def test_unknown_row_name_lists_the_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(write_corpus(tmp_path / "corpus.jsonl", UNKNOWN_MEMBER)), "--list", "M99"])
    printed = capsys.readouterr().out
    assert printed.startswith("no row has the name M99; use a rule or a member")
    assert "lost in reading" in printed


def test_details_show_exchanges_behind_every_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(write_corpus(tmp_path / "corpus.jsonl", FALSE_REFUSAL, UNKNOWN_MEMBER)), "--details"])
    printed = capsys.readouterr().out
    assert "k-false  some/project  tape.yaml  #0  [P3] 400 Unknown parameter: 'crystal_ball'." in printed
    assert "k-odd  some/project  tape.yaml  #0  calm" in printed


def test_json_has_every_row_with_its_exchanges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_corpus(tmp_path / "corpus.jsonl", FALSE_REFUSAL, "no json")), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["exchanges"], len(found["damaged"])) == (1, 1)
    (row,) = (row for row in found["apis"]["responses"]["rows"] if row["kind"] == "false refusal, any model")
    assert (row["name"], row["count"], row["exchanges"][0]["key"]) == ("P3", 1, "k-false")


def test_every_exception_has_a_reason() -> None:
    reasons = [*(entry.reason for entry in ALLOWED_LOSSES), *(entry.reason for entry in ALLOWED_REFUSALS)]
    assert all(len(reason) > 10 for reason in reasons)


def test_allowed_loss_covers_only_its_own_values() -> None:
    entry = AllowedLoss("chat", ("choices[*].status",), "recorded elsewhere", values=("completed",))
    assert entry.covers("chat", "lost in reading", "choices[a].status", "completed")
    assert not entry.covers("responses", "lost in reading", "choices[a].status", "completed")
    assert not entry.covers("chat", "not sent back", "choices[a].status", "completed")
    assert not entry.covers("chat", "lost in reading", "choices[a].statuses", "completed")
    assert not entry.covers("chat", "lost in reading", "choices[a].status", "failed")
    assert find_allowed_loss("chat", "lost in reading", "choices[].message.mood", "calm") is None


def test_allowed_refusal_covers_only_its_own_models() -> None:
    entry = AllowedRefusal("chat", "CP4", "a model of 2023", ("gpt-35",))
    assert entry.covers("chat", "CP4", "gpt-35-turbo")
    assert not entry.covers("chat", "CP4", "gpt-4o")
    assert not entry.covers("chat", "CP5", "gpt-35-turbo")
    assert not entry.covers("responses", "CP4", "gpt-35-turbo")
