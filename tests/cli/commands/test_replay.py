"""`legato replay`: recorded requests, compared with the current workflow's and with recorded digests."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.cli.commands.replay import _replay_requests
from legato.core.facts import ModelReplied
from legato.emulator import serve
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses
from legato.runtime.session import Session
from legato.stores import MemoryStore
from tests.cli.conftest import REFUND, Shell


def test_replay_shows_the_first_difference_of_workflow(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "one", stdin=f"{REFUND}\ny\nhello\n").code == 0
    same = shell("replay", "one", "-w", "desk:desk")
    assert same.code == 0, same.err
    assert same.out.endswith("4 requests of one: the workflow would send the same bytes\n")
    source = (shell.folder / "desk.py").read_text()
    (shell.folder / "desk.py").write_text(source.replace("Handle refunds.", "Handle refunds kindly."))
    changed = shell("replay", "one", "-w", "desk:desk")
    assert changed.code == 1
    lines = changed.out.splitlines()
    assert [line[0] for line in lines[:4]] == ["✓", "✗", "✓", "✓"], "the current turn context stays current"
    assert '- "instructions": "Handle refunds.",' in lines
    assert '+ "instructions": "Handle refunds kindly.",' in lines
    assert lines[-1] == "1 of 4 requests of one differ; the first is shown"
    document = shell("replay", "one", "-w", "desk:desk", "--json").json
    assert [step["same"] for step in document["requests"]] == [True, False, True, True]


def test_replay_reports_a_missing_agent(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "one", stdin="pay\n").code == 0
    source = (shell.folder / "desk.py").read_text()
    (shell.folder / "desk.py").write_text(source.replace("@tool\nasync def pay", "@tool(deferred=True)\nasync def pay"))
    same = shell("replay", "one", "-w", "desk:desk")
    assert same.code == 0, "the recorded call has its output"
    (shell.folder / "desk.py").write_text(source.replace('"triage"', '"reception"'))
    other = shell("replay", "one", "-w", "desk:desk")
    assert (other.code, "the workflow has no agent 'triage'" in other.out) == (1, True)


@tool
def look_up(order_id: str) -> str:
    """Look up an order."""
    return f"order {order_id} is a teapot"


MODELS: dict[str, Any] = {
    "responses inline": lambda url: OpenAIResponses("gpt-5.1", base_url=f"{url}/v1", api_key="k"),
    "responses chained": lambda url: OpenAIResponses("gpt-5.1", base_url=f"{url}/v1", api_key="k", memory="chained"),
    "responses conversation": lambda url: OpenAIResponses("gpt-5.1", base_url=f"{url}/v1", api_key="k", memory="conversation"),
    "chat": lambda url: OpenAIChat("gpt-5.1", base_url=f"{url}/v1", api_key="k"),
    "anthropic": lambda url: Anthropic("claude-sonnet-5", base_url=url, api_key="k"),
    "a model that stands by": lambda url: FallbackModel(
        OpenAIResponses("gpt-5.1", base_url="http://127.0.0.1:9/v1", api_key="k"), Anthropic("claude-sonnet-5", base_url=url, api_key="k")
    ),
}
MODELS_WITH_DIGEST = {"responses chained", "responses conversation", "anthropic", "a model that stands by"}


def build_desk(model: Any) -> Workflow:
    first, second = Agent("triage", model=model), Agent("orders", model=model, tools=[look_up])
    return HandoffBuilder(name="desk", participants=[first, second]).build()


@pytest.mark.parametrize("model", MODELS)
async def test_rebuilt_requests_equal_what_provider_received(model: str) -> None:
    with serve(faults=["expired@4"] if model == "responses chained" else []) as provider:
        store = MemoryStore()
        session = build_desk(MODELS[model](provider.url)).session("one", store=store)
        for text in ("Where is order 7?", "And order 8?"):
            assert (await session.run(text)).status == "waiting", session.error
        steps = [step async for step in _replay_requests(session, compare=True)]
        exchanges = [exchange for exchange in provider.exchanges if exchange.is_model_request and exchange.status == 200]
    import json

    from legato.inspection.model_inputs import rebuild_model_inputs

    assert len(steps) == len(exchanges) > 3
    model_inputs = await rebuild_model_inputs(session, range(len(exchanges)))
    for number, exchange in enumerate(exchanges):
        assert json.loads(model_inputs[number].encode_body().body) == exchange.request_body
    assert all(step["same"] for step in steps), steps
    proofs = {step["proof"] for step in steps}
    assert proofs == ({"proved"} if model in MODELS_WITH_DIGEST else {""})


async def test_changed_ledger_is_refuted_by_reply_digests() -> None:
    """The harness finds a seeded bug: a message that was never sent so."""
    with serve() as provider:
        workflow = build_desk(MODELS["responses chained"](provider.url))
        session = workflow.session("one", store=MemoryStore())
        await session.run("Where is order 7?")
        facts = session.facts
        facts[1] = replace(facts[1], content="Where is order 9?")  # type: ignore[call-arg] # it is a message
        spoiled = MemoryStore()
        contents = {
            fact.context_digest: await session.store.content("one", fact.context_digest) for fact in facts if isinstance(fact, ModelReplied)
        }
        await spoiled.append("one", 0, facts, contents=contents, ledger_id=facts[0].ledger_id)  # type: ignore[union-attr] # it begins with Opened
        other: Session = await workflow.session("one", store=spoiled).refresh()
        steps = [step async for step in _replay_requests(other, compare=False)]
    assert steps[0]["proof"] == "refuted"
    assert not steps[0]["same"]
