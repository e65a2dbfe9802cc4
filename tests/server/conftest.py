from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from legato import Workflow
from legato.server import Server, serve
from tests.server.described import Described

Serve = Callable[..., Described]


@pytest.fixture
def served() -> Iterator[Serve]:
    """Serves workflows for the time of a test, and gives a client that holds all answers against their description."""
    with ExitStack() as stack:

        def make(*workflows: Workflow, **options: Any) -> Described:
            server: Server = stack.enter_context(serve(workflows, **options))
            return Described(server)

        yield make
