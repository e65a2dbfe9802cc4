"""Every example in README.md and docs/ runs and prints what the page says."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from unittest.mock import patch

import pytest

from legato import errors
from legato.compat.agents import places
from legato.emulator import faults
from tests.docs.pages import WrongExample, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITHOUT_EXAMPLES = {"ARCHITECTURE.md", "PERFORMANCE.md", "PROMISES.md", "benchmarks.md", "clauses.md"}
WITHOUT_EXAMPLES |= {"command-line.md"}  # its commands are run by tests/cli/test_page.py
WITHOUT_EXAMPLES |= {"traffic.md"}  # its figures come from a corpus that is not part of the project
SEEDED = {
    "the output that is shown": ("```python\nprint(6 * 7)\n```\n\nIt says:\n\n```text\n42\n```\n", True),
    "a block that prints nothing": ("```python\nx = 1\n```\n", True),
    "three dots for what varies": ("```python\nprint('at', id(1), 'ok')\n```\n```text\nat ... ok\n```\n", True),
    "one place, and await": ("```python\nimport asyncio as a\n```\n```python\nprint(await a.sleep(0, 5))\n```\n```text\n5\n```\n", True),
    "another output": ("```python\nprint(6 * 7)\n```\n```text\n41\n```\n", False),
    "output that is not shown": ("```python\nprint(42)\n```\n", False),
    "output that never comes": ("```python\nx = 42\n```\n```text\n42\n```\n", False),
    "more than is shown": ("```python\nprint(42); print(43)\n```\n```text\n42\n```\n", False),
    "a second block that is wrong": ("```python\nx = 1\n```\n```python\nprint(x)\n```\n```text\n2\n```\n", False),
}


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # a page shows how to ask a provider, not how to close its client
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)).removeprefix("docs/"))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(places, "_stores", [*places._stores])  # one page names another default store, and closes it
    with patch.dict(os.environ):  # a page that fails would leave its stand-in's variables to the next
        count = run_page(page)
    gc.collect()  # what it left open is let go of here, and no other test is blamed
    assert count > 0 or page.name in WITHOUT_EXAMPLES, f"{page.name} has no example"


@pytest.mark.parametrize(("page", "right"), SEEDED.values(), ids=SEEDED)
def test_a_wrong_example_is_noticed(page: str, right: bool, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    if right:
        run_page(path)
    else:
        with pytest.raises(WrongExample):
            run_page(path)


def test_an_example_that_raises_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError):
        run_page(path)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "llms.txt", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_every_fault_is_explained_with_its_options() -> None:
    told = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
    for name, kind in faults.KINDS.items():
        row = next((line for line in told.splitlines() if line.startswith(f"| `{name}` | ")), "")
        assert row, f"{name} is not in the table"
        assert all(f"`{option}=" in row for option in kind.options), f"{name} lacks an option"


def test_every_error_is_explained_with_its_code() -> None:
    told = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    known = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.LegatoError)]
    missing = [each.__name__ for each in known if each is not errors.LegatoError and f"| `{each.__name__}` | `{each.code}` |" not in told]
    assert not missing


def test_the_module_map_names_every_room_and_only_what_exists() -> None:
    told = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(src/legato/[\w/.]*)`", told))
    rooms = {f"src/legato/{each.name}/" for each in (ROOT / "src/legato").iterdir() if each.is_dir() and each.name != "__pycache__"}
    files = {f"src/legato/{each.name}" for each in (ROOT / "src/legato").glob("*.py") if each.name != "__init__.py"}
    assert named == rooms | files


def test_the_map_of_the_emulator_names_every_file_and_folder() -> None:
    told = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    here = ROOT / "src/legato/emulator"
    folders = [f"{each.name}/" for each in here.iterdir() if (each / "__init__.py").exists()]
    missing = [name for name in [*folders, *(each.name for each in here.glob("*.py"))] if f"`{name}`" not in told]
    assert not missing
