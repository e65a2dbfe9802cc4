"""Faults of deltas, connections and drivers: every client shows the conversation in the end, with no gap and no repeat."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from legato.core.facts import Cancelled, ModelReplied, ModelRequestFailed
from legato.runtime import deltas, driver, event_follower, event_projector
from legato.runtime.event_cursor import EventCursor
from tests.runtime.delta_chaos import play

STORY_COUNT = 200


def test_every_client_sees_whole_conversation_once():
    """Under random faults of deltas, connections and drivers, every client shows the conversation without a gap and without a repeat."""
    stories = [play(seed) for seed in range(STORY_COUNT)]
    assert sum(page.delta_count for pages, _ in stories for page in pages) > 10 * STORY_COUNT, "there are deltas at all"


def _add_text_anywhere(self: deltas.DeltaSubscriber, delta: deltas.Delta, state: Any) -> None:
    if delta.start >= 0:
        self._projector.show_delta(delta.agent, delta.attempt, delta.text)


def _compare_recent_replies_only(delta: deltas.Delta, state: Any) -> bool:
    return any(isinstance(fact, ModelReplied) for fact in state.facts[max(delta.facts_before, state.length - 3) :])


def _ignore_erasures(delta: deltas.Delta, state: Any) -> bool:
    return any(isinstance(fact, (ModelReplied, ModelRequestFailed, Cancelled)) for fact in state.facts[delta.facts_before :])


def _accept_older_replies(self: deltas.DeltaSubscriber, delta: deltas.Delta, state: Any) -> None:
    self._newest = (delta.epoch, delta.number)
    ON_DELTA(self, delta, state)


def _accept_gaps(self: deltas.DeltaSubscriber, delta: deltas.Delta, state: Any) -> None:
    ON_DELTA(self, replace(delta, start=min(delta.start, self._projector.shown_chars)), state)


def _count_too_few_events(self: event_projector.EventProjector, event: Any, cursor: EventCursor) -> None:
    EMIT_AT(self, event, replace(cursor, events=cursor.events - 1) if cursor.events else cursor)


def _count_whole_fact(self: event_projector.EventProjector, event: Any, cursor: EventCursor) -> None:
    EMIT_AT(self, event, replace(cursor, facts=cursor.facts + 1, events=0) if cursor.events and not cursor.idle else cursor)


def _trust_deltas(self: event_projector.EventProjector, replied: Any) -> bool:
    has_deltas = bool(self._deltas)
    self._clear_deltas()
    return has_deltas


def _publish_unchecked_text(self: driver.Driver, agent: str, attempt: int, text: str) -> None:
    self._delta_publisher.publish(agent, attempt, text)


ON_DELTA, EMIT_AT = deltas.DeltaSubscriber.on_delta, event_projector.EventProjector._emit_at
BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "text is added wherever it belongs": (deltas.DeltaSubscriber, "on_delta", _add_text_anywhere),
    "stale deltas are shown": (deltas, "is_stale", lambda delta, state: False),
    "deltas from before a disconnect are shown": (deltas, "is_stale", _compare_recent_replies_only),
    "deltas about erased text are shown": (deltas, "is_stale", _ignore_erasures),
    "deltas of a driver without lease are shown": (deltas.DeltaSubscriber, "on_delta", _accept_older_replies),
    "deltas after a gap are shown": (deltas.DeltaSubscriber, "on_delta", _accept_gaps),
    "an event is repeated after a reconnect": (event_projector.EventProjector, "_emit_at", _count_too_few_events),
    "an event is left out after a reconnect": (event_projector.EventProjector, "_emit_at", _count_whole_fact),
    "deltas are taken for the recorded reply": (event_projector.EventProjector, "_complete_deltas", _trust_deltas),
    "nothing is retracted": (event_projector.EventProjector, "retract_deltas", lambda self: None),
    "text is published before it is checked": (driver.Driver, "_on_text", _publish_unchecked_text),
}


@pytest.mark.parametrize(("owner", "name", "bug"), BUGS.values(), ids=BUGS)
def test_checks_find_seeded_bug(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, bug: Callable[..., Any]) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises((AssertionError, ValueError)):
        deque(map(play, range(STORY_COUNT)), maxlen=0)


def test_dropped_deltas_come_with_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_follower, "MAX_BUFFERED_DELTAS", 1)
    for seed in range(STORY_COUNT // 3):
        play(seed)
