"""Models with the same configuration share a client, which closes with the last of them or with the event loop."""

from __future__ import annotations

import pytest

from legato import Agent
from legato.emulator import serve, stand_in
from legato.models import OpenAIResponses, sdk_client


def list_open_clients() -> set[object]:
    return set(sdk_client._shared_clients.values())


@pytest.mark.parametrize("model", ["openai:gpt-5.1", "openai-chat:gpt-4o", "azure:mine", "anthropic:claude-sonnet-5"])
async def test_agents_made_per_request_share_one_client(model: str) -> None:
    open_before = list_open_clients()
    async with stand_in(quiet=True):
        for _ in range(3):
            assert (await Agent("clerk", model=model).run("Hello")).status == "waiting"
    assert len(list_open_clients() - open_before) == 1


async def test_only_models_configured_alike_share_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    one, alike, other = (OpenAIResponses("gpt-5.1", api_key=key) for key in ("one", "one", "other"))
    client = one._clients()
    assert alike._clients() is client
    assert other._clients() is not client
    monkeypatch.setenv("OPENAI_ORG_ID", "another")
    assert OpenAIResponses("gpt-5.1", api_key="one")._clients() is not client


async def test_last_closed_model_closes_the_client() -> None:
    async with serve() as provider:
        one, other = (OpenAIResponses("gpt-5.1", base_url=provider.openai_url, api_key="any") for _ in range(2))
        client = one._clients()
        assert (await Agent("clerk", model=one).run("Hello")).status == "waiting"
        assert (await Agent("clerk", model=other).run("Hello")).status == "waiting"
        await one.close()
        await one.close()  # a second time changes nothing
        assert not client.is_closed()
        assert (await Agent("clerk", model=other).run("Hello")).status == "waiting"
        await other.close()
        assert client.is_closed()
        assert (await Agent("clerk", model=one).run("Hello")).status == "waiting"  # a new client
        await one.close()


def test_end_of_the_loop_closes_open_clients() -> None:
    clerk = Agent("clerk", model="openai:gpt-5.1")
    open_before = list_open_clients()
    with stand_in(quiet=True):
        for _ in range(2):  # each in a loop of its own
            assert clerk.run_sync("Hello").status == "waiting"
            assert list_open_clients() == open_before
