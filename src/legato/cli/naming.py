"""`module:workflow`. May know: the user's programs. Decides: what such a name means, and how its failure to load is told.

The name is typed by the person who runs the command: importing it is what they ask for. Nothing that was read from a store is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from legato.errors import BadInput, LegatoError

if TYPE_CHECKING:
    from legato.workflow.workflow import Workflow

EXPECTED = "module:workflow, as in desk:desk, or file.py:workflow"


def workflow_named(text: str) -> Workflow:
    """The workflow that was named. An agent is one too: a workflow of one."""
    from legato.workflow.agent import Agent
    from legato.workflow.workflow import HandoffBuilder, Workflow

    found = named(text)
    if isinstance(found, HandoffBuilder):
        return found.build()
    if isinstance(found, Agent):
        return HandoffBuilder(name=found.name, participants=[found]).build()
    if isinstance(found, Workflow):
        return found
    if callable(found):
        module, name = _parts(text)
        raise BadInput(f"{text} is a function", expected="a workflow", do=f"write `NAME = {name}(...)` in {module}, and name that")
    raise BadInput(f"{text} is no workflow", expected="what HandoffBuilder(...).build() gives, or an Agent", found=type(found).__name__)


def named(text: str) -> Any:
    """What was named, whatever it is."""
    module, name = _parts(text)
    found: object = _loaded(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise BadInput(f"{module} has no {name!r}", found=_there(found) or "no workflow", do=f"name one of them: {module}:NAME")
        found = getattr(found, part)
    return found


def is_name(text: str) -> bool:
    """Whether this is written as `module:workflow`, and is not a file that is there."""
    module, colon, name = text.rpartition(":")
    dotted = module.endswith(".py") or all(part.isidentifier() for part in module.split("."))
    return bool(colon) and dotted and all(part.isidentifier() for part in name.split(".")) and not os.path.exists(text)


def _parts(text: str) -> tuple[str, str]:
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name:
        raise BadInput(f"{text!r} names no workflow", expected=EXPECTED)
    return module, name


def _loaded(module: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _from_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    except LegatoError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            do = "go to the folder it is in, or write its path: path/to/file.py:workflow"
            raise BadInput(f"there is no module {module!r}", found=f"looked in {here} first", do=do) from error
        raise _failed(module, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(module, error) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadInput(f"there is no file {path}", expected=EXPECTED)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where typing and pydantic look its names up
    spec.loader.exec_module(module)
    return module


def _failed(module: str, error: BaseException) -> BadInput:
    """What went wrong in the program, with its own line: the traceback of the loading is nobody's interest."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename and frame.filename != __file__
        ]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else module
    return BadInput(f"{module} cannot be imported", found=f"{type(error).__name__}: {error} ({where})", do="--debug shows all of it")


def _there(module: object) -> str:
    from legato.workflow.workflow import Workflow

    names = [name for name, value in vars(module).items() if isinstance(value, Workflow)] if hasattr(module, "__dict__") else []
    return f"workflows: {', '.join(names)}" if names else ""
