"""A deferred tool: its result comes later, from outside.

The tool has a signature, and its body never runs. Its call waits, for days if necessary, until a person, a webhook
or another service supplies the result. Here the webhook delivers three times; its key makes that count once.

Run it: python examples/deferred_tool.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in, and it prints:

    to the warehouse: count_stock {'item': 'oolong'}
    to the customer: From count stock (oolong): 12. Is there anything else I can help you with?
"""

import asyncio

from legato import Agent, HandoffBuilder, tool
from legato.emulator import stand_in


@tool(deferred=True)
def count_stock(item: str) -> int:
    """Have the warehouse count an item."""
    raise NotImplementedError("the warehouse answers")


clerk = Agent("clerk", instructions="You know the stock.", model="openai:gpt-5.1", tools=[count_stock])
desk = HandoffBuilder(name="desk", participants=[clerk]).build()


async def ask(question: str) -> list[str]:
    """Send a customer's question, and return the ids of the requests to the warehouse."""
    result = await desk.session("customer-42").run(question)
    if result.error:
        raise SystemExit(result.error)
    for request in result.pending:
        print("to the warehouse:", request.tool, request.arguments)
    return [request.id for request in result.pending if request.kind == "result"]


async def webhook(request_id: str, count: int, delivery: str) -> None:
    """Record the warehouse's answer, perhaps in another process."""
    session = desk.session("customer-42")
    await session.answer(request_id, count, key=delivery)
    result = await session.resume()
    if result.text:  # empty for a repeated delivery
        print("to the customer:", result.text)


async def main() -> None:
    for request_id in await ask('How much "oolong" is in stock?'):
        for _ in range(3):
            await webhook(request_id, 12, delivery="delivery-881")


if __name__ == "__main__":
    with stand_in():
        asyncio.run(main())
