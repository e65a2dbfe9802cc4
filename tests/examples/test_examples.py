"""Every program in examples/ prints what its docstring says, without a key and with one.

The indented block of a docstring is the output of a run. With two such blocks, the program runs twice, and dies the first time.
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
from tests.docs.pages import find_examples

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
TIMEOUT_S = 60.0
STANDS_IN = r"legato: no key is set, so the emulator at http://127\.0\.0\.1:\d+ stands in for OpenAI, Anthropic and Azure"
NONE_REFUSED = r"legato: the emulator was asked for [1-9]\d* (reply|replies) and refused none"


@pytest.fixture(autouse=True)
def run_in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in a temporary folder, where examples write their files."""
    monkeypatch.chdir(tmp_path)


def read_expected_outputs(program: str) -> list[str]:
    """Return the output of each run of a program, from its docstring."""
    docstring = ast.get_docstring(ast.parse((EXAMPLES / f"{program}.py").read_text(encoding="utf-8"))) or ""
    return [f"{textwrap.dedent(block)}\n" for block in re.findall(r"(?:^ {4}.*(?:\n|\Z))+", docstring, re.MULTILINE) if block.rstrip()]


def run_program(program: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", **variables}
    command = [sys.executable, "-W", "error", str(program if isinstance(program, Path) else EXAMPLES / f"{program}.py")]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_output_without_key_matches_the_docstring(program: str, tmp_path: Path) -> None:
    """Without a key, a program prints what its docstring says, and the emulator refuses no request."""
    blocks = read_expected_outputs(program)
    assert blocks, "the docstring has no output"
    for block in blocks:
        result = run_program(program, tmp_path)
        dies = block is not blocks[-1]
        assert result.stdout.strip() == block.strip(), result.stderr
        assert result.returncode == (1 if dies else 0)
        assert re.fullmatch(STANDS_IN + ("" if dies else f"\n{NONE_REFUSED}"), result.stderr.strip()), result.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_with_keys_uses_their_providers(program: str, tmp_path: Path) -> None:
    """The provider is another emulator, with the script of the program."""
    with serve(fake_model=load_script(program)) as provider:
        keys = {
            "OPENAI_API_KEY": "sk-1",
            "OPENAI_BASE_URL": provider.openai_url,
            "ANTHROPIC_API_KEY": "sk-2",
            "ANTHROPIC_BASE_URL": provider.url,
            "AZURE_OPENAI_API_KEY": "sk-3",
            "AZURE_OPENAI_ENDPOINT": provider.url,
        }
        for block in read_expected_outputs(program):
            request_count = provider.log.requests
            result = run_program(program, tmp_path, **keys)
            assert result.stdout.strip() == block.strip(), result.stderr
            assert result.stderr.startswith(
                f"legato: OPENAI_API_KEY is set, so {provider.openai_url} answers; ANTHROPIC_API_KEY is set, so "
            )
            assert len(result.stderr.splitlines()) == 1, "no other emulator was started"
            assert provider.log.requests > request_count
        assert {exchange.status for exchange in provider.exchanges} == {200}


def test_emulator_replaces_only_providers_without_key(tmp_path: Path) -> None:
    with serve(fake_model=load_script("two_providers")) as provider:
        result = run_program("two_providers", tmp_path, OPENAI_API_KEY="sk-1", OPENAI_BASE_URL=provider.openai_url)
        assert result.stdout.strip() == read_expected_outputs("two_providers")[0].strip(), result.stderr
        assert [exchange.api for exchange in provider.exchanges] == ["responses", "responses"]
    first, last = result.stderr.splitlines()
    assert re.fullmatch(r"legato: OPENAI_API_KEY is set, so \S+ answers; the emulator at \S+ stands in for Anthropic and Azure", first)
    assert last == "legato: the emulator was asked for 1 reply and refused none"


@pytest.mark.parametrize("program", PROGRAMS)
def test_refused_key_is_reported_by_program(program: str, tmp_path: Path) -> None:
    with serve(keys=["another"]) as provider:
        result = run_program(program, tmp_path, OPENAI_API_KEY="sk-wrong", OPENAI_BASE_URL=provider.openai_url)
    assert "Incorrect API key provided" in result.stdout + result.stderr


def test_readme_example_runs_without_and_with_key(tmp_path: Path) -> None:
    example = next(find_examples((ROOT / "README.md").read_text(encoding="utf-8")))
    program = tmp_path / "desk.py"
    program.write_text(example.code)
    without_key = run_program(program, tmp_path)
    assert (without_key.returncode, without_key.stdout) == (0, example.expected), without_key.stderr
    assert re.fullmatch(f"{STANDS_IN}\n{NONE_REFUSED}", without_key.stderr.strip()), without_key.stderr
    (tmp_path / "desk.sqlite").unlink()
    with serve() as provider:
        with_key = run_program(program, tmp_path, OPENAI_API_KEY="sk-1", OPENAI_BASE_URL=provider.openai_url)
        assert (with_key.returncode, with_key.stdout) == (0, example.expected), with_key.stderr
        assert [exchange.status for exchange in provider.exchanges] == [200, 200, 200]


def load_script(program: str) -> object:
    """Return the program's script for the emulator; None if it has none."""
    spec = importlib.util.spec_from_file_location(f"example_{program}", EXAMPLES / f"{program}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "SCRIPT", None)


def test_example_tests_pass_in_another_project(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "test_desk.py", tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_desk.py"]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout


def test_list_of_examples_names_all_programs() -> None:
    rows = re.findall(r"^\| \[`(\w+)\.py`\]\((\w+)\.py\) \|", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert all(name == target for name, target in rows)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_is_short_and_names_its_command(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert f"examples/{path.name}" in (ast.get_docstring(ast.parse(text)) or "")
