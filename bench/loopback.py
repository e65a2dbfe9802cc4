"""The provider of W7: a server that answers every request with the same valid reply, whole or streamed, as fast as it can.

It is not the emulator: it checks no request and reads only the length of a body. It prints its address, and ends when its standard input
closes. `GET /last` returns the body of the last POST, so that the bare SDK can send the same one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

# This file is started by its path, so it imports nothing from this package.
TEXT = "I have looked into this part of the question and will pass on what I found, so that nothing is lost on the way. " * 4
USAGE = {"input_tokens": 9000, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 100,
         "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 9100}  # fmt: skip
CHAT_USAGE = {"prompt_tokens": 9000, "completion_tokens": 100, "total_tokens": 9100}
NUMBER_PLACEHOLDER = b"N00000000"
"""The placeholder in ids for the number of the answer."""


def split_reply() -> list[str]:
    """Return the reply as about a hundred deltas of one word each."""
    return [word + " " for word in TEXT.split()]


def make_response(status: str, output: list[Any]) -> dict[str, Any]:
    return {
        "id": "resp_N00000000", "object": "response", "created_at": 1767225600, "status": status, "background": False, "error": None,
        "incomplete_details": None, "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
        "model": "gpt-5.1", "output": output, "parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "service_tier": "default", "store": False,
        "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto", "tools": [],
        "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "usage": USAGE if status == "completed" else None, "user": None,
    }  # fmt: skip


def make_message(status: str, content: list[Any]) -> dict[str, Any]:
    return {"id": "msg_N00000000", "type": "message", "status": status, "role": "assistant", "content": content}


def make_text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def make_responses_events() -> list[dict[str, Any]]:
    where = {"item_id": "msg_N00000000", "output_index": 0, "content_index": 0}
    full = "".join(split_reply())
    done = make_message("completed", [make_text_part(full)])
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": make_response("in_progress", [])},
        {"type": "response.in_progress", "response": make_response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": make_message("in_progress", [])},
        {"type": "response.content_part.added", **where, "part": make_text_part("")},
        *({"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []} for piece in split_reply()),
        {"type": "response.output_text.done", **where, "text": full, "logprobs": []},
        {"type": "response.content_part.done", **where, "part": make_text_part(full)},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": make_response("completed", [done])},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def make_completion() -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "".join(split_reply()), "refusal": None}, "finish_reason": "stop"}
    return {"id": "chatcmpl-N00000000", "object": "chat.completion", "created": 1767225600, "model": "gpt-5.1", "choices": [choice],
            "usage": CHAT_USAGE}  # fmt: skip


def make_chat_chunks() -> list[dict[str, Any]]:
    shared = {"id": "chatcmpl-N00000000", "object": "chat.completion.chunk", "created": 1767225600, "model": "gpt-5.1"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    words = [chunk({"content": piece}) for piece in split_reply()]
    usage = {**chunk({}), "choices": [], "usage": CHAT_USAGE}
    return [chunk({"role": "assistant", "content": ""}), *words, chunk({}, "stop"), usage]


def encode_http_response(kind: str, body: bytes) -> bytes:
    headers = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: keep-alive\r\nx-request-id: req_bench"
    return f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode() + body


def encode_json_response(value: Any) -> bytes:
    return encode_http_response("application/json", json.dumps(value).encode())


RESPONSES_ANSWER = encode_json_response(make_response("completed", [make_message("completed", [make_text_part("".join(split_reply()))])]))
RESPONSES_STREAM = encode_http_response(
    "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in make_responses_events()).encode()
)
CHAT_ANSWER = encode_json_response(make_completion())
CHAT_STREAM = encode_http_response(
    "text/event-stream", "".join(f"data: {data}\n\n" for data in (*map(json.dumps, make_chat_chunks()), "[DONE]")).encode()
)


class Connection(asyncio.Protocol):
    """The connection of a client: requests in sequence."""

    last_body = b""
    answer_count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end]).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(self.buffer) < end + 4 + length:
                return
            body = bytes(self.buffer[end + 4 : end + 4 + length])
            del self.buffer[: end + 4 + length]
            self.transport.write(self.make_answer(head.split(b" ", 2)[1], body))

    def make_answer(self, path: bytes, body: bytes) -> bytes:
        if path == b"/last":
            return encode_http_response("application/json", Connection.last_body)
        Connection.last_body = body
        # Its place in the body depends on the client; the texts of the conversation never contain it.
        streamed = b'"stream":true' in body or b'"stream": true' in body
        if path.endswith(b"/chat/completions"):
            answer = CHAT_STREAM if streamed else CHAT_ANSWER
        else:
            answer = RESPONSES_STREAM if streamed else RESPONSES_ANSWER
        Connection.answer_count += 1  # ids are unique, because some clients drop a message with a known id
        return answer.replace(NUMBER_PLACEHOLDER, b"N%08d" % Connection.answer_count)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
