"""The rules about the conversation: its turns, tool uses and results, thinking, its end, and caching.

Messages of one role in a row are one turn (A, measured). A path names the message as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.providers.rules.anthropic.check_order import (
    CACHE,
    CONTEXT_WINDOW,
    CONVERSATION_END,
    FIELD_SHAPES,
    RULES,
    THINKING,
    TOOL_LOOP,
    TOOL_RESULTS,
    TURNS,
)
from legato.providers.rules.anthropic.request_context import AnthropicContext
from legato.providers.rules.anthropic.request_shape import SERVER_RESULT_TYPES, SERVER_TOOL_USE_TYPES
from legato.providers.rules.anthropic.thinking_blocks import THINKING_TYPES, ThinkingBlock, read_prefix_binding
from legato.providers.rules.anthropic.turns import PlacedBlock, RoleTurn, TurnWithNeighbours
from legato.providers.rules.rule_set import Finding

# -- roles and contents ------------------------------------------------------------------------------------------------


@RULES.rule("M13a", "There is a message.", TURNS, grade="A", as_of="2026-11")
def there_is_a_message(context: AnthropicContext) -> Iterator[Finding]:
    if not context.request["messages"]:
        yield Finding("messages: at least one message is required", path="messages")


@RULES.rule("M11", "The first message is no system message.", TURNS, grade="A", as_of="2026-11")
def first_message_is_no_system_message(context: AnthropicContext) -> Iterator[Finding]:
    if context.turns and context.turns[0].role == "system" and context.model.accepts_system_role:
        yield Finding("messages.0: use the top-level 'system' parameter for the initial system prompt", path="messages.0")


@RULES.rule("M11b", "System messages are followed by the assistant, or end the conversation.", TURNS, grade="A", as_of="2026-11")
def system_message_precedes_the_assistant(context: AnthropicContext) -> Iterator[Finding]:
    for turn, after in zip(context.turns, context.turns[1:], strict=False):
        if turn.role == "system" and turn.first_index and after.role != "assistant" and context.model.accepts_system_role:
            problem = "role 'system' must precede an 'assistant' message or end the array"
            yield Finding(f"messages.{turn.last_index}: {problem}", path=f"messages.{turn.last_index}")


@RULES.rule("M11c", "The model supports system messages.", TURNS, grade="B", as_of="2026-06")
def system_role_is_supported(context: AnthropicContext) -> Iterator[Finding]:
    if not context.model.accepts_system_role and (turn := next((turn for turn in context.turns if turn.role == "system"), None)):
        problem = (
            'Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
        )
        yield Finding(f"messages: {problem}", path=f"messages.{turn.first_index}.role")


@RULES.rule("M14a", "The first message is a user message.", TURNS, grade="C", as_of="2025-01", switch="first_message_is_user")
def first_message_is_a_user_message(context: AnthropicContext) -> Iterator[Finding]:
    if context.turns and context.turns[0].role != "user":
        yield Finding('messages: first message must use the "user" role', path="messages.0.role")


@RULES.rule("M14b", "The roles `user` and `assistant` alternate.", TURNS, grade="C", as_of="2025-01", switch="alternation")
def roles_alternate(context: AnthropicContext) -> Iterator[Finding]:
    for turn in context.turns:
        if turn.last_index > turn.first_index:
            problem = f'roles must alternate between "user" and "assistant", but found multiple "{turn.role}" roles in a row'
            yield Finding(f"messages: {problem}", path=f"messages.{turn.first_index + 1}")


_EMPTY_CONTENT_MESSAGE = "all messages must have non-empty content except for the optional final assistant message"


@RULES.rule("M13c", "A user turn has content.", TURNS, grade="A", as_of="2026-11")
def user_turn_has_content(context: AnthropicContext) -> Iterator[Finding]:
    # The API was seen to have different messages for an empty list and an empty text.
    for turn in context.turns:
        if turn.role == "user" and not turn.blocks:
            is_text = isinstance(context.request["messages"][turn.first_index]["content"], str)
            problem = _EMPTY_CONTENT_MESSAGE if is_text else "user messages must have non-empty content"
            yield Finding(f"messages.{turn.first_index}: {problem}", path=f"messages.{turn.first_index}")


@RULES.rule("M13d", "An assistant turn has content, unless it is the last.", TURNS, grade="B", as_of="2026-11")
def assistant_turn_has_content(context: AnthropicContext) -> Iterator[Finding]:
    for turn in context.turns[:-1]:
        if turn.role == "assistant" and not turn.blocks:
            yield Finding(f"messages.{turn.first_index}: {_EMPTY_CONTENT_MESSAGE}", path=f"messages.{turn.first_index}")


@RULES.rule("MR1", "Tool results are in user messages.", TURNS, grade="B", as_of="2026-11")
def results_are_in_user_messages(context: AnthropicContext) -> Iterator[Finding]:
    yield from _find_misplaced_blocks(context, "user", "tool_result")


@RULES.rule("MR2", "Tool uses and thinking are in assistant messages.", TURNS, grade="C", as_of="2026-11")
def uses_are_in_assistant_messages(context: AnthropicContext) -> Iterator[Finding]:
    yield from _find_misplaced_blocks(context, "assistant", "tool_use", *THINKING_TYPES)


def _find_misplaced_blocks(context: AnthropicContext, role: str, *types: str) -> Iterator[Finding]:
    for turn in context.turns:
        for block in turn.blocks_of_type(*types) if turn.role != role else ():
            yield Finding(f"messages.{block.message_index}: `{block.type}` blocks can only be in `{role}` messages", path=block.path)


@RULES.rule("MV2", "From version 2026-10-21 on documents are in user messages.", TURNS, grade="C", as_of="2026-10")
def documents_are_in_user_messages(context: AnthropicContext) -> Iterator[Finding]:
    # The refusal is documented and measured; its message was not seen. A document within another block is accepted.
    if context.is_version_2026_10_21_or_later:
        yield from _find_misplaced_blocks(context, "user", "document")


@RULES.rule("MV3", "From version 2026-10-21 on a user's text has no citations.", TURNS, grade="C", as_of="2026-10")
def user_texts_have_no_citations(context: AnthropicContext) -> Iterator[Finding]:
    # Documented and measured like MV2. `citations` of documents and search results are settings, and stay.
    for turn in context.turns if context.is_version_2026_10_21_or_later else ():
        for block in turn.blocks if turn.role == "user" else ():
            for path, text in _list_text_blocks(block):
                if text.get("citations"):
                    yield Finding(f"{path}.text.citations: Extra inputs are not permitted", path=f"{path}.citations")


def _list_text_blocks(block: PlacedBlock) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the value of each text block: the block itself, or those in a search result."""
    if block.type == "text":
        yield block.path, block.value
    elif block.type == "search_result":
        for index, text in enumerate(block.value["content"]):
            yield f"{block.path}.search_result.content.{index}", text


@RULES.rule("M15", "A text of a final user turn is not empty.", TURNS, grade="A", as_of="2026-11")
def final_text_is_not_empty(context: AnthropicContext) -> Iterator[Finding]:
    # Seen without a path, and only for a final user turn: the same block was accepted earlier in a conversation.
    for block in _list_final_texts(context.turns):
        if not block.value["text"]:
            yield Finding("messages: text content blocks must be non-empty", path=block.path)


@RULES.rule("M15b", "A text of a final user turn is not blank.", TURNS, grade="B", as_of="2026-11")
def final_text_is_not_blank(context: AnthropicContext) -> Iterator[Finding]:
    for block in _list_final_texts(context.turns):
        if block.value["text"] and not block.value["text"].strip():
            yield Finding("messages: text content blocks must contain non-whitespace text", path=block.path)


def _list_final_texts(turns: list[RoleTurn]) -> list[PlacedBlock]:
    return turns[-1].blocks_of_type("text") if turns and turns[-1].role == "user" else []


@RULES.rule("M15c", "A text of the system prompt is not empty.", TURNS, grade="B", as_of="2026-11")
def system_text_is_not_empty(context: AnthropicContext) -> Iterator[Finding]:
    system = context.request.get("system")
    for index, block in enumerate(system if isinstance(system, list) else ()):
        if not block["text"]:
            yield Finding("system: text content blocks must be non-empty", path=f"system.{index}")


@RULES.rule(
    "M25",
    "A conversation with tool uses or results declares tools.",
    TURNS,
    grade="B",
    as_of="2025-01",
    switch="tools_with_tool_history",
)
def tools_are_declared(context: AnthropicContext) -> Iterator[Finding]:
    if not context.request.get("tools"):
        for turn in context.turns:
            for block in turn.blocks_of_type("tool_use", "tool_result")[:1]:
                yield Finding("Requests which include `tool_use` or `tool_result` blocks must define tools.", path=block.path)
                return


# -- tool uses and their results, turn by turn -------------------------------------------------------------------------


@RULES.rule("M3", "No two tool uses of one turn share an id.", TOOL_RESULTS, grade="B", as_of="2026-11")
def tool_use_ids_are_unique(context: AnthropicContext, subject: TurnWithNeighbours) -> Iterator[Finding]:
    ids: set[str] = set()
    for block in subject.turn.blocks_of_type("tool_use"):
        if block.value["id"] in ids:
            yield Finding(f"{block.path}: `tool_use` ids must be unique", path=block.path)
        ids.add(block.value["id"])


@RULES.rule("M2", "A tool result has its use in the turn before.", TOOL_RESULTS, grade="B", as_of="2026-11")
def result_has_its_use(context: AnthropicContext, subject: TurnWithNeighbours) -> Iterator[Finding]:
    use_ids = _list_tool_use_ids(subject.before)
    if use_ids and not context.model.compares_call_ids:
        return
    for block in subject.turn.blocks_of_type("tool_result"):
        if block.value["tool_use_id"] not in use_ids:
            problem = f"unexpected `tool_use_id` found in `tool_result` blocks: {block.value['tool_use_id']}."
            requirement = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            yield Finding(f"{block.path}: {problem} {requirement}", path=block.path)


@RULES.rule("M2b", "A result of a server tool comes after its use.", TOOL_RESULTS, grade="B", as_of="2026-06")
def server_result_has_its_use(context: AnthropicContext, subject: TurnWithNeighbours) -> Iterator[Finding]:
    for block in subject.turn.blocks_of_type(*SERVER_RESULT_TYPES):
        use_type = "mcp_tool_use" if block.type == "mcp_tool_result" else "server_tool_use"
        id = block.value["tool_use_id"]
        if id not in context.server_use_positions or context.server_use_positions[id] > (block.message_index, block.block_index):
            problem = f"unexpected `tool_use_id` found in `{block.type}` blocks: {id}."
            requirement = f"Each `{block.type}` block must have a corresponding `{use_type}` block before it."
            yield Finding(f"{block.path}: {problem} {requirement}", path=block.path)


@RULES.rule("M4", "A tool use has one result.", TOOL_RESULTS, grade="B", as_of="2026-11")
def use_has_one_result(context: AnthropicContext, subject: TurnWithNeighbours) -> Iterator[Finding]:
    ids: set[str] = set()
    for block in subject.turn.blocks_of_type("tool_result"):
        id = block.value["tool_use_id"]
        if id in ids:
            problem = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            yield Finding(f"{block.path}: {problem}", path=block.path)
        ids.add(id)


@RULES.rule("M1", "A tool use has its result in the next turn.", TOOL_RESULTS, grade="B", as_of="2026-11")
def use_has_its_result(context: AnthropicContext, subject: TurnWithNeighbours) -> Iterator[Finding]:
    answered_ids = {block.value["tool_use_id"] for block in subject.after.blocks_of_type("tool_result")} if subject.after else set()
    if answered_ids and not context.model.compares_call_ids:
        return
    yield from _missing_results([block for block in subject.turn.blocks_of_type("tool_use") if block.value["id"] not in answered_ids])


@RULES.rule("M5", "Tool results come first in their turn.", TOOL_RESULTS, grade="C", as_of="2026-11", switch="results_first")
def results_come_first(context: AnthropicContext, subject: TurnWithNeighbours) -> Iterator[Finding]:
    blocks = subject.after.blocks if subject.after else ()
    first = next((index for index, block in enumerate(blocks) if block.type != "tool_result"), len(blocks))
    late_ids = {block.value["tool_use_id"] for block in blocks[first:] if block.type == "tool_result"}
    if late_ids:
        yield from _missing_results([block for block in subject.turn.blocks_of_type("tool_use") if block.value["id"] in late_ids])


def _list_tool_use_ids(turn: RoleTurn | None) -> set[str]:
    return {block.value["id"] for block in turn.blocks_of_type("tool_use")} if turn else set()


def _missing_results(uses: list[PlacedBlock]) -> Iterator[Finding]:
    if uses:
        ids = ", ".join(dict.fromkeys(block.value["id"] for block in uses))
        problem = f"`tool_use` ids were found without `tool_result` blocks immediately after: {ids}."
        requirement = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        yield Finding(f"messages.{uses[0].message_index}: {problem} {requirement}", path=uses[0].path)


# -- thinking ----------------------------------------------------------------------------------------------------------


@RULES.rule(
    "M6",
    "With thinking enabled, the first assistant turn of an open tool loop begins with thinking.",
    TOOL_LOOP,
    grade="B",
    as_of="2026-11",
)
def loop_begins_with_thinking(context: AnthropicContext) -> Iterator[Finding]:
    if context.thinking_type != "enabled":
        return  # the model may skip adaptive thinking, so it cannot be required
    turns = [turn for turn in context.turns if turn.role != "system"]
    start = len(turns)
    while start >= 2 and turns[start - 1].blocks_of_type("tool_result") and turns[start - 2].role == "assistant":
        start -= 2
    if start < len(turns) and (blocks := turns[start].blocks) and blocks[0].type not in THINKING_TYPES:
        problem = f"Expected `thinking` or `redacted_thinking`, but found `{blocks[0].type}`."
        requirement = (
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
            "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. "
            "To avoid this requirement, disable `thinking`."
        )
        yield Finding(f"{blocks[0].path}.type: {problem} {requirement}", path=blocks[0].path)


@RULES.rule("M8", "The signature of thinking was made by the provider.", THINKING, grade="B", as_of="2026-11", switch="signatures")
def signature_is_known(context: AnthropicContext, block: ThinkingBlock) -> Iterator[Finding]:
    is_unknown = block.signature is None or (block.is_modified and not block.is_in_latest_turn)
    if block.value["type"] == "thinking" and is_unknown:
        yield Finding(f"{block.path}: Invalid `signature` in `thinking` block", path=block.path)


@RULES.rule("M8b", "The data of redacted thinking was made by the provider.", THINKING, grade="B", as_of="2026-05", switch="signatures")
def data_is_known(context: AnthropicContext, block: ThinkingBlock) -> Iterator[Finding]:
    if block.value["type"] == "redacted_thinking" and block.signature is None:
        yield Finding(f"{block.path}: Invalid `data` in `redacted_thinking` block", path=block.path)


@RULES.rule("M7", "The thinking of the latest assistant turn is not modified.", THINKING, grade="B", as_of="2026-11", switch="signatures")
def latest_thinking_is_unchanged(context: AnthropicContext, block: ThinkingBlock) -> Iterator[Finding]:
    if block.is_in_latest_turn and block.is_modified:
        problem = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
        yield Finding(f"{block.path}: {problem} These blocks must remain as they were in the original response.", path=block.path)


@RULES.rule("M9", "Nothing before preserved thinking has changed.", THINKING, grade="C", as_of="2026-11")
def prefix_is_unchanged(context: AnthropicContext, block: ThinkingBlock) -> Iterator[Finding]:
    if not block.has_other_prefix or block.drop_reason or block.is_modified:
        return
    binding = read_prefix_binding(context.request, context.headers, context.model, context.switches)
    if binding.is_enforced and not binding.drops_block:
        problem = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
        advice = 'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        yield Finding(f"{block.path}: {problem} {advice}", path=block.path)


# -- the end of the conversation, caching, and the context window ------------------------------------------------------


@RULES.rule("M17", "A model without prefill support gets no final assistant message.", CONVERSATION_END, grade="A", as_of="2026-11")
def prefill_is_supported(context: AnthropicContext) -> Iterator[Finding]:
    # A turn that the provider paused is sent back as it is, and a credit for a fallback permits a prefill (both documented).
    turn = context.last_turn
    is_paused = turn.blocks_of_type(*SERVER_TOOL_USE_TYPES, *SERVER_RESULT_TYPES, "compaction", "fallback")
    is_permitted = context.model.accepts_prefill or is_paused or context.request.get("fallback_credit_token")
    if turn.role == "assistant" and not is_permitted:
        problem = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield Finding(problem, path=f"messages.{turn.last_index}")


@RULES.rule("M16", "A prefill does not end in whitespace.", CONVERSATION_END, grade="B", as_of="2026-11")
def prefill_does_not_end_in_whitespace(context: AnthropicContext) -> Iterator[Finding]:
    if context.last_turn.role == "assistant" and context.model.accepts_prefill and context.last_turn.blocks:
        block = context.last_turn.blocks[-1]
        if block.type == "text" and block.value["text"] != block.value["text"].rstrip():
            yield Finding("messages: final assistant content cannot end with trailing whitespace", path=block.path)


@RULES.rule("MC2", "Results for tool uses by code execution come with its container.", CONVERSATION_END, grade="B", as_of="2026-08")
def code_execution_has_its_container(context: AnthropicContext) -> Iterator[Finding]:
    if len(context.turns) < 2 or not context.last_turn.blocks_of_type("tool_result") or context.request.get("container"):
        return
    turn = context.turns[-2]
    uses = turn.blocks_of_type("tool_use") if turn.role == "assistant" else []
    by_code = [block for block in uses if (block.value.get("caller") or {}).get("type") not in (None, "direct")]
    if by_code:
        problem = "container_id is required when there are pending tool uses generated by code execution with tools."
        yield Finding(problem, path=by_code[0].path)


@RULES.rule("MC1", "An empty text is not cached.", CACHE, grade="B", as_of="2026-11")
def cached_text_is_not_empty(context: AnthropicContext) -> Iterator[Finding]:
    for turn in context.turns:
        for block in turn.blocks_of_type("text"):
            if not block.value["text"] and block.value.get("cache_control") is not None:
                yield Finding(f"{block.path}.text: cache_control cannot be set for empty text blocks", path=block.path)


@RULES.rule("M18", "At most four blocks are cached.", CACHE, grade="B", as_of="2026-11", switch="cache_limit")
def few_blocks_are_cached(context: AnthropicContext) -> Iterator[Finding]:
    limit, count = context.switches.cache_limit, len(list(context.list_cached_blocks()))
    if count > limit:
        yield Finding(f"A maximum of {limit} blocks with cache_control may be provided. Found {count}.", path="cache_control")


@RULES.rule("MC3", "Blocks cached for an hour come before blocks cached for minutes.", CACHE, grade="B", as_of="2026-08")
def longer_caches_come_first(context: AnthropicContext) -> Iterator[Finding]:
    has_short_cache = False
    for path, cache in context.list_cached_blocks():
        if has_short_cache and cache.get("ttl") == "1h":
            problem = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
            note = "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            yield Finding(f"{path}.ttl: {problem} {note}", path=path)
        has_short_cache = has_short_cache or cache.get("ttl") != "1h"


@RULES.rule("M22", "The prompt fits the model's window.", CONTEXT_WINDOW, grade="B", as_of="2026-11")
def prompt_fits_the_window(context: AnthropicContext) -> Iterator[Finding]:
    if 0 < context.model.context_window < context.token_count:
        yield Finding(f"prompt is too long: {context.token_count} tokens > {context.model.context_window} maximum", path="messages")


# -- permissions -------------------------------------------------------------------------------------------------------

RULES.add_permission("M10", "Thinking that the model may not read is dropped, not refused.", grade="C", as_of="2026-11", phase=THINKING)
RULES.add_permission("M10b", "Thinking of another account is dropped, not refused.", grade="C", as_of="2026-11", phase=THINKING)
RULES.add_permission(
    "M9a", "Thinking whose prefix has changed is dropped if the request says so.", grade="C", as_of="2026-11", phase=THINKING
)
RULES.add_permission(
    "M9b", "Accounts made before 2026-08-31 are not bound unless the request asks for it.", grade="C", as_of="2026-11", phase=THINKING
)
RULES.add_permission("MA1", "Messages of one role in a row are one turn.", grade="A", as_of="2026-11", phase=TURNS)
RULES.add_permission("MA2", "An empty text in the middle of a conversation is accepted.", grade="A", as_of="2026-11", phase=TURNS)
RULES.add_permission("MA3", "System messages may precede the assistant or end the conversation.", grade="A", as_of="2026-11", phase=TURNS)
RULES.add_permission("MA4", "Everything that the API sent may be sent back.", grade="B", as_of="2026-11", phase=FIELD_SHAPES)
RULES.add_permission("MA6", "`-1` for `top_k` and `top_p` counts as absent.", grade="A", as_of="2025-08", phase=FIELD_SHAPES)
RULES.add_permission(
    "MA7", "Tool uses of two turns may share an id, if each has its result.", grade="A", as_of="2026-08", phase=TOOL_RESULTS
)
RULES.add_permission("MA8", "Claude 3 does not compare the ids of tool uses and results.", grade="A", as_of="2024-06", phase=TOOL_RESULTS)
RULES.add_permission("MA9", "A turn that the provider paused may end the conversation.", grade="C", as_of="2026-11", phase=CONVERSATION_END)
RULES.add_permission("MA5", "A null member counts as absent, unless it is required.", grade="D", as_of="2026-11", phase=FIELD_SHAPES)
