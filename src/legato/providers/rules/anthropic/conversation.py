"""The laws of the Messages API about the conversation. May know: its turns. Decides: what may follow what.

Messages of one role in a row are one turn (A, measured); a path names the message as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.providers.rules.anthropic.book import BOOK, CACHE, CONVERSATION, END, LOOP, SHAPE, THINKING, TOOLS, WINDOW
from legato.providers.rules.anthropic.case import Case
from legato.providers.rules.anthropic.request import SERVER_RESULTS, SERVER_USES
from legato.providers.rules.anthropic.thinking import KINDS, Thought, binding
from legato.providers.rules.anthropic.turns import Spot, Step, Turn
from legato.providers.rules.rule_set import Fault

# -- 1. roles and contents ---------------------------------------------------------------------------------------------


@BOOK.law("M13a", "There is a message.", CONVERSATION, grade="A", seen="2026-11")
def there_is_a_message(case: Case) -> Iterator[Fault]:
    if not case.request["messages"]:
        yield Fault("messages: at least one message is required", path="messages")


@BOOK.law("M11", "The first message is not the system's.", CONVERSATION, grade="A", seen="2026-11")
def system_does_not_begin(case: Case) -> Iterator[Fault]:
    if case.turns and case.turns[0].role == "system" and case.model.system_role:
        yield Fault("messages.0: use the top-level 'system' parameter for the initial system prompt", path="messages.0")


@BOOK.law("M11b", "After the system's messages the assistant speaks, or nobody.", CONVERSATION, grade="A", seen="2026-11")
def system_stands_before_the_assistant(case: Case) -> Iterator[Fault]:
    for turn, after in zip(case.turns, case.turns[1:], strict=False):
        if turn.role == "system" and turn.first and after.role != "assistant" and case.model.system_role:
            told = "role 'system' must precede an 'assistant' message or end the array"
            yield Fault(f"messages.{turn.last}: {told}", path=f"messages.{turn.last}")


@BOOK.law("M11c", "The model takes messages of the system.", CONVERSATION, grade="B", seen="2026-06")
def system_is_taken(case: Case) -> Iterator[Fault]:
    if not case.model.system_role and (turn := next((turn for turn in case.turns if turn.role == "system"), None)):
        told = 'Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
        yield Fault(f"messages: {told}", path=f"messages.{turn.first}.role")


@BOOK.law("M14a", "The first message is the user's.", CONVERSATION, grade="C", seen="2025-01", switch="first_message_is_user")
def user_begins(case: Case) -> Iterator[Fault]:
    if case.turns and case.turns[0].role != "user":
        yield Fault('messages: first message must use the "user" role', path="messages.0.role")


@BOOK.law("M14b", "User and assistant take turns.", CONVERSATION, grade="C", seen="2025-01", switch="alternation")
def roles_alternate(case: Case) -> Iterator[Fault]:
    for turn in case.turns:
        if turn.last > turn.first:
            told = f'roles must alternate between "user" and "assistant", but found multiple "{turn.role}" roles in a row'
            yield Fault(f"messages: {told}", path=f"messages.{turn.first + 1}")


_ALL_HAVE_CONTENT = "all messages must have non-empty content except for the optional final assistant message"


@BOOK.law("M13c", "The user's turn has a content.", CONVERSATION, grade="A", seen="2026-11")
def user_says_something(case: Case) -> Iterator[Fault]:
    # An empty list and an empty text were seen to be told in different words.
    for turn in case.turns:
        if turn.role == "user" and not turn.spots:
            text = isinstance(case.request["messages"][turn.first]["content"], str)
            told = _ALL_HAVE_CONTENT if text else "user messages must have non-empty content"
            yield Fault(f"messages.{turn.first}: {told}", path=f"messages.{turn.first}")


@BOOK.law("M13d", "The assistant's turn has a content, unless it is the last.", CONVERSATION, grade="B", seen="2026-11")
def assistant_says_something(case: Case) -> Iterator[Fault]:
    for turn in case.turns[:-1]:
        if turn.role == "assistant" and not turn.spots:
            yield Fault(f"messages.{turn.first}: {_ALL_HAVE_CONTENT}", path=f"messages.{turn.first}")


@BOOK.law("MR1", "Results of tools are the user's.", CONVERSATION, grade="B", seen="2026-11")
def results_are_the_users(case: Case) -> Iterator[Fault]:
    yield from _misplaced(case, "user", "tool_result")


@BOOK.law("MR2", "Uses of tools, and thinking, are the assistant's.", CONVERSATION, grade="C", seen="2026-11")
def uses_are_the_assistants(case: Case) -> Iterator[Fault]:
    yield from _misplaced(case, "assistant", "tool_use", *KINDS)


def _misplaced(case: Case, role: str, *types: str) -> Iterator[Fault]:
    for turn in case.turns:
        for spot in turn.of(*types) if turn.role != role else ():
            yield Fault(f"messages.{spot.message}: `{spot.type}` blocks can only be in `{role}` messages", path=spot.path)


@BOOK.law("MV2", "From version 2026-10-21 on a document is the user's.", CONVERSATION, grade="C", seen="2026-10")
def documents_are_the_users(case: Case) -> Iterator[Fault]:
    # That it is refused is documented and measured, the words were not seen. A document within another block is accepted.
    if case.without_sampling:
        yield from _misplaced(case, "user", "document")


@BOOK.law("MV3", "From version 2026-10-21 on a text of the user's cites nothing.", CONVERSATION, grade="C", seen="2026-10")
def users_cite_nothing(case: Case) -> Iterator[Fault]:
    # Likewise. `citations` of documents and search results are settings, and stay.
    for turn in case.turns if case.without_sampling else ():
        for spot in turn.spots if turn.role == "user" else ():
            for path, text in _texts(spot):
                if text.get("citations"):
                    yield Fault(f"{path}.text.citations: Extra inputs are not permitted", path=f"{path}.citations")


def _texts(spot: Spot) -> Iterator[tuple[str, dict[str, Any]]]:
    """The texts of a block, with their places: itself, or those of a search result."""
    if spot.type == "text":
        yield spot.path, spot.value
    elif spot.type == "search_result":
        for index, block in enumerate(spot.value["content"]):
            yield f"{spot.path}.search_result.content.{index}", block


@BOOK.law("M15", "The text that ends the conversation is not empty.", CONVERSATION, grade="A", seen="2026-11")
def last_text_is_not_empty(case: Case) -> Iterator[Fault]:
    # Seen without its place, and only of the last turn of the user: the same block earlier on was accepted.
    for spot in _said(case.turns):
        if not spot.value["text"]:
            yield Fault("messages: text content blocks must be non-empty", path=spot.path)


@BOOK.law("M15b", "The text that ends the conversation is not blank.", CONVERSATION, grade="B", seen="2026-11")
def last_text_is_not_blank(case: Case) -> Iterator[Fault]:
    for spot in _said(case.turns):
        if spot.value["text"] and not spot.value["text"].strip():
            yield Fault("messages: text content blocks must contain non-whitespace text", path=spot.path)


def _said(turns: list[Turn]) -> list[Spot]:
    return turns[-1].of("text") if turns and turns[-1].role == "user" else []


@BOOK.law("M15c", "A text of the system prompt is not empty.", CONVERSATION, grade="B", seen="2026-11")
def system_text_is_not_empty(case: Case) -> Iterator[Fault]:
    system = case.request.get("system")
    for index, block in enumerate(system if isinstance(system, list) else ()):
        if not block["text"]:
            yield Fault("system: text content blocks must be non-empty", path=f"system.{index}")


@BOOK.law(
    "M25",
    "Whoever has used tools declares some.",
    CONVERSATION,
    grade="B",
    seen="2025-01",
    switch="tools_with_tool_history",
)
def tools_are_declared(case: Case) -> Iterator[Fault]:
    if not case.request.get("tools"):
        for turn in case.turns:
            for spot in turn.of("tool_use", "tool_result")[:1]:
                yield Fault("Requests which include `tool_use` or `tool_result` blocks must define tools.", path=spot.path)
                return


# -- 2. uses of tools and their results, turn by turn ------------------------------------------------------------------


@BOOK.law("M3", "No two uses of one turn have one id.", TOOLS, grade="B", seen="2026-11")
def ids_are_unique(case: Case, step: Step) -> Iterator[Fault]:
    seen: set[str] = set()
    for spot in step.turn.of("tool_use"):
        if spot.value["id"] in seen:
            yield Fault(f"{spot.path}: `tool_use` ids must be unique", path=spot.path)
        seen.add(spot.value["id"])


@BOOK.law("M2", "A result has its use in the turn before.", TOOLS, grade="B", seen="2026-11")
def result_has_its_use(case: Case, step: Step) -> Iterator[Fault]:
    used = _ids(step.before)
    if used and not case.model.pairs_by_id:
        return
    for spot in step.turn.of("tool_result"):
        if spot.value["tool_use_id"] not in used:
            told = f"unexpected `tool_use_id` found in `tool_result` blocks: {spot.value['tool_use_id']}."
            must = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            yield Fault(f"{spot.path}: {told} {must}", path=spot.path)


@BOOK.law("M2b", "A result of the provider's own tool comes after its use.", TOOLS, grade="B", seen="2026-06")
def server_result_has_its_use(case: Case, step: Step) -> Iterator[Fault]:
    for spot in step.turn.of(*SERVER_RESULTS):
        use = "mcp_tool_use" if spot.type == "mcp_tool_result" else "server_tool_use"
        id = spot.value["tool_use_id"]
        if id not in case.server_uses or case.server_uses[id] > (spot.message, spot.block):
            told = f"unexpected `tool_use_id` found in `{spot.type}` blocks: {id}."
            must = f"Each `{spot.type}` block must have a corresponding `{use}` block before it."
            yield Fault(f"{spot.path}: {told} {must}", path=spot.path)


@BOOK.law("M4", "A use has one result.", TOOLS, grade="B", seen="2026-11")
def use_has_one_result(case: Case, step: Step) -> Iterator[Fault]:
    seen: set[str] = set()
    for spot in step.turn.of("tool_result"):
        id = spot.value["tool_use_id"]
        if id in seen:
            told = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            yield Fault(f"{spot.path}: {told}", path=spot.path)
        seen.add(id)


@BOOK.law("M1", "A use has its result in the next turn.", TOOLS, grade="B", seen="2026-11")
def use_has_its_result(case: Case, step: Step) -> Iterator[Fault]:
    answered = {spot.value["tool_use_id"] for spot in step.after.of("tool_result")} if step.after else set()
    if answered and not case.model.pairs_by_id:
        return
    yield from _unanswered([spot for spot in step.turn.of("tool_use") if spot.value["id"] not in answered])


@BOOK.law("M5", "Results come first in their turn.", TOOLS, grade="C", seen="2026-11", switch="results_first")
def results_come_first(case: Case, step: Step) -> Iterator[Fault]:
    spots = step.after.spots if step.after else ()
    first = next((index for index, spot in enumerate(spots) if spot.type != "tool_result"), len(spots))
    late = {spot.value["tool_use_id"] for spot in spots[first:] if spot.type == "tool_result"}
    if late:
        yield from _unanswered([spot for spot in step.turn.of("tool_use") if spot.value["id"] in late])


def _ids(turn: Turn | None) -> set[str]:
    return {spot.value["id"] for spot in turn.of("tool_use")} if turn else set()


def _unanswered(uses: list[Spot]) -> Iterator[Fault]:
    if uses:
        ids = ", ".join(dict.fromkeys(spot.value["id"] for spot in uses))
        told = f"`tool_use` ids were found without `tool_result` blocks immediately after: {ids}."
        must = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        yield Fault(f"messages.{uses[0].message}: {told} {must}", path=uses[0].path)


# -- 3. thinking -------------------------------------------------------------------------------------------------------


@BOOK.law("M6", "With thinking on, the assistant's part of an open loop of tools begins with thinking.", LOOP, grade="B", seen="2026-11")
def loop_begins_with_thinking(case: Case) -> Iterator[Fault]:
    if case.thinks != "enabled":
        return  # adaptive thinking may be skipped, so nobody can ask for it
    turns = [turn for turn in case.turns if turn.role != "system"]
    loop = len(turns)
    while loop >= 2 and turns[loop - 1].of("tool_result") and turns[loop - 2].role == "assistant":
        loop -= 2
    if loop < len(turns) and (spots := turns[loop].spots) and spots[0].type not in KINDS:
        told = f"Expected `thinking` or `redacted_thinking`, but found `{spots[0].type}`."
        must = (
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
            "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. "
            "To avoid this requirement, disable `thinking`."
        )
        yield Fault(f"{spots[0].path}.type: {told} {must}", path=spots[0].path)


@BOOK.law("M8", "The signature of thinking is the provider's.", THINKING, grade="B", seen="2026-11", switch="signatures")
def signature_is_known(case: Case, thought: Thought) -> Iterator[Fault]:
    unknown = thought.signed is None or (thought.changed and not thought.latest)
    if thought.value["type"] == "thinking" and unknown:
        yield Fault(f"{thought.path}: Invalid `signature` in `thinking` block", path=thought.path)


@BOOK.law("M8b", "The data of redacted thinking is the provider's.", THINKING, grade="B", seen="2026-05", switch="signatures")
def data_is_known(case: Case, thought: Thought) -> Iterator[Fault]:
    if thought.value["type"] == "redacted_thinking" and thought.signed is None:
        yield Fault(f"{thought.path}: Invalid `data` in `redacted_thinking` block", path=thought.path)


@BOOK.law("M7", "The latest thinking comes back as it was.", THINKING, grade="B", seen="2026-11", switch="signatures")
def latest_thinking_is_unchanged(case: Case, thought: Thought) -> Iterator[Fault]:
    if thought.latest and thought.changed:
        told = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
        yield Fault(f"{thought.path}: {told} These blocks must remain as they were in the original response.", path=thought.path)


@BOOK.law("M9", "Before preserved thinking nothing has changed.", THINKING, grade="C", seen="2026-11")
def prefix_is_unchanged(case: Case, thought: Thought) -> Iterator[Fault]:
    if not thought.moved or thought.barred or thought.changed:
        return
    rule = binding(case.request, case.headers, case.model, case.profile)
    if rule.enforced and not rule.drops:
        told = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
        can = 'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        yield Fault(f"{thought.path}: {told} {can}", path=thought.path)


# -- 4. how the conversation ends, and how long it is ------------------------------------------------------------------


@BOOK.law("M17", "A model that does not continue the assistant's words is not asked to.", END, grade="A", seen="2026-11")
def user_speaks_last(case: Case) -> Iterator[Fault]:
    # A turn that the provider paused is sent back as it stands, and a credit for a fallback allows for a prefill (both documented).
    own = case.last.of(*SERVER_USES, *SERVER_RESULTS, "compaction", "fallback")
    if case.last.role == "assistant" and not case.model.prefill and not own and not case.request.get("fallback_credit_token"):
        told = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield Fault(told, path=f"messages.{case.last.last}")


@BOOK.law("M16", "The assistant's words that are to be continued do not end in a blank.", END, grade="B", seen="2026-11")
def prefill_ends_in_a_word(case: Case) -> Iterator[Fault]:
    if case.last.role == "assistant" and case.model.prefill and case.last.spots:
        spot = case.last.spots[-1]
        if spot.type == "text" and spot.value["text"] != spot.value["text"].rstrip():
            yield Fault("messages: final assistant content cannot end with trailing whitespace", path=spot.path)


@BOOK.law("MC2", "Outputs that code waits for come with the container that it runs in.", END, grade="B", seen="2026-08")
def waiting_code_has_its_container(case: Case) -> Iterator[Fault]:
    made, answers = (case.turns[-2], case.last) if len(case.turns) > 1 else (None, case.last)
    if made is None or made.role != "assistant" or not answers.of("tool_result") or case.request.get("container"):
        return
    waits = [spot for spot in made.of("tool_use") if (spot.value.get("caller") or {}).get("type") not in (None, "direct")]
    if waits:
        told = "container_id is required when there are pending tool uses generated by code execution with tools."
        yield Fault(told, path=waits[0].path)


@BOOK.law("MC1", "An empty text is not cached.", CACHE, grade="B", seen="2026-11")
def cached_text_is_not_empty(case: Case) -> Iterator[Fault]:
    for turn in case.turns:
        for spot in turn.of("text"):
            if not spot.value["text"] and spot.value.get("cache_control") is not None:
                yield Fault(f"{spot.path}.text: cache_control cannot be set for empty text blocks", path=spot.path)


@BOOK.law("M18", "At most four blocks are cached.", CACHE, grade="B", seen="2026-11", switch="cache_limit")
def few_blocks_are_cached(case: Case) -> Iterator[Fault]:
    most, marked = case.profile.cache_limit, len(list(case.cached()))
    if marked > most:
        yield Fault(f"A maximum of {most} blocks with cache_control may be provided. Found {marked}.", path="cache_control")


@BOOK.law("MC3", "What is cached for an hour stands before what is cached for minutes.", CACHE, grade="B", seen="2026-08")
def longer_caches_come_first(case: Case) -> Iterator[Fault]:
    short = False
    for path, cache in case.cached():
        if short and cache.get("ttl") == "1h":
            told = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
            note = "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            yield Fault(f"{path}.ttl: {told} {note}", path=path)
        short = short or cache.get("ttl") != "1h"


@BOOK.law("M22", "The prompt fits the model's window.", WINDOW, grade="B", seen="2026-11")
def prompt_fits(case: Case) -> Iterator[Fault]:
    if 0 < case.model.window < case.tokens:
        yield Fault(f"prompt is too long: {case.tokens} tokens > {case.model.window} maximum", path="messages")


# -- what is accepted although one might think otherwise ---------------------------------------------------------------

BOOK.permits("M10", "Thinking that the model may not read is dropped, not refused.", grade="C", seen="2026-11", phase=THINKING)
BOOK.permits("M10b", "Thinking of another account is dropped, not refused.", grade="C", seen="2026-11", phase=THINKING)
BOOK.permits("M9a", "Where the request says so, thinking whose prefix has changed is dropped.", grade="C", seen="2026-11", phase=THINKING)
BOOK.permits("M9b", "Accounts made before 2026-08-31 are not bound unless they ask for it.", grade="C", seen="2026-11", phase=THINKING)
BOOK.permits("MA1", "Messages of one role in a row are one turn.", grade="A", seen="2026-11", phase=CONVERSATION)
BOOK.permits("MA2", "An empty text in the middle of a conversation is accepted.", grade="A", seen="2026-11", phase=CONVERSATION)
BOOK.permits("MA3", "The system may speak before the assistant or at the end.", grade="A", seen="2026-11", phase=CONVERSATION)
BOOK.permits("MA4", "Whatever the API sent may be sent back.", grade="B", seen="2026-11", phase=SHAPE)
BOOK.permits("MA6", "`-1` for `top_k` and `top_p` counts as left out.", grade="A", seen="2025-08", phase=SHAPE)
BOOK.permits("MA7", "Two turns may use one id, if each use is answered.", grade="A", seen="2026-08", phase=TOOLS)
BOOK.permits("MA8", "Claude 3 does not compare the ids of uses and results.", grade="A", seen="2024-06", phase=TOOLS)
BOOK.permits("MA9", "A turn that the provider paused may end the conversation.", grade="C", seen="2026-11", phase=END)
BOOK.permits("MA5", "A member that is null counts as left out, unless it must be there.", grade="D", seen="2026-11", phase=SHAPE)
