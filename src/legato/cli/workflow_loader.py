"""Loads workflows named `module:workflow` on the command line.

Only names from the command line are imported: the user asks for it. Nothing that was read from a store is ever imported.
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

EXPECTED_NAME = "module:workflow, as in desk:desk, or file.py:workflow"


def load_workflow(text: str) -> Workflow:
    """Return the workflow of this name. The name of an agent stands for a workflow of this agent alone."""
    from legato.workflow.agent import Agent
    from legato.workflow.builder import HandoffBuilder
    from legato.workflow.workflow import Workflow

    value = load_object(text)
    if isinstance(value, HandoffBuilder):
        return value.build()
    if isinstance(value, Agent):
        return HandoffBuilder(name=value.name, participants=[value]).build()
    if isinstance(value, Workflow):
        return value
    if callable(value):
        module, name = _split_name(text)
        raise BadInput(f"{text} is a function", expected="a workflow", do=f"write `NAME = {name}(...)` in {module}, and name that")
    raise BadInput(f"{text} is not a workflow", expected="HandoffBuilder(...).build(), or an Agent", found=type(value).__name__)


def load_object(text: str) -> Any:
    """Return the object of this name, of any type."""
    module, name = _split_name(text)
    value: object = _import_module(module)
    for part in name.split("."):
        if not hasattr(value, part):
            raise BadInput(
                f"{module} has no {name!r}", found=_list_workflows(value) or "no workflow", do=f"name one of them: {module}:NAME"
            )
        value = getattr(value, part)
    return value


def is_workflow_name(text: str) -> bool:
    """Return True if this has the form `module:workflow`, and is not an existing file."""
    module, colon, name = text.rpartition(":")
    is_module = module.endswith(".py") or all(part.isidentifier() for part in module.split("."))
    return bool(colon) and is_module and all(part.isidentifier() for part in name.split(".")) and not os.path.exists(text)


def _split_name(text: str) -> tuple[str, str]:
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name:
        raise BadInput(f"{text!r} does not name a workflow", expected=EXPECTED_NAME)
    return module, name


def _import_module(module: str) -> ModuleType:
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _import_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    except LegatoError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            do = "run this in the module's folder, or write its path: path/to/file.py:workflow"
            raise BadInput(f"there is no module {module!r}", found=f"looked in {folder} first", do=do) from error
        raise _make_import_error(module, error) from error
    except (Exception, SystemExit) as error:
        raise _make_import_error(module, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadInput(f"there is no file {path}", expected=EXPECTED_NAME)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # typing and pydantic look its names up there
    spec.loader.exec_module(module)
    return module


def _make_import_error(module: str, error: BaseException) -> BadInput:
    """Return the error for a program that cannot be imported, with the line of the program at fault."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename and frame.filename != __file__
        ]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else module
    return BadInput(f"{module} cannot be imported", found=f"{type(error).__name__}: {error} ({where})", do="--debug shows the traceback")


def _list_workflows(module: object) -> str:
    from legato.workflow.workflow import Workflow

    names = [name for name, value in vars(module).items() if isinstance(value, Workflow)] if hasattr(module, "__dict__") else []
    return f"workflows: {', '.join(names)}" if names else ""
