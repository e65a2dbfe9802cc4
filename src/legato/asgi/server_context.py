"""Servers as context managers, for programs with and without an event loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self


class ServerContext(ABC):
    """A server that runs for the time of a `with` block. In an `async with` block it starts and stops without blocking the event loop."""

    @abstractmethod
    def start(self) -> Self:
        """Start the server."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server. Stopping twice is harmless."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.stop)
