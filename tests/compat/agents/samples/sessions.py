"""A conversation that a session keeps, in a file: the program says only what is new. The last exchange is taken back and told anew."""

from legato.compat.agents import Agent, Runner, SQLiteSession

agent = Agent(name="Assistant", instructions="Reply very briefly.")


async def main() -> None:
    session = SQLiteSession("conversation_123", "conversations.db")
    for said in ["Which city is the Golden Gate Bridge in?", "Which state is it in?"]:
        result = await Runner.run(agent, said, session=session)
        print(result.final_output)
    session.close()
    session = SQLiteSession("conversation_123", "conversations.db")
    print(len(await session.get_items()), (await session.get_items(limit=1))[0]["content"])
    print((await session.pop_item() or {})["role"], (await session.pop_item() or {})["role"])
    result = await Runner.run(agent, "How long is it?", session=session)
    print(result.final_output)
    print([item["content"] for item in await session.get_items() if item["role"] == "user"])
    await session.clear_session()
    print(await session.get_items())
    session.close()
