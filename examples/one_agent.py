"""One agent with a tool.

The model calls the tool; Legato validates the arguments, runs the function and sends the model its output. Both
questions belong to one conversation, because they name the same session.

Run it: python examples/one_agent.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in, and it prints:

    you:   Where are my orders A-17 and B-22?
    clerk: From look up order (A-17): a teapot, shipped. From look up order (B-22): two cups, delayed. I hope that helps.
    you:   Thank you!
    clerk: You are welcome! Have a good day.
"""

from legato import Agent, tool
from legato.emulator import stand_in

ORDERS = {"A-17": "a teapot, shipped", "B-22": "two cups, delayed"}


@tool
def look_up_order(order_id: str) -> str:
    """Look up what became of an order."""
    return ORDERS.get(order_id, "there is no such order")


clerk = Agent(
    name="clerk",
    instructions="You know about orders. Answer briefly.",
    model="openai:gpt-5.1",
    tools=[look_up_order],
)


def main() -> None:
    for question in ("Where are my orders A-17 and B-22?", "Thank you!"):
        result = clerk.run_sync(question, session_id="ada")
        print("you:  ", question)
        print("clerk:", result.error or result.text)


if __name__ == "__main__":
    with stand_in():
        main()
