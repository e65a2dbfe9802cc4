"""Event streams of the Responses API, also as servers write them that keep to it loosely."""

import json

from legato.core.facts import Words
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.responses.stream import StreamReader


def said(text):
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def test_strange_output_index_loses_no_item():
    reader = StreamReader(lambda words: None)
    for index, text in (({}, "Hello,"), (None, "world.")):
        event = {"type": "response.output_item.done", "output_index": index, "item": said(text)}
        reader.take(json.dumps(event).encode())
    reader.take(b'{"type": "response.completed", "response": {"status": "completed", "output": []}}')
    items = reader.reply(Compiled(b"", (), {}), "").items
    assert [item.text for item in items if isinstance(item, Words)] == ["Hello,", "world."]
