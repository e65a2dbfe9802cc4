"""A server drives the sessions of one provider while another provider does not respond or rate-limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.emulator import serve as emulate
from legato.models import OpenAIResponses
from legato.server import serve
from legato.stores import SQLiteStore
from tests.server.api_client import ApiClient
from tests.server.conftest import Serve

SESSIONS = 2 * 20
"""Twice the number of sessions that a worker drives at the same time."""


def make_workflow(url: str, name: str) -> Workflow:
    """Return a workflow of one agent with a provider at this URL."""
    model = OpenAIResponses("gpt-5.1", base_url=url, api_key="any")
    return HandoffBuilder(name, [Agent("clerk", model=model)]).build()


@pytest.mark.parametrize("fault", ["rate_limit retry_after=120", "timeout seconds=120"])
def test_slow_provider_leaves_slots_for_others(serve_workflows: Serve, fault: str) -> None:
    with emulate(faults=[fault]) as slow, emulate() as healthy:
        api = serve_workflows(make_workflow(slow.openai_url, "slow"), make_workflow(healthy.openai_url, "healthy"), grace=0.1)
        for number in range(SESSIONS):
            api.post("/api/sessions", {"id": f"slow-{number}", "workflow": "slow", "message": "Hello"}, 201)
        for number in range(3):
            assert api.create_session("Hello", f"healthy-{number}", workflow="healthy")["status"] == "waiting"


async def test_restarted_server_waits_for_recorded_retry(tmp_path: Path) -> None:
    path = str(tmp_path / "desk.db")
    with emulate(faults=["rate_limit retry_after=3@1"]) as provider:
        desk = make_workflow(provider.openai_url, "desk")
        with serve(desk, store=SQLiteStore(path)) as server:
            client = ApiClient(server)
            client.post("/api/sessions", {"id": "s", "message": "Hello"}, 201)
            with client.open_events("s") as events:
                assert any(event["event"] == "model_failed" for event in events)
        async with SQLiteStore(path) as store:
            (attempted,) = [fact for fact in await store.read("s") if isinstance(fact, ModelRequestFailed)]
            assert 3000 <= attempted.retry_at - attempted.at <= 3250
            with serve(desk, store=SQLiteStore(path)) as server:
                ApiClient(server).wait_for_status("s", "waiting")
            (answered,) = [fact for fact in await store.read("s") if isinstance(fact, ModelReplied)]
            assert answered.at - answered.duration_ms >= attempted.retry_at
        assert provider.log.requests == 2
