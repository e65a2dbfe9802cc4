"""The pages: all examples in README.md and docs/ run and print what the page says, and lists of names are complete."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from unittest.mock import patch

import pytest

from legato import errors
from legato.compat.agents import conversation_storage
from legato.emulator import faults
from tests.docs.pages import WrongExample, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITHOUT_EXAMPLES = {"ARCHITECTURE.md", "how-to-add.md", "PERFORMANCE.md", "PROMISES.md", "benchmarks.md", "clauses.md"}
WITHOUT_EXAMPLES |= {"command-line.md"}  # its commands are run by tests/cli/test_command_line_page.py
WITHOUT_EXAMPLES |= {"traffic.md"}  # its figures come from a corpus that is not part of the project
SAMPLE_PAGES = {
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


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # pages do not show how to close a client
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)).removeprefix("docs/"))
def test_examples_of_every_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        conversation_storage, "_stores", [*conversation_storage._stores]
    )  # one page names another default store, and closes it
    with patch.dict(os.environ):  # a failing page would leave its variables to the next
        count = run_page(page)
    gc.collect()  # warnings about unclosed resources belong to this page
    assert count > 0 or page.name in WITHOUT_EXAMPLES, f"{page.name} has no example"


@pytest.mark.parametrize(("page", "is_right"), SAMPLE_PAGES.values(), ids=SAMPLE_PAGES)
def test_wrong_example_of_page_is_noticed(page: str, is_right: bool, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    if is_right:
        run_page(path)
    else:
        with pytest.raises(WrongExample):
            run_page(path)


def test_raising_example_of_page_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError):
        run_page(path)


def test_links_between_pages_lead_to_files() -> None:
    for page in [*PAGES, ROOT / "llms.txt", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_every_fault_is_documented_with_options() -> None:
    page_text = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
    for name, kind in faults.FAULT_KINDS.items():
        row = next((line for line in page_text.splitlines() if line.startswith(f"| `{name}` | ")), "")
        assert row, f"{name} is not in the table"
        assert all(f"`{option}=" in row for option in kind.options), f"{name} lacks an option"


def test_every_error_is_documented_with_code() -> None:
    page_text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    error_classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.LegatoError)]
    missing = [
        each.__name__
        for each in error_classes
        if each is not errors.LegatoError and f"| `{each.__name__}` | `{each.code}` |" not in page_text
    ]
    assert not missing


def test_module_map_names_exactly_the_existing_packages() -> None:
    page_text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    documented_paths = set(re.findall(r"`(src/legato/[\w/.]*)`", page_text))
    packages = {f"src/legato/{each.name}/" for each in (ROOT / "src/legato").iterdir() if each.is_dir() and each.name != "__pycache__"}
    files = {f"src/legato/{each.name}" for each in (ROOT / "src/legato").glob("*.py") if each.name != "__init__.py"}
    assert documented_paths == packages | files


def test_emulator_map_names_every_file_and_folder() -> None:
    page_text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    emulator_folder = ROOT / "src/legato/emulator"
    folders = [f"{each.name}/" for each in emulator_folder.iterdir() if (each / "__init__.py").exists()]
    missing = [name for name in [*folders, *(each.name for each in emulator_folder.glob("*.py"))] if f"`{name}`" not in page_text]
    assert not missing
