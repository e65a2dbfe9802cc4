"""Counters of the work of each step: encoding, decoding, folding, planning, storing. Work is the same on every machine."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import legato
from legato.core import codec
from legato.core.state import State
from legato.providers.formats.anthropic.encode import _MessagesEncoder
from legato.providers.formats.chat import encode as chat
from legato.providers.formats.responses import encode as responses
from legato.runtime import driver
from legato.runtime.ledger import Ledger
from legato.stores.memory import MemoryStore
from legato.stores.sqlite.connection_thread import ConnectionThread, _ConnectionService
from legato.stores.sqlite.store import SQLiteStore


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts its turns: each polls the operating system for events."""

    turn_count = 0

    def _run_once(self) -> None:
        self.turn_count += 1
        super()._run_once()  # type: ignore[misc]  # what an event loop does in one turn has no public name


PACKAGE_FOLDER = str(Path(legato.__file__).parent)


class LineCounter:
    """Counts the lines of Legato's code that run within a `with` block, in this thread and in threads that begin there."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers = itertools.count()  # threads may take from it at the same time

    @property
    def current_count(self) -> int:
        """The lines that have run within the block; reading this adds one."""
        return next(self._numbers)

    def __enter__(self) -> LineCounter:
        self._previous_trace = sys.gettrace()
        threading.settrace(self._trace_call)
        sys.settrace(self._trace_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._previous_trace)
        threading.settrace(self._previous_trace)  # type: ignore[arg-type]  # None if there was no trace function
        self.count = next(self._numbers)

    def _trace_call(self, frame: FrameType, event: str, value: Any) -> Any:
        return self._trace_line if frame.f_code.co_filename.startswith(PACKAGE_FOLDER) else None

    def _trace_line(self, frame: FrameType, event: str, value: Any) -> Any:
        if event == "line":
            next(self._numbers)
        return self._trace_line


class WorkCounter:
    """The work so far, and the work of each step."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.steps: list[Counter[str]] = []
        self.loop = CountingLoop()
        self._previous_counts: Counter[str] = Counter()
        self._synchronous_mode = ""
        self._count_calls(patch, State, "apply", "facts folded")
        self._count_calls(patch, driver, "make_plan", "plans")
        self._count_calls(patch, ConnectionThread, "post", "jobs for a thread")
        self._count_calls(patch, Ledger, "_catch_up", "reads of the store")
        for encoder in (responses._InputEncoder, chat._MessagesEncoder, _MessagesEncoder):
            self._count_calls(patch, encoder, "add_group", "groups encoded")
        for store in (MemoryStore, SQLiteStore):
            self._count_appends(patch, store)
        self._count_codec(patch)
        self._count_statements(patch)

    def run(self, awaitable: Awaitable[Any]) -> None:
        """Run an awaitable to its end, in an event loop that counts its turns."""

        async def whole() -> None:
            await awaitable

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(whole())

    def end_step(self) -> None:
        """Record the work of the step that ends now."""
        now = self.counts + Counter({"turns of the event loop": self.loop.turn_count})
        self.steps.append(now - self._previous_counts)
        self._previous_counts = now

    def get_work_per_step(self, first: int, last: int) -> Counter[str]:
        """Return the work of each of these steps; it must be equal for all."""
        one, *others = self.steps[first:last]
        for number, other in enumerate(others, first + 1):
            assert other == one, f"step {number} took {other - one} more and {one - other} less than step {first}"
        return one

    def _count_calls(self, patch: pytest.MonkeyPatch, owner: Any, name: str, label: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def count_call(*arguments: Any, **options: Any) -> Any:
            self.counts[label] += 1
            return original(*arguments, **options)

        patch.setattr(owner, name, count_call)

    def _count_appends(self, patch: pytest.MonkeyPatch, store: type) -> None:
        original = store.append  # type: ignore[attr-defined]  # every store has it

        async def append(self_: Any, ledger: str, expected: int, facts: Any, **options: Any) -> Any:
            self.counts["appends"] += 1
            self.counts["facts appended"] += len(facts)
            self.counts["contents stored"] += len(options.get("contents") or ())
            return await original(self_, ledger, expected, facts, **options)

        patch.setattr(store, "append", append)

    def _count_codec(self, patch: pytest.MonkeyPatch) -> None:
        encoder, decoder = codec._encoder, codec.get_decoder

        class Encoder:
            def encode(_, fact: Any) -> bytes:
                body = encoder.encode(fact)
                self.counts["facts encoded"] += 1
                self.counts["bytes encoded"] += len(body)
                return body

        def get_counting_decoder(format: int) -> Callable[[bytes], Any]:
            def decode(data: bytes) -> Any:
                self.counts["facts decoded"] += 1
                return decoder(format)(data)

            return decode

        patch.setattr(codec, "_encoder", Encoder())
        patch.setattr(codec, "get_decoder", get_counting_decoder)

    def _count_statements(self, patch: pytest.MonkeyPatch) -> None:
        original = _ConnectionService.open

        def count_statement(statement: str) -> None:
            self.counts["SQL statements"] += 1
            if statement.startswith("PRAGMA synchronous="):
                self._synchronous_mode = statement.removeprefix("PRAGMA synchronous=")
            self.counts["waits for the disk"] += statement == "COMMIT" and self._synchronous_mode == "FULL"

        def open_traced(service: _ConnectionService) -> Any:
            connection = original(service)
            connection.set_trace_callback(count_statement)
            return connection

        patch.setattr(_ConnectionService, "open", open_traced)
