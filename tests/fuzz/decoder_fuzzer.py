"""A fuzzer of decoders: it mutates real inputs. A decoder must accept them or raise one of its own errors; all else is a failure."""

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

INSERTED_BYTES = [
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


def mutate_bytes(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """Return the bytes with one to four random changes."""
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
                out[at:at] = dice.choice(INSERTED_BYTES)
            case 4:
                del out[at:]
            case 5:
                out[at:at] = out[at // 2 : at]
            case 6:
                other = dice.choice(others)
                out[at:] = other[dice.randrange(len(other) + 1) :]
            case _:
                out = bytearray(out.replace(dice.choice([b":", b",", b"1", b'"', b"a"]), dice.choice(INSERTED_BYTES), dice.randint(1, 2)))
    return bytes(out)


INSERTED_VALUES = [None, True, -1, 0, 1, 2, 3, 4, 2**63, 1.5, "", "a", "b", "ok", "approve", "reject", [], {}, [2, 0], [4, 1], "t", "call"]


def mutate_facts(data: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """Return a ledger with valid lines but wrong facts: some are omitted, doubled, swapped, taken from others, or have a changed value."""
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
                _change_one_value(fact, dice)
                facts[at] = json.dumps(fact).encode()
    return b"\n".join(facts)


def _change_one_value(value: object, dice: random.Random) -> None:
    """Change one value at any depth."""
    while isinstance(value, (dict, list)) and value:
        key = dice.choice(list(value)) if isinstance(value, dict) else dice.randrange(len(value))
        if not isinstance(value[key], (dict, list)) or dice.random() < 0.3:
            value[key] = dice.choice(INSERTED_VALUES)
            return
        value = value[key]


def fold_lines(data: bytes) -> None:
    """Decode and fold a whole ledger with one fact per line, make its plan, and list its messages and groups."""
    state = fold(decode_fact(line) for line in data.split(b"\n") if line)
    now = make_plan(state, GRAPH, 99)
    repr((now, derive_status(state, GRAPH), list_messages(state), [group.entries for group in select_groups(state, Everything(), "a")]))


@tool
def order(order_id: str, cents: int, items: list[dict[str, float]] | None = None) -> str:
    """Order something."""
    return order_id


def load_session_text(data: bytes) -> None:
    """Decode an exported session, as `workflow.load` does."""
    decode_session(data.decode("utf-8", "surrogateescape"), "w", None)


@dataclass
class DecoderTarget:
    """A decoder, its valid inputs, and the errors that it may raise."""

    decoder: Callable[[bytes], object]
    seeds: list[bytes]
    expected_errors: tuple[type[Exception], ...]
    has_fact_lines: bool = False


def make_targets() -> dict[str, DecoderTarget]:
    ledgers = [path.read_bytes() for path in sorted(GOLDEN.rglob("*.jsonl"))]
    facts = [line for path in sorted(GOLDEN.rglob("*.jsonl")) for line in read_lines(path)]
    context = encode_turn_context(TurnContext("a", "Be kind.", ("m",), (ToolSpec("t", "d", '{"type":"object"}'),)))[1]
    arguments = [b'{"order_id": "7", "cents": 100, "items": [{"a": 1.5}]}', b'{"order_id":"7","cents":1}']
    return {
        "a fact": DecoderTarget(decode_fact, facts, (CodecError,), has_fact_lines=True),
        "a ledger": DecoderTarget(fold_lines, ledgers, (CodecError, IllegalFact), has_fact_lines=True),
        "a turn context": DecoderTarget(decode_turn_context, [context], (CodecError,)),
        "a session as text": DecoderTarget(
            load_session_text, [asyncio.run(_export_session()).encode()], (CodecError, IllegalFact, DefinitionChanged)
        ),
        "a model's arguments": DecoderTarget(
            lambda data: order.validate(data.decode("utf-8", "surrogateescape")), arguments, (BadArguments,)
        ),
    }


async def _export_session() -> str:
    model = ScriptedModel(by_agent={"a": [["hm", call("order", order_id="7", cents=1)], handoff("b")], "b": ["done"]})
    agents = [Agent("a", model=model, tools=[order]), Agent("b", model=model)]
    session = HandoffBuilder("w", agents).build().session("s")
    await session.run("hello")
    return await session.to_string()


@dataclass
class FuzzReport:
    """The results of fuzzing one decoder. `failures`: unexpected errors, and values that are not encoded back to themselves."""

    input_count: int = 0
    accepted_count: int = 0
    refusal_counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def fuzz_decoder(target: DecoderTarget, times: int, seed: int) -> Iterator[FuzzReport]:
    """Feed `times` mutated inputs to one decoder; yield the report so far every thousand."""
    dice = random.Random(seed)
    report = FuzzReport()
    for report.input_count in range(1, times + 1):
        mutate = mutate_facts if target.has_fact_lines and dice.random() < 0.7 else mutate_bytes
        data = mutate(dice.choice(target.seeds), dice, target.seeds)
        try:
            decoded = target.decoder(data)
            report.accepted_count += 1
            if target.decoder is decode_fact:
                assert decode_fact(encode_fact(decoded)) == decoded, "the accepted fact changes when it is encoded and decoded"  # type: ignore[arg-type]
        except target.expected_errors as error:
            report.refusal_counts[error.code] = report.refusal_counts.get(error.code, 0) + 1  # type: ignore[attr-defined]
        except Exception as error:
            report.failures.append(f"{type(error).__name__}: {error} for {data[:200]!r}")
        if report.input_count % 1000 == 0:
            yield report
    yield report
