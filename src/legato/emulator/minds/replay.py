"""A conversation that was recorded, said again. May know: the emulator's log. Decides: which recorded answer belongs to a prompt.

A prompt that was recorded gets its answer. One that differs only in ids does too, since those are new in every run. Else the place
decides: the same instructions, and as many things heard; unless the replay is strict. Faults that were recorded are not said again.
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

from legato.emulator.minds.base import Prompt, Say
from legato.emulator.minds.concerns import in_brief
from legato.errors import BadInput


class Recorded(Struct, frozen=True):
    """One exchange of the log, and the line it stands on."""

    prompt: Prompt
    say: Say
    line: int


class Replay:
    """A mind that answers as it was recorded. `BadInput` where the recording has no answer; if `strict`, also where only the place fits."""

    def __init__(self, recorded: Sequence[Recorded], source: str = "the recording", *, strict: bool = False) -> None:
        self.recorded = tuple(recorded)
        self.source = source
        self.strict = strict
        self._exact: dict[str, Recorded] = {}
        self._worded: dict[str, Recorded] = {}
        self._placed: dict[tuple[str, int], list[Recorded]] = {}
        for each in self.recorded:
            self._exact.setdefault(_digest(each.prompt), each)
            self._worded.setdefault(_digest(_without_ids(each.prompt)), each)
            self._placed.setdefault(_place(each.prompt), []).append(each)

    @classmethod
    def from_log(cls, path: str | Path, *, strict: bool = False) -> Replay:
        """The answers in a log of the emulator's exchanges. Requests that were refused have none and are left out."""
        path = Path(path)
        try:
            with path.open("rb") as log:
                replay = cls(list(_read(log, path.name)), path.name, strict=strict)
        except (OSError, ValueError) as error:
            raise BadInput("the recording cannot be read", found=str(error), do="name a log that the emulator wrote (--log FILE)") from None
        if not replay.recorded:
            raise BadInput(f"{path.name} has no answers to say again", do="name a log in which the emulator gave some (--log FILE)")
        return replay

    def reply(self, prompt: Prompt) -> Say:
        """What was said to this prompt when it was recorded."""
        found = self._recorded(prompt) or self._at_its_place(prompt)
        if found is None:
            raise self._unheard(prompt)
        return found.say

    def note(self, prompt: Prompt) -> str:
        """Which line spoke, if it was chosen by its place alone."""
        placed = None if self._recorded(prompt) else self._at_its_place(prompt)
        return f"chosen by its place: {self.source}, line {placed.line}" if placed else ""

    def _recorded(self, prompt: Prompt) -> Recorded | None:
        return self._exact.get(_digest(prompt)) or self._worded.get(_digest(_without_ids(prompt)))

    def _at_its_place(self, prompt: Prompt) -> Recorded | None:
        placed = [] if self.strict else self._placed.get(_place(prompt), [])
        return next((each for each in placed if each.prompt.said == prompt.said), placed[0] if placed else None)

    def _unheard(self, prompt: Prompt) -> BadInput:
        closest = max(
            self.recorded,
            key=lambda each: (
                each.prompt.instructions == prompt.instructions,
                each.prompt.said == prompt.said,
                -abs(len(each.prompt.heard) - len(prompt.heard)),
            ),
            default=None,
        )
        near = f"closest is line {closest.line}: {_told(closest.prompt)}" if closest else "it has no answers at all"
        return BadInput(
            f"{self.source} has no answer to this",
            expected=near,
            found=_told(prompt),
            do="say what was said when it was recorded, or record it again",
        )

    def __repr__(self) -> str:
        return f"<replay of {self.source}: {len(self.recorded)} answers>"


class _Line(Struct):
    prompt: Prompt | None = None
    say: Say | None = None


def _read(lines: Iterable[bytes], source: str) -> Iterable[Recorded]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput(
                f"{source}, line {number}: this is no exchange of the emulator's log",
                expected='{"api": ..., "prompt": {...}, "say": {...}} on each line',
                found=str(error),
            ) from None
        if read.prompt is not None and read.say is not None:
            yield Recorded(read.prompt, read.say, number)


def _place(prompt: Prompt) -> tuple[str, int]:
    return prompt.instructions, len(prompt.heard)


def _digest(prompt: Prompt) -> str:
    data: Any = msgspec.to_builtins(prompt)
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def _without_ids(prompt: Prompt) -> Prompt:
    heard = tuple(replace(each, call="", uses=tuple(replace(use, id="") for use in each.uses)) for each in prompt.heard)
    return replace(prompt, heard=heard, seed=0)


def _told(prompt: Prompt) -> str:
    last = f", the last from the {prompt.heard[-1].who}: {in_brief(prompt.heard[-1].text, 60)!r}" if prompt.heard else ""
    return f"{len(prompt.heard)} things heard{last}; instructions {in_brief(prompt.instructions, 60)!r}"
