"""What happened, from the ledger, compared with what was noted outside it. May know: the desk. Decides: whether all of it is true."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from legato.core.facts import HandedOff, Lost, Opened, Said, Started
from legato.core.messages import Message
from legato.demo.desk import SESSION, Places, build, noted
from legato.demo.stage import Stage
from legato.session import Session
from legato.stores import SQLiteStore


@dataclass(frozen=True)
class Row:
    """One request that a model was asked."""

    agent: str
    messages: list[list[str]]
    kinds: list[str]
    positions: tuple[int, ...]
    calls: Counter[str]
    outputs: Counter[str]
    as_sent: bool


async def prove(places: Places, stage: Stage, processes: int) -> bool:
    """Show the transcript, the handoffs, what each agent saw, and whether every message is there once."""
    store = SQLiteStore(places.ledger)
    try:
        session = await build(places).session(SESSION, store=store).refresh()
        rows = await _rows(session, places)
    finally:
        await store.close()
    _transcript(session, stage)
    _requests(rows, stage)
    return _verdict(session, places, rows, stage, processes)


async def _rows(session: Session, places: Places) -> list[Row]:
    lines = places.requests.read_text().splitlines() if places.requests.exists() else []
    sent = {note["turn"]: note["messages"] for note in map(json.loads, lines)}
    rows = []
    for turn in range(session.state.replies):
        request = await session.seen(turn)
        messages = request.messages
        rows.append(
            Row(
                agent=request.agent,
                messages=noted(request),
                kinds=[_kind(message) for message in messages],
                positions=tuple(message.position for message in messages if message.role != "tool"),
                calls=Counter(call.id for message in messages for call in message.calls),
                outputs=Counter(message.call for message in messages if message.role == "tool"),
                as_sent=noted(request) == sent.get(turn),
            )
        )
    return rows


def _kind(message: Message) -> str:
    return {"user": "customer", "tool": "output"}.get(message.role, message.author_name)


def _transcript(session: Session, stage: Stage) -> None:
    stage.rule("the conversation, from the ledger")
    handoffs = [(position, fact) for position, fact in enumerate(session.facts) if isinstance(fact, HandedOff)]
    for message in session.messages:
        while handoffs and handoffs[0][0] < message.position:
            _, fact = handoffs.pop(0)
            stage.does("handoff", f"{fact.source} -> {fact.target}")
        stage.says(message.author_name or "customer", message.text)


def _requests(rows: list[Row], stage: Stage) -> None:
    stage.rule("what each agent saw: U you, T triage, R refunds, o the output of a call")
    for number, row in enumerate(rows, 1):
        stage.sequence(f"{number} {row.agent}", row.agent, row.kinds)


def _verdict(session: Session, places: Places, rows: list[Row], stage: Stage, processes: int) -> bool:
    facts = session.facts
    said = [position for position, fact in enumerate(facts) if isinstance(fact, Said)]
    last = Counter(rows[-1].positions) if rows else Counter[int]()
    once = all(last[position] == 1 for position in said) and all(max(Counter(row.positions).values()) == 1 for row in rows)
    grows = all(later.messages[: len(earlier.messages)] == earlier.messages for earlier, later in pairwise(rows))
    answered = all(row.calls == row.outputs and set(row.calls.values()) <= {1} for row in rows)
    as_sent = all(row.as_sent for row in rows)
    starts = sum(1 for fact in facts if isinstance(fact, Started) and _tool(session, fact) == "refund")
    booked = places.booked()
    lost = sum(isinstance(fact, Lost) for fact in facts)
    handoffs = sum(isinstance(fact, HandedOff) for fact in facts)
    opened = sum(isinstance(fact, Opened) for fact in facts)
    stage.rule("the proof")
    checks = [
        (once and opened == 1, f"{len(said)} messages from you: each is in the last request once, in order"),
        (grows, f"{len(rows)} requests, {handoffs} handoffs, {processes} processes: each request begins with the one before it"),
        (answered, f"{sum(rows[-1].calls.values()) if rows else 0} calls: each has exactly one output in every request"),
        (as_sent, "what the models were really sent is what the ledger says they saw"),
        (len(booked) == starts, _about_bank(booked, starts, lost)),
    ]
    for holds, words in checks:
        stage.does("yes" if holds else "dead", words, "green" if holds else "red")
    for entry in booked:
        stage.says("bank's book", entry)
    return all(holds for holds, _ in checks)


def _about_bank(booked: list[str], starts: int, lost: int) -> str:
    if starts == 0 or not booked:
        return f"the bank paid {len(booked)} times: nothing was approved"
    if starts == 1:
        return f"the bank paid once{', although the process died while it paid' if lost else ''}"
    return f"the bank paid {len(booked)} times: a person asked for each of them"


def _tool(session: Session, fact: Started) -> str:
    call = session.state.call(fact.call)
    return call.call.tool if call else ""
