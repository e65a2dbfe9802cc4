"""A sample of `make fuzz-bodies`: a spoiled request gets a 200 or a typed 4xx, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator import serve
from legato.emulator.chat.adapter import ChatAdapter
from tests.fuzz.bodies import attack
from tests.provider_types import recording


def test_a_spoiled_request_gets_an_answer_or_a_typed_refusal() -> None:
    with serve(max_exchanges=10) as emulator:
        *_, answers = attack(emulator.url, 1_500, seed=11)
    assert answers.wrong == []
    assert answers.tried == sum(answers.statuses.values()) == 1_500
    assert answers.statuses[200] > 75, "too few requests got through: this test sees nothing"
    assert answers.statuses[400] > 500, "too few requests were spoiled: this test sees nothing"


def test_a_law_book_that_breaks_is_found(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    judge = ChatAdapter.find_violations

    def careless(self: ChatAdapter, ask: Any) -> Any:
        ask.body["messages"][0]["content"].upper()
        return judge(self, ask)

    monkeypatch.setattr(ChatAdapter, "find_violations", careless)
    with serve(max_exchanges=10) as emulator:
        *_, answers = attack(emulator.url, 200, seed=11)
    broken = [wrong for wrong in answers.wrong if wrong.startswith("chat: 500 Internal Server Error for ")]
    assert len(broken) == answers.statuses[500] > 5
    assert "Exception in ASGI application" in caplog.text


def test_a_refusal_without_an_error_object_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = ChatAdapter.reply_to_violations

    def untyped(self: ChatAdapter, ask: Any, complaints: Any) -> Any:
        refusal = refuse(self, ask, complaints)
        refusal.body["error"].pop("type")
        return refusal

    monkeypatch.setattr(ChatAdapter, "reply_to_violations", untyped)
    with serve(max_exchanges=10) as emulator:
        *_, answers = attack(emulator.url, 100, seed=11)
    assert answers.statuses[500] == 0
    assert any("without an error object" in wrong for wrong in answers.wrong)
    findings = recording.take_findings(echoes=False)
    assert findings
    assert all("error.type: missing in Error" in finding for finding in findings)
