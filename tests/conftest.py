"""What all tests share. Kept small: a story should be readable without looking here."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import settings

from tests.provider_types import recording

if TYPE_CHECKING:
    from tests import databases

# Tests talk to the emulator. A developer's own keys would have some of them talk to the providers.
for _name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "AZURE_OPENAI_"))]:
    del os.environ[_name]

# Tokens are counted by the estimate, whatever vocabulary a developer has.
os.environ["TIKTOKEN_CACHE_DIR"] = ""

# A shell that runs the tests in the background has them ignore Ctrl-C, and the processes that they start would too.
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
    """Leave out what `--quick` leaves out."""
    if config.getoption("--quick"):
        left_out = [item for item in items if needs_stored_data(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not needs_stored_data(item)]


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection: else each collection goes through millions of objects that stay anyway."""
    gc.collect()
    gc.freeze()


def needs_stored_data(item: pytest.Item) -> bool:
    """Tell whether a test uses Postgres, or the store of its parameters is not in memory."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("store", "memory") != "memory" or not {"postgres_server", "place"}.isdisjoint(getattr(item, "fixturenames", ()))


SENDS_RANDOM_REQUESTS = ("test_random_requests.py", "test_bodies.py")
"""Modules whose requests have more than any rule looks at: it comes back in the answers."""


@pytest.fixture(scope="session", autouse=True)
def _answers_recorded() -> None:
    """Keep what emulators and servers send, so that `_answers_have_provider_types` can look at it."""
    recording.install()


@pytest.fixture(autouse=True)
def _answers_have_provider_types(_answers_recorded: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything that an emulator or a server sent in a test has the type that the provider's SDK says."""
    yield
    if findings := recording.take_findings(echoes=request.path.name not in SENDS_RANDOM_REQUESTS):
        shown = "\n".join(f"  {finding}" for finding in findings[:20])
        pytest.fail(f"what was sent does not have the provider's types ({len(findings)} differences):\n{shown}", pytrace=False)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[databases.Server]:
    """A Postgres server, one for all processes of a test run: started by the first test that needs it, ended with the last."""
    from legato.testing.postgres import postgres
    from tests import databases

    mine, beginning = tmp_path_factory.getbasetemp(), f"legato_{uuid4().hex[:12]}_"
    with postgres(share=mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) as dsn:
        yield databases.prepared(dsn, beginning + "template")
        databases.drop(dsn, beginning)


@pytest.fixture
def databases_named(postgres_server: databases.Server) -> Iterator[str]:
    """How the names of a test's own databases begin; they are removed when it is over."""
    from tests import databases

    beginning = f"legato_{uuid4().hex[:12]}_"
    yield beginning
    databases.drop(postgres_server.dsn, beginning)


@pytest.fixture
def database(postgres_server: databases.Server, databases_named: str) -> str:
    """The DSN of a fresh database with Legato's schema in it."""
    from tests import databases

    return databases.create(postgres_server, databases_named + "one")


@pytest.fixture
def tenant(postgres_server: databases.Server) -> tuple[str, str]:
    """A database that other tests use too, and a tenant that none of them is: that is quicker than a fresh one."""
    from tests import databases

    return databases.create(postgres_server, postgres_server.template.replace("template", "tenants")), uuid4().hex


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes any time: for tests that count bytes, of which the digits of times are some."""
    from legato.runtime.clock import Clock

    monkeypatch.setattr(Clock, "now_ms", lambda self: 1_800_000_000_000)
    monkeypatch.setattr(Clock, "monotonic", lambda self: 0.0)
