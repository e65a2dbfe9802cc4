"""A conversation object of the provider's, made by the program and used by two runs."""

from openai import AsyncOpenAI

from legato.compat.agents import Agent, OpenAIResponsesModel, Runner


async def main() -> None:
    async with AsyncOpenAI() as client:
        agent = Agent(name="Assistant", instructions="Be brief.", model=OpenAIResponsesModel("gpt-5.1", openai_client=client))
        conversation = await client.conversations.create()
        for said in ["My name is Ada.", "What is my name?"]:
            result = await Runner.run(agent, said, conversation_id=conversation.id)
            print(result.final_output)
        print(len((await client.conversations.items.list(conversation.id)).data))
