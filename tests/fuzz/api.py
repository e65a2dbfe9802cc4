"""`make fuzz-api`: run Schemathesis, in an environment of its own, against a served workflow with the API's description.

Checks: only answers that the description has, in the described shapes; never a 5xx; nothing without the token. Rules that the description
cannot express (an edit needs arguments, a fork must lie within its ledger) are answered with a 400, which is allowed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from legato import Agent, HandoffBuilder
from legato.server import serve
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-schemathesis"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz-api ARGS=...", description=__doc__)
    parser.add_argument("--examples", type=int, default=200, help="examples of each operation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not (ENVIRONMENT / "bin" / "schemathesis").exists():
        print("installing Schemathesis ...")
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        pip = [ENVIRONMENT / "bin" / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "schemathesis>=4.32"], check=True)
    hello = HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(lambda request: "Hello!"))]).build()
    with tempfile.TemporaryDirectory() as folder, serve(hello, store=SQLiteStore(Path(folder) / "fuzz.sqlite")) as server:
        command = [
            ENVIRONMENT / "bin" / "schemathesis",
            "run",
            f"{server.url}/api/openapi.json",
            "-H",
            f"Authorization: Bearer {server.token}",
        ]
        command += ["--max-examples", str(options.examples), "--seed", str(options.seed), "--checks", ",".join(CHECKS)]
        command += ["--exclude-operation-id", "events", "--request-timeout", "10"]  # a stream never ends
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
