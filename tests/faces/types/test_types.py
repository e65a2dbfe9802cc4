"""TypeScript reads the console's scripts: names that are not there, what may be null, and arguments that do not fit.

A parameter needs no type of its own (`noImplicitAny` is off): most of what the scripts pass around is JSON of the API.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faces.finding import NPM

HERE = Path(__file__).parent
CONSOLE = HERE.parents[2] / "src" / "legato" / "server" / "console"
MARKED = NPM / "node_modules" / "marked" / "lib"


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The scripts, with the types of the vendored one beside it."""
    shutil.copytree(CONSOLE, tmp_path / "console")
    shutil.copy(MARKED / "marked.d.ts", tmp_path / "console" / "vendored" / "marked.d.ts")
    shutil.copy(HERE / "tsconfig.json", tmp_path)
    return tmp_path


def complaints(folder: Path) -> list[str]:
    compiler = NPM / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", str(compiler), "--pretty", "false"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert not done.stderr
    return done.stdout.splitlines()


def test_the_scripts_have_no_mistakes_of_type(scripts: Path) -> None:
    assert complaints(scripts) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("byId(1);", "not assignable to parameter of type 'string'"),
        ("document.querySelector('p').remove();", "possibly 'null'"),
        ("const unused = 1;", "never read"),
        ("count(1).toFixed(2);", "does not exist on type 'string'"),
    ],
    ids=["an argument of another type", "what may be null", "what nobody reads", "what is not there"],
)
def test_a_mistake_of_type_is_found(scripts: Path, line: str, told: str) -> None:
    imports = 'import { byId } from "./parts/dom.js"; import { count } from "./parts/format.js";'
    (scripts / "console" / "seeded.js").write_text(f"{imports}\n{line}\nexport {{ byId, count }};\n")
    (found,) = complaints(scripts)
    assert found.startswith("console/seeded.js(2,")
    assert told in found


def test_the_vendored_lexer_is_the_one_on_npm() -> None:
    assert (CONSOLE / "vendored" / "marked.js").read_bytes() == (MARKED / "marked.esm.js").read_bytes()
