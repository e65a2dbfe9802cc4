from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from legato import Workflow
from legato.server import Server, serve
from tests.server.checked_client import CheckedClient

Serve = Callable[..., CheckedClient]


@pytest.fixture
def serve_workflows() -> Iterator[Serve]:
    """Return a function that serves workflows during the test, and returns a client that validates all responses."""
    with ExitStack() as stack:

        def serve_checked(*workflows: Workflow, **options: Any) -> CheckedClient:
            server: Server = stack.enter_context(serve(workflows, **options))
            return CheckedClient(server)

        yield serve_checked
