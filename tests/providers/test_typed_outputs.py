"""OpenAI enforces outputs that are objects and refuses any other schema: what else a type asks for, the model is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent
from legato.emulator import serve
from legato.models import OpenAIChat, OpenAIResponses
from legato.providers.formats.options import Options
from legato.providers.formats.responses.compile import compile_request
from tests.providers.chat.talk import CLOSED, OPEN, Talk, body

TREE = '{"$defs":{"Tree":{"type":"object"}},"$ref":"#/$defs/Tree"}'
NO_OBJECTS = ['{"type":"integer"}', '{"type":"array","items":{"type":"string"}}', '{"anyOf":[{"type":"integer"},{"type":"null"}]}', TREE]


def responses(schema: str) -> tuple[str, Any]:
    """The instructions and the format that are sent."""
    request = Talk().says("Hello").request(instructions="Be brief.", output=schema)
    sent = json.loads(compile_request(request, Options("gpt-5.1"), "here", stream=False).body)
    return sent["instructions"], sent.get("text")


def chat(schema: str, **options: Any) -> tuple[str, Any]:
    sent = body(Talk().says("Hello").request(instructions="Be brief.", output=schema), **options)
    return sent["messages"][0]["content"], sent.get("response_format")


@pytest.mark.parametrize("wire", [responses, chat])
@pytest.mark.parametrize("schema", NO_OBJECTS)
def test_a_schema_that_is_not_of_an_object_is_told_and_not_sent_to_be_enforced(wire: Any, schema: str) -> None:
    instructions, format = wire(schema)
    assert format is None
    assert instructions.startswith("Be brief.\n\nReply with nothing but JSON")
    assert instructions.endswith(schema)


@pytest.mark.parametrize("wire", [responses, chat])
@pytest.mark.parametrize("schema", [CLOSED, OPEN])
def test_a_schema_of_an_object_is_enforced_and_not_told(wire: Any, schema: str) -> None:
    instructions, format = wire(schema)
    assert instructions == "Be brief."
    assert json.dumps(json.loads(schema)) in json.dumps(format)


@pytest.mark.parametrize("schema", NO_OBJECTS)
def test_compatible_servers_enforce_what_they_are_given(schema: str) -> None:
    instructions, format = chat(schema, compatible=True)
    assert instructions == "Be brief."
    assert format["json_schema"]["schema"] == json.loads(schema)


@pytest.mark.parametrize("kind", [OpenAIResponses, OpenAIChat])
async def test_a_number_is_got_all_the_same(kind: Any) -> None:
    async with serve(mind=["7"]) as emulator:
        model = kind("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        result = await Agent("a", model=model, output_type=int).run("How many?")
        await model.close()
    assert result.output == 7
