"""Fixtures: server processes and browser pages, which end with the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from legato.emulator import serve as emulated
from tests.cli.conftest import Shell
from tests.faces import installed_tools
from tests.faces.server_process import ServerProcess

if TYPE_CHECKING:  # the terminal is tested where Playwright is not installed, too
    from playwright.sync_api import Browser

    from tests.faces.browser import Visits

HERE = Path(__file__).parent


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def provider() -> Iterator[dict[str, str]]:
    """Return the environment variables of an emulated provider, which outlives the servers that tests kill."""
    with emulated(fake_model=HERE / "fake_model.yaml") as emulator:
        yield {"OPENAI_BASE_URL": emulator.openai_url, "OPENAI_API_KEY": "any"}


@pytest.fixture
def serve(shell: Shell, provider: dict[str, str]) -> Iterator[Callable[..., ServerProcess]]:
    """Start `legato serve desk:desk`, or with other arguments, in the test's folder and with the test's own store."""
    servers: list[ServerProcess] = []
    (shell.folder / "desk.py").write_text((HERE / "desk.py").read_text())

    def start(*arguments: str) -> ServerProcess:
        given = arguments or ("desk:desk", "--store", str(shell.folder / "desk.sqlite"))
        servers.append(ServerProcess(shell.folder, {**shell.environment, **provider}, *given))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
        assert "Traceback" not in server.log, server.log


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return one browser for all tests of a process; each page has its own profile."""
    program = installed_tools.find_browser()
    if not program:
        pytest.fail(installed_tools.NO_BROWSER)
    from playwright.sync_api import sync_playwright

    from tests.faces.browser import BROWSER_FLAGS

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
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
    """Return the pages of a test, which must have no problems at its end."""
    from tests.faces.browser import Visits

    pages = Visits(browser, re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-"))
    yield pages
    pages.close(failed=request.node.stash.get(_FAILED, False))
    assert not pages.problems, "\n".join(pages.problems)
