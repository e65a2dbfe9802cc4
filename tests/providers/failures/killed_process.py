"""A process that is killed during a request to a provider's conversation: `python killed_process.py <url> <database> <stream>`."""

from __future__ import annotations

import asyncio
import sys

from legato import Agent, HandoffBuilder
from legato.models import OpenAIResponses
from legato.stores import SQLiteStore


async def main(url: str, path: str, stream: str) -> None:
    model = OpenAIResponses("gpt-5", base_url=url, api_key="sk-failures", memory="conversation", stream=stream == "True")
    agent = Agent("greeter", instructions="You greet.", model=model)
    async with SQLiteStore(path) as store:
        session = HandoffBuilder("hall", [agent]).build().session("s", store=store)
        await session.run("Hello")
        await session.run("Are you there?")  # the process is killed during this run


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
