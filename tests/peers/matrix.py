"""Clients that nobody here wrote against a served workflow: a table with a row for each client and API, and a column for each use of it.

A cell passes if the client saw what it must see, and the ledger has each message once. `CANNOT` says where a client has no such use at all.
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
from tests.peers.desk import COLUMNS, Expectation, workflow_name, workflows
from tests.peers.environments import FOLDER, npm_folder, python_of

PROGRAMS = Path(__file__).parent / "clients"
PAGE = Path(__file__).parents[2] / "docs" / "openai-endpoint.md"
BEGIN, END = "<!-- clients: written by make peers ARGS=--write -->", "<!-- end of clients -->"
LONGEST_CELL_S = 180


class Row(NamedTuple):
    """One client over one of the APIs. `environment`: whose interpreter runs it; "npm" for Node."""

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

CANNOT: dict[tuple[str, str], str] = {
    **{(row.name, "previous id"): "the API has no ids of responses" for row in ROWS if row.api == "chat"},
    **{(row.name, "conversation"): "the API has no conversations" for row in ROWS if row.api == "chat"},
    **{(row.name, "approval"): "the API has no approvals" for row in ROWS if row.api == "chat"},
    ("OpenAI Agents SDK, Responses", "approval"): "the client answers only MCP servers that it declares as tools of its own",
    ("Pydantic AI, Responses", "approval"): "the client has no approvals of calls that run at the provider",
}
"""Why a client cannot do something at all: nothing that a server could change."""


class Cell(NamedTuple):
    """What became of one column of one row: `problem` is empty if all was as it must be."""

    row: Row
    column: str
    problem: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The cell as the table has it."""
        if reason := CANNOT.get((self.row.name, self.column)):
            return reason
        return "**fails**" if self.problem else "yes"


def run_rows(rows: Sequence[Row]) -> Iterator[Cell]:
    """Every cell of these rows, as soon as it is known."""
    for row in rows:
        with serve(workflows(), store=MemoryStore(), grace=2.0) as server:
            yield from _run_row(row, server)


def _run_row(row: Row, server: Server) -> Iterator[Cell]:
    found = _run_program(row, server)
    for column, expected in COLUMNS.items():
        if (row.name, column) in CANNOT:
            yield Cell(row, column, "it can do what is said to be impossible" if column in found else "")
        elif column not in found:
            yield Cell(row, column, "the program says nothing of it", found.get("", {}).get("failed", ""))
        elif "failed" in found[column]:
            yield Cell(row, column, found[column]["failed"], found[column]["traceback"])
        else:
            problems = [*list_wrong_sights(column, expected, found[column]["saw"]), *list_wrong_facts(server, column, expected)]
            yield Cell(row, column, "; ".join(problems))


def _run_program(row: Row, server: Server) -> dict[str, Any]:
    """What the program says of each column; under the empty name, why it said no more."""
    if row.environment == "npm":
        folder = npm_folder()
        for name in (row.program, "reporting.mjs"):  # a program finds its packages beside itself
            shutil.copy(PROGRAMS / name, folder / name)
        command = ["node", str(folder / row.program)]
    else:
        command = [str(python_of(row.environment)), str(PROGRAMS / row.program)]
    command += [f"{server.url}/v1", server.token, row.api]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_CELL_S, check=False, cwd=FOLDER)
        output, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        output, errors = (late.stdout or b"").decode(), f"not over after {LONGEST_CELL_S} s"
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"column"')]
    return {line["column"]: line for line in lines} | {"": {"failed": errors[-2000:]}}


def list_wrong_sights(column: str, expected: Expectation, saw: dict[str, Any]) -> Iterator[str]:
    """What the client saw otherwise than it must."""
    for name, value in expected.saw.items():
        if saw.get(name) != value:
            yield f"saw {name} {saw.get(name)!r} instead of {value!r}"
    if column == "streamed" and (len(saw["pieces"]) < 2 or "".join(saw["pieces"]) != expected.saw["texts"][0]):
        yield f"the pieces of the stream are {saw['pieces']!r}"


def list_wrong_facts(server: Server, column: str, expected: Expectation) -> Iterator[str]:
    """What is wrong in the ledger: there is one session of the column, with each message, reply, approval and output once."""
    headers = {"authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.url, headers=headers) as http:
        sessions = http.get("/api/sessions", params={"workflow": workflow_name(column)}).json()["sessions"]
        if len(sessions) != 1:
            yield f"{len(sessions)} sessions instead of one"
            return
        facts = http.get(f"/api/sessions/{sessions[0]['id']}/facts").json()["facts"]
    said = [fact["content"] for fact in facts if fact["fact"] == "message_received"]
    if said != expected.said:
        yield f"the ledger has {said!r} as said, instead of {expected.said!r}"
    counted = {
        "replies": (len([fact for fact in facts if fact["fact"] == "model_replied"]), expected.replies),
        "approvals": (len([fact for fact in facts if fact["fact"] == "decided" and fact["verdict"] == "approve"]), expected.approved),
        "outputs": (len([fact for fact in facts if _is_output(fact)]), expected.outputs),
    }
    for name, (count, wanted) in counted.items():
        if count != wanted:
            yield f"the ledger has {count} {name} instead of {wanted}"


def _is_output(fact: dict[str, Any]) -> bool:
    """Tell whether a fact is the output of a call: of a tool that ran, or of one whose result came from the client."""
    return fact["fact"] == "call_returned" or (fact["fact"] == "decided" and fact["verdict"] == "answer")


def draw_table(cells: Sequence[Cell]) -> str:
    """The table as Markdown."""
    by_row: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_row.setdefault(cell.row.name, {})[cell.column] = cell
    lines = [f"| client | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    lines += [f"| {name} | {' | '.join(found[column].text for column in COLUMNS)} |" for name, found in by_row.items()]
    return "\n".join(lines)


def write_table(cells: Sequence[Cell], page: Path = PAGE) -> None:
    """Put the table into the page, between its markers."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{draw_table(cells)}\n{END}{after}")
