"""Other people's clients and gateways against the emulator.

The OpenAI Agents SDK tells a conversation with handoffs and tools, over Responses (by value, streamed, by chain, by conversation) and
Chat; smg, a gateway that expands chains by itself, stands between the `openai` SDK and the emulator. Nothing may be refused.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from legato.emulator import Emulator, serve
from tests.peers.environments import python_of

HERE = Path(__file__).parent


def main() -> int:
    """Run all of it; how many things were wrong."""
    python = python_of("agents")
    wrong = 0
    for api in ("responses", "chat"):
        wrong += judge(f"the Agents SDK over {api}", *agents(python, api))
    wrong += judge("the openai SDK through smg", *gateway(python))
    return wrong


def agents(python: Path, api: str) -> tuple[Emulator, dict[str, object], list[str]]:
    """The Agents SDK's program, and what is wrong with how it went."""
    with serve() as emulator:
        told = run(python, "agents_sdk.py", emulator.openai_url, api)
        wrong = [f"{way}: nobody said anything" for way, end in told.items() if not end.get("output")]
        handed = [exchange for exchange in emulator.exchanges if "transfer_to_" in str(exchange.reply_body)]
        worked = [exchange for exchange in emulator.exchanges if "one teapot" in str(exchange.request_body)]
        if len(handed) < len(told) or len(worked) < len(told):
            wrong.append(f"{len(handed)} handoffs and {len(worked)} tool outputs in {len(told)} conversations")
        return emulator, told, wrong


def gateway(python: Path) -> tuple[Emulator, dict[str, object], list[str]]:
    """The same through smg."""
    with serve() as emulator, smg(python, emulator.url) as url:
        told = run(python, "through_gateway.py", f"{url}/v1")
        wrong = [] if told["calls"] and told["text"] else [f"it did not come to its end: {told}"]
        return emulator, told, wrong


@contextmanager
def smg(python: Path, worker: str) -> Iterator[str]:
    """The gateway, in front of the emulator, until the block ends."""
    port, metrics = free_port(), free_port()
    arguments = ["launch", "--backend", "openai", "--worker-urls", worker, "--history-backend", "memory"]
    arguments += ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    process = subprocess.Popen([str(python.parent / "smg"), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise SystemExit("smg did not start") from None
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def run(python: Path, program: str, *arguments: str) -> dict[str, dict[str, object]]:
    done = subprocess.run([str(python), str(HERE / program), *arguments], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"{program} failed:\n{done.stderr[-3000:]}")
    told: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return told


def judge(title: str, emulator: Emulator, told: object, wrong: list[str]) -> int:
    refused = [exchange for exchange in emulator.exchanges if exchange.is_model_request and exchange.status >= 400]
    wrong += [f"refused: {exchange} {exchange.violations}" for exchange in refused]
    print(f"{title}: {emulator.summary()}; {'; '.join(wrong) if wrong else 'all accepted'}")
    return len(wrong)
