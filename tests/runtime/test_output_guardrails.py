"""Output guardrails: every output of a run has passed them, however the run ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Limits, Result, Session, guardrail, tool
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff

SECRET = "4111"


@guardrail("output")
def no_secrets(context: Any, output: str) -> str | None:
    return "Leave the number out." if SECRET in output else None


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def clerk(*replies: Any, name: str = "clerk", **more: Any) -> Agent:
    return Agent(name, model=ScriptedModel(by_agent={name: list(replies)}), tools=[look, pay], guardrails=[no_secrets], **more)


def reply_with(text: str, *items: Any) -> list[Any]:
    return [text, *items]


def says_bye(messages: list[Any]) -> bool:
    return "Bye" in messages[-1].text


async def play(session: Session, stream: bool) -> tuple[Result, str]:
    """Return the result of a run, and all text of agents that was shown."""
    run = session.run("Go", stream=stream)
    shown = ""
    async for event in run:
        if event.type in ("output", "message"):
            shown += str(event.data)
    result = await run
    return result, " ".join([shown, result.text, str(result.output), *map(str, result.messages), *map(str, session.messages)])


OUTPUTS = {
    "a reply": (lambda: HandoffBuilder("w", [clerk(f"It is {SECRET}.", "Done.")]), "Done."),
    "a reply that ends the run": (
        lambda: HandoffBuilder("w", [clerk(f"Bye, {SECRET}!", "Bye!")]).with_termination_condition(says_bye), "Bye!"
    ),
    "text beside a call that ends the run": (
        lambda: HandoffBuilder("w", [clerk(reply_with(f"Bye, {SECRET}!", call("look")), "Bye!")]).with_termination_condition(says_bye),
        "Bye!",
    ),
    "text beside a handoff that ends the run": (
        lambda: HandoffBuilder(
            "w", [clerk(reply_with(f"Bye, {SECRET}!", handoff("other"))), clerk("Bye!", name="other")]
        ).with_termination_condition(says_bye),
        "Bye!",
    ),
    "an autonomous agent's reply": (
        lambda: HandoffBuilder("w", [clerk(f"It is {SECRET}.", "One.", f"And {SECRET}.", "Two.")])
        .with_autonomous_mode(turn_limits={"clerk": 1}),
        "Two.",
    ),
    "text beside a call": (lambda: HandoffBuilder("w", [clerk(reply_with(f"I saw {SECRET}.", call("look")), "Done.")]), "Done."),
    "text beside a handoff": (
        lambda: HandoffBuilder("w", [clerk(reply_with(f"I saw {SECRET}.", handoff("other"))), clerk("Done.", name="other")]), "Done."
    ),
    "text before an approval": (lambda: HandoffBuilder("w", [clerk(reply_with(f"I pay with {SECRET}.", call("pay")))]), ""),
    "text before a limit": (
        lambda: HandoffBuilder("w", [clerk(reply_with(f"I saw {SECRET}.", call("look")))]).with_limits(Limits(turns=1)), ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("builder", "answer"), OUTPUTS.values(), ids=OUTPUTS)
async def test_no_output_bypasses_output_guardrails(builder: Any, answer: str, stream: bool) -> None:
    result, shown = await play(builder().build().session(), stream)
    assert result.text == answer
    assert SECRET not in shown


async def test_accepted_text_ends_the_run() -> None:
    workflow = HandoffBuilder("w", [clerk(reply_with("Bye, take care!", call("look")))]).with_termination_condition(says_bye).build()
    result, shown = await play(workflow.session(), stream=True)
    assert (result.status, result.text) == ("terminated", "Bye, take care!")
    assert shown.startswith("clerk: Bye, take care!")


async def test_cancelled_guardrail_shows_nothing() -> None:
    judging = asyncio.Event()

    @guardrail("output")
    async def slow(context: Any, output: str) -> str | None:
        judging.set()
        await asyncio.Event().wait()
        return None

    agent = Agent("clerk", model=ScriptedModel([f"It is {SECRET}."]), guardrails=[slow])
    session = HandoffBuilder("w", [agent]).build().session("s", store=MemoryStore())
    driving = asyncio.ensure_future(session.run("Go"))
    await judging.wait()
    await session.cancel()
    ended = await driving
    assert (ended.status, ended.text) == ("cancelled", "")
    assert SECRET not in str(session.messages)
