"""`legato migrate`. May know: programs' text. Decides: what is shown, and which files are written.

Exit code 0: all that is used is covered; 1: something is not; 2: a file is no Python, or cannot be read or written.
"""

from __future__ import annotations

import io
import os
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.compat.migration import Migration

SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def migrate(
    files: Annotated[list[Path], typer.Argument(help="Programs, or folders of them.", metavar="FILE...")],
    write: Annotated[bool, typer.Option("--write", help="Write the changed programs in place of the old ones.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found, and the programs, as JSON.")] = False,
) -> None:
    """Move a program from Microsoft Agent Framework or the OpenAI Agents SDK to Legato.

    Says which of their names it uses and which are covered, which attributes and arguments it uses that are not, and prints it with its
    imports changed; the rest of the program stays as it is. The program is read, and never run. Nothing is written without --write.

    \b
    legato migrate desk.py                 what is covered, on standard error; the program, on standard output
    legato migrate src/ --write            all programs of a folder, in place
    legato migrate desk.py --json          for machines

    Exit code 0: all is covered; 1: something is not, and says what to write instead; 2: a file is no Python.
    """
    from legato.compat.migration import covered_names

    covered = covered_names()
    paths = [path for given in files for path in _programs(given)]
    outcomes: list[Outcome] = []
    for path in paths:
        outcomes.append(_outcome(path, covered, write))
        if not as_json:
            _show(outcomes[-1], write, several=len(paths) > 1)
    if as_json:
        from legato.cli.telling import write_json

        write_json([each.plain() for each in outcomes])
    elif not paths:
        typer.echo("there is no Python program there", err=True)
    if code := max((each.code for each in outcomes), default=0):
        raise typer.Exit(code)


@dataclass(frozen=True)
class Outcome:
    """What was found in one file, or why it cannot be read or written."""

    path: Path
    found: Migration | BadInput
    changed: bool = False

    @property
    def code(self) -> int:
        """The exit code that it asks for."""
        if isinstance(self.found, BadInput):
            return 2
        return 0 if self.found.is_covered else 1

    def plain(self) -> dict[str, Any]:
        """It as data."""
        if isinstance(self.found, BadInput):
            return {"file": str(self.path), "error": str(self.found)}
        names = ("names", "uses", "notes", "program")
        return {"file": str(self.path), "changed": self.changed, **{name: getattr(self.found, name) for name in names}}


def _outcome(path: Path, covered: Mapping[str, frozenset[str]], write: bool) -> Outcome:
    from legato.compat.migration import migrated, own_modules

    try:
        source, encoding = _read(path)
        done = migrated(source, covered, own_modules(path, source))
        if write and done.program != source:
            _replace(path, done.program.encode(encoding))
    except BadInput as error:
        return Outcome(path, error)
    return Outcome(path, done, done.program != source)


def _programs(given: Path) -> Iterator[Path]:
    """The file itself, or the programs of a folder without those of environments and the like."""
    if not given.is_dir():
        yield given
        return
    for folder, folders, names in os.walk(given):
        inside = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        folders[:] = sorted(name for name in inside if not (Path(folder) / name / "pyvenv.cfg").exists())
        yield from sorted(Path(folder) / name for name in names if name.endswith(".py"))


def _read(path: Path) -> tuple[str, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput("it cannot be read", found=str(error.strerror)) from None
    if path.suffix == ".ipynb" or (data[:1] == b"{" and b'"nbformat"' in data):
        raise BadInput("this is a notebook, and programs are read", do=f"write it as one: jupyter nbconvert --to script {path.name}")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise BadInput("this is no Python: its bytes are no text", found=str(error)[:120]) from None


def _replace(path: Path, data: bytes) -> None:
    """Write all of it or nothing, with the file's own permissions."""
    path = path.resolve()
    name = ""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".legato-", delete=False) as new:
            name = new.name
            new.write(data)
        os.chmod(name, path.stat().st_mode)
        os.replace(name, path)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise BadInput("it cannot be written", found=str(error.strerror)) from None


def _show(outcome: Outcome, write: bool, several: bool) -> None:
    """What was found on standard error, the program on standard output."""
    path, done = outcome.path, outcome.found
    if isinstance(done, BadInput):
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(f"{path}: {done}", err=True)
        return
    _show_found(path, done)
    if write:
        typer.echo("  written" if outcome.changed else "  nothing to change", err=True)
    elif outcome.changed or not several:
        typer.echo(f"# {path}\n{done.program}" if several else done.program, nl=False)


def _show_found(path: Path, done: Migration) -> None:
    from legato.compat.migration import TITLES

    covered = sorted({name.name for name in done.names if name.covered})
    frameworks = sorted({TITLES[name.module.partition(".")[0]] for name in done.names} | {TITLES[use.framework] for use in done.uses})
    if not frameworks:
        typer.echo(f"{path}: uses neither {' nor '.join(TITLES.values())}", err=True)
    else:
        typer.echo(f"{path}: {' and '.join(frameworks)}", err=True)
    if covered:
        typer.secho("  covered      ", fg="green", err=True, nl=False)
        typer.echo(", ".join(covered), err=True)
    for name in done.missing:
        typer.secho("  not covered  ", fg="yellow", err=True, nl=False)
        typer.echo(f"{name.name} (line {name.line}): {name.instead}", err=True)
    for use in done.uses:
        typer.secho("  accepted, means nothing here: " if use.accepted else "  used and not covered: ", fg="yellow", err=True, nl=False)
        typer.echo(f"{use.use} (line {use.line}): {use.instead}", err=True)
    for note in done.notes:
        typer.echo(f"  {note}", err=True)
