"""Content blocks of the Messages API, encoded from messages, replies and tool outputs.

A reply is encoded *verbatim* (with its searches and citations) only if the history before it is unchanged; otherwise only its text and
calls are sent. No empty or blank text is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from legato.core.facts import Call, Content, File, HostedToolUse, Image, OutputText, Reasoning, Refusal, ReplyItem, Text
from legato.core.groups import OutputEntry
from legato.providers.formats.attachments import encode_base64
from legato.providers.formats.call_ids import choose_call_id
from legato.providers.formats.lenient_json import as_text, parse_object
from legato.providers.formats.loss_reasons import NOTHING_FOLLOWS, PROVIDER_SPECIFIC
from legato.providers.rules.anthropic.request_shape import BLOCK_CHECKS, SERVER_RESULT_TYPES, SERVER_TOOL_USE_TYPES
from legato.providers.rules.anthropic.thinking_blocks import THINKING_TYPES
from legato.providers.rules.identifiers import sanitize_tool_name

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF_TYPE = "application/pdf"
TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript")
RAW_ARGUMENTS = "_raw"
"""The only member of a call's input if the call's arguments are no JSON object: an input must be one, and the model sees what it wrote."""

REPLAYED_CALL_MEMBERS = ("caller", "toolset_name")
"""The members of a call that are recorded besides its name and input, and replayed with it (`Call.extra`)."""
DIRECT_CALLER = {"type": "direct"}
"""The caller of a call that the model made itself, not code that it wrote."""
_REPLAYED_BLOCK_TYPES = frozenset(BLOCK_CHECKS) - {"text", "image", "document", "search_result", "tool_use", "tool_result", *THINKING_TYPES}

Block = dict[str, Any]


def encode_content(content: Content, contents: Mapping[str, bytes], losses: list[str]) -> list[Block]:
    """Encode text, pictures and files."""
    parts = (Text(content),) if isinstance(content, str) else content
    return [block for part in parts if (block := _encode_part(part, contents, losses))]


def encode_tool_result(
    entry: OutputEntry, use_own_ids: bool, contents: Mapping[str, bytes], losses: list[str], verbatim: bool = True
) -> Block:
    """Encode the output of a call."""
    block: Block = {"type": "tool_result", "tool_use_id": choose_call_id(entry.call, entry.ref.position, entry.ref.index, use_own_ids)}
    block |= {name: value for name, value in _find_call_members(entry.call, verbatim).items() if name == "toolset_name"}
    if isinstance(entry.content, str):
        block |= {"content": entry.content} if entry.content.strip() else {}
    elif content := encode_content(entry.content, contents, losses):
        block["content"] = content
    return block if entry.status == "ok" else block | {"is_error": True}


def encode_reply(
    items: Sequence[ReplyItem],
    agent: str,
    position: int,
    losses: list[str],
    *,
    reasoning_loss: str = "",
    verbatim: bool = True,
    use_own_ids: bool = False,
    resumed_uses: Collection[str] = (),
) -> list[Block]:
    """Encode a reply. `reasoning_loss`: the reason why its thinking is not replayed; empty if it is replayed.

    `use_own_ids`: its calls get ids made by Legato. `resumed_uses`: uses of server tools that are open before this reply, so that it may
    have their results.
    """
    complete_uses = _find_complete_uses(items, resumed_uses)
    blocks: list[Block] = []
    for index, item in enumerate(items):
        match item:
            case OutputText(text=text) | Refusal(text=text):
                if text.strip():
                    blocks.append({"type": "text", "text": text, **_encode_citations(item, agent, verbatim, losses)})
            case Call():
                blocks.append(_encode_call(item, choose_call_id(item, position, index, use_own_ids), verbatim))
            case Reasoning():
                blocks += _encode_thinking(item, agent, reasoning_loss, losses)
            case HostedToolUse(kind=kind, body=body) if verbatim and kind in _REPLAYED_BLOCK_TYPES and _is_complete(item, complete_uses):
                blocks.append(msgspec.Raw(body.encode()))  # type: ignore[arg-type]
            case HostedToolUse(kind=kind):
                losses.append(f"{kind} of {agent}: {PROVIDER_SPECIFIC}")
    while blocks and _is_thinking_last(blocks):
        blocks.pop()
        losses.append(f"reasoning of {agent}: {NOTHING_FOLLOWS}")
    return blocks


def _is_thinking_last(blocks: Sequence[Block]) -> bool:
    return isinstance(blocks[-1], dict) and blocks[-1]["type"] in THINKING_TYPES


def _encode_call(call: Call, id: str, verbatim: bool) -> Block:
    block = {"type": "tool_use", "id": id, "name": sanitize_tool_name(call.tool), "input": encode_call_input(call.arguments)}
    return block | _find_call_members(call, verbatim)


def encode_call_input(arguments: str) -> object:
    """Return a call's arguments as the model wrote them if they are an object; else an object that holds their text."""
    if not arguments.strip():
        return {}
    try:
        data = arguments.encode()
        if isinstance(msgspec.json.decode(data), dict):
            return msgspec.Raw(data)
    except (ValueError, RecursionError):  # invalid JSON
        pass
    return {RAW_ARGUMENTS: arguments}


def _encode_thinking(item: Reasoning, agent: str, reasoning_loss: str, losses: list[str]) -> list[Block]:
    """Encode thinking as it came, if it is replayed."""
    if reasoning_loss or not item.encrypted:
        losses += [f"reasoning of {agent}: {reasoning_loss or 'it has no signature'}"] if item.encrypted or item.text else []
        return []
    if item.redacted:
        return [{"type": "redacted_thinking", "data": item.encrypted}]
    return [{"type": "thinking", "thinking": item.text, "signature": item.encrypted}]


def _encode_citations(item: OutputText | Refusal, agent: str, verbatim: bool, losses: list[str]) -> Block:
    citations = item.citations if isinstance(item, OutputText) else ""
    if citations and verbatim:
        return {"citations": msgspec.Raw(citations.encode())}
    if citations:
        losses.append(f"citations of {agent}: the content that they refer to has changed")
    return {}


def _find_call_members(call: Call, verbatim: bool) -> Block:
    """Return the members that name the program that made a call and the set of tools. They refer to earlier items."""
    members = parse_object(call.extra) if verbatim else {}
    return {name: members[name] for name in REPLAYED_CALL_MEMBERS if name in members}


def find_open_uses(items: Sequence[ReplyItem]) -> set[str]:
    """Return the ids of server tool uses that have no result yet, because the reply waits for the outputs of its calls."""
    if not any(isinstance(item, Call) for item in items):
        return set()
    return _find_ids(items, SERVER_TOOL_USE_TYPES, "id") - find_result_ids(items)


def is_waiting_in_container(items: Sequence[ReplyItem]) -> bool:
    """Return True if code in the provider's container waits for the outputs of the reply's calls."""
    return any(isinstance(item, Call) and "caller" in _find_call_members(item, True) for item in items)


def find_result_ids(items: Sequence[ReplyItem]) -> set[str]:
    """Return the ids of the server tool uses whose results are in the reply."""
    return _find_ids(items, SERVER_RESULT_TYPES, "tool_use_id")


def _find_ids(items: Iterable[ReplyItem], kinds: Sequence[str], member: str) -> set[str]:
    return {_decode_member(item, member) for item in items if isinstance(item, HostedToolUse) and item.kind in kinds} - {""}


def _find_complete_uses(items: Sequence[ReplyItem], resumed_uses: Collection[str]) -> set[str]:
    """Return the ids of server tool uses that have a result or will get one. The provider refuses other uses, and results without a use."""
    uses, results = _find_ids(items, SERVER_TOOL_USE_TYPES, "id"), find_result_ids(items)
    return (uses & results) | (results & set(resumed_uses)) | find_open_uses(items)


def _is_complete(item: HostedToolUse, complete_uses: set[str]) -> bool:
    if item.kind in SERVER_TOOL_USE_TYPES:
        return _decode_member(item, "id") in complete_uses
    return item.kind not in SERVER_RESULT_TYPES or _decode_member(item, "tool_use_id") in complete_uses


def _decode_member(item: HostedToolUse, name: str) -> str:
    return as_text(parse_object(item.body).get(name))


# -- pictures and files ------------------------------------------------------------------------------------------------


def _encode_part(part: Text | Image | File, contents: Mapping[str, bytes], losses: list[str]) -> Block | None:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case Image():
            source = _make_image_source(part, contents)
            return {"type": "image", "source": source} if source else _write_placeholder("picture", part.media_type, losses)
        case File():
            source = _make_document_source(part, contents)
            title = {"title": part.name} if part.name else {}
            if source:
                return {"type": "document", "source": source, **title}
            return _write_placeholder("file", part.name or part.media_type, losses)


def _make_image_source(part: Image, contents: Mapping[str, bytes]) -> Block | None:
    if part.url.startswith("data:"):
        kind, comma, data = part.url.removeprefix("data:").partition(";base64,")
        return {"type": "base64", "media_type": kind, "data": data} if comma and kind in IMAGE_TYPES else None
    if part.url:
        return {"type": "url", "url": part.url}
    if part.media_type not in IMAGE_TYPES:
        return None
    return {"type": "base64", "media_type": part.media_type, "data": encode_base64(part, contents)}


def _make_document_source(part: File, contents: Mapping[str, bytes]) -> Block | None:
    kind = part.media_type.partition(";")[0].strip()
    if part.url:
        return {"type": "url", "url": part.url} if kind in (PDF_TYPE, "application/octet-stream") else None
    if kind == PDF_TYPE:
        return {"type": "base64", "media_type": PDF_TYPE, "data": encode_base64(part, contents)}
    if kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(("+json", "+xml")):
        encode_base64(part, contents)  # raises if the bytes are missing
        try:
            text = contents[part.digest].decode()
        except UnicodeDecodeError:
            return None
        return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None
    return None


def _write_placeholder(kind: str, name: str, losses: list[str]) -> Block:
    losses.append(f"the {kind} {name}: this API takes PNG, JPEG, GIF and WebP pictures, PDF files and texts that are not empty")
    return {"type": "text", "text": f"[The {kind} {name} stood here. It could not be shown.]"}
