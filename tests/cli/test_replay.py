"""`legato replay`: what was sent, compared byte by byte with what would be sent now, and with what the ledger can prove."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.cli.replay import _steps
from legato.core.facts import ModelReplied
from legato.emulator import serve
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses
from legato.runtime.session import Session
from legato.stores import MemoryStore
from tests.cli.conftest import REFUND, Shell


def test_a_session_replays_the_same_and_a_changed_workflow_shows_the_first_difference(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "one", stdin=f"{REFUND}\ny\nhello\n").code == 0
    same = shell("replay", "one", "-w", "desk:desk")
    assert same.code == 0, same.err
    assert same.out.endswith("4 requests of one: the workflow would send the same bytes\n")
    source = (shell.folder / "desk.py").read_text()
    (shell.folder / "desk.py").write_text(source.replace("Handle refunds.", "Handle refunds kindly."))
    changed = shell("replay", "one", "-w", "desk:desk")
    assert changed.code == 1
    lines = changed.out.splitlines()
    assert [line[0] for line in lines[:4]] == ["✓", "✗", "✓", "✓"], "a frame that is in force stays in force"
    assert '- "instructions": "Handle refunds.",' in lines
    assert '+ "instructions": "Handle refunds kindly.",' in lines
    assert lines[-1] == "1 of 4 requests of one differ; the first is shown"
    told = shell("replay", "one", "-w", "desk:desk", "--json").json
    assert [step["same"] for step in told["requests"]] == [True, False, True, True]


def test_a_workflow_that_would_do_something_else_is_told(shell: Shell) -> None:
    assert shell("chat", "desk:desk", "-s", "one", stdin="pay\n").code == 0
    source = (shell.folder / "desk.py").read_text()
    (shell.folder / "desk.py").write_text(source.replace("@tool\nasync def pay", "@tool(deferred=True)\nasync def pay"))
    same = shell("replay", "one", "-w", "desk:desk")
    assert same.code == 0, "what was recorded is not taken back: the call has its output"
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
PROVED = {"responses chained", "responses conversation", "anthropic", "a model that stands by"}


def built(model: Any) -> Workflow:
    first, second = Agent("triage", model=model), Agent("orders", model=model, tools=[look_up])
    return HandoffBuilder(name="desk", participants=[first, second]).build()


@pytest.mark.parametrize("model", MODELS)
async def test_what_the_ledger_says_was_sent_is_what_the_provider_got(model: str) -> None:
    with serve(faults=["expired@4"] if model == "responses chained" else []) as provider:
        store = MemoryStore()
        session = built(MODELS[model](provider.url)).session("one", store=store)
        for text in ("Where is order 7?", "And order 8?"):
            assert (await session.run(text)).status == "waiting", session.error
        steps = [step async for step in _steps(session, compare=True)]
        got = [exchange for exchange in provider.exchanges if exchange.asks and exchange.status == 200]
    import json

    from legato.inspection.looking import looks

    assert len(steps) == len(got) > 3
    looked = await looks(session, range(len(got)))
    for number, exchange in enumerate(got):
        assert json.loads(looked[number].wired().body) == exchange.request
    assert all(step["same"] for step in steps), steps
    proofs = {step["proof"] for step in steps}
    assert proofs == ({"proved"} if model in PROVED else {""})


async def test_a_ledger_that_was_changed_is_refuted_by_the_digests_of_its_replies() -> None:
    """The harness finds a seeded bug: a message that was never sent so."""
    with serve() as provider:
        workflow = built(MODELS["responses chained"](provider.url))
        session = workflow.session("one", store=MemoryStore())
        await session.run("Where is order 7?")
        facts = session.facts
        facts[1] = replace(facts[1], content="Where is order 9?")  # type: ignore[call-arg] # it is a message
        spoiled = MemoryStore()
        contents = {fact.frame: await session.store.content("one", fact.frame) for fact in facts if isinstance(fact, ModelReplied)}
        await spoiled.append("one", 0, facts, contents=contents, born=facts[0].ledger)  # type: ignore[union-attr] # it begins with Opened
        other: Session = await workflow.session("one", store=spoiled).refresh()
        steps = [step async for step in _steps(other, compare=False)]
    assert steps[0]["proof"] == "refuted"
    assert not steps[0]["same"]
