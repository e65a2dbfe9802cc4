"""The law book of the OpenAI Responses API. May know: the request and what the provider holds. Decides: what is refused, and how.

    complaints = judge({"model": "gpt-5.5", "input": "hello"})

`BOOK` is the whole book; book.py has its table of contents. Here stand the clauses about presence, about what the server holds and
about looking things up; the other chapters are items.py, parts.py, fields.py, tools.py, calls.py and reasoning.py.

Clause ids: P presence, V values of fields, O other rules about fields, N items of the input, S server-held state, I item ids,
T tools, calls and outputs, R reasoning, F limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from legato.providers.rules.responses import calls, fields, items, parts, reasoning, tools
from legato.providers.rules.responses.book import (
    BODY,
    BOOK,
    CALLS,
    CAPABILITY,
    DUPLICATES,
    INPUT_GIVEN,
    ITEMS,
    KNOWN_KEYS,
    LOOKUP,
    MODEL_GIVEN,
    MODEL_KNOWN,
    REASONING,
    SEALS,
    SOMETHING,
    STATE,
    WINDOW,
)
from legato.providers.rules.responses.case import NOTHING, Case, text
from legato.providers.rules.responses.held import Forgets, Held
from legato.providers.rules.responses.profile import OPENAI, Profile
from legato.providers.rules.responses.spelling import KEYS, suggestion
from legato.providers.rules.responses.texts import SEEN, listed, missing, named
from legato.providers.rules.rule_set import Complaint, Fault

__all__ = ["BOOK", "CHAPTERS", "OPENAI", "Case", "Profile", "envelope", "judge", "judge_each", "judge_items"]

CHAPTERS = (items, parts, fields, tools, calls, reasoning)
MOST = 100  # complaints that are worth having about one request


def judge(request: Any, held: Held = NOTHING, profile: Profile = OPENAI, tokens: int = 0) -> list[Complaint]:
    """What the provider would complain about, in its order; it answers with the first. `tokens`: what the whole input comes to.

    >>> [str(complaint) for complaint in judge({"model": "gpt-5.5"})]
    ["[P2] 400 Missing required parameter: 'input'. at input"]
    """
    stray = () if isinstance(request, dict) else (request,)
    case = Case({} if stray else request, held, profile, tokens, stray)
    return list(islice(BOOK.judge(case), MOST))


ABOUT_ITEMS = (ITEMS, DUPLICATES, LOOKUP, SEALS, CALLS, REASONING)
"""The phases that ask nothing but what the items of the input are, and how they stand to one another."""


def judge_items(items: list[dict[str, Any]]) -> list[Complaint]:
    """What the provider would complain about in some items with all that belongs to them, if the rest of the request is legal.

    >>> [str(complaint) for complaint in judge_items([{"type": "function_call_output", "call_id": "call_1", "output": "done"}])]
    ['[T2] 400 No tool call found for function call output with call_id call_1. at input[0]']
    """
    return list(islice(BOOK.judge(Case({"model": "any", "input": items}), ABOUT_ITEMS), MOST))


def judge_each(items: list[dict[str, Any]]) -> list[Complaint]:
    """The same for items of which each is judged by itself: what belongs to them is elsewhere."""
    return list(islice(BOOK.judge(Case({"model": "any", "input": items}), (ITEMS,)), MOST))


def envelope(complaint: Complaint, profile: Profile = OPENAI) -> dict[str, Any]:
    """A complaint as the body of the answer."""
    code = complaint.code or ("invalid_request_error" if profile.code_never_null else None)
    return {"error": {"message": complaint.message, "type": complaint.type, "param": complaint.param, "code": code}}


# -- what is there -----------------------------------------------------------------------------------------------------


@BOOK.law("P0", "The body is an object.", BODY, grade="D", seen=SEEN, code="invalid_type")
def the_body_is_an_object(case: Case) -> Iterator[Fault]:
    for value in case.stray:
        yield Fault(f"Invalid type for request body: expected an object, but got {named(value)} instead.")


@BOOK.law("P1", "There is a `model`, unless a stored prompt has one.", MODEL_GIVEN, grade="A", seen=SEEN)
def there_is_a_model(case: Case) -> Iterator[Fault]:
    if "model" not in case.request and case.prompt is None:
        yield missing("model")


@BOOK.law("P2", "There is an `input`, unless a stored prompt has one.", INPUT_GIVEN, grade="A", seen=SEEN)
def there_is_an_input(case: Case) -> Iterator[Fault]:
    if "input" not in case.request and case.prompt is None:
        yield missing("input")


@BOOK.law("P4", "There are no `messages`: that is Chat Completions.", KNOWN_KEYS, grade="A", seen=SEEN, code="unsupported_parameter")
def there_are_no_messages(case: Case) -> Iterator[Fault]:
    if case.sent("messages") is not None:
        yield Fault(
            "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'. "
            "Try again with the new parameter. See the API documentation for more information: "
            "https://platform.openai.com/docs/api-reference/responses/create.",
            path="messages",
        )


@BOOK.law("P3", "There are no unknown keys.", KNOWN_KEYS, grade="A", seen=SEEN, code="unknown_parameter")
def there_are_no_unknown_keys(case: Case) -> Iterator[Fault]:
    for key, value in case.request.items():
        if key not in KEYS and key != "messages" and value is not None:
            yield Fault(f"Unknown parameter: '{key}'.{suggestion(key, case.request)}", key)


# -- the model ---------------------------------------------------------------------------------------------------------


@BOOK.law("O9", "The model exists.", MODEL_KNOWN, grade="A", seen=SEEN, code="model_not_found")
def the_model_exists(case: Case) -> Iterator[Fault]:
    if case.sent("model") is not None and case.model is None:
        yield Fault(f"The requested model '{case.sent('model')}' does not exist.", "model")


def _effort(case: Case) -> Any:
    """The effort that is asked for; None if the model's own is."""
    settings = case.sent("reasoning")
    return settings.get("effort") if isinstance(settings, dict) else None


def _thinks(case: Case) -> bool:
    """Whether the model reasons about this request: unless its effort, as sent or by default, is 'none'. Where the default is not known,
    it is taken to be 'none': then nothing is refused."""
    if case.model is None or not case.model.reasons:
        return False
    return (_effort(case) or case.model.effort or "none") != "none"


@BOOK.law("O18", "The model knows the effort.", CAPABILITY, grade="A", seen=SEEN, code="unsupported_value")
def the_model_knows_the_effort(case: Case) -> Iterator[Fault]:
    effort, model = _effort(case), case.model
    if effort is not None and model is not None and model.reasons and model.efforts and effort not in model.efforts:
        known = listed(model.efforts)
        told = f"Unsupported value: '{effort}' is not supported with the '{model.name}' model. Supported values are: {known}."
        yield Fault(told, "reasoning.effort")


def _sampled(id: str, name: str) -> None:
    @BOOK.law(id, f"A model that reasons about the request is not sent `{name}`.", CAPABILITY, grade="A", seen=SEEN)
    def find(case: Case) -> Iterator[Fault]:
        if _thinks(case) and case.sent(name) is not None:
            yield Fault(f"Unsupported parameter: '{name}' is not supported with this model.", name)


_sampled("O10", "temperature")
_sampled("O11", "top_p")
_sampled("O14", "presence_penalty")
_sampled("O15", "frequency_penalty")


@BOOK.law(
    "O12",
    "A model that reasons about the request is not asked for logprobs.",
    CAPABILITY,
    grade="A",
    seen=SEEN,
    code="unsupported_parameter",
)
def no_logprobs_of_reasoning(case: Case) -> Iterator[Fault]:
    asked = {"include": "message.output_text.logprobs" in (case.sent("include") or ()), "top_logprobs": case.sent("top_logprobs")}
    for name, value in asked.items():
        if value and _thinks(case):
            yield Fault("logprobs are not supported with reasoning models.", name)


@BOOK.law(
    "O16", "A model that does not reason is not sent `reasoning.effort`.", CAPABILITY, grade="B", seen=SEEN, code="unsupported_parameter"
)
def no_effort_without_reasoning(case: Case) -> Iterator[Fault]:
    if _effort(case) is not None and case.model is not None and case.model.reasons is False:
        yield Fault("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort")


# -- what the server holds ---------------------------------------------------------------------------------------------


@BOOK.law(
    "S7", "A request continues a response or a conversation, not both.", STATE, grade="A", seen=SEEN, code="mutually_exclusive_parameters"
)
def one_past_at_a_time(case: Case) -> Iterator[Fault]:
    if case.previous is not None and case.conversation is not None:
        yield Fault(
            "Mutually exclusive parameters: ''. Ensure you are only providing one of: 'pre..._id' or 'conversation'.",
            path="previous_response_id",
        )


@BOOK.law(
    "S6",
    "An account without data retention has no conversations.",
    STATE,
    grade="C",
    seen=SEEN,
    code="unsupported_parameter",
    switch="zero_data_retention",
)
def no_conversation_without_retention(case: Case) -> Iterator[Fault]:
    if case.conversation is not None:
        yield Fault("Conversation ID cannot be used for this organization due to Zero Data Retention.", "conversation")


@BOOK.law("S8", "The conversation exists.", STATE, grade="A", seen=SEEN, status=404)
def the_conversation_exists(case: Case) -> Iterator[Fault]:
    id = case.conversation
    if id is not None and not case.profile.zero_data_retention and case.talk is None:
        yield Fault(f"Conversation with id '{id}' not found.", path="conversation")


@BOOK.law("S9", "No other request is at work on the conversation.", STATE, grade="B", seen=SEEN, code="conversation_locked")
def the_conversation_is_free(case: Case) -> Iterator[Fault]:
    if case.conversation is not None and case.held.locked(case.conversation):
        yield Fault("Another process is currently operating on this conversation. Please retry in a few seconds.", "conversation")


@BOOK.law("S10", "The stored prompt exists.", STATE, grade="A", seen=SEEN, status=404)
def the_prompt_exists(case: Case) -> Iterator[Fault]:
    if case.prompt is not None and not case.held.stored_prompt(case.prompt):
        yield Fault(f"Prompt with id '{case.prompt}' not found.", path="prompt")


@BOOK.law(
    "S5",
    "An account without data retention has no previous responses.",
    STATE,
    grade="B",
    seen=SEEN,
    code="unsupported_parameter",
    switch="zero_data_retention",
)
def no_chain_without_retention(case: Case) -> Iterator[Fault]:
    if case.previous is not None:
        yield Fault("Previous response cannot be used for this organization due to Zero Data Retention.", "previous_response_id")


def _lost(case: Case, *, expired: bool) -> Iterator[Fault]:
    id = case.previous
    if id is None or case.profile.zero_data_retention or case.chain is not None:
        return
    if expired == (isinstance(case.held, Forgets) and case.held.expired(id)):
        yield Fault(f"Previous response with id '{id}' not found.", "previous_response_id")


@BOOK.law("S1", "The previous response was stored, and is not deleted.", STATE, grade="A", seen=SEEN, code="previous_response_not_found")
def the_previous_response_exists(case: Case) -> Iterator[Fault]:
    return _lost(case, expired=False)


@BOOK.law("S2", "The previous response is not older than 30 days.", STATE, grade="D", seen=SEEN, code="previous_response_not_found")
def the_previous_response_is_fresh(case: Case) -> Iterator[Fault]:
    return _lost(case, expired=True)


BOOK.permits(
    "S11", "Instructions and tools are not carried over from the previous response: they may differ.", grade="A", seen=SEEN, phase=STATE
)
BOOK.permits("S12", "After a previous response or in a conversation only the new items are sent.", grade="A", seen=SEEN, phase=STATE)
BOOK.permits("S13", "A response is stored, and may be continued, unless `store` is false.", grade="A", seen=SEEN, phase=STATE)
BOOK.permits("S14", "A response that is not to be stored may continue one that is.", grade="D", seen=SEEN, phase=STATE)


@BOOK.law(
    "N22",
    "The input is not empty, unless there is something else to answer.",
    SOMETHING,
    grade="A",
    seen=SEEN,
    code="missing_required_parameter",
)
def there_is_something_to_answer(case: Case) -> Iterator[Fault]:
    # That the others make up for it is what the sentence says; only the refusal without them was measured.
    if not case.sent("input") and case.previous is None and case.conversation is None and case.prompt is None:
        yield Fault("One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.", path="input")


# -- items by their ids ------------------------------------------------------------------------------------------------


@BOOK.law("I8", "No item comes twice, be it in the input or in what the server holds before it.", DUPLICATES, grade="B", seen=SEEN)
def no_item_comes_twice(case: Case) -> Iterator[Fault]:
    ids: set[str] = set()
    for entry in case.entries:
        if entry.own and entry.id in ids:
            yield Fault(
                f"Duplicate item found with id {entry.id}. Remove duplicate items from your input and try again.", "input", entry.path
            )
        if entry.id:
            ids.add(entry.id)


SOUND_OR_FILM = re.compile(r"\.(?:aac|aiff?|avi|flac|m4a|mkv|mov|mp3|mp4|mpe?g|oga|ogg|opus|wav|weba|webm|wmv)(?:[?#]|$)", re.IGNORECASE)
"""How the address of a recording ends."""

LOOKED_UP = ("item_reference", "reasoning", "image_generation_call", "file_search_call")
WHOLE_WITH = {"reasoning": "encrypted_content", "image_generation_call": "result"}
"""The member that makes an item whole, so that it is not looked up. OpenAI's own client, which has nothing stored, sends pictures so."""


def _absent(case: Case, why: str) -> Iterator[Fault]:
    """The items that are looked up (I4) and not found."""
    for at in case.items:
        id = at.item.get("id")
        looked_up = at.type in LOOKED_UP and not at.item.get(WHOLE_WITH.get(at.type, ""))
        if looked_up and isinstance(id, str) and case.look(id) is None:
            yield Fault(f"Item with id '{id}' not found.{why}", "input", at.path, status=case.profile.item_not_found_status)


@BOOK.law(
    "I2",
    "An item that is looked up is stored; an account without data retention stores none.",
    LOOKUP,
    grade="B",
    seen=SEEN,
    status=404,
    switch="zero_data_retention",
)
def nothing_is_found_without_retention(case: Case) -> Iterator[Fault]:
    return _absent(case, " Items are not persisted for Zero Data Retention organizations. Remove this item from your input and try again.")


@BOOK.law("I1", "An item that is looked up is stored, also where the answer is not to be.", LOOKUP, grade="B", seen=SEEN, status=404)
def items_are_found_without_store(case: Case) -> Iterator[Fault]:
    if case.sent("store") is False and not case.profile.zero_data_retention:
        yield from _absent(
            case,
            " Items are not persisted when `store` is set to false. Try again with `store` set to true, "
            "or remove this item from your input.",
        )


@BOOK.law("I3", "An item that is looked up is stored.", LOOKUP, grade="A", seen=SEEN, status=404)
def items_are_found(case: Case) -> Iterator[Fault]:
    if case.stores:
        yield from _absent(case, "")


@BOOK.law("N24", "A file that is fetched from its address is a document.", LOOKUP, grade="A", seen="2026-04", code="unsupported_file")
def a_fetched_file_is_a_document(case: Case) -> Iterator[Fault]:
    # The provider looks at what it fetched. Here only the end of the address tells.
    for at in case.items:
        parts = at.item.get("content" if at.type == "message" else "output")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "input_file" and SOUND_OR_FILM.search(text(part.get("file_url"))):
                yield Fault("The file type you uploaded is not supported. Please try again with a pdf", "input", at.path)


BOOK.permits(
    "I5", "Messages, searches, function calls and MCP calls are not looked up: any id will do.", grade="A", seen=SEEN, phase=LOOKUP
)
BOOK.permits("I7", "A reference stands for its item, also as the call of an output.", grade="A", seen=SEEN, phase=LOOKUP)


# -- limits ------------------------------------------------------------------------------------------------------------


@BOOK.law("F1", "The input fits the model's window, or may be truncated.", WINDOW, grade="B", seen=SEEN, code="context_length_exceeded")
def the_input_fits(case: Case) -> Iterator[Fault]:
    # Also where the answer is to be streamed: then the server says the same inside the stream (row F2), which is not for a law to do.
    window = case.model.window if case.model else 0
    if 0 < window < case.tokens and case.sent("truncation") != "auto":
        yield Fault("Your input exceeds the context window of this model. Please adjust your input and try again.", "input")
