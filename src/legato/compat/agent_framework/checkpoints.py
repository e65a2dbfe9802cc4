"""Checkpoint storages over Legato's stores.

A checkpoint is a position of a ledger, written "<session>@<position>". It is not saved: it is there because the facts before it are, and
what it tells is computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from legato.compat.agent_framework.events import WorkflowEvent
from legato.compat.agent_framework.requests import requests_from_state
from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.compat.gaps import explain
from legato.core.facts import AnyFact, Decided, MessageReceived, Opened
from legato.core.state import fold
from legato.errors import BadInput
from legato.stores import MemoryStore, SQLiteStore, Store

CheckpointID: TypeAlias = str
FILE = "checkpoints.sqlite"
ALL = 1_000_000_000
DIGITS = 12  # of a position, at most


def checkpoint_id_of(session: str, position: int) -> CheckpointID:
    return f"{session}@{position}"


def place_of(checkpoint_id: CheckpointID) -> tuple[str, int]:
    """The session and the position that a checkpoint is."""
    session, _, position = str(checkpoint_id).rpartition("@")
    if not session or not position.isascii() or not position.isdigit() or len(position) > DIGITS:
        raise BadInput(
            "this is no checkpoint",
            expected='"<session>@<position>"',
            found=repr(checkpoint_id)[:80],
            do="bring one that the framework itself wrote along with legato import, see docs/migrate/index.md#the-conversations",
        )
    return session, int(position)


@mirrors("WorkflowCheckpoint")
@dataclass(frozen=True)
class WorkflowCheckpoint:
    """A place of a conversation: the facts that were read, and how many of them are before it. Everything else follows from them."""

    session_id: str
    iteration_count: int
    """Its position."""
    facts: Sequence[AnyFact] = field(repr=False, compare=False)
    metadata: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def checkpoint_id(self) -> CheckpointID:
        return checkpoint_id_of(self.session_id, self.iteration_count)

    @property
    def previous_checkpoint_id(self) -> CheckpointID | None:
        """The checkpoint of the idle position before this one, in this branch."""
        before = [at for at in _find_idle_positions(self.facts) if at < self.iteration_count]
        return checkpoint_id_of(self.session_id, before[-1]) if before else None

    @property
    def workflow_name(self) -> str:
        return next(fact.workflow for fact in self.facts if isinstance(fact, Opened))

    @property
    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.facts[self.iteration_count - 1].at / 1000, UTC).isoformat()

    @property
    def pending_request_info_events(self) -> dict[str, WorkflowEvent]:
        """The pending requests by id: the user's turn, or calls that wait for approval. `run(checkpoint_id=...)` emits them again."""
        return requests_from_state(fold(self.facts[: self.iteration_count], self.session_id))

    def to_dict(self) -> dict[str, Any]:
        told = ("workflow_name", "checkpoint_id", "previous_checkpoint_id", "timestamp", "iteration_count", "metadata")
        return {name: getattr(self, name) for name in (*told, "pending_request_info_events")}


@mirrors("CheckpointStorage")
class CheckpointStorage:
    """Checkpoints, as they follow from the ledgers of a store. Any store of Legato's can be given."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The places where conversations of this workflow came to rest, in order, the latest conversation last."""
        listed: list[WorkflowCheckpoint] = []
        for info in reversed(await self.store.list(ALL)):
            facts = await self.store.read(info.ledger)
            if any(isinstance(fact, Opened) and fact.workflow == workflow_name for fact in facts):
                listed += [WorkflowCheckpoint(info.ledger, at, facts) for at in [*_find_idle_positions(facts), len(facts)]]
        if not listed:
            self._warn_about_foreign_files(workflow_name)
        return listed

    def _warn_about_foreign_files(self, workflow_name: str) -> None:
        """Do nothing: only a folder can hold files of the original framework."""

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[CheckpointID]:
        return [each.checkpoint_id for each in await self.list_checkpoints(workflow_name=workflow_name)]

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        return next(reversed(await self.list_checkpoints(workflow_name=workflow_name)), None)

    async def load(self, checkpoint_id: CheckpointID) -> WorkflowCheckpoint:
        session, position = place_of(checkpoint_id)
        facts = await self.store.read(session)
        if not 0 < position <= len(facts):
            raise no_such(checkpoint_id, len(facts))
        return WorkflowCheckpoint(session, position, facts)

    async def save(self, checkpoint: Any) -> CheckpointID:
        raise BadInput("checkpoints are not saved here: they are positions of a ledger", do="run the workflow; each fact is recorded")

    async def delete(self, checkpoint_id: CheckpointID) -> bool:
        session, _ = place_of(checkpoint_id)
        raise BadInput(
            "a position of a conversation cannot be deleted", do=f"delete the conversation: await storage.store.delete({session!r})"
        )

    async def close(self) -> None:
        """Let go of the file."""
        await self.store.close()


class InMemoryCheckpointStorage(CheckpointStorage):
    """Conversations that live as long as this object."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())


@mirrors("FileCheckpointStorage")
class FileCheckpointStorage(CheckpointStorage):
    """Conversations in a SQLite file in this folder, for any number of processes."""

    def __init__(self, storage_path: str | Path) -> None:
        Path(storage_path).mkdir(parents=True, exist_ok=True)
        super().__init__(SQLiteStore(Path(storage_path) / FILE))

    @property
    def storage_path(self) -> Path:
        assert isinstance(self.store, SQLiteStore)
        return Path(self.store.path).parent

    def _warn_about_foreign_files(self, workflow_name: str) -> None:
        """Warn if the folder has checkpoint files that the original framework wrote."""
        if theirs := sorted(self.storage_path.glob("*.json")):
            explain(f"{theirs[0]}, which the framework itself wrote,", self._bring(theirs[0], workflow_name))

    async def load(self, checkpoint_id: CheckpointID) -> WorkflowCheckpoint:
        theirs = next((path for path in self.storage_path.glob("*.json") if path.stem == checkpoint_id), None)
        if theirs is not None:
            raise BadInput(f"the checkpoint {checkpoint_id!r} was written by the framework itself", do=self._bring(theirs, "NAME"))
        return await super().load(checkpoint_id)

    def _bring(self, theirs: Path, workflow: str) -> str:
        there = f"--store sqlite:{self.storage_path / FILE} --session ID --workflow {workflow}"
        return f"bring it along with legato import {theirs} {there}, see docs/migrate/index.md#the-conversations"


def no_such(checkpoint_id: CheckpointID, facts: int) -> BadInput:
    return BadInput(f"there is no checkpoint {checkpoint_id!r}", found=f"a conversation of {facts} facts in this storage")


def _find_idle_positions(facts: Sequence[AnyFact]) -> list[int]:
    """Return the positions before each message and answer of a user. Positions that a fork shares belong to its parent."""
    begins = max(at for at, fact in enumerate(facts) if isinstance(fact, Opened))
    return [at for at, fact in enumerate(facts) if at > begins + 1 and isinstance(fact, (MessageReceived, Decided))]
