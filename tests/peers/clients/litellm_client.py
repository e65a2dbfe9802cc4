"""LiteLLM, as its documentation uses it.

python litellm_client.py BASE_URL KEY responses|chat
"""

import json

import litellm
from pydantic import BaseModel
from reporting import report

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
ABOUT = {"name": "get_weather", "description": "Weather.", "parameters": PARAMETERS, "strict": True}


class Order(BaseModel):
    order: str
    amount: float


def get_weather(city):
    return f"sunny, 21 degrees, in {city}"


def columns(base_url, key, api):
    to = {"api_base": base_url, "api_key": key, "num_retries": 0, "max_retries": 0}
    return responses(to) if api == "responses" else chat(to)


def responses(to):
    def ask(model, given, **more):
        return litellm.responses(model=f"openai/{model}", input=given, **to, **more)

    def plain():
        return {"texts": [ask("plain", "Hello").output_text]}

    def streamed():
        pieces, text = [], ""
        for event in ask("streamed", "Hello", stream=True):
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
            if event.type == "response.completed":
                text = event.response.output_text
        return {"texts": [text], "pieces": pieces}

    def several_turns():
        history = [{"role": "user", "content": "Hello"}]
        first = ask("several-turns", history)
        history += [item.model_dump(exclude_none=True) if hasattr(item, "model_dump") else item for item in first.output]
        history.append({"role": "user", "content": "What did I say?"})
        return {"texts": [first.output_text, ask("several-turns", history).output_text]}

    def previous_id():
        first = ask("previous-id", "Hello")
        return {"texts": [first.output_text, ask("previous-id", "What did I say?", previous_response_id=first.id).output_text]}

    def conversation():
        named = {"extra_body": {"conversation": "talk-conversation"}}
        return {"texts": [ask("conversation", said, **named).output_text for said in ("Hello", "What did I say?")]}

    def approval():
        asked = ask("approval", "Refund order 7.")
        items = [item if isinstance(item, dict) else item.model_dump() for item in asked.output]
        requests = [item for item in items if item["type"] == "mcp_approval_request"]
        answers = [{"type": "mcp_approval_response", "approval_request_id": each["id"], "approve": True} for each in requests]
        done = ask("approval", answers, previous_response_id=asked.id)
        return {"asked": [[each["name"], json.loads(each["arguments"])] for each in requests], "texts": [done.output_text]}

    def client_tools():
        tools = [{"type": "function", **ABOUT}]
        asked = ask("client-tools", "What is the weather in Oslo?", tools=tools)
        calls = [item for item in asked.output if item.type == "function_call"]
        outputs = [
            {"type": "function_call_output", "call_id": each.call_id, "output": get_weather(**json.loads(each.arguments))} for each in calls
        ]
        done = ask("client-tools", outputs, previous_response_id=asked.id, tools=tools)
        return {"calls": [[each.name, json.loads(each.arguments)] for each in calls], "texts": [done.output_text]}

    def structured_output():
        found = ask("structured-output", "Give me the order as data.", text_format=Order)
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


def chat(to):
    def ask(model, messages, **more):
        return litellm.completion(model=f"openai/{model}", messages=messages, **to, **more)

    def said(text):
        return {"role": "user", "content": text}

    def plain():
        return {"texts": [ask("plain", [said("Hello")]).choices[0].message.content]}

    def streamed():
        deltas = [chunk.choices[0].delta.content for chunk in ask("streamed", [said("Hello")], stream=True) if chunk.choices]
        pieces = [piece for piece in deltas if piece]
        return {"texts": ["".join(pieces)], "pieces": pieces}

    def several_turns():
        messages, texts = [], []
        for text in ("Hello", "What did I say?"):
            messages.append(said(text))
            answer = ask("several-turns", messages, extra_headers={"Legato-Session": "talk-several-turns"}).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            texts.append(answer.content)
        return {"texts": texts}

    def client_tools():
        messages, tools = [said("What is the weather in Oslo?")], [{"type": "function", "function": ABOUT}]
        asked = ask("client-tools", messages, tools=tools).choices[0].message
        calls = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in asked.tool_calls]
        messages.append(asked.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": id, "content": get_weather(**given)} for id, _, given in calls]
        done = ask("client-tools", messages, tools=tools)
        return {"calls": [[name, given] for _, name, given in calls], "texts": [done.choices[0].message.content]}

    def structured_output():
        found = ask("structured-output", [said("Give me the order as data.")], response_format=Order)
        return {"data": Order.model_validate_json(found.choices[0].message.content).model_dump()}

    return {
        "plain": plain,
        "streamed": streamed,
        "several turns": several_turns,
        "client tools": client_tools,
        "structured output": structured_output,
    }


report(columns)
