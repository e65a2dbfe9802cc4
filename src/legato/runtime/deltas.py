"""Deltas: pieces of the reply in progress, which a driver publishes and followers subscribe to.

Each delta says where its text begins in the reply. So a delta that comes twice adds nothing, one that comes after a gap is ignored, and a
new subscriber is sent the reply from its beginning. Nothing relies on deltas: a recorded reply is shown as it was recorded.

The newer of two replies in progress follows from the lease's epoch and a counter. A delta is stale if a reply or a failed attempt was
recorded after its reply began.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from msgspec import Struct

from legato.core.facts import Cancelled, ModelReplied, ModelRequestFailed, Redacted
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.runtime.event_projector import EventProjector
from legato.runtime.ledger import Ledger
from legato.stores.delta_channel import DeltaChannel, get_delta_channel

MAX_BYTES_PER_CHAR = 6
"""The longest JSON encoding of a character in bytes: that of a control character."""

MAX_SUBSCRIBER_POLL_INTERVAL_S = 1.0
"""The longest interval between checks for new subscribers, while the model sends nothing."""

DELTA_OVERHEAD_BYTES = 200
"""Bytes of an encoded delta without its text and names."""


class Delta(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A piece of the text of a reply in progress, in the ledger with this id."""

    ledger_id: str
    epoch: int
    number: int
    """The number of the reply in progress, among those of its driver."""
    facts_before: int
    """The number of facts when the reply began."""
    agent: str
    attempt: int
    start: int
    """The number of characters of the reply before this text. Negative: the whole reply is retracted."""
    text: str = ""


class DeltaPublisher:
    """The publisher of a driver's replies in progress. It never delays the driver and never makes it fail."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._channel = get_delta_channel(ledger.store)
        self._reply_number = 0
        self._epoch = self._facts_before = self._reply_count = 0
        self._texts: list[str] = []  # the pieces of the reply in progress
        self._published_texts = 0  # how many of these pieces were published
        self._published_chars = 0  # how many characters they have
        self._subscriber_version = 0  # at the last flush
        self._agent, self._attempt = "", 1
        self._timer: asyncio.TimerHandle | None = None
        self._delay_s = 0.0

    def begin_reply(self, epoch: int) -> None:
        """Start the deltas of a new reply, because a model is about to be requested."""
        self.end_reply()
        self._reply_number += 1
        self._epoch, self._facts_before, self._reply_count = epoch, self._ledger.confirmed_length, self._ledger.state.reply_count

    def end_reply(self) -> None:
        """End the deltas of a reply. Text that was not published comes with the recorded reply."""
        self._texts.clear()
        self._published_texts = self._published_chars = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def publish(self, agent: str, attempt: int, text: str) -> None:
        """Publish a piece of the reply in progress, now or with the next batch."""
        if self._channel is None:
            return
        self._texts.append(text)
        self._agent, self._attempt = agent, attempt
        if not (interval := self._channel.batch_interval_s):
            self._flush(self._channel)
        elif self._timer is None or self._delay_s > interval:
            self._channel.subscriber_version(self._ledger.session_id)  # a channel that has to look it up begins now
            self._schedule_flush(interval, self._channel)

    def retract(self) -> None:
        """Retract the reply in progress."""
        if self._published_texts and self._channel is not None:
            self._send(-1, "", self._channel)
        self.end_reply()

    def _schedule_flush(self, delay_s: float, channel: DeltaChannel) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._delay_s = delay_s
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._flush_and_reschedule, channel)

    def _flush_and_reschedule(self, channel: DeltaChannel) -> None:
        """Publish a batch. While there is none, check for new subscribers in growing intervals, because the model may be thinking."""
        if self._ledger.state.reply_count != self._reply_count:
            self.end_reply()
        else:
            published = self._flush(channel)
            self._schedule_flush(channel.batch_interval_s if published else min(2 * self._delay_s, MAX_SUBSCRIBER_POLL_INTERVAL_S), channel)

    def _flush(self, channel: DeltaChannel) -> bool:
        """Publish the text that is new, and return True, if there is any and a client subscribes."""
        version = channel.subscriber_version(self._ledger.session_id)
        if version != self._subscriber_version:  # a new subscriber is sent the reply from its beginning
            self._subscriber_version, self._published_texts, self._published_chars = version, 0, 0
        if not version or self._published_texts == len(self._texts):
            return False
        text = "".join(self._texts[self._published_texts :])
        self._published_texts = len(self._texts)
        name_bytes = len(self._agent.encode("utf-8", "replace")) + len(self._ledger.state.ledger_id)
        max_chars = max((channel.max_delta_bytes - DELTA_OVERHEAD_BYTES - name_bytes) // MAX_BYTES_PER_CHAR, 1)
        for start in range(0, len(text), max_chars):
            self._send(self._published_chars + start, text[start : start + max_chars], channel)
        self._published_chars += len(text)
        return True

    def _send(self, start: int, text: str, channel: DeltaChannel) -> None:
        ledger_id = self._ledger.state.ledger_id
        delta = Delta(ledger_id, self._epoch, self._reply_number, self._facts_before, self._agent, self._attempt, start, text)
        with suppress(Exception):  # a lone surrogate, or a failure of the store: followers get the text from the ledger
            channel.publish(self._ledger.session_id, msgspec.json.encode(delta))


_decoder = msgspec.json.Decoder(Delta)


def decode_delta(data: bytes) -> Delta | None:
    """Decode a delta; None if the bytes are no delta of this version: a newer Legato may write others."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_stale(delta: Delta, state: State) -> bool:
    """Return True if a reply, a failed attempt, a cancellation or an erasure was recorded since the delta's reply began."""
    return any(isinstance(fact, (ModelReplied, ModelRequestFailed, Cancelled, Redacted)) for fact in state.facts[delta.facts_before :])


class DeltaSubscriber:
    """The subscriber of one follower, which shows deltas to its client."""

    def __init__(self, projector: EventProjector, graph: WorkflowGraph) -> None:
        self._projector = projector
        self._graph = graph
        self._newest = (0, 0)  # the epoch and number of the newest reply in progress
        self._is_retracted = False

    def on_delta(self, delta: Delta, state: State) -> None:
        """Show the new text of a delta. All facts before it have been shown."""
        reply, rules = (delta.epoch, delta.number), self._graph.agents.get(delta.agent)
        if delta.ledger_id != state.ledger_id or reply < self._newest or is_stale(delta, state) or rules is None or rules.checks_output:
            return
        if reply > self._newest:
            self._projector.retract_deltas()  # the reply before it was given up
            self._newest, self._is_retracted = reply, False
        if delta.start < 0:
            self._projector.retract_deltas()
            self._is_retracted = True
        new_text = delta.text[self._projector.shown_chars - delta.start :] if delta.start <= self._projector.shown_chars else ""
        if new_text and not self._is_retracted:
            self._projector.show_delta(delta.agent, delta.attempt, new_text)
