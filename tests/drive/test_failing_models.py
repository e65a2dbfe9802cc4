"""When a model fails: what is waited for, what is not, and what may be changed before the session goes on."""

from __future__ import annotations

from legato import Agent, tool
from legato.core.facts import Attempted, Returned, Started
from legato.errors import ModelFailed
from legato.history import last
from legato.models import Call, Reply, Words
from legato.stores import MemoryStore
from legato.testing import ScriptedModel


async def test_after_the_last_attempt_the_agent_is_seen_anew_so_what_was_mended_counts_at_once() -> None:
    store = MemoryStore()
    model = ScriptedModel(["Yes?", ModelFailed("too long"), "I see."])
    session = Agent("a", instructions="Say much.", model=model)._workflow().session("s", store=store)
    await session.run("One")
    assert (await session.run("Two")).status == "failed"
    mended = Agent("a", instructions="Be brief.", model=model, history=last(1))._workflow().session("s", store=store)
    assert (await mended.resume()).text == "I see."
    asked = model.requests[-1]
    assert asked.frame.instructions == "Be brief."
    assert [message.text for message in asked.messages] == ["Two"]


async def test_a_provider_that_asks_to_wait_for_hours_is_not_waited_for() -> None:
    model = ScriptedModel([ModelFailed("come back later", retryable=True, retry_after=7200.0), "Here I am."])
    result = await Agent("a", model=model).run("Hello")
    assert (result.status, result.error) == ("failed", "come back later")
    assert [fact.final for fact in result.session.facts if isinstance(fact, Attempted)] == [True]
    assert (await result.session.resume()).text == "Here I am."


async def test_the_last_call_of_a_reply_that_a_filter_stopped_is_not_run() -> None:
    ran: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    calls = (Words("I will pay."), Call("pay", '{"to": "Ann"}', "call_1"), Call("pay", '{"to": "B"}', "call_2"))
    model = ScriptedModel([Reply(items=calls, finish="filter"), "Only Ann was paid."])
    session = (await Agent("a", model=model, tools=[pay]).run("Pay Ann and Bob")).session
    assert ran == ["Ann"]
    assert len([fact for fact in session.facts if isinstance(fact, Started)]) == 1
    told = [fact.output for fact in session.facts if isinstance(fact, Returned)]
    assert any("Not run: the reply was cut off" in str(output) for output in told)
