"""The rules of the OpenAI Responses API, and the functions that check requests against them.

    violations = check_request({"model": "gpt-5.5", "input": "hello"})

`RULES` is the whole rule set; check_order.py has its order. This module has the rules about presence, models, stored state and lookups. The
others are in item_rules.py, part_rules.py, field_rules.py, tool_rules.py, call_rules.py and reasoning_rules.py.

Rule ids: P presence, V values of fields, O other rules about fields, N items of the input, S stored state, I item ids, T tools, calls and
outputs, R reasoning, F limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from legato.providers.rules.responses import call_rules, field_rules, item_rules, part_rules, reasoning_rules, tool_rules
from legato.providers.rules.responses.check_order import (
    BODY,
    CALLS,
    CONTEXT_WINDOW,
    DUPLICATES,
    ENCRYPTED_CONTENT,
    INPUT_PRESENT,
    ITEMS,
    KNOWN_KEYS,
    LOOKUP,
    MODEL_CAPABILITIES,
    MODEL_EXISTS,
    MODEL_PRESENT,
    REASONING,
    RULES,
    SOMETHING_TO_ANSWER,
    STATE,
)
from legato.providers.rules.responses.error_messages import AS_OF, describe_type, join_quoted, missing_member
from legato.providers.rules.responses.key_suggestions import REQUEST_KEYS, suggest_keys
from legato.providers.rules.responses.provider_state import ExpiryAware, ResponsesState
from legato.providers.rules.responses.request_context import EMPTY_STATE, ResponsesContext, as_text
from legato.providers.rules.responses.rule_switches import OPENAI, ResponsesRuleSwitches
from legato.providers.rules.rule_set import Finding, RuleViolation

__all__ = [
    "OPENAI",
    "RULES",
    "RULE_MODULES",
    "ResponsesContext",
    "ResponsesRuleSwitches",
    "check_each_item",
    "check_items",
    "check_request",
    "render_error_body",
]

RULE_MODULES = (item_rules, part_rules, field_rules, tool_rules, call_rules, reasoning_rules)
"""The modules that add the other rules when they are imported."""

MAX_VIOLATIONS = 100
"""The number of violations that are reported about one request."""


def check_request(
    request: Any, state: ResponsesState = EMPTY_STATE, switches: ResponsesRuleSwitches = OPENAI, token_count: int = 0
) -> list[RuleViolation]:
    """Return the violations of a request in the provider's order; it answers with the first. `token_count`: of the whole input.

    >>> [str(violation) for violation in check_request({"model": "gpt-5.5"})]
    ["[P2] 400 Missing required parameter: 'input'. at input"]
    """
    non_objects = () if isinstance(request, dict) else (request,)
    context = ResponsesContext({} if non_objects else request, state, switches, token_count, non_objects)
    return list(islice(RULES.check(context), MAX_VIOLATIONS))


ITEM_PHASES = (ITEMS, DUPLICATES, LOOKUP, ENCRYPTED_CONTENT, CALLS, REASONING)
"""The phases about nothing but the items of the input and their order."""


def check_items(items: list[dict[str, Any]]) -> list[RuleViolation]:
    """Return the violations of some items with everything that belongs to them, as part of an otherwise legal request.

    >>> [str(violation) for violation in check_items([{"type": "function_call_output", "call_id": "call_1", "output": "done"}])]
    ['[T2] 400 No tool call found for function call output with call_id call_1. at input[0]']
    """
    return list(islice(RULES.check(ResponsesContext({"model": "any", "input": items}), ITEM_PHASES), MAX_VIOLATIONS))


def check_each_item(items: list[dict[str, Any]]) -> list[RuleViolation]:
    """Return the violations of items, each checked by itself: what belongs to them is elsewhere."""
    return list(islice(RULES.check(ResponsesContext({"model": "any", "input": items}), (ITEMS,)), MAX_VIOLATIONS))


def render_error_body(violation: RuleViolation, switches: ResponsesRuleSwitches = OPENAI) -> dict[str, Any]:
    """Return the response body with which the provider reports a violation."""
    code = violation.code or ("invalid_request_error" if switches.code_never_null else None)
    return {"error": {"message": violation.message, "type": violation.type, "param": violation.param, "code": code}}


# -- presence ----------------------------------------------------------------------------------------------------------


@RULES.rule("P0", "The body is an object.", BODY, grade="D", as_of=AS_OF, code="invalid_type")
def the_body_is_an_object(context: ResponsesContext) -> Iterator[Finding]:
    for value in context.non_objects:
        yield Finding(f"Invalid type for request body: expected an object, but got {describe_type(value)} instead.")


@RULES.rule("P1", "There is a `model`, unless a stored prompt has one.", MODEL_PRESENT, grade="A", as_of=AS_OF)
def there_is_a_model(context: ResponsesContext) -> Iterator[Finding]:
    if "model" not in context.request and context.prompt_id is None:
        yield missing_member("model")


@RULES.rule("P2", "There is an `input`, unless a stored prompt has one.", INPUT_PRESENT, grade="A", as_of=AS_OF)
def there_is_an_input(context: ResponsesContext) -> Iterator[Finding]:
    if "input" not in context.request and context.prompt_id is None:
        yield missing_member("input")


@RULES.rule(
    "P4", "There are no `messages`: they are for Chat Completions.", KNOWN_KEYS, grade="A", as_of=AS_OF, code="unsupported_parameter"
)
def there_are_no_messages(context: ResponsesContext) -> Iterator[Finding]:
    if context.get_field("messages") is not None:
        yield Finding(
            "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'. "
            "Try again with the new parameter. See the API documentation for more information: "
            "https://platform.openai.com/docs/api-reference/responses/create.",
            path="messages",
        )


@RULES.rule("P3", "There are no unknown keys.", KNOWN_KEYS, grade="A", as_of=AS_OF, code="unknown_parameter")
def there_are_no_unknown_keys(context: ResponsesContext) -> Iterator[Finding]:
    for key, value in context.request.items():
        if key not in REQUEST_KEYS and key != "messages" and value is not None:
            yield Finding(f"Unknown parameter: '{key}'.{suggest_keys(key, context.request)}", key)


# -- the model ---------------------------------------------------------------------------------------------------------


@RULES.rule("O9", "The model exists.", MODEL_EXISTS, grade="A", as_of=AS_OF, code="model_not_found")
def the_model_exists(context: ResponsesContext) -> Iterator[Finding]:
    if context.get_field("model") is not None and context.model_info is None:
        yield Finding(f"The requested model '{context.get_field('model')}' does not exist.", "model")


def _get_effort(context: ResponsesContext) -> Any:
    """Return the effort in the request. None: the model's default applies."""
    settings = context.get_field("reasoning")
    return settings.get("effort") if isinstance(settings, dict) else None


def _is_reasoning_on(context: ResponsesContext) -> bool:
    """Return True if the model reasons about this request: its effort, as sent or by default, is not 'none'.

    An unknown default counts as 'none', so that nothing is refused.
    """
    if context.model_info is None or not context.model_info.has_reasoning:
        return False
    return (_get_effort(context) or context.model_info.default_effort or "none") != "none"


@RULES.rule("O18", "The model supports the effort.", MODEL_CAPABILITIES, grade="A", as_of=AS_OF, code="unsupported_value")
def the_model_supports_the_effort(context: ResponsesContext) -> Iterator[Finding]:
    effort, model = _get_effort(context), context.model_info
    if effort is not None and model is not None and model.has_reasoning and model.efforts and effort not in model.efforts:
        known = join_quoted(model.efforts)
        message = f"Unsupported value: '{effort}' is not supported with the '{model.name}' model. Supported values are: {known}."
        yield Finding(message, "reasoning.effort")


def _add_sampling_rule(id: str, name: str) -> None:
    @RULES.rule(id, f"A model that reasons about the request is not sent `{name}`.", MODEL_CAPABILITIES, grade="A", as_of=AS_OF)
    def find(context: ResponsesContext) -> Iterator[Finding]:
        if _is_reasoning_on(context) and context.get_field(name) is not None:
            yield Finding(f"Unsupported parameter: '{name}' is not supported with this model.", name)


_add_sampling_rule("O10", "temperature")
_add_sampling_rule("O11", "top_p")
_add_sampling_rule("O14", "presence_penalty")
_add_sampling_rule("O15", "frequency_penalty")


@RULES.rule(
    "O12",
    "A model that reasons about the request returns no logprobs.",
    MODEL_CAPABILITIES,
    grade="A",
    as_of=AS_OF,
    code="unsupported_parameter",
)
def no_logprobs_of_reasoning(context: ResponsesContext) -> Iterator[Finding]:
    requested = {
        "include": "message.output_text.logprobs" in (context.get_field("include") or ()),
        "top_logprobs": context.get_field("top_logprobs"),
    }
    for name, value in requested.items():
        if value and _is_reasoning_on(context):
            yield Finding("logprobs are not supported with reasoning models.", name)


@RULES.rule(
    "O16",
    "A model that does not reason is not sent `reasoning.effort`.",
    MODEL_CAPABILITIES,
    grade="B",
    as_of=AS_OF,
    code="unsupported_parameter",
)
def no_effort_without_reasoning(context: ResponsesContext) -> Iterator[Finding]:
    if _get_effort(context) is not None and context.model_info is not None and context.model_info.has_reasoning is False:
        yield Finding("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort")


# -- stored state ------------------------------------------------------------------------------------------------------


@RULES.rule(
    "S7", "A request continues a response or a conversation, not both.", STATE, grade="A", as_of=AS_OF, code="mutually_exclusive_parameters"
)
def only_one_history_is_continued(context: ResponsesContext) -> Iterator[Finding]:
    if context.previous_response_id is not None and context.conversation_id is not None:
        yield Finding(
            "Mutually exclusive parameters: ''. Ensure you are only providing one of: 'pre..._id' or 'conversation'.",
            path="previous_response_id",
        )


@RULES.rule(
    "S6",
    "An account without data retention has no conversations.",
    STATE,
    grade="C",
    as_of=AS_OF,
    code="unsupported_parameter",
    switch="zero_data_retention",
)
def no_conversation_without_retention(context: ResponsesContext) -> Iterator[Finding]:
    if context.conversation_id is not None:
        yield Finding("Conversation ID cannot be used for this organization due to Zero Data Retention.", "conversation")


@RULES.rule("S8", "The conversation exists.", STATE, grade="A", as_of=AS_OF, status=404)
def the_conversation_exists(context: ResponsesContext) -> Iterator[Finding]:
    id = context.conversation_id
    if id is not None and not context.switches.zero_data_retention and context.conversation_items is None:
        yield Finding(f"Conversation with id '{id}' not found.", path="conversation")


@RULES.rule("S9", "No other request is using the conversation.", STATE, grade="B", as_of=AS_OF, code="conversation_locked")
def the_conversation_is_not_locked(context: ResponsesContext) -> Iterator[Finding]:
    if context.conversation_id is not None and context.state.is_conversation_locked(context.conversation_id):
        yield Finding("Another process is currently operating on this conversation. Please retry in a few seconds.", "conversation")


@RULES.rule("S10", "The stored prompt exists.", STATE, grade="A", as_of=AS_OF, status=404)
def the_prompt_exists(context: ResponsesContext) -> Iterator[Finding]:
    if context.prompt_id is not None and not context.state.has_prompt(context.prompt_id):
        yield Finding(f"Prompt with id '{context.prompt_id}' not found.", path="prompt")


@RULES.rule(
    "S5",
    "An account without data retention has no previous responses.",
    STATE,
    grade="B",
    as_of=AS_OF,
    code="unsupported_parameter",
    switch="zero_data_retention",
)
def no_previous_response_without_retention(context: ResponsesContext) -> Iterator[Finding]:
    if context.previous_response_id is not None:
        yield Finding("Previous response cannot be used for this organization due to Zero Data Retention.", "previous_response_id")


def _find_lost_response(context: ResponsesContext, *, expired: bool) -> Iterator[Finding]:
    id = context.previous_response_id
    if id is None or context.switches.zero_data_retention or context.previous_items is not None:
        return
    if expired == (isinstance(context.state, ExpiryAware) and context.state.is_response_expired(id)):
        yield Finding(f"Previous response with id '{id}' not found.", "previous_response_id")


@RULES.rule(
    "S1", "The previous response was stored, and is not deleted.", STATE, grade="A", as_of=AS_OF, code="previous_response_not_found"
)
def the_previous_response_exists(context: ResponsesContext) -> Iterator[Finding]:
    return _find_lost_response(context, expired=False)


@RULES.rule("S2", "The previous response is not older than 30 days.", STATE, grade="D", as_of=AS_OF, code="previous_response_not_found")
def the_previous_response_is_not_expired(context: ResponsesContext) -> Iterator[Finding]:
    return _find_lost_response(context, expired=True)


RULES.add_permission(
    "S11", "Instructions and tools are not carried over from the previous response: they may differ.", grade="A", as_of=AS_OF, phase=STATE
)
RULES.add_permission(
    "S12", "After a previous response or in a conversation only the new items are sent.", grade="A", as_of=AS_OF, phase=STATE
)
RULES.add_permission("S13", "A response is stored, and may be continued, unless `store` is false.", grade="A", as_of=AS_OF, phase=STATE)
RULES.add_permission("S14", "A response that is not to be stored may continue one that is.", grade="D", as_of=AS_OF, phase=STATE)


@RULES.rule(
    "N22",
    "The input is not empty, unless there is something else to answer.",
    SOMETHING_TO_ANSWER,
    grade="A",
    as_of=AS_OF,
    code="missing_required_parameter",
)
def there_is_something_to_answer(context: ResponsesContext) -> Iterator[Finding]:
    # The provider's message says that the other fields suffice; only the refusal without them was measured.
    if (
        not context.get_field("input")
        and context.previous_response_id is None
        and context.conversation_id is None
        and context.prompt_id is None
    ):
        yield Finding("One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.", path="input")


# -- items by their ids ------------------------------------------------------------------------------------------------


@RULES.rule("I8", "No item id occurs twice in the input and the stored items before it.", DUPLICATES, grade="B", as_of=AS_OF)
def no_item_id_occurs_twice(context: ResponsesContext) -> Iterator[Finding]:
    ids: set[str] = set()
    for entry in context.entries:
        if entry.is_in_request and entry.id in ids:
            yield Finding(
                f"Duplicate item found with id {entry.id}. Remove duplicate items from your input and try again.", "input", entry.path
            )
        if entry.id:
            ids.add(entry.id)


AUDIO_OR_VIDEO_URL = re.compile(
    r"\.(?:aac|aiff?|avi|flac|m4a|mkv|mov|mp3|mp4|mpe?g|oga|ogg|opus|wav|weba|webm|wmv)(?:[?#]|$)", re.IGNORECASE
)
"""The end of a URL of audio or video."""

LOOKED_UP_TYPES = ("item_reference", "reasoning", "image_generation_call", "file_search_call")
CONTENT_MEMBERS = {"reasoning": "encrypted_content", "image_generation_call": "result"}
"""The member with an item's content: an item that has it is not looked up. OpenAI's own client, which stores nothing, sends images so."""


def _find_missing_items(context: ResponsesContext, explanation: str) -> Iterator[Finding]:
    """Find the items that are looked up and not stored."""
    for item in context.items:
        id = item.members.get("id")
        is_looked_up = item.type in LOOKED_UP_TYPES and not item.members.get(CONTENT_MEMBERS.get(item.type, ""))
        if is_looked_up and isinstance(id, str) and context.find_stored_item(id) is None:
            status = context.switches.item_not_found_status
            yield Finding(f"Item with id '{id}' not found.{explanation}", "input", item.path, status=status)


@RULES.rule(
    "I2",
    "An item that is looked up is stored; an account without data retention stores none.",
    LOOKUP,
    grade="B",
    as_of=AS_OF,
    status=404,
    switch="zero_data_retention",
)
def looked_up_items_need_retention(context: ResponsesContext) -> Iterator[Finding]:
    return _find_missing_items(
        context, " Items are not persisted for Zero Data Retention organizations. Remove this item from your input and try again."
    )


@RULES.rule("I1", "An item that is looked up is stored, even if the response is not to be.", LOOKUP, grade="B", as_of=AS_OF, status=404)
def looked_up_items_are_stored_without_store(context: ResponsesContext) -> Iterator[Finding]:
    if context.get_field("store") is False and not context.switches.zero_data_retention:
        yield from _find_missing_items(
            context,
            " Items are not persisted when `store` is set to false. Try again with `store` set to true, "
            "or remove this item from your input.",
        )


@RULES.rule("I3", "An item that is looked up is stored.", LOOKUP, grade="A", as_of=AS_OF, status=404)
def looked_up_items_are_stored(context: ResponsesContext) -> Iterator[Finding]:
    if context.is_response_stored:
        yield from _find_missing_items(context, "")


@RULES.rule("N24", "A file that is fetched from its address is a document.", LOOKUP, grade="A", as_of="2026-04", code="unsupported_file")
def a_fetched_file_is_a_document(context: ResponsesContext) -> Iterator[Finding]:
    # The provider looks at the fetched file. Here only the end of the URL is known.
    for item in context.items:
        parts = item.members.get("content" if item.type == "message" else "output")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "input_file" and AUDIO_OR_VIDEO_URL.search(as_text(part.get("file_url"))):
                yield Finding("The file type you uploaded is not supported. Please try again with a pdf", "input", item.path)


RULES.add_permission(
    "I5", "Messages, searches, function calls and MCP calls are not looked up: any id is accepted.", grade="A", as_of=AS_OF, phase=LOOKUP
)
RULES.add_permission("I7", "A reference stands for its item, also as the call of an output.", grade="A", as_of=AS_OF, phase=LOOKUP)


# -- limits ------------------------------------------------------------------------------------------------------------


@RULES.rule(
    "F1", "The input fits the model's window, or may be truncated.", CONTEXT_WINDOW, grade="B", as_of=AS_OF, code="context_length_exceeded"
)
def the_input_fits(context: ResponsesContext) -> Iterator[Finding]:
    # This applies to streamed responses too; the server then sends the error inside the stream.
    window = context.model_info.context_window if context.model_info else 0
    if 0 < window < context.token_count and context.get_field("truncation") != "auto":
        yield Finding("Your input exceeds the context window of this model. Please adjust your input and try again.", "input")
