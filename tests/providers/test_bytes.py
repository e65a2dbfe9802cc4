"""What goes over HTTP in a conversation of 200 turns, measured from the emulator's log (C1: what history costs).

*Said* are the bytes of words, calls (tool and arguments) and outputs, of either side, each once. *Sent* is the JSON of every request's
`input`. Instructions and tools go with each request, whoever keeps the conversation: they are counted with the whole bodies.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec

from legato.emulator import serve
from legato.models.openai import OpenAIResponses
from tests.providers.longtalk import desk, question, speak
from tests.providers.sweep.http import noted

TURNS = 200
CHAINED, INLINE = 1.3, 1.3


def size(item: dict[str, Any]) -> int:
    """The bytes that an item says."""
    if item.get("type") == "function_call":
        return len(f"{item['name']}{item['arguments']}".encode())
    if item.get("type") == "function_call_output":
        return len(item["output"].encode())
    content = item.get("content", "")
    return len((content if isinstance(content, str) else "".join(part.get("text", "") for part in content)).encode())


async def talked(memory: Any) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """The bodies of all requests, and what the model said to each."""
    async with serve(mind=speak, keep=10_000, longest=None) as emulator:
        model = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="sk-bytes", memory=memory, stream=False)
        session = desk(model).session("s")
        for number in range(1, TURNS + 1):
            await session.run(question(number))
        await model.close()
        exchanges = await noted(emulator)
        assert {exchange.status for exchange in exchanges.values()} == {200}
        return [each.request for each in exchanges.values()], [(each.reply or {})["output"] for each in exchanges.values()]


def said_by(requests: list[dict[str, Any]], replies: list[list[dict[str, Any]]]) -> tuple[list[int], list[int]]:
    """What is new in each request, and what is said in its reply, in bytes. `requests` are those of a chain: each has only what is new."""
    return [sum(map(size, body["input"])) for body in requests], [sum(map(size, output)) for output in replies]


async def test_a_chain_sends_what_is_new_once() -> None:
    requests, replies = await talked("chained")
    assert all("previous_response_id" in body for body in requests[1:])
    asked, answered = said_by(requests, replies)
    said = sum(asked) + sum(answered)
    sent = sum(len(msgspec.json.encode(body["input"])) for body in requests)
    whole = sum(len(msgspec.json.encode(body)) for body in requests)
    print(f"chained: {len(requests)} requests, {said:,} bytes said, {sent:,} sent ({sent / said:.2f}), whole bodies {whole:,}")
    assert sent <= CHAINED * said
    assert sent <= CHAINED * sum(asked), "even of what this side said alone it sends little more"
    first, last = (sum(len(msgspec.json.encode(body)) for body in part) for part in (requests[:50], requests[-50:]))
    assert last <= 1.05 * first, "the last requests are as small as the first"


async def test_by_value_each_request_sends_what_was_said_so_far() -> None:
    requests, replies = await talked("inline")
    said = [sum(size(item) for item in body["input"]) for body in requests]
    answered = [sum(map(size, output)) for output in replies]
    # What each request must say: all that was said before, by either side, and what is new.
    new = [now - before - reply for now, before, reply in zip(said, [0, *said], [0, *answered], strict=False)]
    assert all(0 < each < 1_000 for each in new), "nothing is left out, nothing comes twice"
    implied = sum(accumulate(each + reply for each, reply in zip(new, [0, *answered], strict=False)))
    sent = sum(len(msgspec.json.encode(body["input"])) for body in requests)
    whole = sum(len(msgspec.json.encode(body)) for body in requests)
    print(f"inline: {len(requests)} requests, {implied:,} bytes by value, {sent:,} sent ({sent / implied:.2f}), whole bodies {whole:,}")
    assert implied <= sent <= INLINE * implied
