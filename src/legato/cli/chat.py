"""`legato chat`. May know: typer, workflows, terminals. Decides: how a conversation is begun, and which way it is held.

Three ways, one loop: a person at a terminal, lines from a pipe, and JSON lines for programs. Nothing is kept here: whoever kills it and
starts it again with the same session goes on where the ledger is.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from legato.cli.options import Json, Stored, session_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 8764
"""Where the stand-in listens if it can. Reasoning goes back to the address that it came from: so a session that is gone on with finds its
provider again."""


def chat(
    workflow: Annotated[str, typer.Argument(help="module:workflow, or file.py:workflow.", metavar="MODULE:WORKFLOW")],
    session: Annotated[
        str, typer.Option("--session", "-s", help="The session to go on with, or the id of a new one.", autocompletion=session_ids)
    ] = "",
    message: Annotated[list[str] | None, typer.Option("--message", "-m", help="Say this and leave. May be given again.")] = None,
    store: Stored = "",
    stand_in: Annotated[
        bool, typer.Option("--stand-in/--no-stand-in", help="Let the emulator answer in place of providers whose key is not set.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Talk with a workflow: words as they come, handoffs, tool calls; questions are asked where they arise.

    Ctrl-C, at any time, loses nothing. `--session` goes on where it stopped.

    \b
    legato chat desk:desk
    legato chat desk:desk --session desk-1f2e3d
    legato chat desk:desk -m "Where is order 7?" --json

    Exit code 0: it is your turn; 1: the model failed; 3: questions wait for answers; 130: Ctrl-C.
    """
    from legato.cli.naming import workflow_named
    from legato.cli.talking import Lines, Talk
    from legato.cli.talking_json import JsonTalk

    found = workflow_named(workflow)
    with ExitStack() as stack:
        if stand_in:
            stack.enter_context(standing_in(quiet=as_json))
        held = (JsonTalk if as_json else Talk)(found, workflow, store, session, Lines(message))
        code = held.hold()
    raise typer.Exit(code)


@contextmanager
def standing_in(quiet: bool = False) -> Iterator[None]:
    """The emulator in place of providers without a key: only where a program has a provider's model at all, and where it is installed."""
    import sys

    if "legato.models.sdk" not in sys.modules:  # which every provider's client brings
        yield
        return
    from legato.emulator import stand_in
    from legato.errors import BadInput

    with ExitStack() as stack:
        why: BadInput | None = None
        for port in (PORT, 0):  # where somebody else listens, any other
            try:
                stack.enter_context(stand_in(quiet=quiet, port=port))
                break
            except BadInput as error:
                why = error
        else:  # it is not installed. The program may bring a key of its own, so it goes on
            assert why is not None
            typer.echo(f"legato: {why.summary}\n  do        {why.do}", err=True)
        yield
