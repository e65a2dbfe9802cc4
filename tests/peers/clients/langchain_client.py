"""LangChain's `ChatOpenAI`, as its documentation uses it.

python langchain_client.py BASE_URL KEY responses|chat
"""

import json

from column_report import report
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Order(BaseModel):
    """An order."""

    order: str
    amount: float


@tool
def get_weather(city: str) -> str:
    """Weather."""
    return f"sunny, 21 degrees, in {city}"


def columns(base_url, key, api):
    uses_responses = api == "responses"

    def model(name, **more):
        return ChatOpenAI(model=name, base_url=base_url, api_key=key, use_responses_api=uses_responses, max_retries=0, **more)

    def make_session_options(name):
        return {} if uses_responses else {"default_headers": {"Legato-Session": f"talk-{name}"}}

    def plain():
        return {"texts": [model("plain").invoke("Hello").text]}

    def streamed():
        pieces = [chunk.text for chunk in model("streamed").stream("Hello")]
        return {"texts": ["".join(pieces)], "pieces": [piece for piece in pieces if piece]}

    def several_turns():
        llm, messages, texts = model("several-turns", **make_session_options("several-turns")), [], []
        for text in ("Hello", "What did I say?"):
            messages.append(HumanMessage(text))
            messages.append(llm.invoke(messages))
            texts.append(messages[-1].text)
        return {"texts": texts}

    def client_tools():
        llm, messages, calls = model("client-tools").bind_tools([get_weather]), [HumanMessage("What is the weather in Oslo?")], []
        messages.append(llm.invoke(messages))
        while tool_calls := messages[-1].tool_calls:
            calls += [[call["name"], call["args"]] for call in tool_calls]
            messages += [get_weather.invoke(call) for call in tool_calls]
            messages.append(llm.invoke(messages))
        return {"calls": calls, "texts": [messages[-1].text]}

    def structured_output():
        llm = model("structured-output").with_structured_output(Order, method="json_schema")
        return {"data": llm.invoke("Give me the order as data.").model_dump()}

    found = {
        "plain": plain,
        "streamed": streamed,
        "several turns": several_turns,
        "client tools": client_tools,
        "structured output": structured_output,
    }
    if not uses_responses:
        return found

    def previous_id():
        llm = model("previous-id", use_previous_response_id=True)
        first = llm.invoke("Hello")
        last = llm.invoke([HumanMessage("Hello"), first, HumanMessage("What did I say?")])
        return {"texts": [first.text, last.text]}

    def conversation():
        llm = model("conversation", extra_body={"conversation": "talk-conversation"})
        return {"texts": [llm.invoke(text).text for text in ("Hello", "What did I say?")]}

    def approval():
        llm = model("approval", output_version="responses/v1")
        first = llm.invoke("Refund order 7.")
        requests = [block for block in first.content if block.get("type") == "mcp_approval_request"]
        answers = [{"type": "mcp_approval_response", "approval_request_id": each["id"], "approve": True} for each in requests]
        done = llm.invoke([HumanMessage(answers)], previous_response_id=first.response_metadata["id"])
        return {"approval_requests": [[each["name"], json.loads(each["arguments"])] for each in requests], "texts": [done.text]}

    return {**found, "previous id": previous_id, "conversation": conversation, "approval": approval}


report(columns)
