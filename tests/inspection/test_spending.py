"""What was used, by whom, and what handoffs made the provider read again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, history, tool
from legato.core.facts import Call, CallRef, HandedOff, ModelReplied, Usage
from legato.emulator import serve
from legato.emulator.responses.work import tokens_of
from legato.emulator.running import Emulator
from legato.inspection.seen import calls, seen
from legato.inspection.spending import TokenRange, first_replies, sent_again, spending, used
from legato.models import OpenAIResponses
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, handoff
from tests.core.ledgers import answered


@tool
async def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id} is a blue teapot. " + "The customer has written about it three times, and waits. " * 10


@pytest.fixture
def provider() -> Iterator[Emulator]:
    with serve() as emulator:
        yield emulator


def support(provider: Emulator, memory: Any, policy: Any = None) -> Workflow:
    model = OpenAIResponses("gpt-5.1", base_url=provider.openai_url, api_key="any", memory=memory)
    triage = Agent("triage", "You route customers to whoever can help them best. " * 10, model, [look_up])
    refunds = Agent("refunds", "You handle refunds with care. " * 20, model, history=policy or history.everything())
    return HandoffBuilder("desk", [triage, refunds]).build()


async def talked(workflow: Workflow, *more: str) -> Session:
    session = workflow.session("s", store=MemoryStore())
    for text in ("Please look up order 7, and tell me about it.", "I want a refund.", *more):
        await session.run(text)
    return session


def replies(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.facts if isinstance(fact, ModelReplied)]


@pytest.mark.parametrize("memory", ["inline", "chained"])
async def test_the_range_has_what_the_provider_counted(provider: Emulator, memory: str) -> None:
    session = await talked(support(provider, memory))
    taken = next(position for position, passed in first_replies(session.facts).items() if passed.target == "refunds")
    fact = session.facts[taken]
    assert isinstance(fact, ModelReplied)
    assert fact.usage.cached == 0, "a request that begins with other instructions is not in the cache"
    # Of what the provider read then, what it had read or written before: its own items, by its own count.
    inline = await talked(support(provider, "inline"))
    sent = [each.request for each in provider.exchanges if each.request.get("input")][-len(replies(inline)) :]
    at = next(index for index, each in enumerate(replies(inline)) if each.agent == "refunds")
    known = tokens_of(sent[at]["input"][:-1])  # all but the output of the handoff itself
    resent = (await sent_again(session))[taken]
    assert resent == TokenRange(0, fact.usage.input)
    assert 0 < known < resent.most


async def test_an_agent_that_comes_back_is_sent_its_own_request_again(provider: Emulator) -> None:
    session = await talked(support(provider, "inline"), "Hand me back to triage")
    before = next(each for each in replies(session) if each.agent == "triage" and any(isinstance(item, Call) for item in each.items))
    back = max(first_replies(session.facts))
    fact = session.facts[back]
    assert isinstance(fact, ModelReplied)
    assert fact.agent == "triage"
    resent = (await sent_again(session))[back]
    assert before.usage.input - fact.usage.cached <= resent.least <= resent.most == fact.usage.input - fact.usage.cached


async def test_only_what_follows_a_handoff_counts(provider: Emulator) -> None:
    session = await talked(support(provider, "chained"), "Thank you!")
    after = replies(session)[-1]
    assert after.usage.cached > after.usage.input * 0.8
    assert set(await sent_again(session)) == set(first_replies(session.facts))


async def test_an_agent_that_sees_less_is_sent_less_again(provider: Emulator) -> None:
    whole = await talked(support(provider, "inline"))
    since = await talked(support(provider, "inline", history.since_handoff()))
    assert (await spending(since)).resent.most < (await spending(whole)).resent.most


async def test_sums_are_those_of_the_replies(provider: Emulator) -> None:
    session = await talked(support(provider, "chained"), "Hand me back to triage")
    spent = await spending(session)
    assert [(each.source, each.target) for each in spent.handoffs] == [("triage", "refunds"), ("refunds", "triage")]
    by_agent: dict[str, Usage] = {}
    for fact in replies(session):
        by_agent[fact.agent] = by_agent.get(fact.agent, Usage()) + fact.usage
    assert spent.agents == {agent: used(usage) for agent, usage in by_agent.items()}
    assert spent.total == used(sum(by_agent.values(), Usage()))
    assert spent.total.dollars
    known = [each.resent for each in spent.handoffs if each.resent is not None]
    assert spent.resent == sum(known, TokenRange())
    assert 0 < spent.resent.least < spent.resent.most


# -- by hand -----------------------------------------------------------------------------------------------------------------


class Priced(ScriptedModel):
    """Says what it is told, for so many tokens."""

    def __init__(self, *script: Any, usages: list[Usage]) -> None:
        super().__init__(list(script))
        self._usages = usages

    async def reply(self, request: Any, emit: Any) -> Any:
        from msgspec.structs import replace

        return replace(await super().reply(request, emit), usage=self._usages[request.turn])


async def by_hand(*usages: Usage, policy: Any = None) -> dict[int, TokenRange]:
    """Agent a hands over to b, which hands back."""
    model = Priced(handoff("b"), handoff("a"), "Done.", usages=list(usages))
    agents = [Agent(name, "Help.", model, history=policy or history.everything()) for name in "ab"]
    session = HandoffBuilder("w", agents).build().session("s", store=MemoryStore())
    await session.run("Hello.")
    return await sent_again(session)


async def test_what_was_cached_was_not_sent_again() -> None:
    none = await by_hand(Usage(1000, 1), Usage(1200, 1), Usage(1400, 1))
    half = await by_hand(Usage(1000, 1), Usage(1200, 1, cached=500), Usage(1400, 1, cached=500))
    whole = await by_hand(Usage(1000, 1), Usage(1200, 1, cached=1200), Usage(1400, 1, cached=1400))
    assert list(none.values()) == [TokenRange(0, 1200), TokenRange(1000, 1400)]
    assert list(half.values()) == [TokenRange(0, 700), TokenRange(500, 900)]
    assert set(whole.values()) == {TokenRange(0, 0)}


@pytest.mark.parametrize("policy", [history.since_handoff(), history.last(1)], ids=["since handoff", "last"])
async def test_policies_that_forget_leave_the_least_unknown(policy: Any) -> None:
    back = list((await by_hand(Usage(1000, 1), Usage(1200, 1), Usage(1400, 1), policy=policy)).values())[1]
    assert back == TokenRange(0, 1400)


async def test_a_request_that_shrank_bounds_the_least() -> None:
    back = list((await by_hand(Usage(1000, 1), Usage(1200, 1), Usage(800, 1, cached=100))).values())[1]
    assert back == TokenRange(700, 700)


async def test_a_target_that_has_not_replied_leaves_it_unknown() -> None:
    model = Priced(handoff("b"), usages=[Usage(1000, 1)])
    session = HandoffBuilder("w", [Agent("a", "Help.", model), Agent("b", "Help.", model)]).build().session("s", store=MemoryStore())
    await session.run("Hello.")
    spent = await spending(session)
    assert ([each.resent for each in spent.handoffs], spent.resent) == ([None], TokenRange())


async def test_without_recorded_usage_nothing_is_claimed() -> None:
    assert await by_hand(Usage(), Usage(), Usage()) == {}


def test_a_run_that_began_elsewhere_is_not_the_handoffs() -> None:
    """A message came before the agent that had been handed control replied, and began a run with another."""
    passed = HandedOff(at=1, call=CallRef(2, 0), source="a", target="b")
    assert list(first_replies([passed, answered("b", 0, "Hello.")])) == [1]
    assert first_replies([passed, answered("a", 0, "Hello."), answered("b", 0, "Hello.")]) == {}


async def test_a_call_says_the_same_in_the_list_and_on_its_page(provider: Emulator) -> None:
    session = await talked(support(provider, "chained"), "Hand me back to triage", "I want a refund.")
    listed = await calls(session)
    assert sum(each.after_handoff is not None for each in listed) == 3
    assert [(await seen(session, each.n)).resent for each in listed] == [each.resent for each in listed]


def test_a_price_that_nobody_knows_is_not_zero() -> None:
    assert (used(Usage(1000, 10)).dollars, used(Usage(1000, 10)).unpriced) == (None, 1010)
    assert used(Usage(1000, 10, cost=0)).dollars == 0
    assert used(Usage(1000, 10, cost=2_000_000)).dollars == 0.002
