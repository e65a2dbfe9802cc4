"""The `openai` SDK, as its documentation uses it.

python openai_client.py BASE_URL KEY responses|chat
"""

import json

from column_report import report
from openai import OpenAI
from pydantic import BaseModel

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


class Order(BaseModel):
    order: str
    amount: float


def get_weather(city):
    return f"sunny, 21 degrees, in {city}"


def columns(base_url, key, api):
    client = OpenAI(base_url=base_url, api_key=key, max_retries=0)
    return responses(client) if api == "responses" else chat(client)


def responses(client):
    tool = {"type": "function", "name": "get_weather", "description": "Weather.", "parameters": PARAMETERS, "strict": True}

    def plain():
        return {"texts": [client.responses.create(model="plain", input="Hello").output_text]}

    def streamed():
        with client.responses.stream(model="streamed", input="Hello") as events:
            pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
            return {"texts": [events.get_final_response().output_text], "pieces": pieces}

    def several_turns():
        history = [{"role": "user", "content": "Hello"}]
        first = client.responses.create(model="several-turns", input=history)
        history += [*first.output, {"role": "user", "content": "What did I say?"}]
        return {"texts": [first.output_text, client.responses.create(model="several-turns", input=history).output_text]}

    def previous_id():
        first = client.responses.create(model="previous-id", input="Hello")
        last = client.responses.create(model="previous-id", input="What did I say?", previous_response_id=first.id)
        return {"texts": [first.output_text, last.output_text]}

    def conversation():
        created = client.conversations.create(metadata={"workflow": "conversation"})
        texts = [
            client.responses.create(model="conversation", input=text, conversation=created.id).output_text
            for text in ("Hello", "What did I say?")
        ]
        return {"texts": texts}

    def approval():
        first = client.responses.create(model="approval", input="Refund order 7.")
        requests = [item for item in first.output if item.type == "mcp_approval_request"]
        answers = [{"type": "mcp_approval_response", "approval_request_id": each.id, "approve": True} for each in requests]
        done = client.responses.create(model="approval", input=answers, previous_response_id=first.id)
        return {"approval_requests": [[each.name, json.loads(each.arguments)] for each in requests], "texts": [done.output_text]}

    def client_tools():
        first = client.responses.create(model="client-tools", input="What is the weather in Oslo?", tools=[tool])
        calls = [item for item in first.output if item.type == "function_call"]
        outputs = [
            {"type": "function_call_output", "call_id": each.call_id, "output": get_weather(**json.loads(each.arguments))} for each in calls
        ]
        done = client.responses.create(model="client-tools", input=outputs, previous_response_id=first.id, tools=[tool])
        return {"calls": [[each.name, json.loads(each.arguments)] for each in calls], "texts": [done.output_text]}

    def structured_output():
        found = client.responses.parse(model="structured-output", input="Give me the order as data.", text_format=Order)
        return {"data": found.output_parsed.model_dump()}

    return {
        "plain": plain,
        "streamed": streamed,
        "several turns": several_turns,
        "previous id": previous_id,
        "conversation": conversation,
        "approval": approval,
        "client tools": client_tools,
        "structured output": structured_output,
    }


def chat(client):
    tool = {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": PARAMETERS, "strict": True}}
    hello = {"role": "user", "content": "Hello"}

    def plain():
        return {"texts": [client.chat.completions.create(model="plain", messages=[hello]).choices[0].message.content]}

    def streamed():
        with client.chat.completions.stream(model="streamed", messages=[hello]) as events:
            pieces = [event.delta for event in events if event.type == "content.delta"]
            return {"texts": [events.get_final_completion().choices[0].message.content], "pieces": pieces}

    def talk(model):
        messages, texts = [], []
        for text in ("Hello", "What did I say?"):
            messages.append({"role": "user", "content": text})
            found = client.chat.completions.create(model=model, messages=messages, extra_headers={"Legato-Session": f"talk-{model}"})
            messages.append(found.choices[0].message)
            texts.append(found.choices[0].message.content)
        return {"texts": texts}

    def client_tools():
        messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
        first = client.chat.completions.create(model="client-tools", messages=messages, tools=[tool]).choices[0].message
        calls = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in first.tool_calls]
        messages += [first, *({"role": "tool", "tool_call_id": id, "content": get_weather(**arguments)} for id, _, arguments in calls)]
        done = client.chat.completions.create(model="client-tools", messages=messages, tools=[tool])
        return {"calls": [[name, arguments] for _, name, arguments in calls], "texts": [done.choices[0].message.content]}

    def structured_output():
        messages = [{"role": "user", "content": "Give me the order as data."}]
        found = client.chat.completions.parse(model="structured-output", messages=messages, response_format=Order)
        return {"data": found.choices[0].message.parsed.model_dump()}

    return {
        "plain": plain,
        "streamed": streamed,
        "several turns": lambda: talk("several-turns"),
        "client tools": client_tools,
        "structured output": structured_output,
    }


report(columns)
