"""The delta channel between processes and machines, by Postgres notifications.

Deltas are notifications: they go to all processes that listen to the delta channel, and are stored nowhere. The server does not know the
subscribers of other processes, so publishers query them: a publisher sends a query on the delta channel, and subscribers reply on the
growth channel, where publishers listen; new subscribers send the same reply unasked. Without a reply, no deltas are sent. A lost reply
costs deltas alone: followers then see the model's text when it is recorded.

The listener's thread sends and receives (`listener.py`); no driver waits for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from legato.stores.delta_channel import LocalDeltaChannel, OnDelta
from legato.stores.postgres import statements as sql
from legato.stores.postgres.rows import ledger_key

SUBSCRIBER_QUERY, SUBSCRIBER_REPLY = "?", "+"
"""The payloads by which publishers look for subscribers of a ledger, and subscribers announce themselves."""

MAX_QUEUED_NOTIFICATIONS = 1000
"""Notifications in the queue; of more, the oldest are dropped."""


class DeltaNotifications:
    """The delta notifications that one listener sends and receives. `wake_thread` wakes the listener's thread."""

    def __init__(self, wake_thread: Callable[[], None]) -> None:
        self._wake_thread = wake_thread
        self.reset()

    def reset(self) -> None:
        """Forget all subscribers and queued notifications, as a forked child does."""
        self._lock = threading.Lock()
        self._local_channel = LocalDeltaChannel()  # the subscribers in this process, by ledger key
        self._remote_subscriptions: dict[str, int] = {}  # number of subscriber replies, by the key of each ledger published here
        self._outgoing: deque[tuple[str, str]] = deque(maxlen=MAX_QUEUED_NOTIFICATIONS)
        self._connection: object = None  # the last used connection
        self._is_listening = False  # whether that connection listens to the delta channel

    def subscriber_version(self, key: str) -> int:
        """Return the number of subscriber replies. The first call sends the query, and so returns 0."""
        known = self._remote_subscriptions.get(key)
        if known is None:
            with self._lock:
                self._remote_subscriptions[key] = 0
            self._queue(sql.DELTA_CHANNEL, f"{key} {SUBSCRIBER_QUERY}")
        return known or 0

    def forget_subscribers(self, key: str) -> None:
        """Forget the subscribers of a ledger to which nothing more is published for now."""
        if key in self._remote_subscriptions:
            with self._lock:
                self._remote_subscriptions.pop(key, None)

    def publish(self, key: str, delta: bytes) -> None:
        """Pass a note to those who listen."""
        self._queue(sql.DELTA_CHANNEL, f"{key} {delta.decode()}")

    @asynccontextmanager
    async def subscribe(self, key: str, on_delta: OnDelta) -> AsyncIterator[None]:
        """Listen for as long as the context is open."""
        async with self._local_channel.subscribe(key, on_delta):
            self._queue(sql.GROWTH_CHANNEL, f"{key} {SUBSCRIBER_REPLY}")
            yield

    def _queue(self, channel: str, payload: str) -> None:
        with self._lock:
            self._outgoing.append((channel, payload))
        self._wake_thread()

    # -- on the listener's thread ----------------------------------------------------------------------------------------

    def receive(self, key: str, payload: str) -> None:
        """Handle a notification that is not about growth."""
        if payload == SUBSCRIBER_QUERY:
            if self._local_channel.subscriber_version(key):
                self._queue(sql.GROWTH_CHANNEL, f"{key} {SUBSCRIBER_REPLY}")
        elif payload == SUBSCRIBER_REPLY:
            with self._lock:
                if key in self._remote_subscriptions:
                    self._remote_subscriptions[key] += 1
        else:
            self._local_channel.publish(key, payload.encode())

    def has_publications(self) -> bool:
        """Return True if this process publishes deltas, so that replies of subscribers may come."""
        return bool(self._remote_subscriptions)

    def send(self, connection: Any, listen: Callable[[Any], None]) -> None:
        """Listen to deltas if this process has subscribers, and send the queue. `listen` makes the connection listen to replies."""
        if connection is not self._connection:  # a new connection: queries and replies may have been lost, so send them again
            self._connection, self._is_listening = connection, False
            with self._lock:
                self._outgoing.extend((sql.GROWTH_CHANNEL, f"{key} {SUBSCRIBER_REPLY}") for key in self._local_channel.ledgers())
                self._outgoing.extend((sql.DELTA_CHANNEL, f"{key} {SUBSCRIBER_QUERY}") for key in self._remote_subscriptions)
        has_subscribers = bool(self._local_channel.ledgers())
        if has_subscribers and not self._is_listening:
            connection.execute(sql.LISTEN_TO_DELTAS)
        elif self._is_listening and not has_subscribers:
            connection.execute(sql.UNLISTEN_FROM_DELTAS)
        self._is_listening = has_subscribers
        with self._lock:
            outgoing = list(self._outgoing)
            self._outgoing.clear()
        if outgoing:
            if self.has_publications():
                listen(connection)  # before a query is sent
            connection.execute(sql.NOTIFY_DELTAS, tuple(map(list, zip(*outgoing, strict=True))))


class PostgresDeltaChannel:
    """The delta channel of one tenant's ledgers."""

    batch_interval_s = 0.03
    max_delta_bytes = 7900  # a notification has less than 8000 bytes, of which the key takes 33

    def __init__(self, notifications: DeltaNotifications, tenant: str) -> None:
        self._notifications = notifications
        self._tenant = tenant

    def subscriber_version(self, ledger: str) -> int:
        """Return 0 if no subscriber is known, else a number that changes whenever a subscriber is added."""
        return self._notifications.subscriber_version(ledger_key(self._tenant, ledger))

    def publish(self, ledger: str, delta: bytes) -> None:
        """Pass a note to those who listen."""
        self._notifications.publish(ledger_key(self._tenant, ledger), delta)

    def subscribe(self, ledger: str, on_delta: OnDelta) -> AbstractAsyncContextManager[None]:
        """Listen for as long as the context is open."""
        return self._notifications.subscribe(ledger_key(self._tenant, ledger), on_delta)
