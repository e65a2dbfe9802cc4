"""Hostile request bodies: real ones, spoiled, sent to a running emulator. Each must get a 200 or a typed 4xx, never a 500.

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
from tests.fuzz.hostile import mutated
from tests.providers.rules.anthropic.cases import CASES as ANTHROPIC
from tests.providers.rules.chat.cases import CASES as CHAT
from tests.providers.rules.responses.cases import CASES as RESPONSES

PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
NAMES = ["bogus", "id", "type", "stream", "store", "content", "call_id", "status", "tools", "role", "thinking"]
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 7, 2**63, -(2**70), 1.5, 1e308),
    *("", "a", "x" * 300, "\u0000", "\U0001f600", "call_1", "gpt-4o", "auto", "none", "{r1.id}"),
    *([], {}, [[]], [{}], {"": 1}, [None], ["a", 1], {"type": None}),
    *({"type": "function"}, {"type": "message"}, {"role": "user", "content": "hi"}),
]


def seeds() -> dict[str, list[dict[str, Any]]]:
    """The requests of every case of the law books, the legal and the illegal ones."""
    return {
        api: [body for case in cases for body in (case.illegal, case.legal) if isinstance(body, dict)]
        for api, cases in (("responses", RESPONSES), ("chat", CHAT), ("anthropic", ANTHROPIC))
    }


def spoiled(body: dict[str, Any], dice: random.Random, others: list[dict[str, Any]]) -> bytes:
    """One to four things changed anywhere inside; now and then the bytes themselves."""
    body = copy.deepcopy(body)
    for _ in range(dice.choice([1, 1, 1, 2, 3, 4])):
        places = list(_places(body))
        if not places:
            body = copy.deepcopy(dice.choice(others))
            continue
        holder, key = dice.choice(places)
        match dice.randrange(7):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(dice.choice(JUNK))
            case 2 if isinstance(holder, dict):
                holder[dice.choice(NAMES)] = copy.deepcopy(dice.choice(JUNK))
            case 2 | 3 if isinstance(holder, list):
                holder.insert(dice.randrange(len(holder) + 1), copy.deepcopy(dice.choice(holder)))
            case 4:
                inner = holder[key]
                for _ in range(dice.choice([1, 3, 200])):
                    inner = [inner] if dice.random() < 0.5 else {"a": inner}
                holder[key] = inner
            case 5:
                _, other = dice.choice([(None, body), *((None, other) for other in others)])
                found = list(_places(other))
                if found:
                    source, name = dice.choice(found)
                    holder[key] = copy.deepcopy(source[name])
            case _:
                holder[key] = str(holder[key]) if dice.random() < 0.5 else [holder[key]]
    data = json.dumps(body).encode()
    return mutated(data, dice, [data]) if dice.random() < 0.1 else data


def _places(value: Any, deep: int = 0) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        if deep < 30:
            yield from _places(value[key], deep + 1)


@dataclass
class Answers:
    """What came back."""

    tried: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def attack(url: str, times: int, seed: int) -> Iterator[Answers]:
    """Send so many spoiled bodies; yields the answers so far every hundred."""
    dice, bodies, answers = random.Random(seed), seeds(), Answers()
    with httpx2.Client(base_url=url, timeout=30) as client:
        for answers.tried in range(1, times + 1):
            api = dice.choice(list(PATHS))
            data = spoiled(dice.choice(bodies[api]), dice, bodies[api])
            headers = {"authorization": "Bearer sk-fuzz", "content-type": "application/json"}
            if api == "anthropic":
                headers |= {"anthropic-version": "2023-06-01"}
            try:
                answer = client.post(PATHS[api], content=data, headers=headers)
            except httpx2.TransportError as error:
                answers.wrong.append(f"{api}: {error!r} for {data[:600]!r}")
                continue
            answers.statuses[answer.status_code] += 1
            if wrong := _wrong(api, answer):
                answers.wrong.append(f"{api}: {wrong} for {data[:600]!r}")
            if answers.tried % 100 == 0:
                yield answers
    yield answers


def _wrong(api: str, answer: httpx2.Response) -> str:
    """What is wrong with an answer, if anything."""
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
    given = parser.parse_args()
    begun, answers = time.monotonic(), Answers()
    with serve(max_exchanges=10) as emulator:
        for answers in attack(emulator.url, given.times, given.seed):
            if sys.stderr.isatty() or answers.tried % 5000 == 0:
                print(f"\r{answers.tried:,} bodies, {len(answers.wrong)} wrong", end="", flush=True, file=sys.stderr)
    told = ", ".join(f"{status} x{times:,}" for status, times in sorted(answers.statuses.items()))
    print(f"\n{answers.tried:,} bodies: {told}; {len(answers.wrong)} wrong; {time.monotonic() - begun:.0f} s")
    for each in answers.wrong[:10]:
        print("   ", each)
    return 1 if answers.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
