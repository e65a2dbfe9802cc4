"""Where these stories are told: on each wire, streaming and not, and on each store where that matters."""

from __future__ import annotations

from tests.providers.failures.conftest import at_once, place, store, stream

__all__ = ["at_once", "place", "store", "stream"]
