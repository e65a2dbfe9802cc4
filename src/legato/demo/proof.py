"""What happened, from the ledger, compared with what went over HTTP. May know: the desk. Decides: whether all of it is true.

Nothing here knows the lines of the play: it holds for any conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

from legato.core.facts import Answered, HandedOff, Lost, Opened, Said, Started
from legato.core.messages import Message
from legato.demo.desk import SESSION, Places, build
from legato.demo.provider import Provider
from legato.demo.stage import Stage
from legato.demo.traffic import Element, Sent, seen, told, traffic
from legato.session import Session
from legato.stores import SQLiteStore


@dataclass(frozen=True)
class Row:
    """One request that a model was asked: what its agent saw by the ledger, and what went over HTTP for it."""

    agent: str
    elements: list[Element]
    kinds: list[str]
    positions: tuple[int, ...]
    calls: Counter[str]
    outputs: Counter[str]
    told: list[Element]
    held: int  # so many of the messages the provider had already
    sent: Sent | None


async def prove(places: Places, stage: Stage, provider: Provider) -> bool:
    """Show the transcript, the handoffs, what each agent saw, what went over HTTP, and whether every message is there once."""
    store = SQLiteStore(places.ledger)
    http = traffic(places)
    try:
        session = await build(places, provider.model).session(SESSION, store=store).refresh()
        rows = await _rows(session, {sent.turn: sent for sent in http if sent.status == 200})
    finally:
        await store.close()
    _transcript(session, stage)
    _requests(rows, stage)
    return _verdict(session, places, rows, http, stage, provider)


async def _rows(session: Session, sent: Mapping[int, Sent]) -> list[Row]:
    replies = [fact for fact in session.facts if isinstance(fact, Answered)]
    rows = []
    for turn, (known, before) in enumerate(told(sent, replies)):
        request = await session.seen(turn)
        messages, elements = request.messages, seen(request)
        rows.append(
            Row(
                agent=request.agent,
                elements=[element for each in elements for element in each],
                kinds=[_kind(message) for message in messages],
                positions=tuple(message.position for message in messages if message.role != "tool"),
                calls=Counter(call.id for message in messages for call in message.calls),
                outputs=Counter(message.call for message in messages if message.role == "tool"),
                told=known,
                held=sum(ends <= before for ends in accumulate(map(len, elements))),
                sent=sent.get(turn),
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
    stage.rule("what each agent saw, and what of it went over HTTP")
    stage.line(stage.paint("  U you, T triage, R refunds, o the output of a call; the provider held what stands before |", "dim"))
    for number, row in enumerate(rows, 1):
        weight = f"{row.sent.bytes:>6,} bytes" if row.sent else ""
        stage.sequence(f"{number} {row.agent}", row.agent, weight, row.kinds, row.held)


def _verdict(session: Session, places: Places, rows: list[Row], http: list[Sent], stage: Stage, provider: Provider) -> bool:
    facts = session.facts
    said = [position for position, fact in enumerate(facts) if isinstance(fact, Said)]
    last = Counter(rows[-1].positions) if rows else Counter[int]()
    once = all(last[position] == 1 for position in said) and all(max(Counter(row.positions).values()) == 1 for row in rows)
    grows = all(later.elements[: len(earlier.elements)] == earlier.elements for earlier, later in pairwise(rows))
    answered = all(row.calls == row.outputs and set(row.calls.values()) <= {1} for row in rows)
    as_sent = all(row.told == row.elements for row in rows)
    starts = sum(1 for fact in facts if isinstance(fact, Started) and _tool(session, fact) == "refund")
    booked = places.booked()
    handoffs = sum(isinstance(fact, HandedOff) for fact in facts)
    opened = sum(isinstance(fact, Opened) for fact in facts)
    started, killed = places.count("started"), places.count("killed")
    stage.rule("the proof")
    checks = [
        (once and opened == 1, f"{len(said)} messages from you: each is in the last request once, in order"),
        (grows, f"{len(rows)} requests, {handoffs} handoffs, {started} processes: each request begins with the one before it"),
        (answered, f"{sum(rows[-1].calls.values()) if rows else 0} calls: each has exactly one output in every request"),
        (as_sent, "the bytes sent over HTTP say what the ledger says: nothing missing, nothing twice"),
        (not (provider.emulator and provider.emulator.log.refusals), _about_traffic(http, rows)),  # as the provider itself counts
        (len(booked) <= starts, _about_bank(booked, starts, killed, any(isinstance(fact, Lost) for fact in facts))),
    ]
    for holds, words in checks:
        stage.does("yes" if holds else "dead", words, "green" if holds else "red")
    for entry in booked:
        stage.says("bank's book", entry)
    return all(holds for holds, _ in checks)


def _about_traffic(http: list[Sent], rows: list[Row]) -> str:
    refused = sum(sent.refused for sent in http)
    told = f"{len(http)} requests over HTTP, {refused} refused, {sum(sent.bytes for sent in http):,} bytes"
    ours = [element for element in rows[-1].elements if element[0] in ("user", "output")] if rows else []
    once = sum(len(sent.body.get("input", ())) for sent in http) == len(ours)
    return f"{told}: everything was sent once" if once else told


def _about_bank(booked: list[str], starts: int, killed: int, lost: bool) -> str:
    times = {1: "once", 2: "twice"}.get(killed, f"{killed} times")
    told = f"killed {times}, {'once while the bank paid: ' if lost else 'and '}" if killed else ""
    if not booked:
        return f"{told}the bank paid nothing: {'nobody got to it' if starts else 'nothing was approved'}"
    if len(booked) == 1:
        return f"{told}the bank paid once"
    return f"{told}the bank paid {len(booked)} times, as it was told"


def _tool(session: Session, fact: Started) -> str:
    call = session.state.call(fact.call)
    return call.call.tool if call else ""
