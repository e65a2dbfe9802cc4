"""An airline's desk: a context that tools fill in, handoffs there and back, a conversation of three messages."""

from pydantic import BaseModel

from legato.compat.agents import (
    Agent,
    HandoffOutputItem,
    ItemHelpers,
    MessageOutputItem,
    RunContextWrapper,
    Runner,
    ToolCallItem,
    ToolCallOutputItem,
    function_tool,
    handoff,
)
from legato.compat.agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX


class Airline(BaseModel):
    passenger: str | None = None
    seat: str | None = None
    flight: str | None = None


@function_tool(name_override="faq_lookup_tool", description_override="Answers to frequent questions.")
async def faq_lookup(question: str) -> str:
    return "One bag of up to 50 pounds." if "bag" in question else "I do not know."


@function_tool
async def update_seat(context: RunContextWrapper[Airline], confirmation: str, seat: str) -> str:
    """Update the seat of a booking.

    Args:
        confirmation: The confirmation number of the flight.
        seat: The new seat.
    """
    context.context.seat = seat
    assert context.context.flight is not None, "a flight number is required"
    return f"Seat {seat} for {confirmation} on {context.context.flight}"


async def on_seat_booking(context: RunContextWrapper[Airline]) -> None:
    context.context.flight = "FLT-123"


faq = Agent[Airline](
    name="FAQ Agent",
    handoff_description="Answers questions about the airline.",
    instructions=f"{RECOMMENDED_PROMPT_PREFIX} You answer frequent questions.",
    tools=[faq_lookup],
)
seats = Agent[Airline](
    name="Seat Booking Agent",
    handoff_description="Changes seats.",
    instructions=f"{RECOMMENDED_PROMPT_PREFIX} You change seats.",
    tools=[update_seat],
)
triage = Agent[Airline](
    name="Triage Agent",
    instructions=f"{RECOMMENDED_PROMPT_PREFIX} You pass requests on.",
    handoffs=[faq, handoff(agent=seats, on_handoff=on_seat_booking)],
)
faq.handoffs.append(triage)
seats.handoffs.append(triage)

SAID = ["How big may my bag be?", "Please change my seat to 3A, confirmation ABC.", "Thank you!"]


async def main() -> None:
    agent, inputs, context = triage, [], Airline()
    for said in SAID:
        inputs.append({"role": "user", "content": said})
        result = await Runner.run(agent, inputs, context=context)
        for item in result.new_items:
            name = item.agent.name
            if isinstance(item, MessageOutputItem):
                print(f"{name}: {ItemHelpers.text_message_output(item)}")
            elif isinstance(item, HandoffOutputItem):
                print(f"Handed off from {item.source_agent.name} to {item.target_agent.name}")
            elif isinstance(item, ToolCallItem):
                print(f"{name}: calls {item.raw_item.name}")
            elif isinstance(item, ToolCallOutputItem):
                print(f"{name}: {item.output}")
        inputs = result.to_input_list()
        agent = result.last_agent
    print(context.seat, context.flight)
