"""`legato migrate`: changes the imports of programs for other frameworks to Legato's facades."""

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

SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}


def migrate(
    files: Annotated[list[Path], typer.Argument(help="Python files, or folders of them.", metavar="FILE...")],
    write: Annotated[bool, typer.Option("--write", help="Replace the files by the changed programs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings and the programs as JSON.")] = False,
) -> None:
    """Migrate a program from Microsoft Agent Framework or the OpenAI Agents SDK to Legato.

    Lists the names that the program uses, covered or not, and the attributes and arguments that are not covered. Prints the program with
    changed imports; the rest stays as it is. The program is read and never run. Nothing is written without --write.

    \b
    legato migrate desk.py                 findings on standard error, the program on standard output
    legato migrate src/ --write            all programs of a folder, in place
    legato migrate desk.py --json          for programs

    Exit codes: 0: everything is covered; 1: something is not, with a replacement; 2: a file is not Python, or cannot be read or written.
    """
    from legato.compat.migration import covered_names

    covered = covered_names()
    paths = [program_path for path in files for program_path in _find_programs(path)]
    outcomes: list[FileOutcome] = []
    for program_path in paths:
        outcomes.append(_migrate_file(program_path, covered, write))
        if not as_json:
            _print_outcome(outcomes[-1], write, several=len(paths) > 1)
    if as_json:
        from legato.cli.terminal import write_json

        write_json([each.to_json() for each in outcomes])
    elif not paths:
        typer.echo("no Python files found", err=True)
    if code := max((each.exit_code for each in outcomes), default=0):
        raise typer.Exit(code)


@dataclass(frozen=True)
class FileOutcome:
    """The migration of one file, or the reason why the file cannot be read or written."""

    path: Path
    result: Migration | BadInput
    changed: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code for this file."""
        if isinstance(self.result, BadInput):
            return 2
        return 0 if self.result.is_covered else 1

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as data."""
        if isinstance(self.result, BadInput):
            return {"file": str(self.path), "error": str(self.result)}
        names = ("names", "uses", "notes", "program")
        return {"file": str(self.path), "changed": self.changed, **{name: getattr(self.result, name) for name in names}}


def _migrate_file(path: Path, covered: Mapping[str, frozenset[str]], write: bool) -> FileOutcome:
    from legato.compat.migration import migrate_program, own_modules

    try:
        source, encoding = _read_program(path)
        migration = migrate_program(source, covered, own_modules(path, source))
        if write and migration.program != source:
            _replace_file(path, migration.program.encode(encoding))
    except BadInput as error:
        return FileOutcome(path, error)
    return FileOutcome(path, migration, migration.program != source)


def _find_programs(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the Python files of a folder, without virtual environments and hidden folders."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        inside = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")]
        folders[:] = sorted(name for name in inside if not (Path(folder) / name / "pyvenv.cfg").exists())
        yield from sorted(Path(folder) / name for name in names if name.endswith(".py"))


def _read_program(path: Path) -> tuple[str, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput("it cannot be read", found=str(error.strerror)) from None
    if path.suffix == ".ipynb" or (data[:1] == b"{" and b'"nbformat"' in data):
        raise BadInput("this is a notebook, not a Python file", do=f"convert it: jupyter nbconvert --to script {path.name}")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise BadInput("this is not Python: its bytes are not text", found=str(error)[:120]) from None


def _replace_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole or not at all, and keep its permissions."""
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


def _print_outcome(outcome: FileOutcome, write: bool, several: bool) -> None:
    """Print the findings on standard error, and the program on standard output."""
    path, result = outcome.path, outcome.result
    if isinstance(result, BadInput):
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(f"{path}: {result}", err=True)
        return
    _print_findings(path, result)
    if write:
        typer.echo("  written" if outcome.changed else "  nothing to change", err=True)
    elif outcome.changed or not several:
        typer.echo(f"# {path}\n{result.program}" if several else result.program, nl=False)


def _print_findings(path: Path, migration: Migration) -> None:
    from legato.compat.migration import TITLES

    covered = sorted({name.name for name in migration.names if name.covered})
    frameworks = sorted(
        {TITLES[name.module.partition(".")[0]] for name in migration.names} | {TITLES[use.framework] for use in migration.uses}
    )
    if not frameworks:
        typer.echo(f"{path}: uses neither {' nor '.join(TITLES.values())}", err=True)
    else:
        typer.echo(f"{path}: {' and '.join(frameworks)}", err=True)
    if covered:
        typer.secho("  covered      ", fg="green", err=True, nl=False)
        typer.echo(", ".join(covered), err=True)
    for name in migration.missing:
        typer.secho("  not covered  ", fg="yellow", err=True, nl=False)
        typer.echo(f"{name.name} (line {name.line}): {name.instead}", err=True)
    for use in migration.uses:
        typer.secho("  accepted, means nothing here: " if use.accepted else "  used and not covered: ", fg="yellow", err=True, nl=False)
        typer.echo(f"{use.use} (line {use.line}): {use.instead}", err=True)
    for note in migration.notes:
        typer.echo(f"  {note}", err=True)
