"""D2, for a tool that lives on and still cannot know how its call ended: a connection broke after the order was sent."""

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.facts import CallLost, CallReturned, CallStarted
from legato.runtime.tool_runs import IDEMPOTENT_ATTEMPTS
from legato.testing import ScriptedModel, call
from legato.tools import OutcomeUnknown


def paying(results, **rules):
    """A session whose one tool does these things, one per start."""
    left = list(results)

    @tool(**rules)
    async def pay() -> str:
        result = left.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    model = ScriptedModel(lambda seen: call("pay") if seen.turn == 0 else "done")
    return HandoffBuilder("w", [Agent("a", model=model, tools=[pay])]).build().session()


def starts(session):
    return sum(isinstance(fact, CallStarted) for fact in session.facts)


@pytest.mark.parametrize("rules", [{}, {"timeout": 5}], ids=["no time limit", "a time limit"])
async def test_a_tool_that_cannot_know_its_outcome_is_not_started_again_and_people_are_asked(rules):
    session = paying([OutcomeUnknown("the bank hung up"), "paid"], **rules)
    result = await session.run("pay")
    (request,) = result.pending
    assert (request.kind, request.tool, starts(session)) == ("outcome", "pay", 1)
    assert [fact.attempt for fact in session.facts if isinstance(fact, CallLost)] == [1]
    assert (await session.resume()).status == "pending"
    assert starts(session) == 1, "resuming asks on, and starts nothing"
    await session.approve(request)
    assert (await session.resume()).text == "done"
    assert starts(session) == 2


async def test_a_person_who_looked_it_up_answers_in_its_place():
    session = paying([OutcomeUnknown()])
    await session.run("pay")
    await session.answer(session.pending[0], "it was paid")
    assert (await session.resume()).text == "done"
    assert (await session.seen()).messages[-1].text == "it was paid"


async def test_an_idempotent_tool_is_started_again_by_itself():
    session = paying([OutcomeUnknown(), "paid"], idempotent=True)
    assert (await session.run("pay")).text == "done"
    assert starts(session) == 2


async def test_an_idempotent_tool_that_never_knows_is_an_error_for_the_model_and_not_a_loop():
    session = paying([OutcomeUnknown("gone")] * 100, idempotent=True)
    assert (await session.run("pay")).text == "done"
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert starts(session) == IDEMPOTENT_ATTEMPTS
    assert returned.status == "error"
    assert returned.output == "Nobody knows whether 'pay' took effect: gone"
