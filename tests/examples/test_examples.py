"""Every program in examples/ does what its docstring says: without a key, with one, and as a process of its own.

What a docstring shows with an indent is what a run prints. If it shows two such blocks, the program is run twice, and dies the first time.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from legato.emulator import serve
from tests.docs.pages import examples

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
PATIENCE = 60.0
STANDS_IN = r"legato: no key is set, so the emulator at http://127\.0\.0\.1:\d+ stands in for OpenAI, Anthropic and Azure"
NONE_REFUSED = r"legato: the emulator was asked for [1-9]\d* (reply|replies) and refused none"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example writes, it writes into the folder that it is run in."""
    monkeypatch.chdir(tmp_path)


def promised(program: str) -> list[str]:
    """What each run of a program prints, by its docstring."""
    docstring = ast.get_docstring(ast.parse((EXAMPLES / f"{program}.py").read_text(encoding="utf-8"))) or ""
    return [f"{textwrap.dedent(block)}\n" for block in re.findall(r"(?:^ {4}.*(?:\n|\Z))+", docstring, re.MULTILINE) if block.rstrip()]


def run(program: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", **variables}
    command = [sys.executable, "-W", "error", str(program if isinstance(program, Path) else EXAMPLES / f"{program}.py")]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_key_it_prints_what_it_promises_and_nothing_is_refused(program: str, tmp_path: Path) -> None:
    blocks = promised(program)
    assert blocks, "it promises nothing"
    for block in blocks:
        done = run(program, tmp_path)
        dies = block is not blocks[-1]
        assert done.stdout.strip() == block.strip(), done.stderr
        assert done.returncode == (1 if dies else 0)
        assert re.fullmatch(STANDS_IN + ("" if dies else f"\n{NONE_REFUSED}"), done.stderr.strip()), done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_keys_the_same_program_talks_to_the_providers_they_are_for(program: str, tmp_path: Path) -> None:
    """The providers are an emulator of our own, apart from the program, which has been told what the program's own would say."""
    with serve(mind=script_of(program)) as provider:
        keys = {
            "OPENAI_API_KEY": "sk-1",
            "OPENAI_BASE_URL": provider.openai_url,
            "ANTHROPIC_API_KEY": "sk-2",
            "ANTHROPIC_BASE_URL": provider.url,
            "AZURE_OPENAI_API_KEY": "sk-3",
            "AZURE_OPENAI_ENDPOINT": provider.url,
        }
        for block in promised(program):
            asked = provider.log.requests
            done = run(program, tmp_path, **keys)
            assert done.stdout.strip() == block.strip(), done.stderr
            assert done.stderr.startswith(f"legato: OPENAI_API_KEY is set, so {provider.openai_url} answers; ANTHROPIC_API_KEY is set, so ")
            assert len(done.stderr.splitlines()) == 1, "no other emulator was started"
            assert provider.log.requests > asked
        assert {exchange.status for exchange in provider.exchanges} == {200}


def test_with_the_key_of_one_provider_the_emulator_stands_in_for_the_other(tmp_path: Path) -> None:
    with serve(mind=script_of("two_providers")) as provider:
        done = run("two_providers", tmp_path, OPENAI_API_KEY="sk-1", OPENAI_BASE_URL=provider.openai_url)
        assert done.stdout.strip() == promised("two_providers")[0].strip(), done.stderr
        assert [exchange.api for exchange in provider.exchanges] == ["responses", "responses"]
    first, last = done.stderr.splitlines()
    assert re.fullmatch(r"legato: OPENAI_API_KEY is set, so \S+ answers; the emulator at \S+ stands in for Anthropic and Azure", first)
    assert last == "legato: the emulator was asked for 1 reply and refused none"


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_a_key_that_is_refused_it_says_so(program: str, tmp_path: Path) -> None:
    with serve(keys=["another"]) as provider:
        done = run(program, tmp_path, OPENAI_API_KEY="sk-wrong", OPENAI_BASE_URL=provider.openai_url)
    assert "Incorrect API key provided" in done.stdout + done.stderr


def test_the_example_of_the_readme_runs_as_it_stands_and_unchanged_with_a_key(tmp_path: Path) -> None:
    shown = next(examples((ROOT / "README.md").read_text(encoding="utf-8")))
    program = tmp_path / "desk.py"
    program.write_text(shown.code)
    alone = run(program, tmp_path)
    assert (alone.returncode, alone.stdout) == (0, shown.expected), alone.stderr
    assert re.fullmatch(f"{STANDS_IN}\n{NONE_REFUSED}", alone.stderr.strip()), alone.stderr
    (tmp_path / "desk.sqlite").unlink()
    with serve() as provider:
        keyed = run(program, tmp_path, OPENAI_API_KEY="sk-1", OPENAI_BASE_URL=provider.openai_url)
        assert (keyed.returncode, keyed.stdout) == (0, shown.expected), keyed.stderr
        assert [exchange.status for exchange in provider.exchanges] == [200, 200, 200]


def script_of(program: str) -> object:
    """What the program has its emulator say; None where it leaves that to the desk."""
    spec = importlib.util.spec_from_file_location(f"example_{program}", EXAMPLES / f"{program}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "SCRIPT", None)


def test_the_tests_of_the_example_pass_in_a_project_that_knows_nothing_of_ours(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "test_desk.py", tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_desk.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_list_of_examples_names_each_of_them() -> None:
    rows = re.findall(r"^\| \[`(\w+)\.py`\]\((\w+)\.py\) \|", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert all(name == target for name, target in rows)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert f"examples/{path.name}" in (ast.get_docstring(ast.parse(text)) or "")
