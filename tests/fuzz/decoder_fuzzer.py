"""Hostile bytes: mutations of real ones, and what each decoder may answer.

Every target takes bytes and either accepts them or raises its own error. Anything else is a finding.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from legato import Agent, HandoffBuilder
from legato.core.codec import decode_fact, encode_fact
from legato.core.history_policies import Everything
from legato.core.planner import derive_status, make_plan
from legato.core.state import fold
from legato.core.turn_context import ToolSpec, TurnContext, decode_turn_context, encode_turn_context
from legato.core.view import select_groups
from legato.core.workflow_graph import ToolRules
from legato.errors import CodecError, DefinitionChanged, IllegalFact
from legato.runtime.transcript import list_messages
from legato.runtime.transfer import decode_session
from legato.testing import ScriptedModel, call, handoff
from legato.tools import BadArguments, tool
from tests.core.fact_builders import make_graph
from tests.core.golden import GOLDEN, read_lines

GRAPH = make_graph(ToolRules("t", needs_check=True))

WORDS = [
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"{}",
    b"[]",
    b'""',
    b'"\\ud800"',
    b"\x00",
    b"\xff",
    b"9" * 40,
    b'"fact":"message_received"',
    b"opened",
]


def mutated(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """The bytes, damaged in one to four ways."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(out) + 1)
        match dice.randrange(8):
            case 0 if out:
                out[at - 1] ^= 1 << dice.randrange(8)
            case 1:
                out[at:at] = bytes([dice.randrange(256)])
            case 2:
                del out[at : at + dice.randint(1, 9)]
            case 3:
                out[at:at] = dice.choice(WORDS)
            case 4:
                del out[at:]
            case 5:
                out[at:at] = out[at // 2 : at]
            case 6:
                other = dice.choice(others)
                out[at:] = other[dice.randrange(len(other) + 1) :]
            case _:
                out = bytearray(out.replace(dice.choice([b":", b",", b"1", b'"', b"a"]), dice.choice(WORDS), dice.randint(1, 2)))
    return bytes(out)


VALUES = [None, True, -1, 0, 1, 2, 3, 4, 2**63, 1.5, "", "a", "b", "ok", "approve", "reject", [], {}, [2, 0], [4, 1], "t", "call"]


def rearranged(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """A ledger that is well written but wrong: facts left out, doubled, swapped, borrowed, or with a value changed."""
    facts = [line for line in data.split(b"\n") if line]
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(facts))
        match dice.randrange(5):
            case 0 if len(facts) > 1:
                del facts[at]
            case 1:
                facts.insert(dice.randrange(len(facts) + 1), facts[at])
            case 2:
                other = dice.randrange(len(facts))
                facts[at], facts[other] = facts[other], facts[at]
            case 3:
                facts.insert(at, dice.choice([line for line in dice.choice(others).split(b"\n") if line]))
            case _:
                try:
                    fact = json.loads(facts[at])
                except ValueError:
                    continue
                _change(fact, dice)
                facts[at] = json.dumps(fact).encode()
    return b"\n".join(facts)


def _change(value: object, dice: random.Random) -> None:
    """Change one value somewhere inside."""
    while isinstance(value, (dict, list)) and value:
        key = dice.choice(list(value)) if isinstance(value, dict) else dice.randrange(len(value))
        if not isinstance(value[key], (dict, list)) or dice.random() < 0.3:
            value[key] = dice.choice(VALUES)
            return
        value = value[key]


def fold_lines(data: bytes) -> None:
    """A whole ledger, a fact per line: decoded, folded, asked what is owed, and shown."""
    state = fold(decode_fact(line) for line in data.split(b"\n") if line)
    now = make_plan(state, GRAPH, 99)
    repr((now, derive_status(state, GRAPH), list_messages(state), [group.entries for group in select_groups(state, Everything(), "a")]))


@tool
def order(order_id: str, cents: int, items: list[dict[str, float]] | None = None) -> str:
    """Order something."""
    return order_id


def load(data: bytes) -> None:
    """A session as text, as `workflow.load` reads it."""
    decode_session(data.decode("utf-8", "surrogateescape"), "w", None)


@dataclass
class Target:
    """A decoder, the bytes to begin with, and the errors it may raise."""

    decoder: Callable[[bytes], object]
    seeds: list[bytes]
    own: tuple[type[Exception], ...]
    well_written: bool = False


def targets() -> dict[str, Target]:
    ledgers = [path.read_bytes() for path in sorted(GOLDEN.rglob("*.jsonl"))]
    facts = [line for path in sorted(GOLDEN.rglob("*.jsonl")) for line in read_lines(path)]
    frame = encode_turn_context(TurnContext("a", "Be kind.", ("m",), (ToolSpec("t", "d", '{"type":"object"}'),)))[1]
    arguments = [b'{"order_id": "7", "cents": 100, "items": [{"a": 1.5}]}', b'{"order_id":"7","cents":1}']
    return {
        "a fact": Target(decode_fact, facts, (CodecError,), well_written=True),
        "a ledger": Target(fold_lines, ledgers, (CodecError, IllegalFact), well_written=True),
        "a frame": Target(decode_turn_context, [frame], (CodecError,)),
        "a session as text": Target(load, [asyncio.run(_portable()).encode()], (CodecError, IllegalFact, DefinitionChanged)),
        "a model's arguments": Target(lambda data: order.validate(data.decode("utf-8", "surrogateescape")), arguments, (BadArguments,)),
    }


async def _portable() -> str:
    model = ScriptedModel(by_agent={"a": [["hm", call("order", order_id="7", cents=1)], handoff("b")], "b": ["done"]})
    agents = [Agent("a", model=model, tools=[order]), Agent("b", model=model)]
    session = HandoffBuilder("w", agents).build().session("s")
    await session.run("hello")
    return await session.to_string()


@dataclass
class Findings:
    """What a round of hostile bytes showed."""

    tried: int = 0
    accepted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def attack(target: Target, times: int, seed: int) -> Iterator[Findings]:
    """Feed `times` mutated inputs to one decoder; yields the findings so far every thousand."""
    dice = random.Random(seed)
    findings = Findings()
    for findings.tried in range(1, times + 1):
        damage = rearranged if target.well_written and dice.random() < 0.7 else mutated
        data = damage(dice.choice(target.seeds), dice, target.seeds)
        try:
            decoded = target.decoder(data)
            findings.accepted += 1
            if target.decoder is decode_fact:
                assert decode_fact(encode_fact(decoded)) == decoded, "what was accepted is not read back the same"  # type: ignore[arg-type]
        except target.own as error:
            findings.refused[error.code] = findings.refused.get(error.code, 0) + 1  # type: ignore[attr-defined]
        except Exception as error:
            findings.wrong.append(f"{type(error).__name__}: {error} for {data[:200]!r}")
        if findings.tried % 1000 == 0:
            yield findings
    yield findings
