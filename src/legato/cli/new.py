"""`legato new`. May know: the files of a starter project. Decides: what a newcomer begins with."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from legato.cli.options import Json

FILES = {
    "desk.py.txt": "desk.py",
    "test_desk.py.txt": "test_desk.py",
    "README.md.txt": "README.md",
    "pyproject.toml.txt": "pyproject.toml",
    "gitignore.txt": ".gitignore",
}


def new(
    name: Annotated[str, typer.Argument(help="The folder to make; its name is the project's.")],
    as_json: Json = False,
) -> None:
    """Begin a project: a small support desk that runs at once, with a test of its own.

    Without a key the emulator answers; with OPENAI_API_KEY, OpenAI does. The program is the same.
    """
    from legato.cli.telling import symbol, tell, write_json
    from legato.errors import BadInput

    folder = Path(name)
    title = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,60}", title):
        raise BadInput(f"{title!r} is no name for a project", expected="letters, digits, spaces, dots, dashes; 60 at most")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is there already", do="choose another name, or an empty folder; nothing was written")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, target in FILES.items():
            text = files("legato.cli").joinpath("starter", source).read_text(encoding="utf-8")
            (folder / target).write_text(text.replace("NAME_OF_PROJECT", title), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder} cannot be written", found=str(error.strerror)) from None
    if as_json:
        write_json({"folder": str(folder), "files": sorted(FILES.values()), "workflow": "desk:desk"})
        return
    tell((f"{symbol('done')} ", "green"), f"{folder} has {', '.join(FILES.values())}")
    for command, about in (
        (f"cd {folder}", ""),
        ("legato chat desk:desk", 'talk with it: "Order 7 arrived broken. Please refund the 24.50 that I paid."'),
        ("legato serve desk:desk", "the same in a browser"),
        ("legato check desk:desk", "who hands over to whom"),
        ("python -m pytest", "its test" if find_spec("pytest") else "its test, after `pip install pytest`"),
    ):
        tell(f"  {command:<24}", (about, "dim"))
