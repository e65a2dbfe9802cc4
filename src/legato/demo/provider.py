"""Who answers. May know: the emulator, the environment. Decides: whether the provider is the emulator or the real one.

The program is the same either way. All that differs is the address and the key, which the SDK finds in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from legato.demo.desk import MODEL, Places
from legato.demo.mind import reply_to
from legato.emulator import Emulator, serve
from legato.errors import BadInput

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Provider:
    """Where requests go. `environment` is what a process needs to know for that; `emulator` is None if the provider is real."""

    url: str
    model: str
    environment: Mapping[str, str] = field(repr=False)
    emulator: Emulator | None = None


@contextmanager
def provider(places: Places, model: str = "", offline: bool = False) -> Iterator[Provider]:
    """The real provider if there is a key for it; else the emulator, which lives in this process: it outlives those that are killed."""
    if os.environ.get("OPENAI_API_KEY") and not offline:
        url = os.environ.get("OPENAI_BASE_URL") or OPENAI
        yield Provider(url, model or MODEL, {})
        return
    emulator = _started(places)
    try:
        environment = {"OPENAI_BASE_URL": emulator.openai_url, "OPENAI_API_KEY": "any"}
        yield Provider(emulator.openai_url, model or MODEL, environment, emulator)
    finally:
        emulator.stop()


def _started(places: Places) -> Emulator:
    """The folder's emulator. What it holds is in a file, and it listens where it did before: who comes back finds the same provider."""
    before = int(places.port.read_text()) if places.port.exists() else 0
    try:
        emulator = serve(mind=reply_to, state=places.provider, port=before).start()
    except BadInput:
        if not before:
            raise
        emulator = serve(mind=reply_to, state=places.provider).start()  # somebody else listens there now
    places.port.write_text(emulator.url.rpartition(":")[2])
    return emulator
