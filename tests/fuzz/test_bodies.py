"""A sample of `make fuzz-bodies`: a mutated request gets a 200 or a typed 4xx, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator import serve
from legato.emulator.chat.adapter import ChatAdapter
from tests.fuzz.bodies import fuzz_emulator
from tests.provider_types import answer_recorder


def test_mutated_bodies_get_answers_or_typed_refusals() -> None:
    with serve(max_exchanges=10) as emulator:
        *_, report = fuzz_emulator(emulator.url, 1_500, seed=11)
    assert report.failures == []
    assert report.body_count == sum(report.status_counts.values()) == 1_500
    assert report.status_counts[200] > 75, "too few requests were accepted: this test checks nothing"
    assert report.status_counts[400] > 500, "too few requests were refused: this test checks nothing"


def test_crashing_provider_rules_are_found(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    find_violations = ChatAdapter.find_violations

    def crash_on_odd_bodies(self: ChatAdapter, ask: Any) -> Any:
        ask.body["messages"][0]["content"].upper()
        return find_violations(self, ask)

    monkeypatch.setattr(ChatAdapter, "find_violations", crash_on_odd_bodies)
    with serve(max_exchanges=10) as emulator:
        *_, report = fuzz_emulator(emulator.url, 200, seed=11)
    crashes = [failure for failure in report.failures if failure.startswith("chat: 500 Internal Server Error for ")]
    assert len(crashes) == report.status_counts[500] > 5
    assert "Exception in ASGI application" in caplog.text


def test_refusal_without_error_type_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = ChatAdapter.reply_to_violations

    def refuse_without_type(self: ChatAdapter, ask: Any, violations: Any) -> Any:
        refusal = refuse(self, ask, violations)
        refusal.body["error"].pop("type")
        return refusal

    monkeypatch.setattr(ChatAdapter, "reply_to_violations", refuse_without_type)
    with serve(max_exchanges=10) as emulator:
        *_, report = fuzz_emulator(emulator.url, 100, seed=11)
    assert report.status_counts[500] == 0
    assert any("without an error object" in failure for failure in report.failures)
    findings = answer_recorder.take_findings(echoes=False)
    assert findings
    assert all("error.type: missing in Error" in finding for finding in findings)
