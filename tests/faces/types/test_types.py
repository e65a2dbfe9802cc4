"""TypeScript checks the console's scripts: unknown names, values that may be null, and arguments that do not fit.

Parameters need no types (`noImplicitAny` is off), because most values are JSON of the API.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faces.installed_tools import NPM_FOLDER

HERE = Path(__file__).parent
CONSOLE = HERE.parents[2] / "src" / "legato" / "server" / "console"
MARKED_FOLDER = NPM_FOLDER / "node_modules" / "marked" / "lib"


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Copy the scripts, with the types of the vendored one."""
    shutil.copytree(CONSOLE, tmp_path / "console")
    shutil.copy(MARKED_FOLDER / "marked.d.ts", tmp_path / "console" / "vendored" / "marked.d.ts")
    shutil.copy(HERE / "tsconfig.json", tmp_path)
    return tmp_path


def run_type_checker(folder: Path) -> list[str]:
    compiler = NPM_FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", str(compiler), "--pretty", "false"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert not done.stderr
    return done.stdout.splitlines()


def test_scripts_pass_the_type_checker(scripts: Path) -> None:
    assert run_type_checker(scripts) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("byId(1);", "not assignable to parameter of type 'string'"),
        ("document.querySelector('p').remove();", "possibly 'null'"),
        ("const unused = 1;", "never read"),
        ("formatNumber(1).toFixed(2);", "does not exist on type 'string'"),
    ],
    ids=["wrong argument type", "possibly null", "unused variable", "unknown member"],
)
def test_type_checker_finds_seeded_mistakes(scripts: Path, line: str, message: str) -> None:
    imports = 'import { byId } from "./lib/dom.js"; import { formatNumber } from "./lib/format.js";'
    (scripts / "console" / "seeded.js").write_text(f"{imports}\n{line}\nexport {{ byId, formatNumber }};\n")
    (mistake,) = run_type_checker(scripts)
    assert mistake.startswith("console/seeded.js(2,")
    assert message in mistake


def test_vendored_lexer_matches_the_npm_package() -> None:
    assert (CONSOLE / "vendored" / "marked.js").read_bytes() == (MARKED_FOLDER / "marked.esm.js").read_bytes()
