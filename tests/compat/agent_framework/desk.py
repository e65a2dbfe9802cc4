"""A desk of two agents and a gated tool, for the tests of the facade; and what its emulated model says."""

from __future__ import annotations

from typing import Any

from legato.compat.agent_framework import CheckpointStorage, HandoffBuilder, OpenAIResponsesClient, Workflow, tool
from legato.emulator.minds import Prompt, Thought, Use, Words


def desk(storage: CheckpointStorage, paid: list[float] | None = None) -> Workflow:
    @tool(approval_mode="always_require")
    def pay(amount: float) -> str:
        """Pay money back."""
        if paid is not None:
            paid.append(amount)
        return f"paid {amount}"

    client = OpenAIResponsesClient(model="gpt-5.1")
    triage = client.as_agent(name="triage", instructions="You route.")
    payer = client.as_agent(name="payer", instructions="You pay.", tools=[pay])
    return (
        HandoffBuilder(name="desk", participants=[triage, payer])
        .add_handoff(triage, [payer])
        .add_handoff(payer, [triage])
        .with_checkpointing(storage)
        .with_termination_condition(lambda conversation: conversation[-1].text == "Goodbye!")
        .build()
    )


def mind(prompt: Prompt) -> list[Any]:
    """Triage routes; the payer pays the amounts that were said, and says what came of it."""
    thought = Thought(f"{len(prompt.heard)} things were heard.")
    if prompt.said == "Bye":
        return [thought, Words("Goodbye!")]
    if prompt.instructions.startswith("You route"):
        return [thought, Words("One moment."), Use("handoff_to_payer", "{}")]
    if prompt.heard[-1].who == "tool" and prompt.heard[-1].tool == "pay":
        return [thought, Words(f"The tool said: {prompt.heard[-1].text}.")]
    return [thought, *(Use("pay", f'{{"amount": {amount}}}') for amount in prompt.said.split() if amount.isdigit())]
