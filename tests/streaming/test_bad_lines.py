"""Whatever becomes of the notes, the lines and those who drive: every page shows the conversation in the end, with no gap and no repeat."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from legato.core.facts import Cancelled, ModelReplied, ModelRequestFailed
from legato.runtime import deltas, driver, event_follower, event_projector
from legato.runtime.event_cursor import Cursor
from tests.streaming.chaos import play

STORIES = 200


def test_every_page_shows_the_conversation_with_no_gap_and_no_repeat():
    played = [play(seed) for seed in range(STORIES)]
    assert sum(page.pieces for pages, _ in played for page in pages) > 10 * STORIES, "words did come in pieces"


def _any_letters(self: deltas.Ear, note: deltas.Note, state: Any) -> None:
    if note.start >= 0:
        self._screen.piece(note.agent, note.attempt, note.text)


def _only_what_it_saw_itself(note: deltas.Note, state: Any) -> bool:
    return any(isinstance(fact, ModelReplied) for fact in state.facts[max(note.facts, state.length - 3) :])


def _but_for_erasures(note: deltas.Note, state: Any) -> bool:
    return any(isinstance(fact, (ModelReplied, ModelRequestFailed, Cancelled)) for fact in state.facts[note.facts :])


def _older_ones_too(self: deltas.Ear, note: deltas.Note, state: Any) -> None:
    self._newest = (note.epoch, note.number)
    HEAR(self, note, state)


def _after_a_gap(self: deltas.Ear, note: deltas.Note, state: Any) -> None:
    HEAR(self, replace(note, start=min(note.start, self._screen.letters)), state)


def _counts_from_one(self: event_projector.Screen, event: Any, told: Cursor) -> None:
    TELL(self, event, replace(told, events=told.events - 1) if told.events else told)


def _counts_the_next(self: event_projector.Screen, event: Any, told: Cursor) -> None:
    TELL(self, event, replace(told, facts=told.facts + 1, events=0) if told.events and not told.rest else told)


def _believes_what_was_heard(self: event_projector.Screen, answered: Any) -> bool:
    shown = bool(self._pieces)
    self._forget()
    return shown


def _says_what_is_judged(self: driver.Driver, agent: str, attempt: int, text: str) -> None:
    self._voice.say(agent, attempt, text)


HEAR, TELL = deltas.Ear.hear, event_projector.Screen._tell
BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "letters are added wherever they belong": (deltas.Ear, "hear", _any_letters),
    "what was over long ago is shown": (deltas, "is_over", lambda note, state: False),
    "what was over before the line was lost is shown": (deltas, "is_over", _only_what_it_saw_itself),
    "what was said about erased words is shown": (deltas, "is_over", _but_for_erasures),
    "a driver that was overtaken is believed": (deltas.Ear, "hear", _older_ones_too),
    "letters after a gap are shown": (deltas.Ear, "hear", _after_a_gap),
    "an event is told again to those who come again": (event_projector.Screen, "_tell", _counts_from_one),
    "an event is left out for those who come again": (event_projector.Screen, "_tell", _counts_the_next),
    "what was heard is taken for what was recorded": (event_projector.Screen, "_completed", _believes_what_was_heard),
    "nothing is withdrawn": (event_projector.Screen, "withdraw", lambda self: None),
    "words are told before they are judged": (driver.Driver, "_piece", _says_what_is_judged),
}


@pytest.mark.parametrize(("where", "name", "bug"), BUGS.values(), ids=BUGS)
def test_a_bug_is_seen(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, bug: Callable[..., Any]) -> None:
    monkeypatch.setattr(where, name, bug)
    with pytest.raises((AssertionError, ValueError)):
        deque(map(play, range(STORIES)), maxlen=0)


def test_words_that_nobody_hears_in_time_are_forgotten_and_come_with_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_follower, "MOST_NOTES", 1)
    for seed in range(STORIES // 3):
        play(seed)
