"""`make seeds-before`: what the seeds report, shown. Each framework as it was released then, in an environment of its own, runs the seed's
program against the emulator; then Legato has the same conversation with the same emulated model.

    python -m tests.seeds.before            all seeds
    python -m tests.seeds.before 000 004    some of them

Prints the refusal with its clause, or how often a request repeats what the users said. Exits with 1 if a seed's failure does not show
itself, or if Legato's conversation is refused, repeats or loses anything.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from tests.seeds.before import after, minds

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
AZURE = ["azure-ai-projects==2.0.0b3", "azure-identity==1.27.0", "aiohttp", "openai==2.21.0"]
# As the provider behaved then: encrypted reasoning came only where it was asked for, and Azure answered 400 for an item not found.
THEN = {"responses.encrypted_by_default": False, "responses.item_not_found_status": 400}
# The Azure login that the programs ask for is a command; this one needs nobody to log in.
LOGIN = """#!/bin/sh
echo '{"accessToken": "emulated", "expiresOn": "2100-01-01 00:00:00.000000", "expires_on": 4102444800}'
"""


class Seed(NamedTuple):
    """One document: its releases, what the model says, how its failure is recognised."""

    name: str
    packages: list[str]
    mind: Callable[..., Any]
    fails: Callable[[Emulator, list[str]], str]
    """What is wrong with how it went, in one line; empty if nothing is."""
    tells: Callable[[Emulator], Any]
    users: list[str]
    """What the users say. Nobody says the same twice, so a second time is a repetition."""


def refused(clause: str, words: str) -> Callable[[Emulator, str], str]:
    """The provider refuses, by this clause and with these words."""

    def find(emulator: Emulator, users: list[str]) -> str:
        for number, exchange in enumerate(asked(emulator), 1):
            for verdict in exchange.verdict[:1]:
                if verdict.clause == clause and words in verdict.message:
                    told = f"{exchange.status} {verdict.message} (clause {verdict.clause})"
                    return f"request {number} of {len(asked(emulator))} refused: {told}"
        return ""

    return find


def repeated(emulator: Emulator, users: list[str]) -> str:
    """Requests hold what a user said more than once, and ever more of it."""
    counts = [copies(exchange, users) for exchange in asked(emulator)]
    grows = counts and counts[-1] > max(counts[: len(counts) // 2 + 1], default=0) > 0
    return f"{repetitions(emulator, users)}; messages in each request: {sizes(emulator)}" if grows else ""


SEEDS = [
    Seed(
        "000",
        ["agent-framework-core==1.0.0rc2", "agent-framework-orchestrations==1.0.0b260225", *AZURE],
        minds.researchers,
        refused("I1", "Items are not persisted when `store` is set to false"),
        after.seed_000,
        ["Perform a comprehensive research on Microsoft Agent Framework."],
    ),
    Seed(
        "001",
        ["agent-framework-core==1.0.0b260212", "agent-framework-orchestrations==1.0.0b260212", *AZURE],
        minds.researchers,
        refused("T1", "No tool output found for function call call_"),
        after.seed_001,
        ["Research Microsoft Agent Framework."],
    ),
    Seed(
        "002",
        ["agent-framework-core==1.0.0", "agent-framework-orchestrations==1.0.0b260402", "agent-framework-openai==1.0.0", "openai==2.30.0"],
        minds.bank,
        repeated,
        after.seed_002,
        after.QUESTIONS,
    ),
    Seed(
        "003",
        ["agent-framework-core==1.0.0b251204", "mcp[ws]==1.23.0", "openai==2.8.1"],
        minds.bank,
        repeated,
        after.seed_003,
        after.QUESTIONS,
    ),
    Seed(
        "004",
        ["openai-agents==0.13.3", "openai==2.30.0"],
        minds.support,
        refused("T1", "No tool output found for function call call_"),
        after.seed_004,
        ["Hello, I might need help with cleanup and diagnostics soon.", after.PARALLEL],
    ),
]


def main(names: list[str]) -> int:
    if unknown := set(names) - {seed.name for seed in SEEDS}:
        print(f"there is no seed {', '.join(sorted(unknown))}; there are {', '.join(seed.name for seed in SEEDS)}")
        return 2
    wrong = [seed.name for seed in SEEDS if (not names or seed.name in names) and not show(seed)]
    shown = "every failure shows itself with the release it was reported of, and none with Legato"
    print(f"not as it should be: {', '.join(wrong)}" if wrong else shown)
    return 1 if wrong else 0


def show(seed: Seed) -> bool:
    """One seed, before and after. Whether both are as they should be."""
    print(f"seed {seed.name}: {' '.join(seed.packages)}", flush=True)
    python = environment(seed)
    if python is None:
        return False
    with serve(mind=seed.mind, switches=THEN) as emulator:
        printed = run(python, seed, emulator)
        found = seed.fails(emulator, seed.users)
        print(f"  before  {masked(found) or 'the failure does not show itself'}", flush=True)
        if not found:
            print("  " + "\n  ".join(printed.strip().splitlines()[-12:]))
    with serve(mind=seed.mind, switches=THEN) as emulator:
        status = asyncio.run(seed.tells(emulator))
        exchanges = asked(emulator)
        refusals, missing = sum(exchange.status >= 400 for exchange in exchanges), lost(exchanges, seed.users)
        clean = not refusals and not missing and not any(copies(exchange, seed.users) for exchange in exchanges)
        print(f"  after   {len(exchanges)} requests, {refusals} refused; {repetitions(emulator, seed.users)}; lost: {missing}; ", end="")
        print(f"messages in each request: {sizes(emulator)}; {status}", flush=True)
    return bool(found) and clean and status in ("waiting", "terminated")


# -- the environments ----------------------------------------------------------------------------------------------------


def environment(seed: Seed) -> Path | None:
    """Set up once; made anew when the list of packages changes. None, said why, if it cannot be."""
    folder = ROOT / f".venv-seeds-{seed.name}"
    python, stamp = folder / "bin" / "python", folder / "packages"
    wanted = "\n".join([sys.version, *seed.packages])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print("  installing, once ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *seed.packages]
    for command in ([sys.executable, "-m", "venv", folder], install):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-5:]
            print("  these releases cannot be installed here:\n    " + "\n    ".join(errors))
            return None
    stamp.write_text(wanted)
    return python


def run(python: Path, seed: Seed, emulator: Emulator) -> str:
    """The seed's program, with the emulator where the provider was. What it printed; how it ended is not asked: most of them fail."""
    with tempfile.TemporaryDirectory() as folder:
        login = Path(folder) / "az"
        login.write_text(LOGIN)
        login.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "AZURE_", "PYTHON", "LEGATO_"))}
        variables = {
            "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}",
            "AZURE_AI_PROJECT_ENDPOINT": emulator.url,
            "AZURE_AI_MODEL_DEPLOYMENT_NAME": "gpt-5.5",
            "AZURE_OPENAI_RESPONSES_DEPLOYMENT_NAME": "gpt-5.5",
            "OPENAI_BASE_URL": emulator.openai_url,
            "OPENAI_API_KEY": "sk-seeds",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        }
        command = [str(python), str(HERE / f"seed_{seed.name}.py")]
        try:
            done = subprocess.run(
                command, cwd=folder, env=kept | variables, capture_output=True, text=True, errors="replace", timeout=300, check=False
            )
        except subprocess.TimeoutExpired:
            return "it did not come to an end within five minutes"
        return done.stdout + done.stderr


# -- what the provider was sent --------------------------------------------------------------------------------------------


def asked(emulator: Emulator) -> list[Exchange]:
    return [exchange for exchange in emulator.exchanges if exchange.asks]


def said(exchange: Exchange, users: list[str]) -> Counter[str]:
    """What users said, as the model hears it: what was sent, and what the provider holds of the chain."""
    heard = exchange.prompt.heard if exchange.prompt else ()
    return Counter(item.text for item in heard if item.who == "user" and item.text in users)


def copies(exchange: Exchange, users: list[str]) -> int:
    """How many messages of users stand there again."""
    return sum(number - 1 for number in said(exchange, users).values())


def lost(exchanges: list[Exchange], users: list[str]) -> int:
    """How many messages of users are missing where an earlier request had them."""
    known: set[str] = set()
    missing = 0
    for exchange in exchanges:
        here = set(said(exchange, users))
        missing += len(known - here) if exchange.prompt else 0
        known |= here
    return missing


def repetitions(emulator: Emulator, users: list[str]) -> str:
    return f"users' messages repeated: {', '.join(str(copies(exchange, users)) for exchange in asked(emulator))}"


def sizes(emulator: Emulator) -> str:
    return ", ".join(str(len(exchange.prompt.heard)) if exchange.prompt else "refused" for exchange in asked(emulator))


def masked(text: str) -> str:
    """Ids are different every time; their beginning says what they are of."""
    return re.sub(r"\b(rs|fc|call|resp|msg)_\w+", r"\1_...", text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
