"""The verbs. May know: typer. Decides: how errors are told: in one piece, without a traceback unless it is asked for."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from legato.cli import check, emulator, importing, migrate, stores, worker
from legato.errors import LegatoError

app = typer.Typer(
    name="legato",
    help="Conversations in which LLM agents hand control to one another, with nothing lost and nothing repeated.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("emulator", help=emulator.emulator.__doc__)(emulator.emulator)
app.command("check", help=check.check.__doc__)(check.check)
app.command("migrate", help=migrate.migrate.__doc__)(migrate.migrate)
app.command("import", help=importing.import_.__doc__)(importing.import_)
app.command("redact", help=stores.redact.__doc__)(stores.redact)
app.command("retire", help=stores.retire_.__doc__)(stores.retire_)
app.command("copy", help=stores.copy_.__doc__)(stores.copy_)
app.add_typer(worker.app, name="worker", help=worker.run.__doc__)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"legato {version('legato')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    pass


def run() -> None:
    """Run what was typed. LEGATO_DEBUG=1 shows tracebacks."""
    try:
        app()
    except LegatoError as error:
        if os.environ.get("LEGATO_DEBUG"):
            raise
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(str(error), err=True)
        sys.exit(2)
