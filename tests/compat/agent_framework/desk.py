"""A desk of two agents and a gated tool, for the tests of the facade; and what its emulated model says."""

from __future__ import annotations

from typing import Any

from legato.compat.agent_framework import CheckpointStorage, HandoffBuilder, OpenAIResponsesClient, Workflow, tool
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText, ReplyThought


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


def fake_model(prompt: ModelPrompt) -> list[Any]:
    """Triage routes; the payer pays the amounts that were said, and says what came of it."""
    thought = ReplyThought(f"{len(prompt.messages)} things were heard.")
    if prompt.last_user_text == "Bye":
        return [thought, ReplyText("Goodbye!")]
    if prompt.instructions.startswith("You route"):
        return [thought, ReplyText("One moment."), ReplyCall("handoff_to_payer", "{}")]
    if prompt.messages[-1].role == "tool" and prompt.messages[-1].tool == "pay":
        return [thought, ReplyText(f"The tool said: {prompt.messages[-1].text}.")]
    return [thought, *(ReplyCall("pay", f'{{"amount": {amount}}}') for amount in prompt.last_user_text.split() if amount.isdigit())]
