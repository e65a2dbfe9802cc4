"""Close all clients after each test."""

from collections.abc import Iterator

import pytest

from tests.server.openai import openai_client


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while openai_client.OPEN_CLIENTS:
        openai_client.OPEN_CLIENTS.pop().close()
