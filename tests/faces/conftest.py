"""What tests of the faces are given: servers and pages, which end with the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from legato.emulator import serve as emulated
from tests.cli.conftest import Shell
from tests.faces import finding
from tests.faces.serving import Server

if TYPE_CHECKING:  # the terminal is tested where Playwright is not installed, too
    from playwright.sync_api import Browser

    from tests.faces.browser import Visits

HERE = Path(__file__).parent


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def provider() -> Iterator[dict[str, str]]:
    """A provider for all tests of a process, which outlives the servers that they kill: the variables that name it."""
    with emulated(mind=HERE / "mind.yaml") as emulator:
        yield {"OPENAI_BASE_URL": emulator.openai_url, "OPENAI_API_KEY": "any"}


@pytest.fixture
def serve(shell: Shell, provider: dict[str, str]) -> Iterator[Callable[..., Server]]:
    """Start `legato serve desk:desk`, or what else is given; each server in the test's folder, with the test's own store."""
    servers: list[Server] = []
    (shell.folder / "desk.py").write_text((HERE / "desk.py").read_text())

    def start(*arguments: str) -> Server:
        given = arguments or ("desk:desk", "--store", str(shell.folder / "desk.sqlite"))
        servers.append(Server(shell.folder, {**shell.environment, **provider}, *given))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
        assert "Traceback" not in server.log, server.log


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process; each page has a profile of its own."""
    program = finding.browser()
    if not program:
        pytest.fail(finding.NO_BROWSER)
    from playwright.sync_api import sync_playwright

    from tests.faces.browser import FLAGS

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield found
        found.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


_FAILED = pytest.StashKey[bool]()


@pytest.fixture
def visits(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visits]:
    """Pages. When the test is over, none of them may have complained."""
    from tests.faces.browser import Visits

    pages = Visits(browser, re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-"))
    yield pages
    pages.close(failed=request.node.stash.get(_FAILED, False))
    assert not pages.complaints, "\n".join(pages.complaints)
