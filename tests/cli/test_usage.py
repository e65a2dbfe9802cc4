"""What a terminal says about usage."""

from __future__ import annotations

import pytest

from legato import Usage
from legato.cli.usage import tell_usage
from legato.inspection.spending import Spending, SpentAfter, TokenRange, used


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
    tell_usage(Spending(used(usage), {}, [], TokenRange()), [], [])
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=6)[-1].strip() == dollars


@pytest.mark.parametrize(
    ("resent", "words"),
    [
        (None, "not known"),
        (TokenRange(0, 37), "at most 37"),
        (TokenRange(1200, 1400), "1,200 to 1,400"),
        (TokenRange(0, 0), "0"),
    ],
    ids=["unknown", "bounded above", "between", "exact"],
)
def test_terminal_tells_how_much_is_known(resent: TokenRange | None, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage = used(Usage(1000, 10, cost=0))
    after = SpentAfter("triage", "refunds", 3, usage, resent)
    tell_usage(Spending(usage, {}, [after], resent or TokenRange()), [], [])
    assert capsys.readouterr().out.splitlines()[1].rstrip().endswith(f"  {words}")
