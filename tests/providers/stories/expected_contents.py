"""The expected contents of a request: the agent's view, as an API can express it, without any encoder.

Some APIs cannot express everything. What they have instead is defined here, and compared with the requests: nothing else may differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from legato.core.facts import Call, CallRef, Content, File, Image, OutputText, Refusal
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.view import ModelRequest
from legato.providers.rules.identifiers import sanitize_tool_name
from tests.providers.stories.traffic_reader import ContentLine, normalize_arguments


@dataclass(frozen=True)
class FormatConventions:
    """What an API has instead of contents that it cannot express.

    - `messages_in_instructions`: the turn context's messages are in the instructions, because the provider stores the conversation.
    - `one_text_per_reply`: a reply is one text, joined by line breaks, followed by its calls.
    - `one_text_per_message`: parts that are all text are one text, joined likewise.
    - `raw_arguments_member`: arguments that are no JSON object become the one member of this name of an object.
    - `without_blank_text`: blank text is left out; a blank output is empty.
    """

    messages_in_instructions: bool = False
    one_text_per_reply: bool = False
    one_text_per_message: bool = False
    raw_arguments_member: str = ""
    without_blank_text: bool = False


def expected_lines(request: ModelRequest, conventions: FormatConventions) -> list[ContentLine]:
    """Return the expected contents of a request, in order."""
    numbers: dict[CallRef, int] = {}
    entries = list(request.entries)[len(request.turn_context.messages) if conventions.messages_in_instructions else 0 :]
    lines: list[ContentLine] = []
    for entry in entries:
        if isinstance(entry, AssistantEntry):
            texts = [item.text for item in entry.items if isinstance(item, (OutputText, Refusal))]
            if conventions.one_text_per_reply:
                lines.append(("assistant", "\n".join(filter(None, texts))))
            for index, item in enumerate(entry.items):
                if isinstance(item, (OutputText, Refusal)) and not conventions.one_text_per_reply:
                    lines.append(("assistant", item.text))
                elif isinstance(item, Call):
                    number = numbers[CallRef(entry.position, index)] = len(numbers)
                    lines.append((f"call {number}", f"{sanitize_tool_name(item.tool)} {expected_arguments(item.arguments, conventions)}"))
        elif isinstance(entry, OutputEntry):
            lines.append((f"output {numbers[entry.ref]}", "|".join(_expected_parts(entry.content, conventions))))
        else:
            lines += [("user", text) for text in _expected_parts(entry.content, conventions)]
    return [line for line in lines if _is_sent(line, conventions)]


def _is_sent(line: ContentLine, conventions: FormatConventions) -> bool:
    return bool(line[1].strip() if conventions.without_blank_text else line[1]) or line[0].startswith("output")


def expected_arguments(text: str, conventions: FormatConventions) -> str:
    """Return a call's expected arguments in a normal form."""
    if conventions.raw_arguments_member and not is_object(text):
        return json.dumps({conventions.raw_arguments_member: text} if text.strip() else {})
    return normalize_arguments(text)


def is_object(text: str) -> bool:
    """Return True if a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _expected_parts(content: Content, conventions: FormatConventions) -> list[str]:
    parts = list(_list_parts(content))
    if conventions.one_text_per_message and not isinstance(content, str) and not any(isinstance(part, (Image, File)) for part in content):
        parts = ["\n".join(parts)]
    return ["" if conventions.without_blank_text and not part.strip() else part for part in parts]


def _list_parts(content: Content) -> Iterator[str]:
    for part in (content,) if isinstance(content, str) else content:
        match part:
            case str():
                yield part
            case Image():
                yield "(picture)"
            case File():
                yield "(file)"
            case _:
                yield part.text
