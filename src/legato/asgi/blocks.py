"""Servers in with blocks, whether the program has an event loop or none."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self


class InBlock(ABC):
    """Runs for as long as a with block. In an `async with`, the event loop goes on while it starts and stops."""

    @abstractmethod
    def start(self) -> Self:
        """Begin."""

    @abstractmethod
    def stop(self) -> None:
        """End. Stopping twice is harmless."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.stop)
