"""What a terminal says about usage."""

from __future__ import annotations

import pytest

from legato import Usage
from legato.cli.usage import tell_usage
from legato.shown.spending import Spending, used


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(1000, 10), "not known"),
        (Usage(1000, 10, cost=2_000_000), "0.002000"),
        (Usage(1000, 10, cost=0), "0.000000"),
        (Usage(1000, 10, cost=2_000_000) + Usage(5), "0.002000 + not known"),
    ],
    ids=["unknown", "known", "free", "in part"],
)
def test_terminal_tells_unknown_from_free(usage: Usage, dollars: str, capsys: pytest.CaptureFixture[str]) -> None:
    tell_usage(Spending(used(usage), {}, [], 0), [], [])
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=6)[-1].strip() == dollars
