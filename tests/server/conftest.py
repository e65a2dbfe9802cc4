from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from legato import Workflow
from legato.server import Server, serve
from tests.server.asking import Client

Serve = Callable[..., Client]


@pytest.fixture
def served() -> Iterator[Serve]:
    """Serves workflows for the time of a test, and gives a client."""
    with ExitStack() as stack:

        def make(*workflows: Workflow, **options: Any) -> Client:
            server: Server = stack.enter_context(serve(workflows, **options))
            client = Client(server)
            client.server = server
            return client

        yield make
