"""The report of a replay: as tables, as lists of exchanges, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.traffic.corpus import Api, Corpus
from tests.traffic.replay import FAULT_KINDS, Row, Tally
from tests.traffic.request_checks import MODEL_SETS

MAX_EXAMPLES = 5
"""The number of exchanges that `--details` shows for a row."""


def render_tables(corpus: Corpus, tallies: dict[Api, Tally], *, details: bool = False) -> str:
    """Render one table per API, and the goals."""
    lines = [f"{len(corpus):,} exchanges in {len(corpus.recordings):,} recordings, {len(corpus.damage_reports)} damaged lines"]
    lines += [f"  damaged: {each}" for each in corpus.damage_reports]
    for tally in tallies.values():
        lines += ["", *_render_api(tally, details)]
    return "\n".join(lines)


def _render_api(tally: Tally, details: bool) -> Iterator[str]:
    yield f"== {tally.api} =="
    accepted = tally.count_exchanges("accepted")
    yield _render_line("accepted by the provider", accepted)
    for models in MODEL_SETS:
        kind = f"false refusal, {models}"
        refused = tally.count_exchanges(kind)
        yield _render_line(f"  of these refused here ({models})", refused, f"{refused / accepted:.2%}" if accepted else "")
        yield from _render_rows(tally, kind, details)
    for kind, title in (("refused", "refused by the provider for the request itself"), ("no such model", "refused: no such model")):
        yield _render_line(title, tally.count_exchanges(kind))
        yield from _render_rows(tally, kind, details and kind == "refused")
    yield _render_line("not judged", tally.count_exchanges("not judged"))
    yield from _render_rows(tally, "not judged", False)
    yield _render_line("distinct answers read", tally.count_exchanges("answers read"))
    yield from _render_rows(tally, "answers read", False)
    yield _render_line("unreadable answers", tally.count_exchanges("answer not read"))
    yield from _render_rows(tally, "answer not read", False)
    for kind in FAULT_KINDS:
        yield _render_line(kind, tally.count_exchanges(kind, allowed=False))
        yield from _render_rows(tally, kind, details, hide_allowed=not details)
        if allowed_count := tally.count_exchanges(kind, allowed=True):
            yield _render_line(
                "    allowed, with a reason each",
                allowed_count,
                f"{len([row for row in tally.list_rows(kind) if row.allowed_reason])} rows",
            )
    for kind in tally.list_kinds():
        if kind.endswith("(another server)"):
            yield _render_line(kind, tally.count_exchanges(kind), f"{len(tally.list_rows(kind))} rows; --list '{kind}'")
    missed = tally.list_missed_goals()
    yield f"goals: {'met' if not missed else 'missed'}"
    yield from (f"  {each}" for each in missed)


def _render_rows(tally: Tally, kind: str, details: bool, *, hide_allowed: bool = False) -> Iterator[str]:
    for row in tally.list_rows(kind):
        if row.allowed_reason and hide_allowed:
            continue
        yield _render_line(f"    {row.name}", row.exchange_count, f"stays: {row.allowed_reason}" if row.allowed_reason else "")
        if details and not row.allowed_reason:
            yield from (f"        {line}" for line in _render_cases(row, MAX_EXAMPLES))


def _render_line(title: str, count: int, remark: str = "") -> str:
    return f"{title:<90} {count:>6,}  {remark}".rstrip()


def _render_cases(row: Row, limit: int) -> Iterator[str]:
    for case in row.cases[:limit]:
        yield f"{case.exchange.location}  {case.note}".rstrip()
    if row.exchange_count > limit:
        yield f"... and {row.exchange_count - limit} more"


def render_cases_of_rows(tallies: dict[Api, Tally], names: list[str]) -> str:
    """Render every exchange in the rows with these names or of these kinds; only the reason of rows that are allowed."""
    lines = []
    for tally in tallies.values():
        for kind in tally.list_kinds():
            for row in tally.list_rows(kind):
                if row.name in names or kind in names:
                    suffix = f", stays: {row.allowed_reason}" if row.allowed_reason else ""
                    lines.append(f"{tally.api}: {kind}: {row.name} ({row.exchange_count}){suffix}")
                    lines += [f"    {line}" for line in (_render_cases(row, row.exchange_count) if not row.allowed_reason else ())]
    if lines:
        return "\n".join(lines)
    kinds = sorted({kind for tally in tallies.values() for kind in tally.list_kinds()})
    return f"no row has the name {' or '.join(names)}; use a rule or a member, as --details shows them, or one of: {', '.join(kinds)}"


def render_json(corpus: Corpus, tallies: dict[Api, Tally]) -> str:
    """Render everything as JSON, for programs."""
    report = {
        "exchanges": len(corpus),
        "recordings": len(corpus.recordings),
        "damaged": corpus.damage_reports,
        "apis": {api: _convert_tally(tally) for api, tally in tallies.items()},
    }
    return json.dumps(report, indent=1)


def _convert_tally(tally: Tally) -> dict[str, object]:
    rows = [row for kind in tally.list_kinds() for row in tally.list_rows(kind)]
    return {
        "missed_goals": tally.list_missed_goals(),
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "count": row.exchange_count,
                "allowed": row.allowed_reason,
                "exchanges": [
                    {
                        "key": case.exchange.key,
                        "repo": case.exchange.repo,
                        "file": case.exchange.file,
                        "index": case.exchange.index,
                        "note": case.note,
                    }
                    for case in (row.cases if row.kind not in ("accepted", "answers read", "not judged") else ())
                ],
            }
            for row in rows
        ],
    }
