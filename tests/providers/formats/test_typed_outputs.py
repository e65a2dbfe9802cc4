"""Typed outputs of OpenAI's APIs: schemas of objects are enforced; any other schema goes into the instructions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent
from legato.emulator import serve
from legato.models import OpenAIChat, OpenAIResponses
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.encode import encode_request
from tests.providers.formats.chat.conversations import CLOSED_SCHEMA, OPEN_SCHEMA, ConversationBuilder, encode_body

TREE_SCHEMA = '{"$defs":{"Tree":{"type":"object"}},"$ref":"#/$defs/Tree"}'
SCHEMAS_WITHOUT_OBJECT = [
    '{"type":"integer"}',
    '{"type":"array","items":{"type":"string"}}',
    '{"anyOf":[{"type":"integer"},{"type":"null"}]}',
    TREE_SCHEMA,
]


def encode_for_responses(schema: str) -> tuple[str, Any]:
    """Return the instructions and the format in a request."""
    request = ConversationBuilder().add_message("Hello").build_request(instructions="Be brief.", output=schema)
    sent = json.loads(encode_request(request, RequestOptions("gpt-5.1"), "here", stream=False).body)
    return sent["instructions"], sent.get("text")


def encode_for_chat(schema: str, **options: Any) -> tuple[str, Any]:
    sent = encode_body(ConversationBuilder().add_message("Hello").build_request(instructions="Be brief.", output=schema), **options)
    return sent["messages"][0]["content"], sent.get("response_format")


@pytest.mark.parametrize("encode", [encode_for_responses, encode_for_chat])
@pytest.mark.parametrize("schema", SCHEMAS_WITHOUT_OBJECT)
def test_schema_without_object_goes_into_instructions(encode: Any, schema: str) -> None:
    instructions, format = encode(schema)
    assert format is None
    assert instructions.startswith("Be brief.\n\nReply with nothing but JSON")
    assert instructions.endswith(schema)


@pytest.mark.parametrize("encode", [encode_for_responses, encode_for_chat])
@pytest.mark.parametrize("schema", [CLOSED_SCHEMA, OPEN_SCHEMA])
def test_object_schema_is_enforced_without_instructions(encode: Any, schema: str) -> None:
    instructions, format = encode(schema)
    assert instructions == "Be brief."
    assert json.dumps(json.loads(schema)) in json.dumps(format)


@pytest.mark.parametrize("schema", SCHEMAS_WITHOUT_OBJECT)
def test_compatible_servers_enforce_any_schema(schema: str) -> None:
    instructions, format = encode_for_chat(schema, compatible=True)
    assert instructions == "Be brief."
    assert format["json_schema"]["schema"] == json.loads(schema)


@pytest.mark.parametrize("kind", [OpenAIResponses, OpenAIChat])
async def test_number_output_works_without_enforcement(kind: Any) -> None:
    async with serve(fake_model=["7"]) as emulator:
        model = kind("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        result = await Agent("a", model=model, output_type=int).run("How many?")
        await model.close()
    assert result.output == 7
