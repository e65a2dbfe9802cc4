"""The typer application: all commands, and errors without tracebacks (unless `--debug`)."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from legato.cli.commands import (
    chat,
    check,
    conversation_import,
    doctor,
    emulator,
    export,
    mcp,
    migrate,
    model_input,
    new,
    replay,
    serve,
    sessions,
    stores,
    worker,
)
from legato.errors import LegatoError

EXIT_INTERRUPTED = 130
EXIT_UNEXPECTED_ERROR = 70

app = typer.Typer(
    name="legato",
    help="Conversations in which LLM agents hand control to one another, with nothing lost and nothing repeated.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "new": new.new,
    "chat": chat.chat,
    "check": check.check,
    "ls": sessions.ls,
    "show": sessions.show,
    "seen": model_input.show_model_input,
    "replay": replay.replay,
    "fork": sessions.fork,
    "export": export.export,
    "delete": sessions.delete,
    "redact": stores.redact,
    "retire": stores.retire_sessions,
    "copy": stores.copy_sessions,
    "serve": serve.serve,
    "doctor": doctor.doctor,
    "mcp": mcp.mcp,
    "emulator": emulator.emulator,
    "import": conversation_import.import_conversation,
    "migrate": migrate.migrate,
}
"""All commands but `worker`, in the order of the help text: as a new user needs them."""

for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(worker.app, name="worker", help=worker.start_worker.__doc__)


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"legato {version('legato')}")
        raise typer.Exit


def _enable_debug(is_set: bool) -> None:
    if is_set:
        os.environ["LEGATO_DEBUG"] = "1"


@app.callback()
def _root_options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", callback=_enable_debug, is_eager=True, help="Show tracebacks; so does LEGATO_DEBUG=1.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line. Exit codes: 2 for a `LegatoError`, 70 for any other exception, 130 after Ctrl-C."""
    try:
        app()
    except ModuleNotFoundError:
        raise  # an extra is not installed: `legato.cli.main` says which
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("LEGATO_DEBUG"):
            raise
        _print_error(error)
        sys.exit(2 if isinstance(error, LegatoError) else EXIT_UNEXPECTED_ERROR)


def _print_error(error: Exception) -> None:
    """Print an error on standard error; with `--json`, as JSON on standard output too."""
    if isinstance(error, LegatoError):
        text, document = str(error), {"code": error.code, "message": error.summary}
        document |= {name: value for name in ("expected", "found", "do") if (value := getattr(error, name))}
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        summary = f"{type(error).__name__}: {error}"
        text = f"{summary}\n  at        {last.filename}:{last.lineno}\n  do        `legato --debug ...` shows the traceback"
        document = {"code": "unexpected", "message": summary}
    if "--json" in sys.argv[1:]:
        typer.echo(json.dumps({"error": document}))
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(text, err=True)
