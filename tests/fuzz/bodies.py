"""A fuzzer of request bodies: it mutates real ones and sends them to an emulator. Each must get a 200 or a typed 4xx, never a 500.

`python -m tests.fuzz.bodies` (`make fuzz-bodies`) sends 100,000; a sample is in `make test`.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from legato.emulator import serve
from tests.fuzz.decoder_fuzzer import mutate_bytes
from tests.providers.rules.anthropic.cases import CASES as ANTHROPIC
from tests.providers.rules.chat.cases import CASES as CHAT
from tests.providers.rules.responses.cases import CASES as RESPONSES

PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
MEMBER_NAMES = ["bogus", "id", "type", "stream", "store", "content", "call_id", "status", "tools", "role", "thinking"]
JUNK_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 7, 2**63, -(2**70), 1.5, 1e308),
    *("", "a", "x" * 300, "\u0000", "\U0001f600", "call_1", "gpt-4o", "auto", "none", "{r1.id}"),
    *([], {}, [[]], [{}], {"": 1}, [None], ["a", 1], {"type": None}),
    *({"type": "function"}, {"type": "message"}, {"role": "user", "content": "hi"}),
]


def collect_seed_bodies() -> dict[str, list[dict[str, Any]]]:
    """Return the requests of every case of the provider rules, the legal and the illegal ones."""
    return {
        api: [body for case in cases for body in (case.illegal, case.legal) if isinstance(body, dict)]
        for api, cases in (("responses", RESPONSES), ("chat", CHAT), ("anthropic", ANTHROPIC))
    }


def mutate_body(body: dict[str, Any], dice: random.Random, others: list[dict[str, Any]]) -> bytes:
    """Return a body with one to four changes at any depth; now and then also with mutated bytes."""
    body = copy.deepcopy(body)
    for _ in range(dice.choice([1, 1, 1, 2, 3, 4])):
        places = list(_list_places(body))  # pairs of a container and a key
        if not places:
            body = copy.deepcopy(dice.choice(others))
            continue
        container, key = dice.choice(places)
        match dice.randrange(7):
            case 0:
                del container[key]
            case 1:
                container[key] = copy.deepcopy(dice.choice(JUNK_VALUES))
            case 2 if isinstance(container, dict):
                container[dice.choice(MEMBER_NAMES)] = copy.deepcopy(dice.choice(JUNK_VALUES))
            case 2 | 3 if isinstance(container, list):
                container.insert(dice.randrange(len(container) + 1), copy.deepcopy(dice.choice(container)))
            case 4:
                inner = container[key]
                for _ in range(dice.choice([1, 3, 200])):
                    inner = [inner] if dice.random() < 0.5 else {"a": inner}
                container[key] = inner
            case 5:
                _, other = dice.choice([(None, body), *((None, other) for other in others)])
                other_places = list(_list_places(other))
                if other_places:
                    source, name = dice.choice(other_places)
                    container[key] = copy.deepcopy(source[name])
            case _:
                container[key] = str(container[key]) if dice.random() < 0.5 else [container[key]]
    data = json.dumps(body).encode()
    return mutate_bytes(data, dice, [data]) if dice.random() < 0.1 else data


def _list_places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        if depth < 30:
            yield from _list_places(value[key], depth + 1)


@dataclass
class BodyFuzzReport:
    """The answers so far. `failures`: those that are neither a 200 nor a typed 4xx."""

    body_count: int = 0
    status_counts: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def fuzz_emulator(url: str, times: int, seed: int) -> Iterator[BodyFuzzReport]:
    """Send this many mutated bodies; yield the report so far every hundred."""
    dice, bodies, report = random.Random(seed), collect_seed_bodies(), BodyFuzzReport()
    with httpx2.Client(base_url=url, timeout=30) as client:
        for report.body_count in range(1, times + 1):
            api = dice.choice(list(PATHS))
            data = mutate_body(dice.choice(bodies[api]), dice, bodies[api])
            headers = {"authorization": "Bearer sk-fuzz", "content-type": "application/json"}
            if api == "anthropic":
                headers |= {"anthropic-version": "2023-06-01"}
            try:
                answer = client.post(PATHS[api], content=data, headers=headers)
            except httpx2.TransportError as error:
                report.failures.append(f"{api}: {error!r} for {data[:600]!r}")
                continue
            report.status_counts[answer.status_code] += 1
            if problem := _find_problem(api, answer):
                report.failures.append(f"{api}: {problem} for {data[:600]!r}")
            if report.body_count % 100 == 0:
                yield report
    yield report


def _find_problem(api: str, answer: httpx2.Response) -> str:
    """Return the problem of an answer; empty if it has none."""
    if answer.status_code == 200:
        return "" if answer.content else "an empty answer"
    if not 400 <= answer.status_code < 500:
        return f"{answer.status_code} {answer.text[:200]}"
    try:
        error = answer.json()["error"]
        return "" if isinstance(error["message"], str) and isinstance(error["type"], str) else f"an untyped error {error}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} without an error object: {answer.text[:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun, report = time.monotonic(), BodyFuzzReport()
    with serve(max_exchanges=10) as emulator:
        for report in fuzz_emulator(emulator.url, options.times, options.seed):
            if sys.stderr.isatty() or report.body_count % 5000 == 0:
                print(f"\r{report.body_count:,} bodies, {len(report.failures)} wrong", end="", flush=True, file=sys.stderr)
    statuses = ", ".join(f"{status} x{times:,}" for status, times in sorted(report.status_counts.items()))
    print(f"\n{report.body_count:,} bodies: {statuses}; {len(report.failures)} wrong; {time.monotonic() - begun:.0f} s")
    for each in report.failures[:10]:
        print("   ", each)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
