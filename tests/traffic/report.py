"""Prints what a replay has found: as tables, as lists of exchanges, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.traffic.corpus import Api, Corpus
from tests.traffic.replay import FAULTS, Row, Tally
from tests.traffic.verdicts import MODELS

EXAMPLES = 5
"""How many exchanges `--details` shows behind a row."""


def table(corpus: Corpus, tallies: dict[Api, Tally], *, details: bool = False) -> str:
    """One table per API, and the goals."""
    lines = [f"{len(corpus):,} exchanges in {len(corpus.recordings):,} recordings, {len(corpus.damaged)} damaged lines"]
    lines += [f"  damaged: {each}" for each in corpus.damaged]
    for tally in tallies.values():
        lines += ["", *_of_api(tally, details)]
    return "\n".join(lines)


def _of_api(tally: Tally, details: bool) -> Iterator[str]:
    yield f"== {tally.api} =="
    accepted = tally.count("accepted")
    yield _line("accepted by the provider", accepted)
    for models in MODELS:
        kind = f"false refusal, {models}"
        refused = tally.count(kind)
        yield _line(f"  of these refused here ({models})", refused, f"{refused / accepted:.2%}" if accepted else "")
        yield from _rows(tally, kind, details)
    for kind, title in (("refused", "refused by the provider for the request itself"), ("no such model", "refused: no such model")):
        yield _line(title, tally.count(kind))
        yield from _rows(tally, kind, details and kind == "refused")
    yield _line("not judged", tally.count("not judged"))
    yield from _rows(tally, "not judged", False)
    yield _line("distinct answers read", tally.count("answers read"))
    yield from _rows(tally, "answers read", False)
    yield _line("answers that cannot be read by anybody", tally.count("answer not read"))
    yield from _rows(tally, "answer not read", False)
    for kind in FAULTS:
        yield _line(kind, tally.count(kind, allowed=False))
        yield from _rows(tally, kind, details, hide_allowed=not details)
        if allowed := tally.count(kind, allowed=True):
            yield _line("    allowed, with a reason each", allowed, f"{len([row for row in tally.rows(kind) if row.allowed])} rows")
    for kind in tally.kinds():
        if kind.endswith("(another server)"):
            yield _line(kind, tally.count(kind), f"{len(tally.rows(kind))} rows; --list '{kind}'")
    missed = tally.missed_goals()
    yield f"goals: {'met' if not missed else 'missed'}"
    yield from (f"  {each}" for each in missed)


def _rows(tally: Tally, kind: str, details: bool, *, hide_allowed: bool = False) -> Iterator[str]:
    for row in tally.rows(kind):
        if row.allowed and hide_allowed:
            continue
        yield _line(f"    {row.name}", row.count, f"stays: {row.allowed}" if row.allowed else "")
        if details and not row.allowed:
            yield from (f"        {line}" for line in _cases(row, EXAMPLES))


def _line(title: str, count: int, remark: str = "") -> str:
    return f"{title:<90} {count:>6,}  {remark}".rstrip()


def _cases(row: Row, most: int) -> Iterator[str]:
    for case in row.cases[:most]:
        yield f"{case.exchange.place}  {case.note}".rstrip()
    if row.count > most:
        yield f"... and {row.count - most} more"


def list_cases(tallies: dict[Api, Tally], names: list[str]) -> str:
    """Every exchange behind the rows of these names, or of these kinds; of those that are allowed only the reason."""
    lines = []
    for tally in tallies.values():
        for kind in tally.kinds():
            for row in tally.rows(kind):
                if row.name in names or kind in names:
                    lines.append(f"{tally.api}: {kind}: {row.name} ({row.count}){f', stays: {row.allowed}' if row.allowed else ''}")
                    lines += [f"    {line}" for line in (_cases(row, row.count) if not row.allowed else ())]
    if lines:
        return "\n".join(lines)
    kinds = sorted({kind for tally in tallies.values() for kind in tally.kinds()})
    return f"no row has the name {' or '.join(names)}; there are rules and members, as --details shows them, and: {', '.join(kinds)}"


def as_json(corpus: Corpus, tallies: dict[Api, Tally]) -> str:
    """Everything, for programs."""
    found = {
        "exchanges": len(corpus),
        "recordings": len(corpus.recordings),
        "damaged": corpus.damaged,
        "apis": {api: _api_as_json(tally) for api, tally in tallies.items()},
    }
    return json.dumps(found, indent=1)


def _api_as_json(tally: Tally) -> dict[str, object]:
    rows = [row for kind in tally.kinds() for row in tally.rows(kind)]
    return {
        "missed_goals": tally.missed_goals(),
        "rows": [
            {
                "kind": row.kind,
                "name": row.name,
                "count": row.count,
                "allowed": row.allowed,
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
