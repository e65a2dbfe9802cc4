"""The OpenAI Agents SDK, as its documentation uses it.

python agents_client.py BASE_URL KEY responses|chat
"""

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from column_report import report
from openai import AsyncOpenAI
from pydantic import BaseModel


class Order(BaseModel):
    order: str
    amount: float


def columns(base_url, key, api):
    set_tracing_disabled(True)
    uses_responses = api == "responses"

    def agent(model, **more):
        client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
        kind = OpenAIResponsesModel if uses_responses else OpenAIChatCompletionsModel
        return Agent(name="Client", model=kind(model=model, openai_client=client), **more)

    async def plain():
        return {"texts": [(await Runner.run(agent("plain"), "Hello")).final_output]}

    async def streamed():
        run, pieces = Runner.run_streamed(agent("streamed"), "Hello"), []
        async for event in run.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                pieces.append(event.data.delta)
        return {"texts": [run.final_output], "pieces": pieces}

    async def several_turns():
        headers = {} if uses_responses else {"model_settings": ModelSettings(extra_headers={"Legato-Session": "talk-several-turns"})}
        start, session = agent("several-turns", **headers), SQLiteSession("mine")
        return {"texts": [(await Runner.run(start, text, session=session)).final_output for text in ("Hello", "What did I say?")]}

    async def client_tools():
        calls = []

        @function_tool
        def get_weather(city: str) -> str:
            """Weather."""
            calls.append(["get_weather", {"city": city}])
            return f"sunny, 21 degrees, in {city}"

        run = await Runner.run(agent("client-tools", tools=[get_weather]), "What is the weather in Oslo?")
        return {"calls": calls, "texts": [run.final_output]}

    async def structured_output():
        run = await Runner.run(agent("structured-output", output_type=Order), "Give me the order as data.")
        return {"data": run.final_output.model_dump()}

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
        first = await Runner.run(start, "Hello")
        last = await Runner.run(start, "What did I say?", previous_response_id=first.last_response_id)
        return {"texts": [first.final_output, last.final_output]}

    async def conversation():
        start = agent("conversation")
        messages = ("Hello", "What did I say?")
        return {"texts": [(await Runner.run(start, each, conversation_id="talk-conversation")).final_output for each in messages]}

    return {**found, "previous id": previous_id, "conversation": conversation}


report(columns)
