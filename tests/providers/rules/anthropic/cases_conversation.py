"""Test cases of the rules about a Messages conversation: roles, tools, thinking, and its end."""

from __future__ import annotations

from typing import Any

from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from tests.providers.rules.anthropic.cases_fields import (
    ADAPTIVE_THINKING,
    CACHE_CONTROL,
    DROP_BLOCK_THINKING,
    ENABLED_THINKING,
    TOOL_RESULT_REQUEST,
    make_error_body,
)
from tests.providers.rules.anthropic.sample_requests import (
    BINDING_HEADER,
    HELLO,
    NEWEST_VERSION_HEADER,
    make_assistant_message,
    make_request,
    make_text_block,
    make_tool,
    make_tool_result,
    make_tool_use,
    make_user_message,
)
from tests.providers.rules.rule_cases import RuleCase, SetupStep


def make_thinking_request(
    *messages: Any, model: str = "claude-opus-5-5", system: str = "You are the desk.", **parameters: Any
) -> dict[str, Any]:
    """Return a request of a desk agent with thinking."""
    return make_request(
        *messages, model=model, system=system, tools=[make_tool("hand_over")], **{"thinking": ADAPTIVE_THINKING, **parameters}
    )


THINKING_SETUP = (
    SetupStep.respond(
        make_thinking_request(HELLO), ReplyThought("This is for billing."), ReplyCall("hand_over", "{}", "toolu_h"), save_as="r1"
    ),
)
"""The desk thinks, then hands over."""
SAVED_REPLY = {"role": "assistant", "content": "{r1.content}"}
HANDOFF_RESULT = make_user_message(make_tool_result("toolu_h"))

OLD_MODEL_THINKING_SETUP = (
    SetupStep.respond(
        make_request(HELLO, model="claude-haiku-4-5", thinking=ENABLED_THINKING), ReplyThought("Hm."), ReplyText("Which one?"), save_as="r1"
    ),
)
"""A model without preserved thinking thinks, then replies."""

DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "two cups"}}
FETCH_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {"url": "https://x.example"}}
LONG_CACHE_CONTROL = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
CODE_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "find_order()"}}
CODE_CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
CITATION = {
    "type": "char_location",
    "cited_text": "two",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 3,
}


def make_fetch_result(document: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a web fetch with a document."""
    content = {"type": "web_fetch_result", "url": "https://x.example", "content": document}
    return {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


def make_search_result(*content: Any) -> dict[str, Any]:
    """Return a search result with these blocks."""
    return {"type": "search_result", "source": "https://x.example", "title": "Cups", "content": list(content)}


def make_missing_result_error(path: str, ids: str) -> dict[str, Any]:
    """Return the error about tool uses without results."""
    return make_error_body(
        f"{path}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def make_binding_error(path: str) -> dict[str, Any]:
    """Return the error about thinking with another prefix."""
    return make_error_body(
        f"{path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )


CASES: list[RuleCase] = [
    # -- roles and contents
    RuleCase(
        "M13a", make_request() | {"messages": []}, make_error_body("messages: at least one message is required"), legal=make_request()
    ),
    RuleCase(
        "M11",
        make_request({"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Yes?"}, HELLO),
        make_error_body("messages.0: use the top-level 'system' parameter for the initial system prompt"),
        legal=make_request({"role": "assistant", "content": "Yes?"}, HELLO, system="Be brief."),
    ),
    RuleCase(
        "M11b",
        make_request(HELLO, {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}, HELLO),
        make_error_body("messages.2: role 'system' must precede an 'assistant' message or end the array"),
        legal=make_request(HELLO, {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}),
    ),
    RuleCase(
        "M11c",
        make_request(HELLO, {"role": "system", "content": "Be brief."}, model="claude-haiku-4-5"),
        make_error_body(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
            'not "system" as an input message role.'
        ),
        legal=make_request(HELLO, model="claude-haiku-4-5", system="Be brief."),
    ),
    RuleCase(
        "M14a",
        make_request(make_assistant_message(make_text_block("Yes?")), HELLO),
        make_error_body('messages: first message must use the "user" role'),
        legal=make_request(HELLO, make_assistant_message(make_text_block("Yes?")), HELLO),
        switches={"first_message_is_user": True},
    ),
    RuleCase(
        "M14b",
        make_request(HELLO, HELLO),
        make_error_body('messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'),
        legal=make_request(HELLO, make_assistant_message(make_text_block("Yes?")), HELLO),
        switches={"alternation": True},
    ),
    RuleCase(
        "M13c",
        make_request(make_user_message()),
        make_error_body("messages.0: user messages must have non-empty content"),
        legal=make_request(make_user_message(), {"role": "user", "content": "a"}),
    ),
    RuleCase(
        "M13c",
        make_request({"role": "user", "content": ""}),
        make_error_body("messages.0: all messages must have non-empty content except for the optional final assistant message"),
        legal=make_request({"role": "user", "content": "a"}),
    ),
    RuleCase(
        "M13d",
        make_request(HELLO, make_assistant_message(), HELLO),
        make_error_body("messages.1: all messages must have non-empty content except for the optional final assistant message"),
        legal=make_request(HELLO, make_assistant_message(), model="claude-haiku-4-5"),
    ),
    RuleCase(
        "MR1",
        make_request(HELLO, make_assistant_message(make_text_block("Let me see."), make_tool_result()), HELLO),
        make_error_body("messages.1: `tool_result` blocks can only be in `user` messages"),
        legal=TOOL_RESULT_REQUEST,
    ),
    RuleCase(
        "MR2",
        make_request(make_user_message(make_text_block("Hello"), make_tool_use())),
        make_error_body("messages.0: `tool_use` blocks can only be in `assistant` messages"),
        legal=TOOL_RESULT_REQUEST,
    ),
    RuleCase(
        "MV2",
        make_request(HELLO, make_assistant_message(DOCUMENT), HELLO),
        make_error_body("messages.1: `document` blocks can only be in `user` messages"),
        legal=make_request(make_user_message(DOCUMENT), make_assistant_message(FETCH_USE, make_fetch_result(DOCUMENT)), HELLO),
        headers=NEWEST_VERSION_HEADER,
    ),
    RuleCase(
        "MV3",
        make_request(make_user_message(make_text_block("Two cups.", citations=[CITATION]))),
        make_error_body("messages.0.content.0.text.citations: Extra inputs are not permitted"),
        legal=make_request(
            make_user_message({**DOCUMENT, "citations": {"enabled": True}}),
            make_assistant_message(make_text_block("Two cups.", citations=[CITATION])),
            make_user_message(make_text_block("So?", citations=[])),
        ),
        headers=NEWEST_VERSION_HEADER,
    ),
    RuleCase(
        "MV3",
        make_request(make_user_message(make_search_result(make_text_block("Two cups.", citations=[CITATION])))),
        make_error_body("messages.0.content.0.search_result.content.0.text.citations: Extra inputs are not permitted"),
        legal=make_request(make_user_message(make_search_result(make_text_block("Two cups.")) | {"citations": {"enabled": True}})),
        headers=NEWEST_VERSION_HEADER,
    ),
    RuleCase(
        "M15",
        make_request(make_user_message(make_text_block("Hello"), make_text_block(""))),
        make_error_body("messages: text content blocks must be non-empty"),
        legal=make_request(make_user_message(make_text_block("Hello"))),
    ),
    RuleCase(
        "M15b",
        make_request(make_user_message(make_text_block("Hello"), make_text_block(" \n"))),
        make_error_body("messages: text content blocks must contain non-whitespace text"),
        legal=make_request(make_user_message(make_text_block("Hello"))),
    ),
    RuleCase(
        "M15c",
        make_request(system=[make_text_block("")]),
        make_error_body("system: text content blocks must be non-empty"),
        legal=make_request(system=[make_text_block("Be brief.")]),
    ),
    RuleCase(
        "M25",
        TOOL_RESULT_REQUEST,
        make_error_body("Requests which include `tool_use` or `tool_result` blocks must define tools."),
        legal=TOOL_RESULT_REQUEST | {"tools": [make_tool()]},
        switches={"tools_with_tool_history": True},
    ),
    # -- uses of tools and their results
    RuleCase(
        "M3",
        make_request(HELLO, make_assistant_message(make_tool_use(), make_tool_use()), make_user_message(make_tool_result())),
        make_error_body("messages.1.content.1: `tool_use` ids must be unique"),
        legal=make_request(
            HELLO,
            make_assistant_message(make_tool_use(), make_tool_use("toolu_2")),
            make_user_message(make_tool_result(), make_tool_result("toolu_2")),
        ),
    ),
    RuleCase(
        "M2",
        make_request(HELLO, make_assistant_message(make_tool_use()), make_user_message(make_tool_result(), make_tool_result("toolu_9"))),
        make_error_body(
            "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
        legal=TOOL_RESULT_REQUEST,
    ),
    RuleCase(
        "M2b",
        make_request(HELLO, make_assistant_message({"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}), HELLO),
        make_error_body(
            "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. "
            "Each `advisor_tool_result` block must have a corresponding `server_tool_use` block before it."
        ),
        legal=make_request(
            HELLO,
            make_assistant_message(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}},
                {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
            ),
            HELLO,
        ),
    ),
    RuleCase(
        "M4",
        make_request(HELLO, make_assistant_message(make_tool_use()), make_user_message(make_tool_result(), make_tool_result())),
        make_error_body(
            "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1"
        ),
        legal=TOOL_RESULT_REQUEST,
    ),
    RuleCase(
        "M1",
        make_request(
            HELLO,
            make_assistant_message(make_tool_use("toolu_1"), make_tool_use("toolu_2"), make_tool_use("toolu_3")),
            make_user_message(make_tool_result("toolu_2")),
        ),
        make_missing_result_error("messages.1", "toolu_1, toolu_3"),
        legal=make_request(
            HELLO,
            make_assistant_message(make_tool_use("toolu_1"), make_tool_use("toolu_2"), make_tool_use("toolu_3")),
            make_user_message(make_tool_result("toolu_2"), make_tool_result("toolu_1")),
            make_user_message(make_tool_result("toolu_3")),
        ),
    ),
    RuleCase(
        "M5",
        make_request(HELLO, make_assistant_message(make_tool_use()), make_user_message(make_text_block("Here it is:"), make_tool_result())),
        make_missing_result_error("messages.1", "toolu_1"),
        legal=make_request(
            HELLO, make_assistant_message(make_tool_use()), make_user_message(make_tool_result(), make_text_block("There it is."))
        ),
    ),
    # -- thinking
    RuleCase(
        "M6",
        make_request(HELLO, make_assistant_message(make_tool_use()), make_user_message(make_tool_result()), thinking=ENABLED_THINKING),
        make_error_body(
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, "
            "a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
            "blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
        ),
        legal=make_request(
            HELLO, make_assistant_message(make_tool_use()), make_user_message(make_tool_result()), thinking={"type": "disabled"}
        ),
    ),
    RuleCase(
        "M8",
        make_thinking_request(
            HELLO,
            make_assistant_message({"type": "thinking", "thinking": "Hm.", "signature": "made up"}, make_text_block("Which one?")),
            HELLO,
        ),
        make_error_body("messages.1.content.0: Invalid `signature` in `thinking` block"),
        legal=make_thinking_request(HELLO, make_assistant_message(make_text_block("Which one?")), HELLO),
    ),
    RuleCase(
        "M8",
        make_request(
            HELLO,
            make_assistant_message(
                {"type": "thinking", "thinking": "Oh.", "signature": "{r1.content[0].signature}"}, make_text_block("Which one?")
            ),
            HELLO,
            make_assistant_message(make_text_block("I see.")),
            HELLO,
            model="claude-haiku-4-5",
        ),
        make_error_body("messages.1.content.0: Invalid `signature` in `thinking` block"),
        legal=make_request(HELLO, SAVED_REPLY, HELLO, make_assistant_message(make_text_block("I see.")), HELLO, model="claude-haiku-4-5"),
        setup=OLD_MODEL_THINKING_SETUP,
    ),
    RuleCase(
        "M8b",
        make_request(HELLO, make_assistant_message({"type": "redacted_thinking", "data": "made up"}, make_text_block("Which one?")), HELLO),
        make_error_body("messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
        legal=make_request(HELLO, make_assistant_message(make_text_block("Which one?")), HELLO),
    ),
    RuleCase(
        "M7",
        make_thinking_request(
            HELLO,
            make_assistant_message(
                {"type": "thinking", "thinking": "This is for sales.", "signature": "{r1.content[0].signature}"}, "{r1.content[1]}"
            ),
            HANDOFF_RESULT,
        ),
        make_error_body(
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
            "These blocks must remain as they were in the original response."
        ),
        legal=make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT),
        setup=THINKING_SETUP,
    ),
    RuleCase(
        "M9",
        make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT, system="You are billing."),
        make_binding_error("messages.1.content.0"),
        legal=make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT),
        setup=THINKING_SETUP,
    ),
    RuleCase(
        "M9",
        make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT) | {"tools": [make_tool("hand_over"), make_tool("refund")]},
        make_binding_error("messages.1.content.0"),
        legal=make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT) | {"tools": [make_tool("hand_over", **CACHE_CONTROL)]},
        setup=THINKING_SETUP,
    ),
    RuleCase(
        "M9",
        make_thinking_request({"role": "user", "content": "Where is my money?"}, SAVED_REPLY, HANDOFF_RESULT),
        make_binding_error("messages.1.content.0"),
        legal=make_thinking_request(make_user_message(make_text_block("Where is my order?", **CACHE_CONTROL)), SAVED_REPLY, HANDOFF_RESULT),
        setup=THINKING_SETUP,
    ),
    RuleCase(
        "M9",
        make_thinking_request(
            HELLO,
            SAVED_REPLY,
            HANDOFF_RESULT,
            system="You are billing.",
            thinking=DROP_BLOCK_THINKING | {"block_binding": {"prefix_mismatch_behavior": "error"}},
        ),
        make_binding_error("messages.1.content.0"),
        legal=make_thinking_request(
            HELLO, SAVED_REPLY, HANDOFF_RESULT, thinking=DROP_BLOCK_THINKING | {"block_binding": {"prefix_mismatch_behavior": "error"}}
        ),
        setup=THINKING_SETUP,
        switches={"binding": False},
        headers=BINDING_HEADER,
    ),
    # -- the end of the conversation
    RuleCase(
        "M17",
        make_request(HELLO, make_assistant_message(make_text_block("It is"))),
        make_error_body("This model does not support assistant message prefill. The conversation must end with a user message."),
        legal=make_request(HELLO, make_assistant_message(make_text_block("It is")), model="claude-haiku-4-5"),
    ),
    RuleCase(
        "M16",
        make_request(HELLO, make_assistant_message(make_text_block("It is ")), model="claude-haiku-4-5"),
        make_error_body("messages: final assistant content cannot end with trailing whitespace"),
        legal=make_request(HELLO, make_assistant_message(make_text_block("It is")), model="claude-haiku-4-5"),
    ),
    RuleCase(
        "MC2",
        make_request(HELLO, make_assistant_message(CODE_USE, make_tool_use(caller=CODE_CALLER)), make_user_message(make_tool_result())),
        make_error_body("container_id is required when there are pending tool uses generated by code execution with tools."),
        legal=make_request(
            HELLO,
            make_assistant_message(CODE_USE, make_tool_use(caller=CODE_CALLER)),
            make_user_message(make_tool_result()),
            container="container_1",
        ),
    ),
    RuleCase(
        "MC1",
        make_request(
            make_user_message(make_text_block("", **CACHE_CONTROL), make_text_block("Hello")),
            make_assistant_message(make_text_block("Yes?")),
            HELLO,
        ),
        make_error_body("messages.0.content.0.text: cache_control cannot be set for empty text blocks"),
        legal=make_request(
            make_user_message(make_text_block(""), make_text_block("Hello")), make_assistant_message(make_text_block("Yes?")), HELLO
        ),
    ),
    RuleCase(
        "M18",
        make_request(
            make_user_message(*[make_text_block(str(number), **CACHE_CONTROL) for number in range(3)]),
            system=[make_text_block("Hi", **CACHE_CONTROL)],
            tools=[make_tool(**CACHE_CONTROL)],
        ),
        make_error_body("A maximum of 4 blocks with cache_control may be provided. Found 5."),
        legal=make_request(
            make_user_message(*[make_text_block(str(number), **CACHE_CONTROL) for number in range(3)]),
            system=[make_text_block("Hi")],
            tools=[make_tool(**CACHE_CONTROL)],
        ),
    ),
    RuleCase(
        "MC3",
        make_request(tools=[make_tool(**CACHE_CONTROL)], system=[make_text_block("Be brief.", **LONG_CACHE_CONTROL)]),
        make_error_body(
            "system.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        ),
        legal=make_request(tools=[make_tool(**LONG_CACHE_CONTROL)], system=[make_text_block("Be brief.", **CACHE_CONTROL)]),
    ),
    RuleCase(
        "M22",
        make_request(model="claude-haiku-4-5"),
        make_error_body("prompt is too long: 213462 tokens > 200000 maximum"),
        legal=make_request(model="claude-sonnet-5"),
        token_count=213_462,
    ),
    # -- what is accepted
    RuleCase(
        "M10",
        legal=make_request(HELLO, SAVED_REPLY, HANDOFF_RESULT, model="claude-sonnet-5", system="You are billing."),
        setup=THINKING_SETUP,
    ),
    RuleCase(
        "M10b",
        legal=make_request(HELLO, SAVED_REPLY, HELLO, model="claude-sonnet-5-5"),
        setup=(
            SetupStep.respond(
                make_request(HELLO, model="claude-sonnet-5-5", thinking=ADAPTIVE_THINKING),
                ReplyThought("Hm."),
                ReplyText("Which?"),
                save_as="r1",
                account="other",
            ),
        ),
    ),
    RuleCase(
        "M9a",
        legal=make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT, system="You are billing.", thinking=DROP_BLOCK_THINKING),
        setup=THINKING_SETUP,
        headers=BINDING_HEADER,
    ),
    RuleCase(
        "M9b",
        legal=make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT, system="You are billing."),
        setup=THINKING_SETUP,
        switches={"binding": False},
    ),
    RuleCase("MA6", legal=make_request(top_k=-1, top_p=-1, model="claude-haiku-4-5")),
    RuleCase(
        "MA7",
        legal=make_request(
            HELLO,
            make_assistant_message(make_tool_use()),
            make_user_message(make_tool_result()),
            make_assistant_message(make_text_block("Again."), make_tool_use()),
            make_user_message(make_tool_result()),
        ),
    ),
    RuleCase(
        "MA8",
        legal=make_request(
            HELLO,
            make_assistant_message(make_tool_use("toolu_1")),
            make_user_message(make_tool_result("toolu_9")),
            model="claude-3-opus-20240229",
        ),
    ),
    RuleCase("MA9", legal=make_request(HELLO, make_assistant_message(make_text_block("Let me look."), FETCH_USE))),
    RuleCase(
        "MA1",
        legal=make_request(
            HELLO,
            make_assistant_message(make_tool_use("a")),
            make_assistant_message(make_tool_use("b")),
            make_user_message(make_tool_result("a")),
            make_user_message(make_tool_result("b")),
            HELLO,
        ),
    ),
    RuleCase(
        "MA2",
        legal=make_request(
            make_user_message(make_text_block(""), make_text_block("Hello")), make_assistant_message(make_text_block("Yes?")), HELLO
        ),
    ),
    RuleCase(
        "MA3", legal=make_request(HELLO, {"role": "system", "content": "Be brief."}, make_assistant_message(make_text_block("Yes?")), HELLO)
    ),
    RuleCase("MA4", legal=make_thinking_request(HELLO, SAVED_REPLY, HANDOFF_RESULT), setup=THINKING_SETUP),
    RuleCase(
        "MA5", legal=make_request(system=None, tools=None, tool_choice=None, thinking=None, metadata={"user_id": None}, cache_control=None)
    ),
    RuleCase(
        "MA5",
        legal=make_request(
            HELLO,
            make_assistant_message({**make_tool_use(), "cache_control": None}),
            make_user_message({**make_tool_result(), "is_error": None, "content": None}),
            tools=[{**make_tool(), "description": None, "input_examples": None, "strict": None}],
            tool_choice={"type": "auto", "disable_parallel_tool_use": None},
            output_config={"effort": None, "format": None},
        ),
    ),
]
