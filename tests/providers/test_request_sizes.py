"""The bytes of all requests in a conversation of 200 turns, from the emulator's log (C1: the cost of history).

*Content* is the text, calls (tool and arguments) and outputs of either side, each once. *Sent* is the JSON of every request's `input`.
Instructions and tools are part of each request in every memory mode: they count with the whole bodies.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec

from legato.emulator import serve
from legato.models.openai import OpenAIResponses
from tests.providers.long_conversation import make_desk, make_question, reply_to_question
from tests.providers.sweep.http_conversations import read_exchanges

TURNS = 200
MAX_CHAINED_RATIO, MAX_INLINE_RATIO = 1.3, 1.3


def count_content_bytes(item: dict[str, Any]) -> int:
    """Count the bytes of an item's content."""
    if item.get("type") == "function_call":
        return len(f"{item['name']}{item['arguments']}".encode())
    if item.get("type") == "function_call_output":
        return len(item["output"].encode())
    content = item.get("content", "")
    return len((content if isinstance(content, str) else "".join(part.get("text", "") for part in content)).encode())


async def run_conversation(memory: Any) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Run the conversation. Returns the bodies of all requests, and their outputs."""
    async with serve(fake_model=reply_to_question, max_exchanges=10_000, max_text_chars=None) as emulator:
        model = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="sk-bytes", memory=memory, stream=False)
        session = make_desk(model).session("s")
        for number in range(1, TURNS + 1):
            await session.run(make_question(number))
        await model.close()
        exchanges = await read_exchanges(emulator)
        assert {exchange.status for exchange in exchanges.values()} == {200}
        return [each.request_body for each in exchanges.values()], [(each.reply_body or {})["output"] for each in exchanges.values()]


def count_new_bytes(requests: list[dict[str, Any]], replies: list[list[dict[str, Any]]]) -> tuple[list[int], list[int]]:
    """Count the bytes of content in each request and each reply of a chain, whose requests have only new content."""
    request_bytes = [sum(map(count_content_bytes, body["input"])) for body in requests]
    return request_bytes, [sum(map(count_content_bytes, output)) for output in replies]


async def test_chained_requests_send_only_new_content() -> None:
    requests, replies = await run_conversation("chained")
    assert all("previous_response_id" in body for body in requests[1:])
    request_bytes, reply_bytes = count_new_bytes(requests, replies)
    content_bytes = sum(request_bytes) + sum(reply_bytes)
    sent_bytes = sum(len(msgspec.json.encode(body["input"])) for body in requests)
    whole = sum(len(msgspec.json.encode(body)) for body in requests)
    ratio = f"{sent_bytes / content_bytes:.2f}"
    print(f"chained: {len(requests)} requests, {content_bytes:,} bytes of content, {sent_bytes:,} sent ({ratio}), whole bodies {whole:,}")
    assert sent_bytes <= MAX_CHAINED_RATIO * content_bytes
    assert sent_bytes <= MAX_CHAINED_RATIO * sum(request_bytes), "the chain sends much more than this side's new content"
    first, last = (sum(len(msgspec.json.encode(body)) for body in part) for part in (requests[:50], requests[-50:]))
    assert last <= 1.05 * first, "the last requests are longer than the first"


async def test_requests_by_value_send_the_history_once() -> None:
    requests, replies = await run_conversation("inline")
    content_bytes = [sum(count_content_bytes(item) for item in body["input"]) for body in requests]
    reply_bytes = [sum(map(count_content_bytes, output)) for output in replies]
    # Each request must have all content of both sides so far, and the new content.
    new = [now - before - reply for now, before, reply in zip(content_bytes, [0, *content_bytes], [0, *reply_bytes], strict=False)]
    assert all(0 < each < 1_000 for each in new), "content is missing or repeated"
    implied = sum(accumulate(each + reply for each, reply in zip(new, [0, *reply_bytes], strict=False)))
    sent_bytes = sum(len(msgspec.json.encode(body["input"])) for body in requests)
    whole = sum(len(msgspec.json.encode(body)) for body in requests)
    ratio = f"{sent_bytes / implied:.2f}"
    print(f"inline: {len(requests)} requests, {implied:,} bytes of history, {sent_bytes:,} sent ({ratio}), whole bodies {whole:,}")
    assert implied <= sent_bytes <= MAX_INLINE_RATIO * implied
