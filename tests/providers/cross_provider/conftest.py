"""Fixtures for tests with streaming and not, and with each store if the store matters."""

from __future__ import annotations

from tests.providers.failures.conftest import place, store, stream, without_backoff

__all__ = ["place", "store", "stream", "without_backoff"]
