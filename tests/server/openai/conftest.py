"""Clients are closed when their test is over."""

from collections.abc import Iterator

import pytest

from tests.server.openai import asking


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while asking.OPEN:
        asking.OPEN.pop().close()
