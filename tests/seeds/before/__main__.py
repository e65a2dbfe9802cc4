"""`make seeds-before`: reproduce the failures that the seeds report. Each framework, in the release of that time and its own environment,
runs the seed's program against the emulator; then Legato has the same conversation with the same fake model.

    python -m tests.seeds.before            all seeds
    python -m tests.seeds.before 000 004    some of them

Prints the refusal with its rule, or how often requests repeat the users' messages. Exits with 1 if a seed's failure is not reproduced, or
if a request of Legato's conversation is refused, or repeats or loses a message.
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
from tests.seeds.before import fake_models, legato_conversations

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
AZURE = ["azure-ai-projects==2.0.0b3", "azure-identity==1.27.0", "aiohttp", "openai==2.21.0"]
# The provider's behaviour of that time: encrypted reasoning only on request, and Azure answered 400 for an item not found.
PROVIDER_SWITCHES = {"responses.encrypted_by_default": False, "responses.item_not_found_status": 400}
# The programs log in to Azure with a command; this replacement needs no account.
LOGIN = """#!/bin/sh
echo '{"accessToken": "emulated", "expiresOn": "2100-01-01 00:00:00.000000", "expires_on": 4102444800}'
"""


class Seed(NamedTuple):
    """One document: its releases, its fake model, and the check that recognises its failure."""

    name: str
    packages: list[str]
    fake_model: Callable[..., Any]
    find_failure: Callable[[Emulator, list[str]], str]
    """Returns the failure in one line; empty if there is none."""
    run_with_legato: Callable[[Emulator], Any]
    user_texts: list[str]
    """The users' messages. They all differ, so a second copy is a repetition."""


def make_refusal_finder(rule_id: str, text: str) -> Callable[[Emulator, str], str]:
    """Return a function that finds a refusal by this rule with this text."""

    def find(emulator: Emulator, users: list[str]) -> str:
        for number, exchange in enumerate(list_model_requests(emulator), 1):
            for violation in exchange.violations[:1]:
                if violation.rule_id == rule_id and text in violation.message:
                    refusal = f"{exchange.status} {violation.message} (rule {violation.rule_id})"
                    return f"request {number} of {len(list_model_requests(emulator))} refused: {refusal}"
        return ""

    return find


def find_repetition(emulator: Emulator, user_texts: list[str]) -> str:
    """Return a description of repeated user messages, if their number grows."""
    counts = [count_repeated(exchange, user_texts) for exchange in list_model_requests(emulator)]
    grows = counts and counts[-1] > max(counts[: len(counts) // 2 + 1], default=0) > 0
    return f"{describe_repetitions(emulator, user_texts)}; messages in each request: {describe_sizes(emulator)}" if grows else ""


SEEDS = [
    Seed(
        "000",
        ["agent-framework-core==1.0.0rc2", "agent-framework-orchestrations==1.0.0b260225", *AZURE],
        fake_models.reply_as_researchers,
        make_refusal_finder("I1", "Items are not persisted when `store` is set to false"),
        legato_conversations.seed_000,
        ["Perform a comprehensive research on Microsoft Agent Framework."],
    ),
    Seed(
        "001",
        ["agent-framework-core==1.0.0b260212", "agent-framework-orchestrations==1.0.0b260212", *AZURE],
        fake_models.reply_as_researchers,
        make_refusal_finder("T1", "No tool output found for function call call_"),
        legato_conversations.seed_001,
        ["Research Microsoft Agent Framework."],
    ),
    Seed(
        "002",
        ["agent-framework-core==1.0.0", "agent-framework-orchestrations==1.0.0b260402", "agent-framework-openai==1.0.0", "openai==2.30.0"],
        fake_models.reply_as_bank,
        find_repetition,
        legato_conversations.seed_002,
        legato_conversations.QUESTIONS,
    ),
    Seed(
        "003",
        ["agent-framework-core==1.0.0b251204", "mcp[ws]==1.23.0", "openai==2.8.1"],
        fake_models.reply_as_bank,
        find_repetition,
        legato_conversations.seed_003,
        legato_conversations.QUESTIONS,
    ),
    Seed(
        "004",
        ["openai-agents==0.13.3", "openai==2.30.0"],
        fake_models.reply_as_support,
        make_refusal_finder("T1", "No tool output found for function call call_"),
        legato_conversations.seed_004,
        ["Hello, I might need help with cleanup and diagnostics soon.", legato_conversations.PARALLEL],
    ),
]


def main(names: list[str]) -> int:
    if unknown := set(names) - {seed.name for seed in SEEDS}:
        print(f"there is no seed {', '.join(sorted(unknown))}; there are {', '.join(seed.name for seed in SEEDS)}")
        return 2
    wrong = [seed.name for seed in SEEDS if (not names or seed.name in names) and not show_seed(seed)]
    success = "every failure is reproduced with the release that it was reported for, and none with Legato"
    print(f"not as expected: {', '.join(wrong)}" if wrong else success)
    return 1 if wrong else 0


def show_seed(seed: Seed) -> bool:
    """Run one seed with the old framework and with Legato; return True if both behave as expected."""
    print(f"seed {seed.name}: {' '.join(seed.packages)}", flush=True)
    python = set_up_environment(seed)
    if python is None:
        return False
    with serve(fake_model=seed.fake_model, switches=PROVIDER_SWITCHES) as emulator:
        printed = run_program(python, seed, emulator)
        failure = seed.find_failure(emulator, seed.user_texts)
        print(f"  before  {mask_ids(failure) or 'the failure is not reproduced'}", flush=True)
        if not failure:
            print("  " + "\n  ".join(printed.strip().splitlines()[-12:]))
    with serve(fake_model=seed.fake_model, switches=PROVIDER_SWITCHES) as emulator:
        status = asyncio.run(seed.run_with_legato(emulator))
        exchanges = list_model_requests(emulator)
        refusals, missing = sum(exchange.status >= 400 for exchange in exchanges), count_lost(exchanges, seed.user_texts)
        clean = not refusals and not missing and not any(count_repeated(exchange, seed.user_texts) for exchange in exchanges)
        repetitions, sizes = describe_repetitions(emulator, seed.user_texts), describe_sizes(emulator)
        print(f"  after   {len(exchanges)} requests, {refusals} refused; {repetitions}; lost: {missing}; ", end="")
        print(f"messages in each request: {sizes}; {status}", flush=True)
    return bool(failure) and clean and status in ("waiting", "terminated")


# -- the environments --------------------------------------------------------------------------------------------------


def set_up_environment(seed: Seed) -> Path | None:
    """Return the Python of a seed's environment, created once and again when its packages change; None after printing why it cannot be."""
    folder = ROOT / f".venv-seeds-{seed.name}"
    python, stamp = folder / "bin" / "python", folder / "packages"
    wanted = "\n".join([sys.version, *seed.packages])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print("  installing, once ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *seed.packages]
    for command in ([sys.executable, "-m", "venv", folder], install):
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if result.returncode:
            errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or result.stderr.splitlines()[-5:]
            print("  these releases cannot be installed here:\n    " + "\n    ".join(errors))
            return None
    stamp.write_text(wanted)
    return python


def run_program(python: Path, seed: Seed, emulator: Emulator) -> str:
    """Run a seed's program against the emulator, and return its output. Its exit code is ignored: most programs fail."""
    with tempfile.TemporaryDirectory() as folder:
        login = Path(folder) / "az"
        login.write_text(LOGIN)
        login.chmod(0o755)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "AZURE_", "PYTHON", "LEGATO_"))}
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
            result = subprocess.run(
                command, cwd=folder, env=inherited | variables, capture_output=True, text=True, errors="replace", timeout=300, check=False
            )
        except subprocess.TimeoutExpired:
            return "it did not end within five minutes"
        return result.stdout + result.stderr


# -- requests to the provider ------------------------------------------------------------------------------------------


def list_model_requests(emulator: Emulator) -> list[Exchange]:
    return [exchange for exchange in emulator.exchanges if exchange.is_model_request]


def count_user_texts(exchange: Exchange, user_texts: list[str]) -> Counter[str]:
    """Count the users' messages in the model's input: those sent, and those that the provider has stored."""
    messages = exchange.prompt.messages if exchange.prompt else ()
    return Counter(item.text for item in messages if item.role == "user" and item.text in user_texts)


def count_repeated(exchange: Exchange, user_texts: list[str]) -> int:
    """Return the number of repeated user messages."""
    return sum(number - 1 for number in count_user_texts(exchange, user_texts).values())


def count_lost(exchanges: list[Exchange], user_texts: list[str]) -> int:
    """Return the number of user messages that an earlier request had and a later one lacks."""
    earlier: set[str] = set()
    missing = 0
    for exchange in exchanges:
        present = set(count_user_texts(exchange, user_texts))
        missing += len(earlier - present) if exchange.prompt else 0
        earlier |= present
    return missing


def describe_repetitions(emulator: Emulator, user_texts: list[str]) -> str:
    return f"users' messages repeated: {', '.join(str(count_repeated(exchange, user_texts)) for exchange in list_model_requests(emulator))}"


def describe_sizes(emulator: Emulator) -> str:
    return ", ".join(str(len(exchange.prompt.messages)) if exchange.prompt else "refused" for exchange in list_model_requests(emulator))


def mask_ids(text: str) -> str:
    """Return the text with ids shortened to their prefix, because they differ in every run."""
    return re.sub(r"\b(rs|fc|call|resp|msg)_\w+", r"\1_...", text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
