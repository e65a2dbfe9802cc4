"""What an agent should have been told, in the words that an API has for it. It knows the view, and nothing of the compilers.

Not every API can say everything as it was said. What it says instead is defined here, once, and held against what went over HTTP:
nothing else may differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from legato.core.facts import Call, CallRef, Content, File, Image, Refusal, Words
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.view import Request
from legato.providers.rules.names import wire_name
from tests.providers.stories.raw import Line, plain_arguments


@dataclass(frozen=True)
class Manner:
    """What an API has no words for, and what it is told instead.

    - `aside`: what the frame adds to the conversation stands in the instructions, because the provider holds the conversation.
    - `one_text`: a reply is one text, its words joined by a line's end, and calls stand behind it.
    - `one_text_of_parts`: parts that are all text are one text, joined likewise.
    - `unreadable`: arguments of a call that are no JSON object are the one member of that name of an object.
    - `no_blanks`: a text of nothing but spaces is left out; an output of that kind is empty.
    """

    aside: bool = False
    one_text: bool = False
    one_text_of_parts: bool = False
    unreadable: str = ""
    no_blanks: bool = False


def seen(request: Request, manner: Manner) -> list[Line]:
    """What a model should have been told, whole and in order."""
    numbers: dict[CallRef, int] = {}
    entries = list(request.entries)[len(request.frame.messages) if manner.aside else 0 :]
    lines: list[Line] = []
    for entry in entries:
        if isinstance(entry, AssistantEntry):
            words = [item.text for item in entry.items if isinstance(item, (Words, Refusal))]
            if manner.one_text:
                lines.append(("assistant", "\n".join(filter(None, words))))
            for index, item in enumerate(entry.items):
                if isinstance(item, (Words, Refusal)) and not manner.one_text:
                    lines.append(("assistant", item.text))
                elif isinstance(item, Call):
                    number = numbers[CallRef(entry.position, index)] = len(numbers)
                    lines.append((f"call {number}", f"{wire_name(item.tool)} {arguments(item.arguments, manner)}"))
        elif isinstance(entry, OutputEntry):
            lines.append((f"output {numbers[entry.ref]}", "|".join(_parts(entry.content, manner))))
        else:
            lines += [("user", text) for text in _parts(entry.content, manner)]
    return [line for line in lines if _is_told(line, manner)]


def _is_told(line: Line, manner: Manner) -> bool:
    return bool(line[1].strip() if manner.no_blanks else line[1]) or line[0].startswith("output")


def arguments(text: str, manner: Manner) -> str:
    """A call's arguments in one spelling."""
    if manner.unreadable and not is_object(text):
        return json.dumps({manner.unreadable: text} if text.strip() else {})
    return plain_arguments(text)


def is_object(text: str) -> bool:
    """Whether arguments are what they should be."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _parts(content: Content, manner: Manner) -> list[str]:
    parts = list(_each(content))
    if manner.one_text_of_parts and not isinstance(content, str) and not any(isinstance(part, (Image, File)) for part in content):
        parts = ["\n".join(parts)]
    return ["" if manner.no_blanks and not part.strip() else part for part in parts]


def _each(content: Content) -> Iterator[str]:
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
