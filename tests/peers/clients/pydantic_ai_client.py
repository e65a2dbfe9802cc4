"""Pydantic AI, as its documentation uses it.

python pydantic_ai_client.py BASE_URL KEY responses|chat
"""

from column_report import report
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Order(BaseModel):
    order: str
    amount: float


def columns(base_url, key, api):
    uses_responses = api == "responses"

    def agent(model, **more):
        provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0))
        kind = OpenAIResponsesModel if uses_responses else OpenAIChatModel
        return Agent(kind(model, provider=provider), **more)

    async def plain():
        return {"texts": [(await agent("plain").run("Hello")).output]}

    async def streamed():
        async with agent("streamed").run_stream("Hello") as run:
            pieces = [piece async for piece in run.stream_text(delta=True, debounce_by=None)]
            return {"texts": ["".join(pieces)], "pieces": pieces}

    async def several_turns():
        by_ids, by_name = {"openai_send_reasoning_ids": True}, {"extra_headers": {"Legato-Session": "talk-several-turns"}}
        start, history, texts = agent("several-turns", model_settings=by_ids if uses_responses else by_name), None, []
        for text in ("Hello", "What did I say?"):
            run = await start.run(text, message_history=history)
            history = run.all_messages()
            texts.append(run.output)
        return {"texts": texts}

    async def client_tools():
        start, calls = agent("client-tools"), []

        @start.tool_plain
        def get_weather(city: str) -> str:
            """Weather."""
            calls.append(["get_weather", {"city": city}])
            return f"sunny, 21 degrees, in {city}"

        run = await start.run("What is the weather in Oslo?")
        return {"calls": calls, "texts": [run.output]}

    async def structured_output():
        run = await agent("structured-output", output_type=NativeOutput(Order)).run("Give me the order as data.")
        return {"data": run.output.model_dump()}

    found = {
        "plain": plain,
        "streamed": streamed,
        "several turns": several_turns,
        "client tools": client_tools,
        "structured output": structured_output,
    }
    if not uses_responses:
        return found

    async def previous_id():
        start = agent("previous-id")
        first = await start.run("Hello")
        settings = {"openai_previous_response_id": first.response.provider_response_id}
        last = await start.run("What did I say?", model_settings=settings)
        return {"texts": [first.output, last.output]}

    async def conversation():
        start = agent("conversation", model_settings={"openai_conversation_id": "talk-conversation"})
        return {"texts": [(await start.run(text)).output for text in ("Hello", "What did I say?")]}

    return {**found, "previous id": previous_id, "conversation": conversation}


report(columns)
