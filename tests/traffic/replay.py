"""Replays a corpus: every request against our rules, every answer through our readers and back through our encoders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from legato.providers.formats.anthropic.decode import PAUSED_TURN, join_messages
from tests.traffic.allowed_losses import allowed_loss
from tests.traffic.allowed_refusals import allowed_refusal
from tests.traffic.bodies import recorded_body
from tests.traffic.corpus import APIS, Api, Corpus, Exchange
from tests.traffic.replies import Finding, findings_of
from tests.traffic.verdicts import MODELS, Judge, error_of, outcome_of, request_identity

MOST_FALSE_REFUSALS = 0.002
"""The goal: at most this part of what a provider accepted is refused here, for any model and for the emulator's."""

MAX_NOTE_CHARS = 200
"""How much of a value or of an error is shown beside an exchange."""

FAULTS = (
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
"""What may be wrong with our rules, readers and encoders. None of it may be left, but for what `allowed_losses.py` names."""


class Case(Struct, frozen=True):
    """One exchange behind a row."""

    exchange: Exchange
    note: str = ""


class Row(Struct):
    """What happened to some exchanges alike. `allowed`: the reason for which it stays so."""

    kind: str
    name: str
    cases: list[Case]
    allowed: str = ""

    @property
    def count(self) -> int:
        """How many exchanges there are."""
        return len(self.cases)


class Tally:
    """Everything that was found about one API."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._rows: dict[tuple[str, str, str], Row] = {}

    def add(self, kind: str, name: str, exchange: Exchange, note: str = "", allowed: str = "") -> None:
        """Count an exchange in a row, once."""
        row = self._rows.setdefault((kind, name, allowed), Row(kind, name, [], allowed))
        if not row.cases or row.cases[-1].exchange is not exchange:
            row.cases.append(Case(exchange, " ".join(note.split())[:MAX_NOTE_CHARS]))

    def rows(self, kind: str) -> list[Row]:
        """The rows of a kind, the largest first."""
        found = [row for row in self._rows.values() if row.kind == kind]
        return sorted(found, key=lambda row: (bool(row.allowed), -row.count, row.name))

    def kinds(self) -> list[str]:
        """The kinds of rows there are."""
        return list(dict.fromkeys(row.kind for row in self._rows.values()))

    def count(self, kind: str, *, allowed: bool | None = None) -> int:
        """How many exchanges stand behind the rows of a kind, each once."""
        rows = [row for row in self.rows(kind) if allowed is None or bool(row.allowed) == allowed]
        return len({id(case.exchange) for row in rows for case in row.cases})

    def missed_goals(self) -> list[str]:
        """Which goals are missed, in words."""
        missed = []
        accepted = self.count("accepted")
        for models in MODELS:
            false = self.count(f"false refusal, {models}")
            if false > accepted * MOST_FALSE_REFUSALS:
                missed.append(f"{false} of {accepted} accepted requests are refused ({models}); {MOST_FALSE_REFUSALS:.1%} may be")
        for kind in FAULTS:
            if wrong := self.count(kind, allowed=False):
                missed.append(f"{kind}: {wrong} exchanges outside the list of allowed losses")
        return missed


Progress = Callable[[int], None]


def replay(corpus: Corpus, progress: Progress = lambda done: None) -> dict[Api, Tally]:
    """Everything that is found in a corpus, by API. `progress` is told how many exchanges are done."""
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
    judges = {models: Judge(models) for models in MODELS}
    paused: dict[str, Any] | None = None
    for exchange in recording:
        tally = tallies[exchange.api]
        outcome, why = outcome_of(exchange)
        identity = (outcome, *request_identity(exchange))
        if why:
            tally.add("not judged", why, exchange)
        elif identity not in requests:
            requests.add(identity)
            _judge(exchange, outcome, judges, tally)
        if not exchange.accepted:
            continue
        recorded = recorded_body(exchange.api, exchange.response)
        if recorded.body is None:
            tally.add("answer not read", recorded.why, exchange)
            continue
        for judge in judges.values():
            judge.learn(exchange, recorded.body)
        if paused is not None and _goes_on_from(paused, exchange):
            recorded.body = join_messages(paused, recorded.body)
            exchange = msgspec.structs.replace(exchange, response=recorded.body)
        paused = recorded.body if recorded.body.get("stop_reason") == PAUSED_TURN else None
        answer = (exchange.api, exchange.of_provider, json.dumps(exchange.response, sort_keys=True))
        if answer not in answers:
            answers.add(answer)
            kind = ("event stream" if recorded.streamed else "whole body") if exchange.of_provider else "another server's answer"
            tally.add("answers read", kind, exchange)
            for finding in findings_of(exchange, recorded):
                _count_finding(tally, exchange, finding)


def _goes_on_from(paused: dict[str, Any], exchange: Exchange) -> bool:
    """Whether a request has the provider go on with a message that it had paused: both answers are one reply then."""
    messages = exchange.request.get("messages") if exchange.api == "anthropic" and isinstance(exchange.request, dict) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, dict) and last.get("role") == "assistant" and bool(paused.get("content"))


def _judge(exchange: Exchange, outcome: str, judges: dict[Any, Judge], tally: Tally) -> None:
    model = exchange.request.get("model")
    try:
        complaints = {models: judge.complaints(exchange) for models, judge in judges.items()}
    except Exception as error:  # whatever it is, the row says so
        tally.add("rules crashed", type(error).__name__, exchange, str(error))
        return
    if outcome == "accepted":
        tally.add("accepted", "requests", exchange)
        for models, found in complaints.items():
            if found:
                rule = found[0].rule.id
                entry = allowed_refusal(exchange.api, rule, model if isinstance(model, str) else "")
                tally.add(f"false refusal, {models}", rule, exchange, str(found[0]), entry.reason if entry else "")
        return
    told = error_of(exchange)["message"]
    found = complaints["the emulator's models"] or complaints["any model"]  # who knows the model knows the order of complaints
    if not found:
        tally.add(outcome, "accepted here", exchange, told)
    elif found[0].message == told:
        tally.add(outcome, "same words here", exchange, told)
    else:
        tally.add(outcome, "other words here", exchange, f"{told} | here: {found[0]}")


def _count_finding(tally: Tally, exchange: Exchange, finding: Finding) -> None:
    kind = finding.kind if exchange.of_provider else f"{finding.kind} (another server)"
    entry = allowed_loss(exchange.api, finding.kind, finding.name, finding.note)
    tally.add(kind, finding.name, exchange, finding.note, entry.reason if entry else "")
