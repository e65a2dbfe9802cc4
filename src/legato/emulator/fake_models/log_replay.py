"""The replay of a recorded log.

A recorded prompt gets its recorded reply. So does a prompt that differs only in ids, which are new in every run. Any other prompt gets
the reply at its position (the same instructions, the same number of messages), unless the replay is strict. Recorded faults are not
repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.fake_models.base import FakeReply, ModelPrompt
from legato.emulator.fake_models.relevance import abbreviate
from legato.errors import BadInput


class RecordedReply(Struct, frozen=True):
    """A prompt of the log with its reply, and the number of its line."""

    prompt: ModelPrompt
    reply: FakeReply
    line: int


class LogReplay:
    """A fake model that repeats recorded replies.

    `reply` raises `BadInput` for a prompt without a recorded reply; if `strict`, also if only the position matches.
    """

    def __init__(self, recorded_replies: Sequence[RecordedReply], source: str = "the recording", *, strict: bool = False) -> None:
        self.recorded_replies = tuple(recorded_replies)
        self.source = source
        self.is_strict = strict
        self._by_prompt: dict[str, RecordedReply] = {}
        self._by_prompt_without_ids: dict[str, RecordedReply] = {}
        self._by_position: dict[tuple[str, int], list[RecordedReply]] = {}
        for each in self.recorded_replies:
            self._by_prompt.setdefault(_digest(each.prompt), each)
            self._by_prompt_without_ids.setdefault(_digest(_without_ids(each.prompt)), each)
            self._by_position.setdefault(_position(each.prompt), []).append(each)

    @classmethod
    def from_log(cls, path: str | Path, *, strict: bool = False) -> LogReplay:
        """Read the replies of a log. Rejected requests have none and are left out."""
        path = Path(path)
        try:
            with path.open("rb") as log:
                replay = cls(list(_read_log(log, path.name)), path.name, strict=strict)
        except (OSError, ValueError) as error:
            raise BadInput("the recording cannot be read", found=str(error), do="name a log that the emulator wrote (--log FILE)") from None
        if not replay.recorded_replies:
            raise BadInput(f"{path.name} has no replies to repeat", do="name a log in which the emulator replied to requests (--log FILE)")
        return replay

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return the recorded reply to a prompt."""
        recorded = self._find_by_prompt(prompt) or self._find_by_position(prompt)
        if recorded is None:
            raise self._make_missing_error(prompt)
        return recorded.reply

    def note(self, prompt: ModelPrompt) -> str:
        """Return a remark with the line of a reply that was chosen by its position only; else an empty text."""
        recorded = None if self._find_by_prompt(prompt) else self._find_by_position(prompt)
        return f"chosen by its position: {self.source}, line {recorded.line}" if recorded else ""

    def _find_by_prompt(self, prompt: ModelPrompt) -> RecordedReply | None:
        return self._by_prompt.get(_digest(prompt)) or self._by_prompt_without_ids.get(_digest(_without_ids(prompt)))

    def _find_by_position(self, prompt: ModelPrompt) -> RecordedReply | None:
        candidates = [] if self.is_strict else self._by_position.get(_position(prompt), [])
        same_text = (each for each in candidates if each.prompt.last_user_text == prompt.last_user_text)
        return next(same_text, candidates[0] if candidates else None)

    def _make_missing_error(self, prompt: ModelPrompt) -> BadInput:
        closest = max(
            self.recorded_replies,
            key=lambda each: (
                each.prompt.instructions == prompt.instructions,
                each.prompt.last_user_text == prompt.last_user_text,
                -abs(len(each.prompt.messages) - len(prompt.messages)),
            ),
            default=None,
        )
        expected = f"closest is line {closest.line}: {_describe(closest.prompt)}" if closest else "it has no replies at all"
        return BadInput(
            f"{self.source} has no reply to this prompt",
            expected=expected,
            found=_describe(prompt),
            do="send the recorded messages, or record the conversation again",
        )

    def __repr__(self) -> str:
        return f"<replay of {self.source}: {len(self.recorded_replies)} replies>"


class _LogLine(Struct, rename={"reply": "say"}):
    prompt: ModelPrompt | None = None
    reply: FakeReply | None = None


def _read_log(lines: Iterable[bytes], source: str) -> Iterable[RecordedReply]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            log_line = msgspec.json.decode(line, type=_LogLine)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(
                f"{source}, line {number}: this is no exchange of the emulator's log",
                expected='{"api": ..., "prompt": {...}, "say": {...}} on each line',
                found=str(error),
            ) from None
        if log_line.prompt is not None and log_line.reply is not None:
            yield RecordedReply(log_line.prompt, log_line.reply, number)


def _position(prompt: ModelPrompt) -> tuple[str, int]:
    return prompt.instructions, len(prompt.messages)


def _digest(prompt: ModelPrompt) -> str:
    data: Any = msgspec.to_builtins(prompt)
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def _without_ids(prompt: ModelPrompt) -> ModelPrompt:
    messages = tuple(replace(each, call_id="", calls=tuple(replace(call, id="") for call in each.calls)) for each in prompt.messages)
    return replace(prompt, messages=messages, seed=0)


def _describe(prompt: ModelPrompt) -> str:
    count = len(prompt.messages)
    last = f", the last from the {prompt.messages[-1].role}: {abbreviate(prompt.messages[-1].text, 60)!r}" if count else ""
    return f"{count} {'message' if count == 1 else 'messages'}{last}; instructions {abbreviate(prompt.instructions, 60)!r}"
