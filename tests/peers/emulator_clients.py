"""Clients and gateways of other projects against the emulator.

The OpenAI Agents SDK has a conversation with handoffs and tools over Responses (by value, streamed, by chain, by conversation) and over
Chat. The `openai` SDK has one through smg, a gateway that expands chains itself. The emulator may not refuse a request.
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
from tests.peers.environments import install_python

HERE = Path(__file__).parent


def run_all() -> int:
    """Run all clients; return the number of problems."""
    python = install_python("agents")
    problem_count = 0
    for api in ("responses", "chat"):
        problem_count += report_problems(f"the Agents SDK over {api}", *run_agents_sdk(python, api))
    problem_count += report_problems("the openai SDK through smg", *run_gateway_client(python))
    return problem_count


def run_agents_sdk(python: Path, api: str) -> tuple[Emulator, dict[str, object], list[str]]:
    """Run the Agents SDK's program; return the emulator, the program's results, and the problems."""
    with serve() as emulator:
        results = run_program(python, "agents_sdk.py", emulator.openai_url, api)
        problems = [f"{mode}: no output" for mode, result in results.items() if not result.get("output")]
        handoffs = [exchange for exchange in emulator.exchanges if "transfer_to_" in str(exchange.reply_body)]
        tool_outputs = [exchange for exchange in emulator.exchanges if "one teapot" in str(exchange.request_body)]
        if len(handoffs) < len(results) or len(tool_outputs) < len(results):
            problems.append(f"{len(handoffs)} handoffs and {len(tool_outputs)} tool outputs in {len(results)} conversations")
        return emulator, results, problems


def run_gateway_client(python: Path) -> tuple[Emulator, dict[str, object], list[str]]:
    """Run the `openai` SDK's program through smg; return the same."""
    with serve() as emulator, run_smg(python, emulator.url) as url:
        results = run_program(python, "gateway_client.py", f"{url}/v1")
        problems = [] if results["calls"] and results["text"] else [f"the conversation did not end: {results}"]
        return emulator, results, problems


@contextmanager
def run_smg(python: Path, worker: str) -> Iterator[str]:
    """Run the gateway in front of the emulator until the block ends; yield its URL."""
    port, metrics = find_free_port(), find_free_port()
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


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def run_program(python: Path, program: str, *arguments: str) -> dict[str, dict[str, object]]:
    done = subprocess.run([str(python), str(HERE / program), *arguments], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"{program} failed:\n{done.stderr[-3000:]}")
    results: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return results


def report_problems(title: str, emulator: Emulator, results: object, problems: list[str]) -> int:
    """Print the problems, including refused requests; return their number."""
    refused = [exchange for exchange in emulator.exchanges if exchange.is_model_request and exchange.status >= 400]
    problems += [f"refused: {exchange} {exchange.violations}" for exchange in refused]
    print(f"{title}: {emulator.summary()}; {'; '.join(problems) if problems else 'all accepted'}")
    return len(problems)
