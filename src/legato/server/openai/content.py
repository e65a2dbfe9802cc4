"""What messages are made of, in both of OpenAI's APIs. May know: their items and parts. Decides: what of them is said in a session.

A client may send the whole conversation each time, as it has it. That is not our history, and nothing of it is taken for an agent's words:
where the conversation is new here, it is said as what it is, the client's account, in one message with what is new.
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
from legato.server.openai.errors import Wrong
from legato.server.openai.item_ids import ItemId, read_item_id

ACCOUNT = "What was said before in this conversation, as the client has it:"
NEW = "And now the user says:"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/]*={0,2})", re.ASCII)

TEXTS = ("text", "input_text", "output_text", "refusal", "summary_text")


class Item(Struct, frozen=True):
    """One message, as parts that can be said; or, with a `verdict`, an answer to the request of that name.

    `role` is empty for what is neither: a call, a reasoning. `kind` says what it is. `id` is what it names in a ledger, if it is an item
    of ours that came back; `param` is its place in the request.
    """

    role: str
    parts: list[Any] = field(default_factory=list)
    answers: str = ""
    verdict: Literal["", "approve", "reject", "answer"] = ""
    words: str = ""
    kind: str = "message"
    id: ItemId | None = None
    param: str = ""
    value: Any = ""
    """The output of a call: text, or a list of parts."""

    @property
    def is_instruction(self) -> bool:
        """True if it tells an agent how to answer."""
        return self.role in ("system", "developer")


def item_of(given: dict[str, Any], param: str) -> Item:
    """One item of `input`, or one of `messages`."""
    kind = given.get("type") or ("message" if "role" in given or "id" not in given else "item_reference")
    if kind == "mcp_approval_response":
        return _approval(kind, given, param)
    if kind == "function_call_output":
        return _output(kind, _text(given.get("call_id"), f"{param}.call_id"), parts_of(given.get("output"), f"{param}.output"), param)
    id = read_item_id(given.get("id")) or (read_item_id(given.get("call_id")) if kind == "function_call" else None)
    if kind == "item_reference" and id is None:
        name = _text(given.get("id"), f"{param}.id")
        do = "refer to items of a response of this server"
        raise Wrong(f"{param}.id", f"there is no item {name[:200]!r}", code="item_not_found", do=do)
    if id is not None or kind != "message":
        return Item("", kind=_text(kind, f"{param}.type")[:40], id=id, param=param)
    return _message(given, param)


def _message(given: dict[str, Any], param: str) -> Item:
    role = given.get("role")
    if role not in ("user", "assistant", "system", "developer", "tool"):
        raise Wrong(f"{param}.role", f"there is no role {role!r}"[:100], expected="user, assistant, system or developer")
    content = given.get("content")
    return Item(role, [] if content is None and role == "assistant" else parts_of(content, f"{param}.content"))


def chat_item_of(given: dict[str, Any], param: str) -> Item:
    """One of the `messages` of a chat: the output of a call of ours is an answer to it; calls of an assistant are told of."""
    if given.get("role") == "tool" and "type" not in given:
        parts = parts_of(given.get("content"), f"{param}.content")
        name = given.get("tool_call_id")
        item = _output("message", name, parts, param) if isinstance(name, str) and read_item_id(name) else None
        return item or Item("tool", parts, param=param)
    item = item_of(given, param)
    if item.role == "assistant" and isinstance(calls := given.get("tool_calls"), list):
        return Item("assistant", [*item.parts, *map(_call_told, calls)], param=param)
    return item


def _call_told(call: Any) -> str:
    """A call that an assistant made, as the client has it."""
    function = call.get("function") if isinstance(call, dict) else None
    about = function if isinstance(function, dict) else {}
    return f"[calls {about.get('name', 'a tool')}({about.get('arguments', '')})]"


def _approval(kind: str, given: dict[str, Any], param: str) -> Item:
    approve = given.get("approve")
    if not isinstance(approve, bool):
        raise Wrong(f"{param}.approve", "an approval is true or false", code="invalid_type")
    request = _text(given.get("approval_request_id"), f"{param}.approval_request_id")
    reason = _text(given.get("reason") or "", f"{param}.reason")
    return _answer(kind, request, "approve" if approve else "reject", reason, param)


def _output(kind: str, name: str, parts: list[Any], param: str) -> Item:
    """The output of a call. Its parts stay, for where it is no answer but a part of an account."""
    texts = [each for each in parts if isinstance(each, str)]
    words = "\n".join(texts)
    item = _answer(kind, name, "answer", words, param)
    return replace(item, role="tool" if kind == "message" else "", parts=parts, value=words if len(texts) == len(parts) else parts)


def _answer(kind: str, name: str, verdict: Literal["approve", "reject", "answer"], words: str, param: str) -> Item:
    id = read_item_id(name)
    request = id.request if id else name.removeprefix("mcpr_").removeprefix("call_")
    return Item("", [], request, verdict, words, kind, id, param)


def parts_of(content: object, param: str) -> list[Any]:
    """Content as parts that can be said."""
    if isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        raise Wrong(param, "content is text, or a list of parts", code="invalid_type")
    return [_part(each, f"{param}[{number}]") for number, each in enumerate(content)]


def _part(part: object, param: str) -> Any:
    if not isinstance(part, dict):
        raise Wrong(param, "a part is an object", code="invalid_type")
    kind = part.get("type")
    if kind in TEXTS:
        return _text(part.get("text", part.get("refusal")), f"{param}.text")
    if kind in ("image_url", "input_image"):
        given = part.get("image_url")
        return _picture(given.get("url") if isinstance(given, dict) else given, f"{param}.image_url")
    if kind in ("file", "input_file"):
        given = part.get("file", part)
        return _file(given if isinstance(given, dict) else {}, param)
    what = f"{kind!r} is no part that can be said"[:120]
    raise Wrong(f"{param}.type", what, expected="text, a picture or a file", code="unsupported_value")


def _picture(url: object, param: str) -> Any:
    if not isinstance(url, str) or not url:
        raise Wrong(param, "a picture is given by its address or as a data URL", do="a file id of OpenAI's means nothing here")
    if not url.startswith("data:"):
        return _by_address(image, url, param)
    kind, content = _data(url, param)
    if not kind.startswith("image/"):
        raise Wrong(param, f"{kind} is no picture", code="unsupported_value")
    return image(content, kind)


def _file(given: dict[str, Any], param: str) -> Any:
    name = _text(given.get("filename") or "", f"{param}.filename")
    if isinstance(url := given.get("file_url"), str) and url:
        return _by_address(lambda source: file(source, name), url, f"{param}.file_url")
    if not isinstance(url := given.get("file_data"), str) or not url:
        raise Wrong(param, "a file is given by its address or as a data URL", do="a file id of OpenAI's means nothing here")
    kind, content = _data(url, f"{param}.file_data")
    return file(content, name, kind)


def _by_address(make: Any, url: str, param: str) -> Any:
    if not url.startswith(("https://", "http://")):
        raise Wrong(param, "an address begins with https://")
    return make(url)


def _data(url: str, param: str) -> tuple[str, bytes]:
    found = _DATA_URL.fullmatch(url)
    try:
        content = base64.b64decode(found[2], validate=True) if found else b""
    except binascii.Error:
        content = b""
    if not found or not content:
        raise Wrong(param, "this data URL cannot be read", expected="data:TYPE;base64,BYTES")
    return found[1].lower(), content


def _text(given: object, param: str) -> str:
    if not isinstance(given, str):
        raise Wrong(param, "this is not text", code="invalid_type")
    return given


def message_of(items: list[Item], param: str, known: bool, ignored: list[str], *, drop: bool = False, empty: bool = False) -> list[Any]:
    """What is to be said: what the user said since an agent last answered.

    `known`: the conversation is here already, so what came before has no business in the request. `drop`: it has, and is left out.
    `empty`: nothing need be said.
    """
    if any(item.is_instruction for item in items):
        ignored.append(f"{param} of system and developer")
    before, new = _split_new([item for item in items if not item.is_instruction])
    if known and before:
        raise Wrong(param, "what was said before is in the conversation: send only what is new")
    parts = [part for item in new for part in item.parts if part]
    if not parts and not empty:
        do = "send a message of the user behind what was said, or an answer to what is pending"
        raise Wrong(param, "there is nothing to say: the last message must be a user's", do=do, code="missing_required_parameter")
    ignored.extend(sorted({f"{param} of type {item.kind}" for item in before if not item.role}))
    return parts if drop else [*_account(before), *parts]


def _split_new(spoken: list[Item]) -> tuple[list[Item], list[Item]]:
    """Split off what the user says at the end."""
    last = last_place(item.role != "user" for item in spoken)
    return spoken[: last + 1], spoken[last + 1 :]


def last_place(fits: Iterable[bool]) -> int:
    """The place of the last that is true; -1 if none is."""
    return max((place for place, each in enumerate(fits) if each), default=-1)


def _account(before: list[Item]) -> list[Any]:
    told = [item for item in before if item.role and item.parts]
    return [ACCOUNT, *(part for item in told for part in _labelled(item) if part), NEW] if told else []


def _labelled(item: Item) -> list[Any]:
    first, *rest = item.parts
    return [f"{item.role}: {first}", *rest] if isinstance(first, str) else [f"{item.role}:", *item.parts]
