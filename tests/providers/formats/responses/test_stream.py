"""Event streams of the Responses API, also from servers that follow it loosely."""

import json

from legato.core.facts import OutputText
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.responses.stream import ResponsesStreamDecoder


def make_message_item(text):
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def test_strange_output_index_loses_no_item():
    decoder = ResponsesStreamDecoder(lambda words: None)
    for index, text in (({}, "Hello,"), (None, "world.")):
        event = {"type": "response.output_item.done", "output_index": index, "item": make_message_item(text)}
        decoder.feed(json.dumps(event).encode())
    decoder.feed(b'{"type": "response.completed", "response": {"status": "completed", "output": []}}')
    items = decoder.build_reply(EncodedRequest(b"", (), {}), "").items
    assert [item.text for item in items if isinstance(item, OutputText)] == ["Hello,", "world."]
