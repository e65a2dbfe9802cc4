"""The emulator in place of model providers without an API key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import typer

EMULATOR_PORT = 8764
"""The emulator's port, if it is free. Reasoning is replayed only to the address that it came from, so a session needs the same one."""


@contextmanager
def emulate_missing_providers(quiet: bool = False) -> Iterator[None]:
    """Run the emulator for providers without an API key, if the program has a provider's model and the emulator is installed."""
    if "legato.models.sdk_client" not in sys.modules:  # every provider's model imports it
        yield
        return
    from legato.emulator import stand_in
    from legato.errors import BadInput

    with ExitStack() as stack:
        failure: BadInput | None = None
        for port in (EMULATOR_PORT, 0):  # another port if this one is taken
            try:
                stack.enter_context(stand_in(quiet=quiet, port=port))
                break
            except BadInput as error:
                failure = error
        else:  # the emulator is not installed; the program continues, for it may have a key of its own
            assert failure is not None
            typer.echo(f"legato: {failure.summary}\n  do        {failure.do}", err=True)
        yield
