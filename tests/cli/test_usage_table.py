"""The table of token usage and cost."""

from __future__ import annotations

import pytest

from legato import Usage
from legato.cli.usage_table import print_usage
from legato.inspection.usage_report import HandoffUsage, TokenRange, UsageReport, to_token_usage


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
def test_unknown_cost_differs_from_free(usage: Usage, dollars: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_usage(UsageReport(to_token_usage(usage), {}, [], TokenRange()), [], [])
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=5)[-1].strip() == dollars


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
def test_resent_tokens_show_what_is_known(resent: TokenRange | None, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage = to_token_usage(Usage(1000, 10, cost=0))
    after = HandoffUsage("triage", "refunds", 3, usage, resent)
    print_usage(UsageReport(usage, {}, [after], resent or TokenRange()), [], [])
    assert capsys.readouterr().out.splitlines()[1].rstrip().endswith(f"  {words}")
