"""Conversations of other frameworks as Legato ledgers.

    conversation = from_run_state(text)                  # reads, and says what there is; touches no store
    print(conversation.report)
    await conversation.save(store, "customer-42", workflow="desk")
    session = desk.session("customer-42", store=store)   # goes on from there

Nothing is executed, imported or unpickled. What cannot be read safely is refused with `CannotImport`, or listed in the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from legato.compat.imports.agent_framework import checkpoint_entries, read_messages
from legato.compat.imports.agents_sdk import run_state_entries, session_entries
from legato.compat.imports.conversation import AgentReply, Entry, LedgerWriter, Report, UserMessage, group_turns
from legato.compat.imports.untrusted_input import import_refusal, read_bytes
from legato.core.codec import validate_fact
from legato.core.facts import AnyFact
from legato.core.state import fold
from legato.errors import BadInput, LedgerConflict, LedgerExists
from legato.runtime.clock import new_id, now_ms
from legato.stores.contract import Store

__all__ = ["Conversation", "Report", "from_checkpoint", "from_messages", "from_run_state", "from_sqlite_session"]


class Conversation:
    """A conversation that was read. `report` says what it holds, and what was left out."""

    def __init__(self, entries: Sequence[Entry], contents: Mapping[str, bytes], report: Report) -> None:
        self._entries = tuple(entries)
        self._contents = dict(contents)
        self._read = report
        self.report = self._write("imported", {}, 0)[2]

    @property
    def agents(self) -> list[str]:
        """The agents that speak in it. A workflow that continues it has agents of these names, unless they are renamed."""
        return list(
            dict.fromkeys(
                name for entry in self._entries if isinstance(entry, AgentReply) for name in (entry.agent, *entry.handoffs.values())
            )
        )

    async def save(self, store: Store, session: str, *, workflow: str, agents: Mapping[str, str] | None = None) -> Report:
        """Write it into a store as the session of a workflow of this name, all or nothing.

        `agents` gives agents other names. `LedgerExists` if the store has such a session already.
        """
        if not isinstance(session, str) or not session or len(session) > 400 or not session.isprintable():
            raise BadInput("a session id is 1 to 400 printable characters", found=repr(session)[:80], do="choose another id")
        if not isinstance(workflow, str) or not workflow:
            raise BadInput("a session belongs to a workflow", found=repr(workflow)[:80], do="give the name that its HandoffBuilder has")
        facts, contents, report = self._write(workflow, self.renaming(agents), now_ms())
        ledger_id = new_id()
        facts[0] = replace(facts[0], ledger_id=ledger_id)
        try:
            await store.append(session, 0, facts, contents=contents, ledger_id=ledger_id)
        except LedgerConflict as conflict:
            raise LedgerExists(f"the store has a session {session!r} already", do="choose another id; nothing was imported") from conflict
        return report

    def renaming(self, agents: Mapping[str, str] | None) -> Mapping[str, str]:
        """The new names, if they are for agents that speak here and leave each one of them a name of its own."""
        agents = agents or {}
        if unknown := [name for name in agents if name not in self.agents]:
            raise BadInput(f"nobody here is called {unknown[0]!r}", expected=", ".join(self.agents), do="rename those who speak")
        names = [agents.get(name, name) for name in self.agents]
        if twice := [name for name in names if names.count(name) > 1]:
            raise BadInput(f"two agents would be called {twice[0]!r}", do="give each a name of its own, or nobody knows who handed over")
        return agents

    def _write(self, workflow: str, agents: Mapping[str, str], at: int) -> tuple[list[AnyFact], dict[str, bytes], Report]:
        """The facts, proved to be a ledger: that they can be read again, and that each may follow the one before it."""
        report = replace(self._read, left_out=list(self._read.left_out), notes=list(self._read.notes))
        entries = [_renamed(entry, agents) for entry in self._entries]
        writer = LedgerWriter(report, at)
        writer.write(group_turns(entries, report), "imported", workflow)
        if len(writer.facts) < 2:
            raise import_refusal(f"there is no conversation in this {report.source}")
        facts = [validate_fact(fact) for fact in writer.facts]
        fold(facts)
        return facts, self._contents | writer.contents, report

    def __repr__(self) -> str:
        heard = sum(isinstance(entry, UserMessage) for entry in self._entries)
        return f"<Conversation from {self._read.source}: {heard} messages, agents {', '.join(self.agents) or 'none'}>"


def _renamed(entry: Entry, agents: Mapping[str, str]) -> Entry:
    if not isinstance(entry, AgentReply):
        return entry
    name = agents.get(entry.agent, entry.agent) or "assistant"
    return replace(entry, agent=name, handoffs={index: agents.get(target, target) for index, target in entry.handoffs.items()})


def from_checkpoint(source: Path | str | bytes) -> Conversation:
    """A checkpoint of Microsoft Agent Framework, as its `FileCheckpointStorage` writes it: a `Path`, or the JSON itself."""
    report = Report("checkpoint")
    return Conversation(*checkpoint_entries(_data(source), report), report)


def from_messages(source: Path | str | bytes) -> Conversation:
    """A JSON list of Microsoft Agent Framework's messages (`to_dict()`): a `Path`, or the JSON itself."""
    report = Report("messages")
    return Conversation(*read_messages(_data(source), report), report)


def from_run_state(source: Path | str | bytes) -> Conversation:
    """A `RunState` of the OpenAI Agents SDK, as `to_string()` gives it: a `Path`, or the string itself."""
    report = Report("RunState")
    return Conversation(*run_state_entries(_data(source), report), report)


def from_sqlite_session(path: Path | str, session_id: str | None = None, *, agent: str = "assistant") -> Conversation:
    """A session of the OpenAI Agents SDK's `SQLiteSession`. The file does not say who spoke; `agent` is who began each run.

    Without `session_id`, the only session of the file.
    """
    report = Report("SQLiteSession")
    return Conversation(*session_entries(Path(path), session_id, agent, report), report)


def _data(source: Path | str | bytes) -> bytes | str:
    if isinstance(source, Path):
        return read_bytes(source)
    if not isinstance(source, (str, bytes)):
        raise BadInput("this is nothing to import", expected="a Path, or JSON as text", found=type(source).__name__)
    return source
