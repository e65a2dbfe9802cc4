"""A conversation through a gateway that stores the chain itself. It runs in an environment that has no Legato.

    python gateway_client.py GATEWAY_URL

Prints one JSON object with the results.
"""

import json
import sys

from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "name": "look_up_order",
        "description": "Look up an order by its id.",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}},
            "required": ["order_id"],
            "additionalProperties": False,
        },
        "strict": True,
    }
]


def main(base_url):
    client = OpenAI(base_url=base_url, api_key="sk-peer", max_retries=0)
    statuses, calls = [], 0
    response = client.responses.create(model="gpt-4.1", input="Please look up order A-17.", tools=TOOLS, store=True)
    for message in ("And look up order B-2 as well.", "Thank you. What did you find?"):
        while found := [item for item in response.output if item.type == "function_call"]:
            calls += len(found)
            outputs = [{"type": "function_call_output", "call_id": item.call_id, "output": "one teapot, delivered"} for item in found]
            response = client.responses.create(model="gpt-4.1", input=outputs, tools=TOOLS, previous_response_id=response.id, store=True)
            statuses.append(response.status)
        response = client.responses.create(model="gpt-4.1", input=message, tools=TOOLS, previous_response_id=response.id, store=True)
        statuses.append(response.status)
    print(json.dumps({"statuses": statuses, "calls": calls, "text": response.output_text}))


main(sys.argv[1])
