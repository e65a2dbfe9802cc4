"""The replay of a corpus: every request is checked with our rules, every answer is decoded and encoded again for the next request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from legato.providers.formats.anthropic.decode import PAUSED_TURN, join_messages
from tests.traffic.allowed_losses import find_allowed_loss
from tests.traffic.allowed_refusals import find_allowed_refusal
from tests.traffic.corpus import APIS, Api, Corpus, Exchange
from tests.traffic.recorded_bodies import read_recorded_body
from tests.traffic.reply_checks import ReplyFinding, find_reply_problems
from tests.traffic.request_checks import MODEL_SETS, RequestChecker, classify_outcome, identify_request, read_error

MAX_FALSE_REFUSAL_RATIO = 0.002
"""The goal: our rules refuse at most this part of the requests that a provider accepted, for any model and for the emulator's."""

MAX_NOTE_CHARS = 200
"""The number of characters shown of a value or of an error beside an exchange."""

FAULT_KINDS = (
    "rules crashed",
    "reader refused",
    "reader crashed",
    "lost in reading",
    "usage misread",
    "encoder crashed",
    "follow-up we would refuse",
    "not sent back",
    "sent back, but never came",
    "out of order in the follow-up",
)
"""The kinds of faults in our rules, decoders and encoders. The goal is to have none, except those in `allowed_losses.py`."""


class Case(Struct, frozen=True):
    """One exchange in a row."""

    exchange: Exchange
    note: str = ""


class Row(Struct):
    """Exchanges with the same finding. `allowed_reason`: the reason why the finding is allowed; empty if it is not."""

    kind: str
    name: str
    cases: list[Case]
    allowed_reason: str = ""

    @property
    def exchange_count(self) -> int:
        """The number of exchanges."""
        return len(self.cases)


class Tally:
    """The findings about one API."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._rows: dict[tuple[str, str, str], Row] = {}

    def add_exchange(self, kind: str, name: str, exchange: Exchange, note: str = "", allowed: str = "") -> None:
        """Add an exchange to a row, once."""
        row = self._rows.setdefault((kind, name, allowed), Row(kind, name, [], allowed))
        if not row.cases or row.cases[-1].exchange is not exchange:
            row.cases.append(Case(exchange, " ".join(note.split())[:MAX_NOTE_CHARS]))

    def list_rows(self, kind: str) -> list[Row]:
        """Return the rows of a kind, the largest first."""
        found = [row for row in self._rows.values() if row.kind == kind]
        return sorted(found, key=lambda row: (bool(row.allowed_reason), -row.exchange_count, row.name))

    def list_kinds(self) -> list[str]:
        """Return the kinds of the rows."""
        return list(dict.fromkeys(row.kind for row in self._rows.values()))

    def count_exchanges(self, kind: str, *, allowed: bool | None = None) -> int:
        """Return the number of exchanges in the rows of a kind, each counted once."""
        rows = [row for row in self.list_rows(kind) if allowed is None or bool(row.allowed_reason) == allowed]
        return len({id(case.exchange) for row in rows for case in row.cases})

    def list_missed_goals(self) -> list[str]:
        """Return a sentence for each missed goal."""
        missed = []
        accepted = self.count_exchanges("accepted")
        for models in MODEL_SETS:
            false_refusals = self.count_exchanges(f"false refusal, {models}")
            if false_refusals > accepted * MAX_FALSE_REFUSAL_RATIO:
                missed.append(
                    f"{false_refusals} of {accepted} accepted requests are refused ({models}); {MAX_FALSE_REFUSAL_RATIO:.1%} may be"
                )
        for kind in FAULT_KINDS:
            if count := self.count_exchanges(kind, allowed=False):
                missed.append(f"{kind}: {count} exchanges outside the list of allowed losses")
        return missed


ReportProgress = Callable[[int], None]


def replay_corpus(corpus: Corpus, progress: ReportProgress = lambda done: None) -> dict[Api, Tally]:
    """Return the findings in a corpus, by API. `progress` gets the number of exchanges that are done."""
    tallies = {api: Tally(api) for api in APIS}
    requests: set[Any] = set()
    answers: set[Any] = set()
    done = 0
    for recording in corpus.recordings:
        _replay_recording(recording, tallies, requests, answers)
        done += len(recording)
        progress(done)
    return tallies


def _replay_recording(recording: Iterable[Exchange], tallies: dict[Api, Tally], requests: set[Any], answers: set[Any]) -> None:
    checkers = {models: RequestChecker(models) for models in MODEL_SETS}
    paused: dict[str, Any] | None = None
    for exchange in recording:
        tally = tallies[exchange.api]
        outcome, skip_reason = classify_outcome(exchange)
        identity = (outcome, *identify_request(exchange))
        if skip_reason:
            tally.add_exchange("not judged", skip_reason, exchange)
        elif identity not in requests:
            requests.add(identity)
            _check_request(exchange, outcome, checkers, tally)
        if not exchange.is_accepted:
            continue
        recorded = read_recorded_body(exchange.api, exchange.response)
        if recorded.body is None:
            tally.add_exchange("answer not read", recorded.problem, exchange)
            continue
        for checker in checkers.values():
            checker.add_answer(exchange, recorded.body)
        if paused is not None and _continues_paused_turn(paused, exchange):
            recorded.body = join_messages(paused, recorded.body)
            exchange = msgspec.structs.replace(exchange, response=recorded.body)
        paused = recorded.body if recorded.body.get("stop_reason") == PAUSED_TURN else None
        answer = (exchange.api, exchange.is_from_provider, json.dumps(exchange.response, sort_keys=True))
        if answer not in answers:
            answers.add(answer)
            kind = ("event stream" if recorded.is_streamed else "whole body") if exchange.is_from_provider else "another server's answer"
            tally.add_exchange("answers read", kind, exchange)
            for finding in find_reply_problems(exchange, recorded):
                _count_finding(tally, exchange, finding)


def _continues_paused_turn(paused: dict[str, Any], exchange: Exchange) -> bool:
    """Return True if a request continues a message that the provider had paused: both answers are one reply then."""
    messages = exchange.request.get("messages") if exchange.api == "anthropic" and isinstance(exchange.request, dict) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, dict) and last.get("role") == "assistant" and bool(paused.get("content"))


def _check_request(exchange: Exchange, outcome: str, checkers: dict[Any, RequestChecker], tally: Tally) -> None:
    model = exchange.request.get("model")
    try:
        violations = {models: checker.find_violations(exchange) for models, checker in checkers.items()}
    except Exception as error:  # the row names it
        tally.add_exchange("rules crashed", type(error).__name__, exchange, str(error))
        return
    if outcome == "accepted":
        tally.add_exchange("accepted", "requests", exchange)
        for models, found in violations.items():
            if found:
                rule = found[0].rule.id
                entry = find_allowed_refusal(exchange.api, rule, model if isinstance(model, str) else "")
                tally.add_exchange(f"false refusal, {models}", rule, exchange, str(found[0]), entry.reason if entry else "")
        return
    message = read_error(exchange)["message"]
    found = violations["the emulator's models"] or violations["any model"]  # the order of violations is right only for known models
    if not found:
        tally.add_exchange(outcome, "accepted here", exchange, message)
    elif found[0].message == message:
        tally.add_exchange(outcome, "same words here", exchange, message)
    else:
        tally.add_exchange(outcome, "other words here", exchange, f"{message} | here: {found[0]}")


def _count_finding(tally: Tally, exchange: Exchange, finding: ReplyFinding) -> None:
    kind = finding.kind if exchange.is_from_provider else f"{finding.kind} (another server)"
    entry = find_allowed_loss(exchange.api, finding.kind, finding.name, finding.note)
    tally.add_exchange(kind, finding.name, exchange, finding.note, entry.reason if entry else "")
