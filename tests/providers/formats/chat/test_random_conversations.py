"""Random conversations over Chat Completions: every request is legal, has everything once, and is deterministic."""

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

from legato.core.facts import Call, CallReturned, MessageReceived, OutputText, Refusal, Text
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.history_policies import Everything
from legato.core.turn_context import TurnContext
from legato.providers.rules.chat.rules import LENIENT, OPENAI, check_request
from legato.providers.rules.identifiers import sanitize_tool_name
from tests.providers.formats.chat.conversations import (
    CONVERSATIONS,
    OPTION_SETS,
    TURN_CONTEXTS,
    ConversationBuilder,
    encode,
    encode_messages,
)

STRICTEST_SWITCHES = replace(OPENAI, duplicate_answers=True, unknown_members=True, unknown_parameter="unknown")


@settings(max_examples=100)
@given(CONVERSATIONS, TURN_CONTEXTS, OPTION_SETS, st.booleans(), st.booleans())
def test_random_requests_are_all_legal(
    conversation: ConversationBuilder, context: TurnContext, options: dict[str, Any], stream: bool, with_reasoning: bool
) -> None:
    encoded = encode(conversation.build_request(context), stream=stream, with_reasoning=with_reasoning, **options)
    body = json.loads(encoded.body)
    assert encoded.violations == ()
    if with_reasoning:
        body["messages"] = [{key: value for key, value in each.items() if key != "reasoning_content"} for each in body["messages"]]
    assert [str(violation) for violation in check_request(body, switches=STRICTEST_SWITCHES)] == []
    assert check_request(body, switches=LENIENT) == []


@settings(max_examples=100)
@given(CONVERSATIONS, TURN_CONTEXTS, st.booleans())
def test_view_is_encoded_once_and_in_order(conversation: ConversationBuilder, context: TurnContext, compatible: bool) -> None:
    request = conversation.build_request(context)
    messages = encode_messages(request, compatible=compatible)
    remaining = iter([message for message in messages if not _is_attachment_message(message) and message["role"] != "system"])
    for entry in request.entries:
        if isinstance(entry, AssistantEntry):
            words = "\n".join(item.text for item in entry.items if isinstance(item, (OutputText, Refusal)))
            names = [sanitize_tool_name(item.tool) for item in entry.items if isinstance(item, Call)]
            if words or names:
                message = next(remaining)
                assert (message["role"], message["content"] or "") == ("assistant", words)
                assert [call["function"]["name"] for call in message.get("tool_calls", ())] == names
                ids = iter([call["id"] for call in message.get("tool_calls", ())])
        else:
            message = next(remaining)
            if isinstance(entry, OutputEntry):
                assert (message["role"], message["tool_call_id"]) == ("tool", next(ids))
            else:
                assert message["role"] == "user"
            assert all(words in join_text(message["content"]) for words in list_texts(entry.content))
    assert list(remaining) == []


def list_texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [part.text for part in content if isinstance(part, Text)]


def join_text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _is_attachment_message(message: dict[str, Any]) -> bool:
    """Return True if a message holds the attachments that tools returned."""
    return isinstance(message["content"], list) and message["content"][0].get("text", "").startswith("Returned by ")


@settings(max_examples=50)
@given(CONVERSATIONS, TURN_CONTEXTS, OPTION_SETS)
def test_same_conversation_gives_the_same_bytes(conversation: ConversationBuilder, context: TurnContext, options: dict[str, Any]) -> None:
    request = conversation.build_request(context)
    first = encode(request, **options)
    assert encode(request, **options) == first  # from the cache
    assert encode(conversation.build_request(context), **options) == first  # from the facts


@settings(max_examples=50)
@given(CONVERSATIONS, TURN_CONTEXTS, st.booleans())
def test_next_request_begins_with_the_last_one(conversation: ConversationBuilder, context: TurnContext, compatible: bool) -> None:
    before = b""
    for length, fact in enumerate(conversation.facts, 1):
        if isinstance(fact, (MessageReceived, CallReturned)):
            beginning = ConversationBuilder()
            beginning.facts = conversation.facts[:length]
            if beginning.state.batch:
                continue  # some calls have no output yet
            body = encode(beginning.build_request(replace(context, history=Everything())), compatible=compatible).body
            assert body.startswith(before)
            before = body.removesuffix(b"]}")


PROGRAM = """
import hashlib
from tests.providers.formats.chat.conversations import LOOK_UP_TOOL, OPEN_SCHEMA, PICTURE, ConversationBuilder, digest_bytes, encode
from legato.core.facts import Call, Image, Text
conversation = ConversationBuilder().add_message((Text("Hello"), Image(digest=digest_bytes(PICTURE))))
conversation.add_reply("One.", Call("Größe", "{}", ""), Call("look_up", "{}", "call_1"), outputs=["a", "b"])
conversation.add_reply("Two.").add_message("?")
request = conversation.build_request(instructions="Be brief.", tools=(LOOK_UP_TOOL,), output=OPEN_SCHEMA)
encoded = encode(request, stream=True, temperature=0.5, stop=("a", "b"), extra={"metadata": {"b": "1", "a": "2"}, "user": "u"})
print(hashlib.sha256(encoded.body).hexdigest())
"""


def test_request_bytes_do_not_depend_on_hash_seeds() -> None:
    root = Path(__file__).parents[4]
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
