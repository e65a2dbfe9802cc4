"""Reader of the OpenAI Agents SDK's `RunState` strings and `SQLiteSession` files.

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

from legato.compat.imports.conversation import AgentReply, Entry, Report, ToolOutput, UserMessage
from legato.compat.imports.untrusted_input import (
    MAX_SOURCE_BYTES,
    MessageParts,
    check_dict,
    check_length,
    check_list,
    check_text,
    import_refusal,
    read_bytes,
    read_json,
    text_or_json,
)
from legato.core.facts import Call, Content, OutputText, Refusal

MAX_SQLITE_STEPS = 200_000_000
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
        given = [check_dict(item, f"{what}, item {number}") for number, item in enumerate(items)]
        passed = {str(item.get("call_id")): target for item in given if (target := _read_handoff_target(item))}
        for number, item in enumerate(given):
            entry = self.read(item, f"{what}, item {number}", handoff=passed.get(str(item.get("call_id")), ""))
            if isinstance(entry, UserMessage):
                self._agent = self.agent
            if entry is not None:
                yield entry
            if isinstance(entry, ToolOutput) and (next_agent := passed.get(entry.call_id)):
                self._agent = next_agent

    def read(self, item: dict[str, Any], what: str, agent: str = "", handoff: str = "", asks: bool = False) -> Entry | None:
        """One item, or None if it is none that a ledger holds."""
        agent = agent or self._agent
        kind = item.get("type") or "message"
        if kind == "message":
            return self._message(item, what, agent)
        if kind == "function_call":
            tool = check_text(item.get("name"), f"the name in {what}", empty=False)
            call = Call(
                tool,
                text_or_json(item.get("arguments", "{}"), f"the arguments in {what}"),
                check_text(item.get("call_id"), f"the call_id in {what}"),
            )
            return AgentReply(agent, (call,), {0: handoff} if handoff else {}, frozenset([0]) if asks else frozenset())
        if kind == "function_call_output":
            return ToolOutput(check_text(item.get("call_id"), f"the call_id in {what}"), self._content(item.get("output", ""), what))
        self._left[check_text(kind, f"the type of {what}")] += 1
        return None

    def _message(self, item: dict[str, Any], what: str, agent: str) -> Entry | None:
        match item.get("role"):
            case "user":
                return UserMessage(content) if (content := self._content(item.get("content"), what)) else None
            case "assistant":
                given = item.get("content")
                parts = [{"type": "output_text", "text": given}] if isinstance(given, str) else check_list(given, f"the content of {what}")
                said: list[OutputText | Refusal] = []
                for part in parts:
                    match check_dict(part, f"a part of {what}"):
                        case {"type": "output_text" | "text", "text": text}:
                            said.append(OutputText(check_text(text, f"the text of {what}")))
                        case {"type": "refusal", "refusal": text}:
                            said.append(Refusal(check_text(text, f"the refusal in {what}")))
                        case other:
                            self._left[f"part {other.get('type')}"] += 1
                return AgentReply(agent, tuple(part for part in said if part.text)) if any(part.text for part in said) else None
            case "system" | "developer":
                self._left["instructions within the conversation"] += 1
            case role:
                raise import_refusal(f"{what} has no role that is known", found=repr(role)[:80])
        return None

    def _content(self, content: object, what: str) -> Content:
        if not isinstance(content, list):
            return text_or_json("" if content is None else content, f"the content of {what}")
        gathered = MessageParts([], self.contents)
        for part in content:
            match check_dict(part, f"a part of {what}"):
                case {"type": "input_text" | "output_text" | "text", "text": text}:
                    gathered.text(check_text(text, f"the text of {what}"))
                case {"type": "input_image", "image_url": str(url)} if url:
                    gathered.attached(check_text(url, f"the picture in {what}"), "image/png", "", f"the picture in {what}")
                case {"type": "input_file"} if isinstance(uri := part.get("file_data") or part.get("file_url"), str) and uri:
                    name = check_text(part.get("filename") or "", f"the file in {what}")
                    gathered.attached(check_text(uri, f"the file in {what}"), "application/octet-stream", name, f"the file in {what}")
                case other:
                    self._left[f"part {other.get('type')}"] += 1
        return gathered.content

    def done(self) -> None:
        """Say what was left out."""
        why = {"reasoning": " (it belongs to the provider that made it)"}
        self._report.left_out += [f"{number} of kind {kind!r}{why.get(kind, '')}" for kind, number in sorted(self._left.items())]


def _read_handoff_target(item: dict[str, Any]) -> str:
    """Return the agent that an output passes control to, in the SDK's notation."""
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
    """Return the conversation in a `RunState` string."""
    state = read_json(text, "the RunState")
    version = state.get("$schemaVersion")
    if not isinstance(version, str) or not version.startswith("1."):
        raise import_refusal("this is no RunState that is known", expected="$schemaVersion 1.x", found=repr(version))
    report.source = f"RunState {version}"
    made = check_list(state.get("session_items") or state.get("generated_items"), "the items of the RunState")
    items = Items(report, _agent(made[0] if made else state.get("current_agent"), state))
    entries = _input_entries(state.get("original_input"), items, report)
    asked = [check_dict(approval.get("raw_item"), "an interruption").get("call_id") for approval in _interruptions(state)]
    for number, item in enumerate(made):
        item, what = check_dict(item, f"item {number}"), f"item {number} of the RunState"
        if item.get("type") == "tool_approval_item":
            continue  # the call itself stands there too
        raw = check_dict(item.get("raw_item"), what)
        entry = items.read(raw, what, _agent(item, state), _target(item, made, raw), raw.get("call_id") in asked)
        if entry is not None:
            entries.append(entry)
    items.done()
    report.notes += _notes_on(state)
    return entries, items.contents


def _input_entries(given: object, items: Items, report: Report) -> list[Entry]:
    if isinstance(given, str):
        return [UserMessage(check_text(given, "the input", empty=False))]
    entries = list(items.conversation(check_list(given, "the input"), "the input"))
    if any(isinstance(entry, AgentReply) for entry in entries):
        whose = f"replies in it are taken for {items.agent!r}'s, until a handoff names another"
        report.notes.append(f"the input does not say who spoke: {whose}")
    return entries


def _notes_on(state: dict[str, Any]) -> Iterator[str]:
    """Yield notes about the parts of a state that are not imported."""
    if decided := check_dict(check_dict(state.get("context") or {}, "the context").get("approvals") or {}, "the approvals"):
        yield f"decisions about {', '.join(sorted(decided))} were not taken along: whoever decides is asked here"
    if state.get("previous_response_id") or state.get("conversation_id"):
        yield "the run went on from what the provider holds; what was said before it is not in this string"


def _agent(item: object, state: dict[str, Any]) -> str:
    agent = item.get("agent", item) if isinstance(item, dict) else state.get("current_agent")
    return check_text(check_dict(agent, "the agent of an item").get("name"), "the name of an agent", empty=False)


def _target(item: dict[str, Any], made: list[Any], raw: dict[str, Any]) -> str:
    """Return the agent that a handoff's call passed control to: its output names it."""
    if item.get("type") != "handoff_call_item":
        return ""
    for other in made:
        if isinstance(other, dict) and other.get("type") == "handoff_output_item":
            told = check_dict(other.get("raw_item"), "a handoff's output")
            if told.get("call_id") == raw.get("call_id"):
                return check_text(
                    check_dict(other.get("target_agent"), "a handoff's target").get("name"), "a handoff's target", empty=False
                )
    return ""


def _interruptions(state: dict[str, Any]) -> list[dict[str, Any]]:
    step = state.get("current_step")
    if not isinstance(step, dict) or step.get("type") != "next_step_interruption":
        return []
    data = check_dict(step.get("data"), "the interruption")
    return [check_dict(approval, "an interruption") for approval in check_list(data.get("interruptions", []), "the interruptions")]


# -- SQLiteSession -----------------------------------------------------------------------------------------------------------


def session_entries(path: Path, session_id: str | None, agent: str, report: Report) -> tuple[list[Entry], dict[str, bytes]]:
    """Return the conversation of one session in a `SQLiteSession` file."""
    session_id, rows = _rows(path, session_id)
    report.source = f"SQLiteSession {session_id!r}"
    items = Items(report, agent)
    entries = list(items.conversation([read_json(row, f"message {number}") for number, row in enumerate(rows)], "the session"))
    items.done()
    if any(isinstance(entry, AgentReply) for entry in entries):
        report.notes.append(
            f"the file does not say who spoke: replies to the user are taken for {agent!r}'s, until a handoff names another"
        )
    return entries, items.contents


def _rows(path: Path, session_id: str | None) -> tuple[str, list[str]]:
    """The rows of a copy, so that reading changes nothing of the file: not its journal either."""
    if not read_bytes(path).startswith(b"SQLite format 3\x00"):
        raise import_refusal(f"{path.name} is no SQLite file")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "session.db"
        for suffix in ("", "-wal", "-journal"):
            part = path.with_name(path.name + suffix)
            if part.is_file():
                check_length(part)
                shutil.copyfile(part, copy.with_name(copy.name + suffix))
        try:
            with closing(sqlite3.connect(copy)) as connection:
                return _select(connection, session_id)
        except (sqlite3.Error, OverflowError) as error:
            raise import_refusal(f"{path.name} cannot be read as a session", found=str(error)) from None


def _select(connection: sqlite3.Connection, session_id: str | None) -> tuple[str, list[str]]:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_SOURCE_BYTES)
    connection.text_factory = lambda data: data.decode("utf-8", "strict")
    steps = 0

    def busy() -> int:
        nonlocal steps
        steps += 100_000
        return steps > MAX_SQLITE_STEPS

    connection.set_progress_handler(busy, 100_000)
    try:
        kind = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
        if kind is None or kind[0] != "table" or not str(kind[1]).upper().startswith("CREATE TABLE"):
            raise import_refusal("this is no file of a SQLiteSession", expected=f"a table {TABLE}", found=str(kind[0] if kind else "none"))
        known = [row[0] for row in connection.execute(f"SELECT DISTINCT session_id FROM {TABLE} LIMIT 20")]
        named = ", ".join(str(id) for id in known) or "no session at all"
        if session_id is None and len(known) != 1:
            raise import_refusal("which session of the file?", found=named, do="name one: --of, or session_id=")
        session_id = check_text(known[0], "the session's id") if session_id is None else session_id
        found = connection.execute(f"SELECT message_data FROM {TABLE} WHERE session_id = ? ORDER BY id", (session_id,))
        rows, length = list[str](), 0
        for row in found:  # one by one: a column may be computed, and longer than the file
            rows.append(check_text(row[0], f"message {len(rows)}"))
            length += len(rows[-1])
            if length > MAX_SOURCE_BYTES:
                raise import_refusal("the session is too long", expected=f"at most {MAX_SOURCE_BYTES} characters")
        if not rows:
            raise import_refusal(f"there is no session {session_id!r} in the file", found=named)
    except UnicodeDecodeError as error:
        raise import_refusal("a message is not text", found=str(error)) from None
    return session_id, rows
