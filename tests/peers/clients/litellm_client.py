"""LiteLLM, as its documentation uses it.

python litellm_client.py BASE_URL KEY responses|chat
"""

import json

import litellm
from column_report import report
from pydantic import BaseModel

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
FUNCTION = {"name": "get_weather", "description": "Weather.", "parameters": PARAMETERS, "strict": True}


class Order(BaseModel):
    order: str
    amount: float


def get_weather(city):
    return f"sunny, 21 degrees, in {city}"


def columns(base_url, key, api):
    connection = {"api_base": base_url, "api_key": key, "num_retries": 0, "max_retries": 0}
    return responses(connection) if api == "responses" else chat(connection)


def responses(connection):
    def send(model, input, **more):
        return litellm.responses(model=f"openai/{model}", input=input, **connection, **more)

    def plain():
        return {"texts": [send("plain", "Hello").output_text]}

    def streamed():
        pieces, text = [], ""
        for event in send("streamed", "Hello", stream=True):
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
            if event.type == "response.completed":
                text = event.response.output_text
        return {"texts": [text], "pieces": pieces}

    def several_turns():
        history = [{"role": "user", "content": "Hello"}]
        first = send("several-turns", history)
        history += [item.model_dump(exclude_none=True) if hasattr(item, "model_dump") else item for item in first.output]
        history.append({"role": "user", "content": "What did I say?"})
        return {"texts": [first.output_text, send("several-turns", history).output_text]}

    def previous_id():
        first = send("previous-id", "Hello")
        return {"texts": [first.output_text, send("previous-id", "What did I say?", previous_response_id=first.id).output_text]}

    def conversation():
        options = {"extra_body": {"conversation": "talk-conversation"}}
        return {"texts": [send("conversation", text, **options).output_text for text in ("Hello", "What did I say?")]}

    def approval():
        first = send("approval", "Refund order 7.")
        items = [item if isinstance(item, dict) else item.model_dump() for item in first.output]
        requests = [item for item in items if item["type"] == "mcp_approval_request"]
        answers = [{"type": "mcp_approval_response", "approval_request_id": each["id"], "approve": True} for each in requests]
        done = send("approval", answers, previous_response_id=first.id)
        return {"approval_requests": [[each["name"], json.loads(each["arguments"])] for each in requests], "texts": [done.output_text]}

    def client_tools():
        tools = [{"type": "function", **FUNCTION}]
        first = send("client-tools", "What is the weather in Oslo?", tools=tools)
        calls = [item for item in first.output if item.type == "function_call"]
        outputs = [
            {"type": "function_call_output", "call_id": each.call_id, "output": get_weather(**json.loads(each.arguments))} for each in calls
        ]
        done = send("client-tools", outputs, previous_response_id=first.id, tools=tools)
        return {"calls": [[each.name, json.loads(each.arguments)] for each in calls], "texts": [done.output_text]}

    def structured_output():
        found = send("structured-output", "Give me the order as data.", text_format=Order)
        return {"data": Order.model_validate_json(found.output_text).model_dump()}

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


def chat(connection):
    def send(model, messages, **more):
        return litellm.completion(model=f"openai/{model}", messages=messages, **connection, **more)

    def make_message(text):
        return {"role": "user", "content": text}

    def plain():
        return {"texts": [send("plain", [make_message("Hello")]).choices[0].message.content]}

    def streamed():
        deltas = [chunk.choices[0].delta.content for chunk in send("streamed", [make_message("Hello")], stream=True) if chunk.choices]
        pieces = [piece for piece in deltas if piece]
        return {"texts": ["".join(pieces)], "pieces": pieces}

    def several_turns():
        messages, texts = [], []
        for text in ("Hello", "What did I say?"):
            messages.append(make_message(text))
            answer = send("several-turns", messages, extra_headers={"Legato-Session": "talk-several-turns"}).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            texts.append(answer.content)
        return {"texts": texts}

    def client_tools():
        messages, tools = [make_message("What is the weather in Oslo?")], [{"type": "function", "function": FUNCTION}]
        first = send("client-tools", messages, tools=tools).choices[0].message
        calls = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in first.tool_calls]
        messages.append(first.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": id, "content": get_weather(**arguments)} for id, _, arguments in calls]
        done = send("client-tools", messages, tools=tools)
        return {"calls": [[name, arguments] for _, name, arguments in calls], "texts": [done.choices[0].message.content]}

    def structured_output():
        found = send("structured-output", [make_message("Give me the order as data.")], response_format=Order)
        return {"data": Order.model_validate_json(found.choices[0].message.content).model_dump()}

    return {
        "plain": plain,
        "streamed": streamed,
        "several turns": several_turns,
        "client tools": client_tools,
        "structured output": structured_output,
    }


report(columns)
