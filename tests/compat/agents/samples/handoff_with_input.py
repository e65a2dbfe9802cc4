"""A handoff that carries typed input to a callback."""

from pydantic import BaseModel

from legato.compat.agents import Agent, HandoffOutputItem, RunContextWrapper, Runner, handoff


class Escalation(BaseModel):
    reason: str
    severity: int = 1


async def on_escalation(ctx: RunContextWrapper[dict], given: Escalation) -> None:
    ctx.context["log"].append(f"severity {given.severity}: {given.reason}")


engineer = Agent(name="Engineer", instructions="Solve the incident.")
support = Agent(
    name="Support",
    instructions="Escalate incidents.",
    handoffs=[
        handoff(
            engineer,
            tool_name_override="escalate",
            tool_description_override="Escalate an incident to an engineer.",
            on_handoff=on_escalation,
            input_type=Escalation,
        )
    ],
)


async def main() -> None:
    context = {"log": []}
    result = await Runner.run(support, "The database is down!", context=context)
    print(context["log"])
    for item in result.new_items:
        if isinstance(item, HandoffOutputItem):
            print(f"{item.source_agent.name} -> {item.target_agent.name}")
    print(f"{result.last_agent.name}: {result.final_output}")
