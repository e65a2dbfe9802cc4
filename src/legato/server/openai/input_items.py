"""Input items and message parts of OpenAI's APIs, decoded.

Clients may send the whole conversation each time. It is not the ledger's history, and none of it counts as an agent's words: if the
conversation is new here, the earlier messages are passed on as the client's transcript, in one message with the new input.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from legato.core.messages import file, image
from legato.server.openai.errors import InvalidRequest
from legato.server.openai.item_ids import ItemId, parse_item_id

EARLIER_MESSAGES_HEADER = "What was said before in this conversation, as the client has it:"
NEW_MESSAGES_HEADER = "And now the user says:"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/]*={0,2})", re.ASCII)

TEXT_PART_TYPES = ("text", "input_text", "output_text", "refusal", "summary_text")


class ClientItem(Struct, frozen=True):
    """A message, as parts of text, images and files; or, with a `verdict`, an answer to `answered_request`.

    `role` is empty for all other items (calls, reasoning); `kind` is their type. `item_id` is set if the item came from this server, and
    `param` is its place in the request.
    """

    role: str
    parts: list[Any] = field(default_factory=list)
    answered_request: str = ""
    verdict: Literal["", "approve", "reject", "answer"] = ""
    words: str = ""
    kind: str = "message"
    item_id: ItemId | None = None
    param: str = ""
    value: Any = ""
    """The output of a call: text, or a list of parts."""

    @property
    def is_instruction(self) -> bool:
        """True for system and developer messages."""
        return self.role in ("system", "developer")


def read_item(item: dict[str, Any], param: str) -> ClientItem:
    """Decode one item of `input` or `messages`."""
    kind = item.get("type") or ("message" if "role" in item or "id" not in item else "item_reference")
    if kind == "mcp_approval_response":
        return _read_approval(kind, item, param)
    if kind == "function_call_output":
        return _read_output(
            kind, _check_text(item.get("call_id"), f"{param}.call_id"), read_parts(item.get("output"), f"{param}.output"), param
        )
    id = parse_item_id(item.get("id")) or (parse_item_id(item.get("call_id")) if kind == "function_call" else None)
    if kind == "item_reference" and id is None:
        name = _check_text(item.get("id"), f"{param}.id")
        do = "refer only to items in responses of this server"
        raise InvalidRequest(f"{param}.id", f"item {name[:200]!r} does not exist", code="item_not_found", do=do)
    if id is not None or kind != "message":
        return ClientItem("", kind=_check_text(kind, f"{param}.type")[:40], item_id=id, param=param)
    return _read_message(item, param)


def _read_message(item: dict[str, Any], param: str) -> ClientItem:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer", "tool"):
        raise InvalidRequest(f"{param}.role", f"the role {role!r} does not exist"[:100], expected="user, assistant, system or developer")
    content = item.get("content")
    return ClientItem(role, [] if content is None and role == "assistant" else read_parts(content, f"{param}.content"))


def read_chat_item(message: dict[str, Any], param: str) -> ClientItem:
    """Decode one of the `messages` of a chat. The output of a call of this server is an answer to it; an assistant's calls become text."""
    if message.get("role") == "tool" and "type" not in message:
        parts = read_parts(message.get("content"), f"{param}.content")
        name = message.get("tool_call_id")
        item = _read_output("message", name, parts, param) if isinstance(name, str) and parse_item_id(name) else None
        return item or ClientItem("tool", parts, param=param)
    item = read_item(message, param)
    if item.role == "assistant" and isinstance(calls := message.get("tool_calls"), list):
        return ClientItem("assistant", [*item.parts, *map(_describe_call, calls)], param=param)
    return item


def _describe_call(call: Any) -> str:
    """Describe a call of an assistant, as the client reports it."""
    function = call.get("function") if isinstance(call, dict) else None
    fields = function if isinstance(function, dict) else {}
    return f"[calls {fields.get('name', 'a tool')}({fields.get('arguments', '')})]"


def _read_approval(kind: str, item: dict[str, Any], param: str) -> ClientItem:
    approve = item.get("approve")
    if not isinstance(approve, bool):
        raise InvalidRequest(f"{param}.approve", "an approval must be true or false", code="invalid_type")
    request = _check_text(item.get("approval_request_id"), f"{param}.approval_request_id")
    reason = _check_text(item.get("reason") or "", f"{param}.reason")
    return _make_answer(kind, request, "approve" if approve else "reject", reason, param)


def _read_output(kind: str, name: str, parts: list[Any], param: str) -> ClientItem:
    """Return an output of a call as an answer. It keeps its parts, in case it becomes part of a transcript instead."""
    texts = [each for each in parts if isinstance(each, str)]
    words = "\n".join(texts)
    item = _make_answer(kind, name, "answer", words, param)
    return replace(item, role="tool" if kind == "message" else "", parts=parts, value=words if len(texts) == len(parts) else parts)


def _make_answer(kind: str, name: str, verdict: Literal["approve", "reject", "answer"], words: str, param: str) -> ClientItem:
    id = parse_item_id(name)
    request = id.request_name if id else name.removeprefix("mcpr_").removeprefix("call_")
    return ClientItem("", [], request, verdict, words, kind, id, param)


def read_parts(content: object, param: str) -> list[Any]:
    """Decode content as parts of a message."""
    if isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        raise InvalidRequest(param, "content must be text or a list of parts", code="invalid_type")
    return [_read_part(each, f"{param}[{number}]") for number, each in enumerate(content)]


def _read_part(part: object, param: str) -> Any:
    if not isinstance(part, dict):
        raise InvalidRequest(param, "a part must be an object", code="invalid_type")
    kind = part.get("type")
    if kind in TEXT_PART_TYPES:
        return _check_text(part.get("text", part.get("refusal")), f"{param}.text")
    if kind in ("image_url", "input_image"):
        image_url = part.get("image_url")
        return _read_image(image_url.get("url") if isinstance(image_url, dict) else image_url, f"{param}.image_url")
    if kind in ("file", "input_file"):
        file_part = part.get("file", part)
        return _read_file(file_part if isinstance(file_part, dict) else {}, param)
    what = f"a message cannot have a part of type {kind!r}"[:120]
    raise InvalidRequest(f"{param}.type", what, expected="text, an image or a file", code="unsupported_value")


def _read_image(url: object, param: str) -> Any:
    if not isinstance(url, str) or not url:
        raise InvalidRequest(param, "an image needs an http(s) URL or a data URL", do="send its bytes; OpenAI's file ids are unknown here")
    if not url.startswith("data:"):
        return _make_from_url(image, url, param)
    kind, content = _decode_data_url(url, param)
    if not kind.startswith("image/"):
        raise InvalidRequest(param, f"{kind} is not an image type", code="unsupported_value")
    return image(content, kind)


def _read_file(part: dict[str, Any], param: str) -> Any:
    name = _check_text(part.get("filename") or "", f"{param}.filename")
    if isinstance(url := part.get("file_url"), str) and url:
        return _make_from_url(lambda source: file(source, name), url, f"{param}.file_url")
    if not isinstance(url := part.get("file_data"), str) or not url:
        raise InvalidRequest(param, "a file needs an http(s) URL or a data URL", do="send its bytes; OpenAI's file ids are unknown here")
    kind, content = _decode_data_url(url, f"{param}.file_data")
    return file(content, name, kind)


def _make_from_url(make: Any, url: str, param: str) -> Any:
    if not url.startswith(("https://", "http://")):
        raise InvalidRequest(param, "a URL must begin with https:// or http://")
    return make(url)


def _decode_data_url(url: str, param: str) -> tuple[str, bytes]:
    match = _DATA_URL.fullmatch(url)
    try:
        content = base64.b64decode(match[2], validate=True) if match else b""
    except binascii.Error:
        content = b""
    if not match or not content:
        raise InvalidRequest(param, "this data URL cannot be decoded", expected="data:TYPE;base64,BYTES")
    return match[1].lower(), content


def _check_text(value: object, param: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(param, "this must be text", code="invalid_type")
    return value


def build_message(
    items: list[ClientItem],
    param: str,
    is_known_conversation: bool,
    ignored_fields: list[str],
    *,
    drop_earlier: bool = False,
    may_be_empty: bool = False,
) -> list[Any]:
    """Return the message to send: the user's messages since an agent last answered.

    Earlier messages are refused if `is_known_conversation`, left out with `drop_earlier`, and otherwise put before the new ones as the
    client's transcript. With `may_be_empty` there need not be a message.
    """
    if any(item.is_instruction for item in items):
        ignored_fields.append(f"{param} of system and developer")
    earlier, new = _split_new([item for item in items if not item.is_instruction])
    if is_known_conversation and earlier:
        raise InvalidRequest(param, "the conversation already has its earlier messages: send only new ones")
    parts = [part for item in new for part in item.parts if part]
    if not parts and not may_be_empty:
        do = "end with a message of the user, or answer a pending request"
        raise InvalidRequest(param, "there is no new message: the last one must be the user's", do=do, code="missing_required_parameter")
    ignored_fields.extend(sorted({f"{param} of type {item.kind}" for item in earlier if not item.role}))
    return parts if drop_earlier else [*_format_transcript(earlier), *parts]


def _split_new(messages: list[ClientItem]) -> tuple[list[ClientItem], list[ClientItem]]:
    """Split off the user's messages at the end."""
    last = find_last_index(item.role != "user" for item in messages)
    return messages[: last + 1], messages[last + 1 :]


def find_last_index(flags: Iterable[bool]) -> int:
    """Return the index of the last true value; -1 if there is none."""
    return max((index for index, each in enumerate(flags) if each), default=-1)


def _format_transcript(earlier: list[ClientItem]) -> list[Any]:
    messages = [item for item in earlier if item.role and item.parts]
    return (
        [EARLIER_MESSAGES_HEADER, *(part for item in messages for part in _label_role(item) if part), NEW_MESSAGES_HEADER]
        if messages
        else []
    )


def _label_role(item: ClientItem) -> list[Any]:
    first, *rest = item.parts
    return [f"{item.role}: {first}", *rest] if isinstance(first, str) else [f"{item.role}:", *item.parts]
