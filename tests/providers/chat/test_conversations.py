"""Random conversations compiled for Chat Completions: every request is legal, says everything once, and is the same bytes every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.core.facts import Call, CallReturned, MessageReceived, Refusal, Text, Words
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.history_policies import Everything
from legato.core.turn_context import Frame
from legato.providers.rules.chat.laws import LENIENT, OPENAI, judge
from legato.providers.rules.names import wire_name
from tests.providers.chat.talk import FRAMES, OPTIONS, TALKS, Talk, compiled, messages

STRICTEST = replace(OPENAI, duplicate_answers=True, unknown_members=True, unknown_parameter="unknown")


@settings(max_examples=100)
@given(TALKS, FRAMES, OPTIONS, st.booleans(), st.booleans())
def test_every_request_is_legal(talk: Talk, frame: Frame, options: dict[str, Any], stream: bool, reasoning: bool) -> None:
    sent = compiled(talk.request(frame), stream=stream, reasoning=reasoning, **options)
    told = json.loads(sent.body)
    assert sent.complaints == ()
    if reasoning:
        told["messages"] = [{key: value for key, value in each.items() if key != "reasoning_content"} for each in told["messages"]]
    assert [str(complaint) for complaint in judge(told, profile=STRICTEST)] == []
    assert judge(told, profile=LENIENT) == []


@settings(max_examples=100)
@given(TALKS, FRAMES, st.booleans())
def test_everything_an_agent_sees_is_said_once_and_in_order(talk: Talk, frame: Frame, compatible: bool) -> None:
    request = talk.request(frame)
    sent = messages(request, compatible=compatible)
    told = iter([message for message in sent if not _is_aside(message) and message["role"] != "system"])
    for entry in request.entries:
        if isinstance(entry, AssistantEntry):
            words = "\n".join(item.text for item in entry.items if isinstance(item, (Words, Refusal)))
            names = [wire_name(item.tool) for item in entry.items if isinstance(item, Call)]
            if words or names:
                message = next(told)
                assert (message["role"], message["content"] or "") == ("assistant", words)
                assert [call["function"]["name"] for call in message.get("tool_calls", ())] == names
                ids = iter([call["id"] for call in message.get("tool_calls", ())])
        else:
            message = next(told)
            if isinstance(entry, OutputEntry):
                assert (message["role"], message["tool_call_id"]) == ("tool", next(ids))
            else:
                assert message["role"] == "user"
            assert all(words in _text(message["content"]) for words in _words(entry.content))
    assert list(told) == []


def _words(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [part.text for part in content if isinstance(part, Text)]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _is_aside(message: dict[str, Any]) -> bool:
    """Whether it shows what tools returned besides words."""
    return isinstance(message["content"], list) and message["content"][0].get("text", "").startswith("Returned by ")


@settings(max_examples=50)
@given(TALKS, FRAMES, OPTIONS)
def test_the_same_conversation_is_the_same_bytes(talk: Talk, frame: Frame, options: dict[str, Any]) -> None:
    request = talk.request(frame)
    first = compiled(request, **options)
    assert compiled(request, **options) == first  # from what was kept of it
    assert compiled(talk.request(frame), **options) == first  # from the facts


@settings(max_examples=50)
@given(TALKS, FRAMES, st.booleans())
def test_what_was_sent_before_is_how_the_next_request_begins(talk: Talk, frame: Frame, compatible: bool) -> None:
    before = b""
    for length, fact in enumerate(talk.facts, 1):
        if isinstance(fact, (MessageReceived, CallReturned)):
            seen = Talk()
            seen.facts = talk.facts[:length]
            if seen.state.batch:
                continue  # not all calls are answered yet
            sent = compiled(seen.request(replace(frame, history=Everything())), compatible=compatible).body
            assert sent.startswith(before)
            before = sent.removesuffix(b"]}")


PROGRAM = """
import hashlib
from tests.providers.chat.talk import LOOK_UP, OPEN, PICTURE, Talk, compiled, digest_bytes
from legato.core.facts import Call, Image, Text
talk = Talk().says((Text("Hello"), Image(digest=digest_bytes(PICTURE))))
talk.replies("One.", Call("Größe", "{}", ""), Call("look_up", "{}", "call_1"), outputs=["a", "b"]).replies("Two.").says("?")
request = talk.request(instructions="Be brief.", tools=(LOOK_UP,), output=OPEN)
sent = compiled(request, stream=True, temperature=0.5, stop=("a", "b"), extra={"metadata": {"b": "1", "a": "2"}, "user": "u"})
print(hashlib.sha256(sent.body).hexdigest())
"""


def test_the_bytes_are_the_same_under_every_hash_seed() -> None:
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root / "src"), str(root)])
    runs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        for seed in ("0", "1", "4711")
    ]
    assert len({run.stdout for run in runs}) == 1
    assert len(runs[0].stdout.strip()) == 64
