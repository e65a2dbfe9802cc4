"""Reads the definitions that clients give with a run: their tools, and the schemas of the answers they want."""

from __future__ import annotations

from legato.core.facts import RunOptions
from legato.core.run_options import NO_DEFINITIONS, RunDefinitions, decode_definitions
from legato.drive.ledger import Ledger


class ClientDefinitions:
    """Reads what the options of runs name, each once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, RunDefinitions] = {}

    async def definitions(self, options: RunOptions) -> RunDefinitions:
        """Read the definitions that these options name."""
        if not options.digest:
            return NO_DEFINITIONS
        if options.digest not in self._known:
            self._known[options.digest] = decode_definitions(await self._ledger.content(options.digest))
        return self._known[options.digest]
