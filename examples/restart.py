"""A restart in the middle. Run it twice.

The first process pays an invoice and dies before that is recorded. The second one opens the session from the file.
The outcome of the payment is unknown, so it is not repeated: the session asks. The program reads the bank's book,
answers, and continues.

Run it, and run it again: python examples/restart.py
With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in, and the first time it prints

    the session is new
    the bank has paid, and the process dies

and the second time

    the session is running
    clerk ran pay({"invoice": "7"}), and nobody knows how it ended. Approve to run it again, answer with its outcome, or reject to fail it.
    user: Please pay invoice 7.
    clerk: From pay (7): invoice 7 was paid.
"""

import asyncio
import os
from pathlib import Path

from legato import Agent, HandoffBuilder, tool
from legato.emulator import stand_in
from legato.stores import SQLiteStore

BOOK = Path("bank.txt")  # to start over, delete it and restart.sqlite


@tool
def pay(invoice: str) -> str:
    """Pay an invoice."""
    BOOK.write_text(f"invoice {invoice} was paid")
    print("the bank has paid, and the process dies", flush=True)
    os._exit(1)  # no cleanup, as with kill -9


def read_book() -> str:
    return BOOK.read_text() if BOOK.exists() else ""


clerk = Agent("clerk", instructions="You pay invoices.", model="openai:gpt-5.1", tools=[pay])
office = HandoffBuilder(name="office", participants=[clerk]).with_checkpointing(SQLiteStore("restart.sqlite")).build()


async def main() -> None:
    session = await office.session("invoices").refresh()
    print("the session is", session.status)
    result = await (session.run("Please pay invoice 7.") if session.status == "new" else session.resume())
    for request in result.pending:
        print(request.prompt)
        if entry := read_book():
            await session.answer(request, entry)
        else:
            await session.approve(request)  # nothing was paid: run the tool again
    result = await session.resume()
    if result.error:
        raise SystemExit(result.error)
    for message in session.messages:
        print(message)


if __name__ == "__main__":
    with stand_in():
        asyncio.run(main())
