"""`legato new`: a starter project."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from legato.cli.options import JsonOption

STARTER_FILES = {
    "desk.py.txt": "desk.py",
    "test_desk.py.txt": "test_desk.py",
    "README.md.txt": "README.md",
    "pyproject.toml.txt": "pyproject.toml",
    "gitignore.txt": ".gitignore",
}


def new(
    name: Annotated[str, typer.Argument(help="The new folder; its name is the project's name.")],
    as_json: JsonOption = False,
) -> None:
    """Create a project: a small support desk that runs at once, with a test.

    Without an API key, the emulator answers; with OPENAI_API_KEY, OpenAI does. The program is the same.
    """
    from legato.cli.terminal import get_symbol, print_line, write_json
    from legato.errors import BadInput

    folder = Path(name)
    title = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,60}", title):
        raise BadInput(f"{title!r} is not a valid project name", expected="letters, digits, spaces, dots, dashes; at most 60")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists already", do="choose another name, or an empty folder; nothing was written")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, target in STARTER_FILES.items():
            text = files("legato.cli").joinpath("starter", source).read_text(encoding="utf-8")
            (folder / target).write_text(text.replace("NAME_OF_PROJECT", title), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder} cannot be written", found=str(error.strerror)) from None
    if as_json:
        write_json({"folder": str(folder), "files": sorted(STARTER_FILES.values()), "workflow": "desk:desk"})
        return
    print_line((f"{get_symbol('done')} ", "green"), f"created {folder} with {', '.join(STARTER_FILES.values())}")
    for command, about in (
        (f"cd {folder}", ""),
        ("legato chat desk:desk", 'chat with it: "Order 7 arrived broken. Please refund the 24.50 that I paid."'),
        ("legato serve desk:desk", "the same in a browser"),
        ("legato check desk:desk", "its agents, tools and handoffs"),
        ("python -m pytest", "its test" if find_spec("pytest") else "its test, after `pip install pytest`"),
    ):
        print_line(f"  {command:<24}", (about, "dim"))
