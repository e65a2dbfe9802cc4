"""What was said, as content blocks. May know: items, parts, the Messages API's blocks. Decides: how each is written, and what is lost.

A reply is written *verbatim* (its searches, its citations) only where all that stood before it is as it was; elsewhere its words and
calls remain. No text is sent that is empty or blank.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from legato.core.facts import Call, Content, File, Hosted, Image, Item, Reasoning, Refusal, Text, Words
from legato.core.groups import OutputEntry
from legato.providers.formats.calls import call_id
from legato.providers.formats.loose import object_in
from legato.providers.formats.loose import text as text_of
from legato.providers.formats.losses import NOT_TAKEN_BACK, STANDS_LAST
from legato.providers.formats.parts import base64_of
from legato.providers.rules.anthropic.request import BLOCKS, SERVER_RESULTS, SERVER_USES
from legato.providers.rules.anthropic.thinking import KINDS
from legato.providers.rules.names import wire_name

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF = "application/pdf"
TEXTS = ("application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript")
UNREADABLE = "_raw"
"""The only member of the input of a call whose arguments are no JSON object: an input must be one, and the model sees what was written."""

CALL_MEMBERS = ("caller", "toolset_name")
"""What is recorded of a call besides its name and input, and goes back with it (`Call.extra`)."""
DIRECT = {"type": "direct"}
"""The caller of a call that the model made itself, and no code that it wrote."""
_RETURNED = frozenset(BLOCKS) - {"text", "image", "document", "search_result", "tool_use", "tool_result", *KINDS}

Block = dict[str, Any]


def said_blocks(content: Content, contents: Mapping[str, bytes], losses: list[str]) -> list[Block]:
    """Words, pictures and files."""
    parts = (Text(content),) if isinstance(content, str) else content
    return [block for part in parts if (block := _part(part, contents, losses))]


def result_block(entry: OutputEntry, own: bool, contents: Mapping[str, bytes], losses: list[str], verbatim: bool = True) -> Block:
    """The output of a call."""
    block: Block = {"type": "tool_result", "tool_use_id": call_id(entry.call, entry.ref.position, entry.ref.index, own)}
    block |= {name: value for name, value in _extra(entry.call, verbatim).items() if name == "toolset_name"}
    if isinstance(entry.content, str):
        block |= {"content": entry.content} if entry.content.strip() else {}
    elif content := said_blocks(entry.content, contents, losses):
        block["content"] = content
    return block if entry.status == "ok" else block | {"is_error": True}


def reply_blocks(
    items: Sequence[Item],
    agent: str,
    position: int,
    losses: list[str],
    *,
    withheld: str = "",
    verbatim: bool = True,
    own: bool = False,
    resumed: Collection[str] = (),
) -> list[Block]:
    """A reply. `withheld`: why its thinking does not go back; empty: it does. `own`: its calls have ids of ours.

    `resumed`: uses of the provider's tools that stand open before this reply, so that it may have their results.
    """
    whole = _whole(items, resumed)
    blocks: list[Block] = []
    for index, item in enumerate(items):
        match item:
            case Words(text=text) | Refusal(text=text):
                if text.strip():
                    blocks.append({"type": "text", "text": text, **_citations(item, agent, verbatim, losses)})
            case Call():
                blocks.append(_use(item, call_id(item, position, index, own), verbatim))
            case Reasoning():
                blocks += _thinking(item, agent, withheld, losses)
            case Hosted(kind=kind, body=body) if verbatim and kind in _RETURNED and _is_whole(item, whole):
                blocks.append(msgspec.Raw(body.encode()))  # type: ignore[arg-type]
            case Hosted(kind=kind):
                losses.append(f"{kind} of {agent}: {NOT_TAKEN_BACK}")
    while blocks and _ends_in_thinking(blocks):
        blocks.pop()
        losses.append(f"reasoning of {agent}: {STANDS_LAST}")
    return blocks


def _ends_in_thinking(blocks: Sequence[Block]) -> bool:
    return isinstance(blocks[-1], dict) and blocks[-1]["type"] in KINDS


def _use(call: Call, id: str, verbatim: bool) -> Block:
    use = {"type": "tool_use", "id": id, "name": wire_name(call.tool), "input": call_input(call.arguments)}
    return use | _extra(call, verbatim)


def call_input(arguments: str) -> object:
    """A call's arguments as they were written, if they are an object."""
    if not arguments.strip():
        return {}
    try:
        data = arguments.encode()
        if isinstance(msgspec.json.decode(data), dict):
            return msgspec.Raw(data)
    except (ValueError, RecursionError):  # no JSON, or none that can be read
        pass
    return {UNREADABLE: arguments}


def _thinking(item: Reasoning, agent: str, withheld: str, losses: list[str]) -> list[Block]:
    """Thinking as it came, if it goes back."""
    if withheld or not item.encrypted:
        losses += [f"reasoning of {agent}: {withheld or 'it has no signature'}"] if item.encrypted or item.text else []
        return []
    if item.redacted:
        return [{"type": "redacted_thinking", "data": item.encrypted}]
    return [{"type": "thinking", "thinking": item.text, "signature": item.encrypted}]


def _citations(item: Words | Refusal, agent: str, verbatim: bool, losses: list[str]) -> Block:
    notes = item.notes if isinstance(item, Words) else ""
    if notes and verbatim:
        return {"citations": msgspec.Raw(notes.encode())}
    if notes:
        losses.append(f"citations of {agent}: what they point to is not as it was")
    return {}


def _extra(call: Call, verbatim: bool) -> Block:
    """The members that say which program made a call, and from which set of tools: they point to earlier items."""
    recorded = object_in(call.extra) if verbatim else {}
    return {name: recorded[name] for name in CALL_MEMBERS if name in recorded}


def uses_left_open(items: Sequence[Item]) -> set[str]:
    """The ids of the provider's tools that have no result yet because the reply waits for the outputs of its calls."""
    if not any(isinstance(item, Call) for item in items):
        return set()
    return _ids(items, SERVER_USES, "id") - results_of(items)


def waits_in_container(items: Sequence[Item]) -> bool:
    """Tell whether code of the provider's waits for the outputs of the reply's calls."""
    return any(isinstance(item, Call) and "caller" in _extra(item, True) for item in items)


def results_of(items: Sequence[Item]) -> set[str]:
    """The ids of the uses of the provider's tools whose results are in the reply."""
    return _ids(items, SERVER_RESULTS, "tool_use_id")


def _ids(items: Iterable[Item], kinds: Sequence[str], member: str) -> set[str]:
    return {_member(item, member) for item in items if isinstance(item, Hosted) and item.kind in kinds} - {""}


def _whole(items: Sequence[Item], resumed: Collection[str]) -> set[str]:
    """The ids of what the provider did and finished, or will: it takes back no other use without its result, nor the reverse."""
    uses, results = _ids(items, SERVER_USES, "id"), results_of(items)
    return (uses & results) | (results & set(resumed)) | uses_left_open(items)


def _is_whole(item: Hosted, whole: set[str]) -> bool:
    if item.kind in SERVER_USES:
        return _member(item, "id") in whole
    return item.kind not in SERVER_RESULTS or _member(item, "tool_use_id") in whole


def _member(item: Hosted, name: str) -> str:
    return text_of(object_in(item.body).get(name))


# -- pictures and files ------------------------------------------------------------------------------------------------


def _part(part: Text | Image | File, contents: Mapping[str, bytes], losses: list[str]) -> Block | None:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case Image():
            source = _picture(part, contents)
            return {"type": "image", "source": source} if source else _stand_in("picture", part.media_type, losses)
        case File():
            source = _document(part, contents)
            title = {"title": part.name} if part.name else {}
            return {"type": "document", "source": source, **title} if source else _stand_in("file", part.name or part.media_type, losses)


def _picture(part: Image, contents: Mapping[str, bytes]) -> Block | None:
    if part.url.startswith("data:"):
        kind, comma, data = part.url.removeprefix("data:").partition(";base64,")
        return {"type": "base64", "media_type": kind, "data": data} if comma and kind in PICTURES else None
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": base64_of(part, contents)} if part.media_type in PICTURES else None


def _document(part: File, contents: Mapping[str, bytes]) -> Block | None:
    kind = part.media_type.partition(";")[0].strip()
    if part.url:
        return {"type": "url", "url": part.url} if kind in (PDF, "application/octet-stream") else None
    if kind == PDF:
        return {"type": "base64", "media_type": PDF, "data": base64_of(part, contents)}
    if kind.startswith("text/") or kind in TEXTS or kind.endswith(("+json", "+xml")):
        base64_of(part, contents)  # complains if the bytes are not there
        try:
            text = contents[part.digest].decode()
        except UnicodeDecodeError:
            return None
        return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None
    return None


def _stand_in(kind: str, name: str, losses: list[str]) -> Block:
    losses.append(f"the {kind} {name}: this API takes PNG, JPEG, GIF and WebP pictures, PDF files and texts that are not empty")
    return {"type": "text", "text": f"[The {kind} {name} stood here. It could not be shown.]"}
