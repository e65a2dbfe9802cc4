"""Usage by agent and handoff, and the tokens that were resent because of handoffs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, history, tool
from legato.core.facts import Call, CallRef, HandedOff, ModelReplied, Usage
from legato.emulator import serve
from legato.emulator.responses.accepted_request import count_item_tokens
from legato.emulator.server import Emulator
from legato.inspection.model_input_explanation import explain_model_input, summarize_replies
from legato.inspection.usage_report import TokenRange, build_usage_report, estimate_resent_tokens, find_first_replies, to_token_usage
from legato.models import OpenAIResponses
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, handoff
from tests.core.fact_builders import reply


@tool
async def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id} is a blue teapot. " + "The customer has written about it three times, and waits. " * 10


@pytest.fixture
def provider() -> Iterator[Emulator]:
    with serve() as emulator:
        yield emulator


def build_support(provider: Emulator, memory: Any, policy: Any = None) -> Workflow:
    model = OpenAIResponses("gpt-5.1", base_url=provider.openai_url, api_key="any", memory=memory)
    triage = Agent("triage", "You route customers to whoever can help them best. " * 10, model, [look_up])
    refunds = Agent("refunds", "You handle refunds with care. " * 20, model, history=policy or history.everything())
    return HandoffBuilder("desk", [triage, refunds]).build()


async def run_conversation(workflow: Workflow, *more: str) -> Session:
    session = workflow.session("s", store=MemoryStore())
    for text in ("Please look up order 7, and tell me about it.", "I want a refund.", *more):
        await session.run(text)
    return session


def list_replies(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.facts if isinstance(fact, ModelReplied)]


@pytest.mark.parametrize("memory", ["inline", "chained"])
async def test_range_contains_what_the_provider_counted(provider: Emulator, memory: str) -> None:
    session = await run_conversation(build_support(provider, memory))
    position_after = next(position for position, handoff in find_first_replies(session.facts).items() if handoff.target == "refunds")
    fact = session.facts[position_after]
    assert isinstance(fact, ModelReplied)
    assert fact.usage.cached == 0, "a request that begins with other instructions is not in the cache"
    # Of what the provider read then, what it had read or written before: its own items, by its own count.
    inline = await run_conversation(build_support(provider, "inline"))
    sent = [each.request_body for each in provider.exchanges if each.request_body.get("input")][-len(list_replies(inline)) :]
    at = next(index for index, each in enumerate(list_replies(inline)) if each.agent == "refunds")
    known = count_item_tokens(sent[at]["input"][:-1])  # all but the output of the handoff itself
    resent = (await estimate_resent_tokens(session))[position_after]
    assert resent == TokenRange(0, fact.usage.input)
    assert 0 < known < resent.most


async def test_returning_agent_is_resent_its_own_request(provider: Emulator) -> None:
    session = await run_conversation(build_support(provider, "inline"), "Hand me back to triage")
    before = next(each for each in list_replies(session) if each.agent == "triage" and any(isinstance(item, Call) for item in each.items))
    back = max(find_first_replies(session.facts))
    fact = session.facts[back]
    assert isinstance(fact, ModelReplied)
    assert fact.agent == "triage"
    resent = (await estimate_resent_tokens(session))[back]
    assert before.usage.input - fact.usage.cached <= resent.least <= resent.most == fact.usage.input - fact.usage.cached


async def test_only_replies_after_handoffs_count(provider: Emulator) -> None:
    session = await run_conversation(build_support(provider, "chained"), "Thank you!")
    after = list_replies(session)[-1]
    assert after.usage.cached > after.usage.input * 0.8
    assert set(await estimate_resent_tokens(session)) == set(find_first_replies(session.facts))


async def test_narrow_history_resends_fewer_tokens(provider: Emulator) -> None:
    whole = await run_conversation(build_support(provider, "inline"))
    since = await run_conversation(build_support(provider, "inline", history.since_handoff()))
    assert (await build_usage_report(since)).resent.most < (await build_usage_report(whole)).resent.most


async def test_sums_equal_those_of_the_replies(provider: Emulator) -> None:
    session = await run_conversation(build_support(provider, "chained"), "Hand me back to triage")
    report = await build_usage_report(session)
    assert [(each.source, each.target) for each in report.handoffs] == [("triage", "refunds"), ("refunds", "triage")]
    by_agent: dict[str, Usage] = {}
    for fact in list_replies(session):
        by_agent[fact.agent] = by_agent.get(fact.agent, Usage()) + fact.usage
    assert report.agents == {agent: to_token_usage(usage) for agent, usage in by_agent.items()}
    assert report.total == to_token_usage(sum(by_agent.values(), Usage()))
    assert report.total.dollars
    known = [each.resent for each in report.handoffs if each.resent is not None]
    assert report.resent == sum(known, TokenRange())
    assert 0 < report.resent.least < report.resent.most


# -- scripted usage ----------------------------------------------------------------------------------------------------------


class PricedModel(ScriptedModel):
    """A scripted model that reports this usage."""

    def __init__(self, *script: Any, usages: list[Usage]) -> None:
        super().__init__(list(script))
        self._usages = usages

    async def reply(self, request: Any, emit: Any) -> Any:
        from msgspec.structs import replace

        return replace(await super().reply(request, emit), usage=self._usages[request.reply_count])


async def estimate_for_usages(*usages: Usage, policy: Any = None) -> dict[int, TokenRange]:
    """Estimate the resent tokens of two handoffs, from agent a to b and back, with this usage of three replies."""
    model = PricedModel(handoff("b"), handoff("a"), "Done.", usages=list(usages))
    agents = [Agent(name, "Help.", model, history=policy or history.everything()) for name in "ab"]
    session = HandoffBuilder("w", agents).build().session("s", store=MemoryStore())
    await session.run("Hello.")
    return await estimate_resent_tokens(session)


async def test_cached_tokens_are_not_resent() -> None:
    none = await estimate_for_usages(Usage(1000, 1), Usage(1200, 1), Usage(1400, 1))
    half = await estimate_for_usages(Usage(1000, 1), Usage(1200, 1, cached=500), Usage(1400, 1, cached=500))
    whole = await estimate_for_usages(Usage(1000, 1), Usage(1200, 1, cached=1200), Usage(1400, 1, cached=1400))
    assert list(none.values()) == [TokenRange(0, 1200), TokenRange(1000, 1400)]
    assert list(half.values()) == [TokenRange(0, 700), TokenRange(500, 900)]
    assert set(whole.values()) == {TokenRange(0, 0)}


@pytest.mark.parametrize("policy", [history.since_handoff(), history.last(1)], ids=["since handoff", "last"])
async def test_forgetful_policies_have_no_lower_bound(policy: Any) -> None:
    back = list((await estimate_for_usages(Usage(1000, 1), Usage(1200, 1), Usage(1400, 1), policy=policy)).values())[1]
    assert back == TokenRange(0, 1400)


async def test_shrunken_request_bounds_the_least() -> None:
    back = list((await estimate_for_usages(Usage(1000, 1), Usage(1200, 1), Usage(800, 1, cached=100))).values())[1]
    assert back == TokenRange(700, 700)


async def test_resent_is_unknown_before_target_replies() -> None:
    model = PricedModel(handoff("b"), usages=[Usage(1000, 1)])
    session = HandoffBuilder("w", [Agent("a", "Help.", model), Agent("b", "Help.", model)]).build().session("s", store=MemoryStore())
    await session.run("Hello.")
    report = await build_usage_report(session)
    assert ([each.resent for each in report.handoffs], report.resent) == ([None], TokenRange())


async def test_nothing_is_estimated_without_recorded_usage() -> None:
    assert await estimate_for_usages(Usage(), Usage(), Usage()) == {}


def test_run_of_another_agent_is_not_counted() -> None:
    """A message came before the target of the handoff replied, and began a run with another agent."""
    handoff = HandedOff(at=1, call=CallRef(2, 0), source="a", target="b")
    assert list(find_first_replies([handoff, reply("b", 0, "Hello.")])) == [1]
    assert find_first_replies([handoff, reply("a", 0, "Hello."), reply("b", 0, "Hello.")]) == {}


async def test_list_and_explanation_agree_on_resent(provider: Emulator) -> None:
    session = await run_conversation(build_support(provider, "chained"), "Hand me back to triage", "I want a refund.")
    listed = await summarize_replies(session)
    assert sum(each.after_handoff is not None for each in listed) == 3
    assert [(await explain_model_input(session, each.n)).resent for each in listed] == [each.resent for each in listed]


def test_unknown_price_is_not_zero() -> None:
    assert (to_token_usage(Usage(1000, 10)).dollars, to_token_usage(Usage(1000, 10)).unpriced) == (None, 1010)
    assert to_token_usage(Usage(1000, 10, cost=0)).dollars == 0
    assert to_token_usage(Usage(1000, 10, cost=2_000_000)).dollars == 0.002
