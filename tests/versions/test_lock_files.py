"""The files in `requirements/` agree with `pyproject.toml`. Nothing here uses the network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.versions.lock import EXTRAS, PROJECT
from tests.versions.uv import ROOT

LOCK_FILES = [*(ROOT / f"requirements/{name}.txt" for name in EXTRAS), ROOT / "tests/engines/requirements.txt"]


def list_requirements(extras: list[str]) -> list[Requirement]:
    """Return the requirements in `pyproject.toml` with these extras, and those of the build."""
    project = PROJECT["project"]
    found, remaining = [*project["dependencies"], *PROJECT["build-system"]["requires"]], list(extras)
    while remaining:
        for line in project["optional-dependencies"][remaining.pop()]:
            requirement = Requirement(line)
            if requirement.name == project["name"]:
                remaining += requirement.extras
            else:
                found.append(line)
    return [Requirement(line) for line in found]


def read_entries(file: Path) -> list[str]:
    """Return the entries of a lock file, each in one line, without comments."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE)
    return text.replace("\\\n", " ").splitlines()


def read_versions(file: Path) -> dict[str, set[str]]:
    """Return the versions of each package in a lock file. There may be several, for different versions of Python."""
    found: dict[str, set[str]] = {}
    for entry in read_entries(file):
        requirement = Requirement(entry.partition("--hash")[0])
        (exact,) = requirement.specifier
        assert exact.operator == "=="
        found.setdefault(canonicalize_name(requirement.name), set()).add(exact.version)
    return found


@pytest.mark.parametrize("name", EXTRAS)
def test_every_requirement_is_locked_within_its_range(name: str) -> None:
    locked = read_versions(ROOT / f"requirements/{name}.txt")
    wrong = [
        str(requirement)
        for requirement in list_requirements(EXTRAS[name])
        if not (found := locked.get(canonicalize_name(requirement.name))) or not all(map(requirement.specifier.contains, found))
    ]
    assert not wrong, f"requirements/{name}.txt does not fit pyproject.toml: run `make lock`"


@pytest.mark.parametrize("name", [name for name in EXTRAS if name != "dev"])
def test_shared_packages_have_the_same_versions(name: str) -> None:
    dev, locked = read_versions(ROOT / "requirements/dev.txt"), read_versions(ROOT / f"requirements/{name}.txt")
    assert {package: dev[package] for package in locked if package in dev} == {
        package: found for package, found in locked.items() if package in dev
    }


@pytest.mark.parametrize("file", LOCK_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_locked_package_has_hashes(file: Path) -> None:
    assert read_entries(file)
    assert [entry for entry in read_entries(file) if not re.search(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)", entry)] == []


@pytest.mark.parametrize("file", LOCK_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_lock_files_name_no_index_or_address(file: Path) -> None:
    assert re.findall(r"^.*(?:://| @ |--(?:extra-)?index|--find-links|--trusted-host).*$", file.read_text(), re.MULTILINE) == []
