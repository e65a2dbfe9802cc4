"""Clients of other projects against a served workflow: a table with a row for each client and API, and a column for each use of it.

A cell passes if the client's report is as expected, and the ledger has each message once. `IMPOSSIBLE` lists what a client cannot do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from legato.server import Server, serve
from legato.stores import MemoryStore
from tests.peers.desk import EXPECTATIONS, Expectation, build_workflows, workflow_name
from tests.peers.environments import FOLDER, install_npm, install_python

PROGRAMS = Path(__file__).parent / "clients"
PAGE = Path(__file__).parents[2] / "docs" / "openai-endpoint.md"
BEGIN_MARKER, END_MARKER = "<!-- clients: written by make peers ARGS=--write -->", "<!-- end of clients -->"
PROGRAM_TIMEOUT_S = 180


class Row(NamedTuple):
    """One client over one of the APIs. `environment`: the environment whose interpreter runs it; "npm" for Node."""

    name: str
    program: str
    environment: str
    api: str


ROWS = [
    Row(f"{name}, {title}", program, environment, api)
    for name, program, environment in (
        ("`openai` (Python)", "openai_client.py", "agents"),
        ("`openai` (npm)", "openai_client.mjs", "npm"),
        ("AI SDK", "ai_sdk_client.mjs", "npm"),
        ("LangChain", "langchain_client.py", "langchain"),
        ("Pydantic AI", "pydantic_ai_client.py", "pydantic-ai"),
        ("OpenAI Agents SDK", "agents_client.py", "agents"),
        ("LiteLLM", "litellm_client.py", "litellm"),
    )
    for api, title in (("responses", "Responses"), ("chat", "Chat"))
]

IMPOSSIBLE: dict[tuple[str, str], str] = {
    **{(row.name, "previous id"): "the API has no ids of responses" for row in ROWS if row.api == "chat"},
    **{(row.name, "conversation"): "the API has no conversations" for row in ROWS if row.api == "chat"},
    **{(row.name, "approval"): "the API has no approvals" for row in ROWS if row.api == "chat"},
    ("OpenAI Agents SDK, Responses", "approval"): "the client answers only MCP servers that it declares as tools of its own",
    ("Pydantic AI, Responses", "approval"): "the client has no approvals of calls that run at the provider",
}
"""The cells that no server could make work, each with the reason."""


class Cell(NamedTuple):
    """The result of one column of one row: `problem` is empty if the cell passes."""

    row: Row
    column: str
    problem: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The text of the cell in the table."""
        if reason := IMPOSSIBLE.get((self.row.name, self.column)):
            return reason
        return "**fails**" if self.problem else "yes"


def run_rows(rows: Sequence[Row]) -> Iterator[Cell]:
    """Yield every cell of these rows, as soon as it is known."""
    for row in rows:
        with serve(build_workflows(), store=MemoryStore(), grace=2.0) as server:
            yield from _run_row(row, server)


def _run_row(row: Row, server: Server) -> Iterator[Cell]:
    found = _run_program(row, server)
    for column, expected in EXPECTATIONS.items():
        if (row.name, column) in IMPOSSIBLE:
            yield Cell(row, column, "the client can do this, although IMPOSSIBLE says that it cannot" if column in found else "")
        elif column not in found:
            yield Cell(row, column, "the program did not report on it", found.get("", {}).get("failed", ""))
        elif "failed" in found[column]:
            yield Cell(row, column, found[column]["failed"], found[column]["traceback"])
        else:
            problems = [*find_report_problems(column, expected, found[column]["report"]), *find_ledger_problems(server, column, expected)]
            yield Cell(row, column, "; ".join(problems))


def _run_program(row: Row, server: Server) -> dict[str, Any]:
    """Run a client's program; return its report on each column, and under the empty name the error that ended it."""
    if row.environment == "npm":
        folder = install_npm()
        for name in (row.program, "column_report.mjs"):  # Node looks for packages beside the program
            shutil.copy(PROGRAMS / name, folder / name)
        command = ["node", str(folder / row.program)]
    else:
        command = [str(install_python(row.environment)), str(PROGRAMS / row.program)]
    command += [f"{server.url}/v1", server.token, row.api]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False, cwd=FOLDER)
        output, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        output, errors = (late.stdout or b"").decode(), f"still running after {PROGRAM_TIMEOUT_S} s"
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"column"')]
    return {line["column"]: line for line in lines} | {"": {"failed": errors[-2000:]}}


def find_report_problems(column: str, expected: Expectation, report: dict[str, Any]) -> Iterator[str]:
    """Yield the differences between a client's report and the expected report."""
    for name, value in expected.client_report.items():
        if report.get(name) != value:
            yield f"reported {name} {report.get(name)!r} instead of {value!r}"
    if column == "streamed" and (len(report["pieces"]) < 2 or "".join(report["pieces"]) != expected.client_report["texts"][0]):
        yield f"the pieces of the stream are {report['pieces']!r}"


def find_ledger_problems(server: Server, column: str, expected: Expectation) -> Iterator[str]:
    """Yield the problems in the ledger: the column must have one session, with each message, reply, approval and output once."""
    headers = {"authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.url, headers=headers) as http:
        sessions = http.get("/api/sessions", params={"workflow": workflow_name(column)}).json()["sessions"]
        if len(sessions) != 1:
            yield f"{len(sessions)} sessions instead of one"
            return
        facts = http.get(f"/api/sessions/{sessions[0]['id']}/facts").json()["facts"]
    messages = [fact["content"] for fact in facts if fact["fact"] == "message_received"]
    if messages != expected.messages:
        yield f"the ledger has the messages {messages!r} instead of {expected.messages!r}"
    counts = {
        "replies": (len([fact for fact in facts if fact["fact"] == "model_replied"]), expected.replies),
        "approvals": (len([fact for fact in facts if fact["fact"] == "decided" and fact["verdict"] == "approve"]), expected.approvals),
        "outputs": (len([fact for fact in facts if _is_output(fact)]), expected.outputs),
    }
    for name, (count, expected_count) in counts.items():
        if count != expected_count:
            yield f"the ledger has {count} {name} instead of {expected_count}"


def _is_output(fact: dict[str, Any]) -> bool:
    """Return True if a fact is the output of a call: a tool ran, or the client sent its result."""
    return fact["fact"] == "call_returned" or (fact["fact"] == "decided" and fact["verdict"] == "answer")


def draw_table(cells: Sequence[Cell]) -> str:
    """Render the table as Markdown."""
    by_row: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_row.setdefault(cell.row.name, {})[cell.column] = cell
    lines = [f"| client | {' | '.join(EXPECTATIONS)} |", "|---|" + "---|" * len(EXPECTATIONS)]
    lines += [f"| {name} | {' | '.join(found[column].text for column in EXPECTATIONS)} |" for name, found in by_row.items()]
    return "\n".join(lines)


def write_table(cells: Sequence[Cell], page: Path = PAGE) -> None:
    """Put the table into the page, between its markers."""
    before, _, rest = page.read_text().partition(BEGIN_MARKER)
    _, _, after = rest.partition(END_MARKER)
    page.write_text(f"{before}{BEGIN_MARKER}\n{draw_table(cells)}\n{END_MARKER}{after}")
