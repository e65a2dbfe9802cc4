"""`legato chat`: a conversation with a workflow, for a person at a terminal, for lines from a pipe, and in JSON lines for programs.

All state is in the ledger. A command that was killed continues from there when it is started again with the same session.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from legato.cli.missing_providers import emulate_missing_providers
from legato.cli.options import JsonOption, StoreOption, complete_session_ids


def chat(
    workflow: Annotated[str, typer.Argument(help="module:workflow, or file.py:workflow.", metavar="MODULE:WORKFLOW")],
    session: Annotated[
        str, typer.Option("--session", "-s", help="The session to continue, or the id of a new one.", autocompletion=complete_session_ids)
    ] = "",
    message: Annotated[list[str] | None, typer.Option("--message", "-m", help="Send this message and leave. May be repeated.")] = None,
    store: StoreOption = "",
    stand_in: Annotated[
        bool, typer.Option("--stand-in/--no-stand-in", help="Use the emulator for providers whose API key is not set.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Chat with a workflow: messages as they stream, handoffs, tool calls, and requests for approval.

    Ctrl-C, at any time, loses nothing. `--session` continues a session where it stopped.

    \b
    legato chat desk:desk
    legato chat desk:desk --session desk-1f2e3d
    legato chat desk:desk -m "Where is order 7?" --json

    Exit codes: 0: it is your turn; 1: the model failed; 3: requests wait for answers; 130: Ctrl-C.
    """
    from legato.cli.chat_loop import ChatLoop, LineSource
    from legato.cli.json_chat_loop import JsonChatLoop
    from legato.cli.workflow_loader import load_workflow

    loaded = load_workflow(workflow)
    with ExitStack() as stack:
        if stand_in:
            stack.enter_context(emulate_missing_providers(quiet=as_json))
        loop = (JsonChatLoop if as_json else ChatLoop)(loaded, workflow, store, session, LineSource(message))
        code = loop.run()
    raise typer.Exit(code)
