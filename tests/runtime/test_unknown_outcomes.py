"""Unknown outcomes of tools that still run (D2): a connection broke, for example, after an order was sent."""

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import CallLost, CallReturned, CallStarted
from legato.runtime.tool_calls import MAX_IDEMPOTENT_ATTEMPTS
from legato.testing import ScriptedModel, call
from legato.tools import OutcomeUnknown


def make_paying_session(results, **rules):
    """Return a session with one tool, whose starts have these results one after another."""
    remaining = list(results)

    @tool(**rules)
    async def pay() -> str:
        result = remaining.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    model = ScriptedModel(lambda request: call("pay") if request.reply_count == 0 else "done")
    return HandoffBuilder("w", [Agent("a", model=model, tools=[pay])]).build().session()


def count_starts(session):
    return sum(isinstance(fact, CallStarted) for fact in session.facts)


@pytest.mark.parametrize("rules", [{}, {"timeout": 5}], ids=["no time limit", "a time limit"])
async def test_unknown_outcome_requests_a_decision(rules):
    """A tool that cannot know its outcome is not started again by itself."""
    session = make_paying_session([OutcomeUnknown("the bank hung up"), "paid"], **rules)
    result = await session.run("pay")
    (request,) = result.pending
    assert (request.kind, request.tool, count_starts(session)) == ("outcome", "pay", 1)
    assert [fact.attempt for fact in session.facts if isinstance(fact, CallLost)] == [1]
    assert (await session.resume()).status == "pending"
    assert count_starts(session) == 1, "resuming keeps the request pending and starts nothing"
    await session.approve(request)
    assert (await session.resume()).text == "done"
    assert count_starts(session) == 2


async def test_person_may_supply_unknown_outcome():
    session = make_paying_session([OutcomeUnknown()])
    await session.run("pay")
    await session.answer(session.pending[0], "it was paid")
    assert (await session.resume()).text == "done"
    assert (await session.seen()).messages[-1].text == "it was paid"


async def test_idempotent_tool_is_restarted_automatically():
    session = make_paying_session([OutcomeUnknown(), "paid"], idempotent=True)
    assert (await session.run("pay")).text == "done"
    assert count_starts(session) == 2


async def test_idempotent_tool_stops_after_few_attempts():
    """An idempotent tool that never knows its outcome ends as an error for the model."""
    session = make_paying_session([OutcomeUnknown("gone")] * 100, idempotent=True)
    assert (await session.run("pay")).text == "done"
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert count_starts(session) == MAX_IDEMPOTENT_ATTEMPTS
    assert returned.status == "error"
    assert returned.output == "Nobody knows whether 'pay' took effect: gone"
