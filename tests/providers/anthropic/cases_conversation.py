"""Cases about the conversation in a Messages request: roles, tools, thinking, and how it ends."""

from __future__ import annotations

from typing import Any

from legato.emulator.minds.base import Thought, Use, Words
from tests.providers.anthropic.cases_fields import ADAPTIVE, ANSWERED, CACHED, DROPS, ENABLED, error
from tests.providers.anthropic.world import BINDING, HELLO, NEWEST, ask, assistant, result, text, tool, use, user
from tests.providers.lawcase import LawCase, Step


def desk(*messages: Any, model: str = "claude-opus-5-5", system: str = "You are the desk.", **parameters: Any) -> dict[str, Any]:
    """A request of an agent that thinks."""
    return ask(*messages, model=model, system=system, tools=[tool("hand_over")], **{"thinking": ADAPTIVE, **parameters})


THOUGHT = (Step.respond(desk(HELLO), Thought("This is for billing."), Use("hand_over", "{}", "toolu_h"), save_as="r1"),)
"""The desk thought, then handed over."""
BACK = {"role": "assistant", "content": "{r1.content}"}
HANDED = user(result("toolu_h"))

OLD_THOUGHT = (Step.respond(ask(HELLO, model="claude-haiku-4-5", thinking=ENABLED), Thought("Hm."), Words("Which one?"), save_as="r1"),)
"""A model without preserved thinking thought, then answered."""

NOTE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "two cups"}}
FETCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {"url": "https://x.example"}}
CACHED_LONG = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "find_order()"}}
BY_CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
CITED = {
    "type": "char_location",
    "cited_text": "two",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 3,
}


def fetched(document: dict[str, Any]) -> dict[str, Any]:
    content = {"type": "web_fetch_result", "url": "https://x.example", "content": document}
    return {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


def found(*content: Any) -> dict[str, Any]:
    return {"type": "search_result", "source": "https://x.example", "title": "Cups", "content": list(content)}


def unanswered(where: str, ids: str) -> dict[str, Any]:
    return error(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def bound(where: str) -> dict[str, Any]:
    return error(
        f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )


CASES: list[LawCase] = [
    # -- roles and contents
    LawCase("M13a", ask() | {"messages": []}, error("messages: at least one message is required"), obeys=ask()),
    LawCase(
        "M11",
        ask({"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Yes?"}, HELLO),
        error("messages.0: use the top-level 'system' parameter for the initial system prompt"),
        obeys=ask({"role": "assistant", "content": "Yes?"}, HELLO, system="Be brief."),
    ),
    LawCase(
        "M11b",
        ask(HELLO, {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}, HELLO),
        error("messages.2: role 'system' must precede an 'assistant' message or end the array"),
        obeys=ask(HELLO, {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}),
    ),
    LawCase(
        "M11c",
        ask(HELLO, {"role": "system", "content": "Be brief."}, model="claude-haiku-4-5"),
        error(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
            'not "system" as an input message role.'
        ),
        obeys=ask(HELLO, model="claude-haiku-4-5", system="Be brief."),
    ),
    LawCase(
        "M14a",
        ask(assistant(text("Yes?")), HELLO),
        error('messages: first message must use the "user" role'),
        obeys=ask(HELLO, assistant(text("Yes?")), HELLO),
        profile={"first_message_is_user": True},
    ),
    LawCase(
        "M14b",
        ask(HELLO, HELLO),
        error('messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'),
        obeys=ask(HELLO, assistant(text("Yes?")), HELLO),
        profile={"alternation": True},
    ),
    LawCase(
        "M13c",
        ask(user()),
        error("messages.0: user messages must have non-empty content"),
        obeys=ask(user(), {"role": "user", "content": "a"}),
    ),
    LawCase(
        "M13c",
        ask({"role": "user", "content": ""}),
        error("messages.0: all messages must have non-empty content except for the optional final assistant message"),
        obeys=ask({"role": "user", "content": "a"}),
    ),
    LawCase(
        "M13d",
        ask(HELLO, assistant(), HELLO),
        error("messages.1: all messages must have non-empty content except for the optional final assistant message"),
        obeys=ask(HELLO, assistant(), model="claude-haiku-4-5"),
    ),
    LawCase(
        "MR1",
        ask(HELLO, assistant(text("Let me see."), result()), HELLO),
        error("messages.1: `tool_result` blocks can only be in `user` messages"),
        obeys=ANSWERED,
    ),
    LawCase(
        "MR2",
        ask(user(text("Hello"), use())),
        error("messages.0: `tool_use` blocks can only be in `assistant` messages"),
        obeys=ANSWERED,
    ),
    LawCase(
        "MV2",
        ask(HELLO, assistant(NOTE), HELLO),
        error("messages.1: `document` blocks can only be in `user` messages"),
        obeys=ask(user(NOTE), assistant(FETCH, fetched(NOTE)), HELLO),
        headers=NEWEST,
    ),
    LawCase(
        "MV3",
        ask(user(text("Two cups.", citations=[CITED]))),
        error("messages.0.content.0.text.citations: Extra inputs are not permitted"),
        obeys=ask(
            user({**NOTE, "citations": {"enabled": True}}), assistant(text("Two cups.", citations=[CITED])), user(text("So?", citations=[]))
        ),
        headers=NEWEST,
    ),
    LawCase(
        "MV3",
        ask(user(found(text("Two cups.", citations=[CITED])))),
        error("messages.0.content.0.search_result.content.0.text.citations: Extra inputs are not permitted"),
        obeys=ask(user(found(text("Two cups.")) | {"citations": {"enabled": True}})),
        headers=NEWEST,
    ),
    LawCase(
        "M15",
        ask(user(text("Hello"), text(""))),
        error("messages: text content blocks must be non-empty"),
        obeys=ask(user(text("Hello"))),
    ),
    LawCase(
        "M15b",
        ask(user(text("Hello"), text(" \n"))),
        error("messages: text content blocks must contain non-whitespace text"),
        obeys=ask(user(text("Hello"))),
    ),
    LawCase(
        "M15c",
        ask(system=[text("")]),
        error("system: text content blocks must be non-empty"),
        obeys=ask(system=[text("Be brief.")]),
    ),
    LawCase(
        "M25",
        ANSWERED,
        error("Requests which include `tool_use` or `tool_result` blocks must define tools."),
        obeys=ANSWERED | {"tools": [tool()]},
        profile={"tools_with_tool_history": True},
    ),
    # -- uses of tools and their results
    LawCase(
        "M3",
        ask(HELLO, assistant(use(), use()), user(result())),
        error("messages.1.content.1: `tool_use` ids must be unique"),
        obeys=ask(HELLO, assistant(use(), use("toolu_2")), user(result(), result("toolu_2"))),
    ),
    LawCase(
        "M2",
        ask(HELLO, assistant(use()), user(result(), result("toolu_9"))),
        error(
            "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
        obeys=ANSWERED,
    ),
    LawCase(
        "M2b",
        ask(HELLO, assistant({"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}), HELLO),
        error(
            "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. "
            "Each `advisor_tool_result` block must have a corresponding `server_tool_use` block before it."
        ),
        obeys=ask(
            HELLO,
            assistant(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}},
                {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
            ),
            HELLO,
        ),
    ),
    LawCase(
        "M4",
        ask(HELLO, assistant(use()), user(result(), result())),
        error("messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1"),
        obeys=ANSWERED,
    ),
    LawCase(
        "M1",
        ask(HELLO, assistant(use("toolu_1"), use("toolu_2"), use("toolu_3")), user(result("toolu_2"))),
        unanswered("messages.1", "toolu_1, toolu_3"),
        obeys=ask(
            HELLO,
            assistant(use("toolu_1"), use("toolu_2"), use("toolu_3")),
            user(result("toolu_2"), result("toolu_1")),
            user(result("toolu_3")),
        ),
    ),
    LawCase(
        "M5",
        ask(HELLO, assistant(use()), user(text("Here it is:"), result())),
        unanswered("messages.1", "toolu_1"),
        obeys=ask(HELLO, assistant(use()), user(result(), text("There it is."))),
    ),
    # -- thinking
    LawCase(
        "M6",
        ask(HELLO, assistant(use()), user(result()), thinking=ENABLED),
        error(
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, "
            "a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
            "blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
        ),
        obeys=ask(HELLO, assistant(use()), user(result()), thinking={"type": "disabled"}),
    ),
    LawCase(
        "M8",
        desk(HELLO, assistant({"type": "thinking", "thinking": "Hm.", "signature": "made up"}, text("Which one?")), HELLO),
        error("messages.1.content.0: Invalid `signature` in `thinking` block"),
        obeys=desk(HELLO, assistant(text("Which one?")), HELLO),
    ),
    LawCase(
        "M8",
        ask(
            HELLO,
            assistant({"type": "thinking", "thinking": "Oh.", "signature": "{r1.content[0].signature}"}, text("Which one?")),
            HELLO,
            assistant(text("I see.")),
            HELLO,
            model="claude-haiku-4-5",
        ),
        error("messages.1.content.0: Invalid `signature` in `thinking` block"),
        obeys=ask(HELLO, BACK, HELLO, assistant(text("I see.")), HELLO, model="claude-haiku-4-5"),
        setup=OLD_THOUGHT,
    ),
    LawCase(
        "M8b",
        ask(HELLO, assistant({"type": "redacted_thinking", "data": "made up"}, text("Which one?")), HELLO),
        error("messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
        obeys=ask(HELLO, assistant(text("Which one?")), HELLO),
    ),
    LawCase(
        "M7",
        desk(
            HELLO,
            assistant({"type": "thinking", "thinking": "This is for sales.", "signature": "{r1.content[0].signature}"}, "{r1.content[1]}"),
            HANDED,
        ),
        error(
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
            "These blocks must remain as they were in the original response."
        ),
        obeys=desk(HELLO, BACK, HANDED),
        setup=THOUGHT,
    ),
    LawCase(
        "M9",
        desk(HELLO, BACK, HANDED, system="You are billing."),
        bound("messages.1.content.0"),
        obeys=desk(HELLO, BACK, HANDED),
        setup=THOUGHT,
    ),
    LawCase(
        "M9",
        desk(HELLO, BACK, HANDED) | {"tools": [tool("hand_over"), tool("refund")]},
        bound("messages.1.content.0"),
        obeys=desk(HELLO, BACK, HANDED) | {"tools": [tool("hand_over", **CACHED)]},
        setup=THOUGHT,
    ),
    LawCase(
        "M9",
        desk({"role": "user", "content": "Where is my money?"}, BACK, HANDED),
        bound("messages.1.content.0"),
        obeys=desk(user(text("Where is my order?", **CACHED)), BACK, HANDED),
        setup=THOUGHT,
    ),
    LawCase(
        "M9",
        desk(HELLO, BACK, HANDED, system="You are billing.", thinking=DROPS | {"block_binding": {"prefix_mismatch_behavior": "error"}}),
        bound("messages.1.content.0"),
        obeys=desk(HELLO, BACK, HANDED, thinking=DROPS | {"block_binding": {"prefix_mismatch_behavior": "error"}}),
        setup=THOUGHT,
        profile={"binding": False},
        headers=BINDING,
    ),
    # -- the end of the conversation
    LawCase(
        "M17",
        ask(HELLO, assistant(text("It is"))),
        error("This model does not support assistant message prefill. The conversation must end with a user message."),
        obeys=ask(HELLO, assistant(text("It is")), model="claude-haiku-4-5"),
    ),
    LawCase(
        "M16",
        ask(HELLO, assistant(text("It is ")), model="claude-haiku-4-5"),
        error("messages: final assistant content cannot end with trailing whitespace"),
        obeys=ask(HELLO, assistant(text("It is")), model="claude-haiku-4-5"),
    ),
    LawCase(
        "MC2",
        ask(HELLO, assistant(CODE, use(caller=BY_CODE)), user(result())),
        error("container_id is required when there are pending tool uses generated by code execution with tools."),
        obeys=ask(HELLO, assistant(CODE, use(caller=BY_CODE)), user(result()), container="container_1"),
    ),
    LawCase(
        "MC1",
        ask(user(text("", **CACHED), text("Hello")), assistant(text("Yes?")), HELLO),
        error("messages.0.content.0.text: cache_control cannot be set for empty text blocks"),
        obeys=ask(user(text(""), text("Hello")), assistant(text("Yes?")), HELLO),
    ),
    LawCase(
        "M18",
        ask(user(*[text(str(number), **CACHED) for number in range(3)]), system=[text("Hi", **CACHED)], tools=[tool(**CACHED)]),
        error("A maximum of 4 blocks with cache_control may be provided. Found 5."),
        obeys=ask(user(*[text(str(number), **CACHED) for number in range(3)]), system=[text("Hi")], tools=[tool(**CACHED)]),
    ),
    LawCase(
        "MC3",
        ask(tools=[tool(**CACHED)], system=[text("Be brief.", **CACHED_LONG)]),
        error(
            "system.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        ),
        obeys=ask(tools=[tool(**CACHED_LONG)], system=[text("Be brief.", **CACHED)]),
    ),
    LawCase(
        "M22",
        ask(model="claude-haiku-4-5"),
        error("prompt is too long: 213462 tokens > 200000 maximum"),
        obeys=ask(model="claude-sonnet-5"),
        tokens=213_462,
    ),
    # -- what is accepted
    LawCase("M10", obeys=ask(HELLO, BACK, HANDED, model="claude-sonnet-5", system="You are billing."), setup=THOUGHT),
    LawCase(
        "M10b",
        obeys=ask(HELLO, BACK, HELLO, model="claude-sonnet-5-5"),
        setup=(
            Step.respond(
                ask(HELLO, model="claude-sonnet-5-5", thinking=ADAPTIVE), Thought("Hm."), Words("Which?"), save_as="r1", account="other"
            ),
        ),
    ),
    LawCase("M9a", obeys=desk(HELLO, BACK, HANDED, system="You are billing.", thinking=DROPS), setup=THOUGHT, headers=BINDING),
    LawCase("M9b", obeys=desk(HELLO, BACK, HANDED, system="You are billing."), setup=THOUGHT, profile={"binding": False}),
    LawCase("MA6", obeys=ask(top_k=-1, top_p=-1, model="claude-haiku-4-5")),
    LawCase("MA7", obeys=ask(HELLO, assistant(use()), user(result()), assistant(text("Again."), use()), user(result()))),
    LawCase("MA8", obeys=ask(HELLO, assistant(use("toolu_1")), user(result("toolu_9")), model="claude-3-opus-20240229")),
    LawCase("MA9", obeys=ask(HELLO, assistant(text("Let me look."), FETCH))),
    LawCase("MA1", obeys=ask(HELLO, assistant(use("a")), assistant(use("b")), user(result("a")), user(result("b")), HELLO)),
    LawCase("MA2", obeys=ask(user(text(""), text("Hello")), assistant(text("Yes?")), HELLO)),
    LawCase("MA3", obeys=ask(HELLO, {"role": "system", "content": "Be brief."}, assistant(text("Yes?")), HELLO)),
    LawCase("MA4", obeys=desk(HELLO, BACK, HANDED), setup=THOUGHT),
    LawCase("MA5", obeys=ask(system=None, tools=None, tool_choice=None, thinking=None, metadata={"user_id": None}, cache_control=None)),
    LawCase(
        "MA5",
        obeys=ask(
            HELLO,
            assistant({**use(), "cache_control": None}),
            user({**result(), "is_error": None, "content": None}),
            tools=[{**tool(), "description": None, "input_examples": None, "strict": None}],
            tool_choice={"type": "auto", "disable_parallel_tool_use": None},
            output_config={"effort": None, "format": None},
        ),
    ),
]
