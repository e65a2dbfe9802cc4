"""What the OpenAI Agents SDK keeps: `RunState` strings and `SQLiteSession` files. May know: their shapes. Decides: what each item was.

A `RunState` says of each item whose it was. A session's file does not: there the agent that was named begins after every message of the
user, and a handoff's output says who went on, which is how that SDK runs.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from legato.compat.imports.conversation import Came, Entry, Heard, Report, Spoke
from legato.compat.imports.reading import LONGEST, Gathered, a_dict, a_list, a_text, as_text, checked_length, read_bytes, read_json, refused
from legato.core.facts import Call, Content, OutputText, Refusal

MOST_STEPS = 200_000_000
"""Of SQLite's machine, about a minute: a file that keeps it busier than that is not a session's."""
TABLE = "agent_messages"


class Items:
    """Items of the Responses API, read one by one."""

    def __init__(self, report: Report, agent: str) -> None:
        self.contents: dict[str, bytes] = {}
        self._report = report
        self.agent = self._agent = agent
        self._left: Counter[str] = Counter()

    def conversation(self, items: Iterable[Any], what: str) -> Iterator[Entry]:
        """Items without agents."""
        given = [a_dict(item, f"{what}, item {number}") for number, item in enumerate(items)]
        passed = {str(item.get("call_id")): target for item in given if (target := _assistant_named(item))}
        for number, item in enumerate(given):
            entry = self.read(item, f"{what}, item {number}", handoff=passed.get(str(item.get("call_id")), ""))
            if isinstance(entry, Heard):
                self._agent = self.agent
            if entry is not None:
                yield entry
            if isinstance(entry, Came) and (next_agent := passed.get(entry.call_id)):
                self._agent = next_agent

    def read(self, item: dict[str, Any], what: str, agent: str = "", handoff: str = "", asks: bool = False) -> Entry | None:
        """One item, or None if it is none that a ledger holds."""
        agent = agent or self._agent
        kind = item.get("type") or "message"
        if kind == "message":
            return self._message(item, what, agent)
        if kind == "function_call":
            tool = a_text(item.get("name"), f"the name in {what}", empty=False)
            call = Call(
                tool,
                as_text(item.get("arguments", "{}"), f"the arguments in {what}"),
                a_text(item.get("call_id"), f"the call_id in {what}"),
            )
            return Spoke(agent, (call,), {0: handoff} if handoff else {}, frozenset([0]) if asks else frozenset())
        if kind == "function_call_output":
            return Came(a_text(item.get("call_id"), f"the call_id in {what}"), self._content(item.get("output", ""), what))
        self._left[a_text(kind, f"the type of {what}")] += 1
        return None

    def _message(self, item: dict[str, Any], what: str, agent: str) -> Entry | None:
        match item.get("role"):
            case "user":
                return Heard(content) if (content := self._content(item.get("content"), what)) else None
            case "assistant":
                given = item.get("content")
                parts = [{"type": "output_text", "text": given}] if isinstance(given, str) else a_list(given, f"the content of {what}")
                said: list[OutputText | Refusal] = []
                for part in parts:
                    match a_dict(part, f"a part of {what}"):
                        case {"type": "output_text" | "text", "text": text}:
                            said.append(OutputText(a_text(text, f"the text of {what}")))
                        case {"type": "refusal", "refusal": text}:
                            said.append(Refusal(a_text(text, f"the refusal in {what}")))
                        case other:
                            self._left[f"part {other.get('type')}"] += 1
                return Spoke(agent, tuple(part for part in said if part.text)) if any(part.text for part in said) else None
            case "system" | "developer":
                self._left["instructions within the conversation"] += 1
            case role:
                raise refused(f"{what} has no role that is known", found=repr(role)[:80])
        return None

    def _content(self, content: object, what: str) -> Content:
        if not isinstance(content, list):
            return as_text("" if content is None else content, f"the content of {what}")
        gathered = Gathered([], self.contents)
        for part in content:
            match a_dict(part, f"a part of {what}"):
                case {"type": "input_text" | "output_text" | "text", "text": text}:
                    gathered.text(a_text(text, f"the text of {what}"))
                case {"type": "input_image", "image_url": str(url)} if url:
                    gathered.attached(a_text(url, f"the picture in {what}"), "image/png", "", f"the picture in {what}")
                case {"type": "input_file"} if isinstance(uri := part.get("file_data") or part.get("file_url"), str) and uri:
                    name = a_text(part.get("filename") or "", f"the file in {what}")
                    gathered.attached(a_text(uri, f"the file in {what}"), "application/octet-stream", name, f"the file in {what}")
                case other:
                    self._left[f"part {other.get('type')}"] += 1
        return gathered.content

    def done(self) -> None:
        """Say what was left out."""
        why = {"reasoning": " (it belongs to the provider that made it)"}
        self._report.left_out += [f"{number} of kind {kind!r}{why.get(kind, '')}" for kind, number in sorted(self._left.items())]


def _assistant_named(item: dict[str, Any]) -> str:
    """Whom an output says control went to, in the SDK's way of saying so."""
    output = item.get("output")
    if item.get("type") != "function_call_output" or not isinstance(output, str) or not output.startswith('{"assistant"'):
        return ""
    try:
        told = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return told["assistant"] if set(told) == {"assistant"} and isinstance(told["assistant"], str) else ""


# -- RunState ----------------------------------------------------------------------------------------------------------------


def run_state_entries(text: str | bytes, report: Report) -> tuple[list[Entry], dict[str, bytes]]:
    """What a `RunState` string holds."""
    state = read_json(text, "the RunState")
    version = state.get("$schemaVersion")
    if not isinstance(version, str) or not version.startswith("1."):
        raise refused("this is no RunState that is known", expected="$schemaVersion 1.x", found=repr(version))
    report.source = f"RunState {version}"
    made = a_list(state.get("session_items") or state.get("generated_items"), "the items of the RunState")
    items = Items(report, _agent(made[0] if made else state.get("current_agent"), state))
    entries = _input_entries(state.get("original_input"), items, report)
    asked = [a_dict(approval.get("raw_item"), "an interruption").get("call_id") for approval in _interruptions(state)]
    for number, item in enumerate(made):
        item, what = a_dict(item, f"item {number}"), f"item {number} of the RunState"
        if item.get("type") == "tool_approval_item":
            continue  # the call itself stands there too
        raw = a_dict(item.get("raw_item"), what)
        entry = items.read(raw, what, _agent(item, state), _target(item, made, raw), raw.get("call_id") in asked)
        if entry is not None:
            entries.append(entry)
    items.done()
    report.notes += _notes_on(state)
    return entries, items.contents


def _input_entries(given: object, items: Items, report: Report) -> list[Entry]:
    if isinstance(given, str):
        return [Heard(a_text(given, "the input", empty=False))]
    entries = list(items.conversation(a_list(given, "the input"), "the input"))
    if any(isinstance(entry, Spoke) for entry in entries):
        whose = f"replies in it are taken for {items.agent!r}'s, until a handoff names another"
        report.notes.append(f"the input does not say who spoke: {whose}")
    return entries


def _notes_on(state: dict[str, Any]) -> Iterator[str]:
    """What of a state is not taken along."""
    if decided := a_dict(a_dict(state.get("context") or {}, "the context").get("approvals") or {}, "the approvals"):
        yield f"decisions about {', '.join(sorted(decided))} were not taken along: whoever decides is asked here"
    if state.get("previous_response_id") or state.get("conversation_id"):
        yield "the run went on from what the provider holds; what was said before it is not in this string"


def _agent(item: object, state: dict[str, Any]) -> str:
    agent = item.get("agent", item) if isinstance(item, dict) else state.get("current_agent")
    return a_text(a_dict(agent, "the agent of an item").get("name"), "the name of an agent", empty=False)


def _target(item: dict[str, Any], made: list[Any], raw: dict[str, Any]) -> str:
    """Whom a handoff's call passed control to: its output says so."""
    if item.get("type") != "handoff_call_item":
        return ""
    for other in made:
        if isinstance(other, dict) and other.get("type") == "handoff_output_item":
            told = a_dict(other.get("raw_item"), "a handoff's output")
            if told.get("call_id") == raw.get("call_id"):
                return a_text(a_dict(other.get("target_agent"), "a handoff's target").get("name"), "a handoff's target", empty=False)
    return ""


def _interruptions(state: dict[str, Any]) -> list[dict[str, Any]]:
    step = state.get("current_step")
    if not isinstance(step, dict) or step.get("type") != "next_step_interruption":
        return []
    data = a_dict(step.get("data"), "the interruption")
    return [a_dict(approval, "an interruption") for approval in a_list(data.get("interruptions", []), "the interruptions")]


# -- SQLiteSession -----------------------------------------------------------------------------------------------------------


def session_entries(path: Path, session_id: str | None, agent: str, report: Report) -> tuple[list[Entry], dict[str, bytes]]:
    """What a `SQLiteSession` file holds of one session."""
    session_id, rows = _rows(path, session_id)
    report.source = f"SQLiteSession {session_id!r}"
    items = Items(report, agent)
    entries = list(items.conversation([read_json(row, f"message {number}") for number, row in enumerate(rows)], "the session"))
    items.done()
    if any(isinstance(entry, Spoke) for entry in entries):
        report.notes.append(
            f"the file does not say who spoke: replies to the user are taken for {agent!r}'s, until a handoff names another"
        )
    return entries, items.contents


def _rows(path: Path, session_id: str | None) -> tuple[str, list[str]]:
    """The rows of a copy, so that reading changes nothing of the file: not its journal either."""
    if not read_bytes(path).startswith(b"SQLite format 3\x00"):
        raise refused(f"{path.name} is no SQLite file")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "session.db"
        for suffix in ("", "-wal", "-journal"):
            part = path.with_name(path.name + suffix)
            if part.is_file():
                checked_length(part)
                shutil.copyfile(part, copy.with_name(copy.name + suffix))
        try:
            with closing(sqlite3.connect(copy)) as connection:
                return _select(connection, session_id)
        except (sqlite3.Error, OverflowError) as error:
            raise refused(f"{path.name} cannot be read as a session", found=str(error)) from None


def _select(connection: sqlite3.Connection, session_id: str | None) -> tuple[str, list[str]]:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    connection.text_factory = lambda data: data.decode("utf-8", "strict")
    steps = 0

    def busy() -> int:
        nonlocal steps
        steps += 100_000
        return steps > MOST_STEPS

    connection.set_progress_handler(busy, 100_000)
    try:
        kind = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
        if kind is None or kind[0] != "table" or not str(kind[1]).upper().startswith("CREATE TABLE"):
            raise refused("this is no file of a SQLiteSession", expected=f"a table {TABLE}", found=str(kind[0] if kind else "none"))
        known = [row[0] for row in connection.execute(f"SELECT DISTINCT session_id FROM {TABLE} LIMIT 20")]
        named = ", ".join(str(id) for id in known) or "no session at all"
        if session_id is None and len(known) != 1:
            raise refused("which session of the file?", found=named, do="name one: --of, or session_id=")
        session_id = a_text(known[0], "the session's id") if session_id is None else session_id
        found = connection.execute(f"SELECT message_data FROM {TABLE} WHERE session_id = ? ORDER BY id", (session_id,))
        rows, length = list[str](), 0
        for row in found:  # one by one: a column may be computed, and longer than the file
            rows.append(a_text(row[0], f"message {len(rows)}"))
            length += len(rows[-1])
            if length > LONGEST:
                raise refused("the session is too long", expected=f"at most {LONGEST} characters")
        if not rows:
            raise refused(f"there is no session {session_id!r} in the file", found=named)
    except UnicodeDecodeError as error:
        raise refused("a message is not text", found=str(error)) from None
    return session_id, rows
