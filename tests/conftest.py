"""The fixtures and settings of all tests. Kept small: a story should be readable without this file."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import settings

from tests.provider_types import answer_recorder

if TYPE_CHECKING:
    from tests import databases

# Tests use the emulator. With a developer's own keys some of them would reach the providers.
for _name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "AZURE_OPENAI_"))]:
    del os.environ[_name]

# Tokens are counted by the estimate, whatever vocabulary a developer has.
os.environ["TIKTOKEN_CACHE_DIR"] = ""

# A shell that runs the tests in the background makes them ignore Ctrl-C, and the processes that they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is not a counterexample.
settings.register_profile("legato", deadline=None)
settings.load_profile("legato")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out tests with Postgres, and stories on a store that is not in memory")


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores: many tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that `--quick` leaves out."""
    if config.getoption("--quick"):
        deselected = [item for item in items if needs_slow_store(item)]
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not needs_slow_store(item)]


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection: otherwise each collection visits millions of objects that stay anyway."""
    gc.collect()
    gc.freeze()


def needs_slow_store(item: pytest.Item) -> bool:
    """Return True if a test uses Postgres, or the store of its parameters is not in memory."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("store", "memory") != "memory" or not {"postgres_server", "place"}.isdisjoint(getattr(item, "fixturenames", ()))


RANDOM_REQUEST_MODULES = ("test_random_requests.py", "test_bodies.py")
"""Test modules whose requests have members that no rule checks. Answers repeat these members."""


@pytest.fixture(scope="session", autouse=True)
def _recorded_answers() -> None:
    """Record the answers of emulators and servers, so that `_checked_answer_types` can check them."""
    answer_recorder.install_recorder()


@pytest.fixture(autouse=True)
def _checked_answer_types(_recorded_answers: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which an emulator or a server sent an answer that does not have the type from the provider's SDK."""
    yield
    if findings := answer_recorder.take_findings(echoes=request.path.name not in RANDOM_REQUEST_MODULES):
        shown = "\n".join(f"  {finding}" for finding in findings[:20])
        pytest.fail(f"answers do not have the provider's types ({len(findings)} differences):\n{shown}", pytrace=False)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[databases.DatabaseServer]:
    """A Postgres server that all processes of a test run share: the first test that needs it starts it, and it stops after the last."""
    from legato.testing.postgres import postgres
    from tests import databases

    folder, prefix = tmp_path_factory.getbasetemp(), f"legato_{uuid4().hex[:12]}_"
    with postgres(share=folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield databases.prepare_server(dsn, prefix + "template")
        databases.drop_databases(dsn, prefix)


@pytest.fixture
def database_prefix(postgres_server: databases.DatabaseServer) -> Iterator[str]:
    """The prefix of the names of a test's own databases, which are dropped after the test."""
    from tests import databases

    prefix = f"legato_{uuid4().hex[:12]}_"
    yield prefix
    databases.drop_databases(postgres_server.dsn, prefix)


@pytest.fixture
def database(postgres_server: databases.DatabaseServer, database_prefix: str) -> str:
    """The DSN of a fresh database with Legato's schema in it."""
    from tests import databases

    return databases.create_database(postgres_server, database_prefix + "one")


@pytest.fixture
def tenant(postgres_server: databases.DatabaseServer) -> tuple[str, str]:
    """A database that other tests use too, and a new tenant in it: that is quicker than a new database."""
    from tests import databases

    return databases.create_database(postgres_server, postgres_server.template.replace("template", "tenants")), uuid4().hex


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, for tests that count bytes: the digits of times are among them."""
    from legato.runtime.clock import Clock

    monkeypatch.setattr(Clock, "now_ms", lambda self: 1_800_000_000_000)
    monkeypatch.setattr(Clock, "monotonic", lambda self: 0.0)
