"""The provider of W7: a server that answers every request with the same valid reply, whole or streamed, as fast as it can.

Not the emulator: this one judges nothing and reads nothing but the length of a body. It prints its address, and ends with its standard
input. `GET /last` gives the body of the last POST, so that the bare SDK can be called with the very same.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

# As a script's companion it is started by its path, with no package around it.
TEXT = "I have looked into this part of the question and will pass on what I found, so that nothing is lost on the way. " * 4
USAGE = {"input_tokens": 9000, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 100,
         "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 9100}  # fmt: skip
CHAT_USAGE = {"prompt_tokens": 9000, "completion_tokens": 100, "total_tokens": 9100}
NUMBER = b"N00000000"
"""Stands in every id, where each answer has its own number."""


def pieces() -> list[str]:
    """The reply as a hundred or so deltas: a word each."""
    return [word + " " for word in TEXT.split()]


def response(status: str, output: list[Any]) -> dict[str, Any]:
    return {
        "id": "resp_N00000000", "object": "response", "created_at": 1767225600, "status": status, "background": False, "error": None,
        "incomplete_details": None, "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
        "model": "gpt-5.1", "output": output, "parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "service_tier": "default", "store": False,
        "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto", "tools": [],
        "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "usage": USAGE if status == "completed" else None, "user": None,
    }  # fmt: skip


def message(status: str, content: list[Any]) -> dict[str, Any]:
    return {"id": "msg_N00000000", "type": "message", "status": status, "role": "assistant", "content": content}


def part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def responses_events() -> list[dict[str, Any]]:
    where = {"item_id": "msg_N00000000", "output_index": 0, "content_index": 0}
    full = "".join(pieces())
    done = message("completed", [part(full)])
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.in_progress", "response": response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": message("in_progress", [])},
        {"type": "response.content_part.added", **where, "part": part("")},
        *({"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []} for piece in pieces()),
        {"type": "response.output_text.done", **where, "text": full, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": part(full)},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": response("completed", [done])},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def chat_whole() -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "".join(pieces()), "refusal": None}, "finish_reason": "stop"}
    return {"id": "chatcmpl-N00000000", "object": "chat.completion", "created": 1767225600, "model": "gpt-5.1", "choices": [choice],
            "usage": CHAT_USAGE}  # fmt: skip


def chat_events() -> list[dict[str, Any]]:
    shared = {"id": "chatcmpl-N00000000", "object": "chat.completion.chunk", "created": 1767225600, "model": "gpt-5.1"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    words = [chunk({"content": piece}) for piece in pieces()]
    usage = {**chunk({}), "choices": [], "usage": CHAT_USAGE}
    return [chunk({"role": "assistant", "content": ""}), *words, chunk({}, "stop"), usage]


def http(kind: str, body: bytes) -> bytes:
    headers = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: keep-alive\r\nx-request-id: req_bench"
    return f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode() + body


def whole(value: Any) -> bytes:
    return http("application/json", json.dumps(value).encode())


RESPONSES = whole(response("completed", [message("completed", [part("".join(pieces()))])]))
RESPONSES_STREAM = http(
    "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in responses_events()).encode()
)
CHAT = whole(chat_whole())
CHAT_STREAM = http("text/event-stream", "".join(f"data: {data}\n\n" for data in (*map(json.dumps, chat_events()), "[DONE]")).encode())


class Connection(asyncio.Protocol):
    """One client's connection: requests one after the other."""

    last = b""
    answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.received = bytearray()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:end]).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(self.received) < end + 4 + length:
                return
            body = bytes(self.received[end + 4 : end + 4 + length])
            del self.received[: end + 4 + length]
            self.transport.write(self.answer(head.split(b" ", 2)[1], body))

    def answer(self, path: bytes, body: bytes) -> bytes:
        if path == b"/last":
            return http("application/json", Connection.last)
        Connection.last = body
        # Where in the body it stands depends on the client, and the conversation never says it.
        streamed = b'"stream":true' in body or b'"stream": true' in body
        if path.endswith(b"/chat/completions"):
            answer = CHAT_STREAM if streamed else CHAT
        else:
            answer = RESPONSES_STREAM if streamed else RESPONSES
        Connection.answered += 1  # ids are unique, as a provider's are: some clients take a message of the same id for the same message
        return answer.replace(NUMBER, b"N%08d" % Connection.answered)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
