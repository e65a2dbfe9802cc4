"""The verbs. May know: typer. Decides: how errors are told: in one piece, without a traceback unless it is asked for."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from legato.cli import chat, check, doctor, emulator, export, importing, mcp, migrate, new, replay, seen, serve, sessions, stores, worker
from legato.errors import LegatoError

INTERRUPTED = 130
UNEXPECTED = 70

app = typer.Typer(
    name="legato",
    help="Conversations in which LLM agents hand control to one another, with nothing lost and nothing repeated.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS: dict[str, Callable[..., None]] = {
    "new": new.new,
    "chat": chat.chat,
    "check": check.check,
    "ls": sessions.ls,
    "show": sessions.show,
    "seen": seen.seen,
    "replay": replay.replay,
    "fork": sessions.fork,
    "export": export.export,
    "delete": sessions.delete,
    "redact": stores.redact,
    "retire": stores.retire_,
    "copy": stores.copy_,
    "serve": serve.serve,
    "doctor": doctor.doctor,
    "mcp": mcp.mcp,
    "emulator": emulator.emulator,
    "import": importing.import_,
    "migrate": migrate.migrate,
}
"""In the order in which people meet them."""

for _name, _verb in VERBS.items():
    app.command(_name)(_verb)
app.add_typer(worker.app, name="worker", help=worker.run.__doc__)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"legato {version('legato')}")
        raise typer.Exit


def _debug(asked: bool) -> None:
    if asked:
        os.environ["LEGATO_DEBUG"] = "1"


@app.callback()
def _root(
    show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", callback=_debug, is_eager=True, help="Show tracebacks; so does LEGATO_DEBUG=1.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run what was typed. Errors of Legato end with 2, those of the user's own code and of ours with 70; 130 after Ctrl-C."""
    try:
        app()
    except ModuleNotFoundError:
        raise  # something that is not installed: whoever called knows how to say so
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # whoever read this has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("LEGATO_DEBUG"):
            raise
        _tell(error)
        sys.exit(2 if isinstance(error, LegatoError) else UNEXPECTED)


def _tell(error: Exception) -> None:
    """An error in one piece, on standard error; for whoever reads JSON, as JSON on standard output too."""
    if isinstance(error, LegatoError):
        told, plain = str(error), {"code": error.code, "message": error.summary}
        plain |= {name: text for name in ("expected", "found", "do") if (text := getattr(error, name))}
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        summary = f"{type(error).__name__}: {error}"
        told = f"{summary}\n  at        {last.filename}:{last.lineno}\n  do        `legato --debug ...` shows all of it"
        plain = {"code": "unexpected", "message": summary}
    if "--json" in sys.argv[1:]:
        typer.echo(json.dumps({"error": plain}))
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(told, err=True)
