"""The law book of the Chat Completions API. May know: its shapes and switches. Decides: what is refused, in which words and order.

The API holds nothing between requests, so a request is judged on its own, with what is known of its model. Of the order only this was
measured: C4 comes last of all, and CP4 before CS4. The rest follows the Responses API, whose phases were.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from legato.providers.rules.chat.functions import open_objects
from legato.providers.rules.chat.held import ModelInfo, Models, any_model
from legato.providers.rules.chat.pairing import Answer, Call, answers, parts_of, text_of, unanswered
from legato.providers.rules.chat.profile import AZURE, LENIENT, OPENAI, Profile
from legato.providers.rules.chat.request import FIELDS, differences
from legato.providers.rules.chat.shapes import Found, kind, listed, shown
from legato.providers.rules.json_schemas import not_an_object
from legato.providers.rules.rule_set import Book, Complaint, Fault, Grade

__all__ = ["AZURE", "BOOK", "LENIENT", "OPENAI", "Case", "Profile", "envelope", "judge", "judge_messages"]


class Case(Struct, frozen=True):
    """A request and what is known about it. `tokens`: how many its messages are; 0: nobody counted."""

    request: Any
    model: ModelInfo | None
    tokens: int = 0
    profile: Profile = OPENAI

    @property
    def tools(self) -> list[tuple[str, dict[str, Any]]]:
        """The function tools, each with its path."""
        return [
            (f"tools[{index}].function", tool["function"])
            for index, tool in enumerate(self.request.get("tools") or ())
            if tool.get("type", "function") == "function"
        ]

    def given(self, field: str) -> bool:
        """Whether a parameter was sent with a value."""
        return self.request.get(field) is not None

    @property
    def thinks(self) -> bool:
        """Tell whether the model thinks over this request. One whose default is not known is only if the request says so."""
        if self.model is None or not self.model.reasons:
            return False
        return (self.request.get("reasoning_effort") or self.model.effort or "none") != "none"


BOOK: Book[Case] = Book("chat")

# -- 1. the body, and what it must have --------------------------------------------------------------------------------

BODY = BOOK.phase("the body")


@BOOK.law("CB1", "The body is an object.", BODY, grade="D", seen="2026-11", code="invalid_type")
def body_is_an_object(case: Case) -> Iterator[Fault]:
    if not isinstance(case.request, dict):
        yield Fault(f"Invalid type for request body: expected an object, but got {kind(case.request)} instead.")


PRESENT = BOOK.phase("required parameters")


@BOOK.law("CP1", "A model is named.", PRESENT, grade="B", seen="2025-09", switch="requires_model")
def model_is_named(case: Case) -> Iterator[Fault]:
    if case.request.get("model") in (None, ""):
        yield Fault("you must provide a model parameter", path="model")


@BOOK.law("C11a", "There are messages.", PRESENT, grade="A", seen="2026-11", code="missing_required_parameter")
def messages_are_there(case: Case) -> Iterator[Fault]:
    if "messages" not in case.request:
        yield Fault("Missing required parameter: 'messages'.", param="messages")


UNKNOWN = BOOK.phase("unknown parameters")


@BOOK.law("CP2", "Every parameter is known.", UNKNOWN, grade="B", seen="2026-06", switch="unknown_parameter")
def parameters_are_known(case: Case) -> Iterator[Fault]:
    unknown = [name for name in case.request if name not in FIELDS]
    if unknown and case.profile.unknown_parameter == "unrecognized":
        word = "argument" if len(unknown) == 1 else "arguments"
        yield Fault(f"Unrecognized request {word} supplied: {', '.join(unknown)}", path=unknown[0])
    elif unknown:
        for name in unknown:
            yield Fault(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")


# -- 2. parameters that the model does not take: seen to come before the ranges of others (2025-08) ---------------------

SUPPORTED = BOOK.phase("parameters that the model takes")


@BOOK.law(
    "CP4",
    "To a reasoning model the limit is given as `max_completion_tokens`.",
    SUPPORTED,
    grade="A",
    seen="2026-07",
    code="unsupported_parameter",
    switch="model_rules",
)
def limit_has_its_new_name(case: Case) -> Iterator[Fault]:
    if case.model and case.model.reasons and case.given("max_tokens"):
        told = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        yield Fault(f"Unsupported parameter: {told}", param="max_tokens")


@BOOK.law(
    "CP9",
    "`stop` goes only to models that take it.",
    SUPPORTED,
    grade="A",
    seen="2026-01",
    code="unsupported_parameter",
    switch="model_rules",
)
def stop_is_taken(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.stop and case.given("stop"):
        yield Fault("Unsupported parameter: 'stop' is not supported with this model.", param="stop")


USUAL_SAMPLING = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}


def _sampling_changes(case: Case) -> Iterator[tuple[str, Any]]:
    """What of its sampling a model is asked to change while it thinks."""
    for field, usual in USUAL_SAMPLING.items() if case.thinks else ():
        value = case.request.get(field)
        if value is not None and value != usual:
            yield field, value


@BOOK.law(
    "CP18",
    "A model that thinks is sent only the sampling that it has.",
    SUPPORTED,
    grade="B",
    seen="2025-09",
    code="unsupported_parameter",
    switch="model_rules",
)
def sampling_is_taken(case: Case) -> Iterator[Fault]:
    for field, _ in _sampling_changes(case):
        if case.model and field in case.model.fixed_sampling:
            yield Fault(f"Unsupported parameter: '{field}' is not supported with this model.", param=field)


@BOOK.law(
    "CP10",
    "`parallel_tool_calls` goes only to models that take it.",
    SUPPORTED,
    grade="B",
    seen="2025-07",
    code="unsupported_parameter",
    switch="model_rules",
)
def parallel_is_taken(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.parallel and case.given("parallel_tool_calls"):
        yield Fault("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", param="parallel_tool_calls")


# -- 3. the shape of every field: request.py has the shapes, these rows what a difference means ------------------------

SHAPE = BOOK.phase("the shape of the fields", each=lambda case: differences(case.profile, case.request))


def shape(id: str, rule: str, *, grade: Grade, seen: str, code: str | None = None, switch: str = "") -> None:
    """Write down a clause about shapes."""

    def find(case: Case, found: Found) -> Iterable[Fault]:
        return (found.fault,) if found.clause == id else ()

    BOOK.law(id, rule, SHAPE, grade=grade, seen=seen, code=code, switch=switch)(find)


shape("C11b", "`messages` is an array.", grade="A", seen="2026-11", code="invalid_type")
shape("C11c", "`messages` is not empty.", grade="A", seen="2026-11", code="empty_array")
shape("C10", "A message's role is one of the six.", grade="A", seen="2026-11", code="invalid_value")
shape("CM1", "A tool message names the call it answers.", grade="B", seen="2024-10")
shape("C3", "`tool_calls` is left out rather than empty.", grade="A", seen="2026-11", code="empty_array", switch="refuses_empty_arrays")
shape("C5", "The id of a call has at most 64 characters.", grade="B", seen="2026-11", code="string_above_max_length", switch="id_limit")
shape("C6", "A name has letters, digits, _ and - only.", grade="A", seen="2026-11", code="invalid_value", switch="name_pattern")
shape("C7", "A name has at most 64 characters.", grade="B", seen="2026-11", code="string_above_max_length", switch="name_limit")
shape("C8", "There are at most 128 tools.", grade="B", seen="2026-11", code="array_above_max_length", switch="tool_limit")
shape("CT1", "`tools` is left out rather than empty.", grade="C", seen="2025-11", code="empty_array", switch="refuses_empty_arrays")
shape("CS1", "A member that must be there is there.", grade="B", seen="2026-11", code="missing_required_parameter")
shape("CS2", "A value has its type.", grade="B", seen="2025-07", code="invalid_type")
shape("CS3", "A value is one of those supported.", grade="B", seen="2025-02", code="invalid_value", switch="supported_values")
shape("CS4", "A number is not below its minimum.", grade="B", seen="2025-09", switch="ranges")
shape("CS5", "A number is not above its maximum.", grade="B", seen="2025-09", switch="ranges")
shape("CS6", "`content` has a part.", grade="D", seen="2026-11", code="empty_array", switch="refuses_empty_arrays")
shape("CS7", "An array is not too long.", grade="C", seen="2026-11", code="array_above_max_length")
shape("CS8", "A name is not empty.", grade="C", seen="2026-11", code="empty_string", switch="name_pattern")
shape("CS9", "Every member is known.", grade="C", seen="2024-04", code="unknown_parameter", switch="unknown_members")

# -- 4. functions ------------------------------------------------------------------------------------------------------

FUNCTIONS = BOOK.phase("the schemas of functions")


@BOOK.law("CT2", "A function's parameters are an object.", FUNCTIONS, grade="B", seen="2025-11", code="invalid_function_parameters")
def parameters_are_an_object(case: Case) -> Iterator[Fault]:
    for path, function in case.tools:
        given = not_an_object(function.get("parameters") or {})
        if given:
            told = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {given}'."
            yield Fault(f"Invalid schema for function '{function['name']}': {told}", param=f"{path}.parameters")


@BOOK.law(
    "CT3",
    "The schema of a strict function is closed and requires all its properties.",
    FUNCTIONS,
    grade="A",
    seen="2026-11",
    code="invalid_function_parameters",
    switch="strict_schemas",
)
def strict_functions_are_closed(case: Case) -> Iterator[Fault]:
    for path, function in case.tools:
        if function.get("strict") is True:
            for told in islice(open_objects(function.get("parameters") or {}), 1):  # the API says one thing about a schema
                yield Fault(f"Invalid schema for function '{function['name']}': {told}", param=f"{path}.parameters")


@BOOK.law(
    "CT4",
    "The schema of strict structured output is closed and requires all its properties.",
    FUNCTIONS,
    grade="B",
    seen="2025-11",
    switch="strict_schemas",
)
def strict_output_is_closed(case: Case) -> Iterator[Fault]:
    wanted = case.request.get("response_format") or {}
    output = wanted["json_schema"] if wanted.get("type") == "json_schema" else {}
    if output.get("strict") is True:
        for told in islice(open_objects(output.get("schema") or {}), 1):
            yield Fault(f"Invalid schema for response_format '{output['name']}': {told}", param="response_format")


@BOOK.law("CT7", "Structured output is an object.", FUNCTIONS, grade="B", seen="2025-04", switch="strict_schemas")
def output_is_an_object(case: Case) -> Iterator[Fault]:
    wanted = case.request.get("response_format") or {}
    output = wanted["json_schema"] if wanted.get("type") == "json_schema" else {}
    if given := not_an_object(output.get("schema") or {}):
        told = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {given}'."
        yield Fault(f"Invalid schema for response_format '{output['name']}': {told}", param="response_format")


# -- 5. the model, and what it does not take ---------------------------------------------------------------------------

MODEL = BOOK.phase("the model")


@BOOK.law("CP3", "The model exists.", MODEL, grade="A", seen="2026-11", status=404, code="model_not_found")
def model_exists(case: Case) -> Iterator[Fault]:
    if case.model is None:
        yield Fault(f"The model `{case.request.get('model')}` does not exist or you do not have access to it.", path="model")


@BOOK.law("CP11", "The model is served by this API.", MODEL, grade="A", seen="2025-08", status=404, switch="model_rules")
def model_is_served_here(case: Case) -> Iterator[Fault]:
    instead = case.model.endpoint if case.model else ""
    if instead == "v1/completions":
        told = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
        yield Fault(f"{told} Did you mean to use {instead}?", param="model")
    elif instead:
        yield Fault(f"This model is only supported in {instead} and not in v1/chat/completions.", param="model")


ABILITY = BOOK.phase("what the model takes")


@BOOK.law(
    "C10b", "The model takes the role `developer`.", ABILITY, grade="A", seen="2026-11", code="unsupported_value", switch="model_rules"
)
def developer_is_taken(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.developer:
        for index, message in enumerate(case.request["messages"]):
            if message["role"] == "developer":
                at = f"messages[{index}].role"
                yield Fault(f"Unsupported value: '{at}' does not support 'developer' with this model.", param=at)


@BOOK.law("C10c", "The model takes the role `system`.", ABILITY, grade="A", seen="2025-07", code="unsupported_value", switch="model_rules")
def system_is_taken(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.system:
        for index, message in enumerate(case.request["messages"]):
            if message["role"] == "system":
                at = f"messages[{index}].role"
                yield Fault(f"Unsupported value: '{at}' does not support 'system' with this model.", param=at)


@BOOK.law("CV1", "Sound goes to models that hear.", ABILITY, grade="A", seen="2026-07", code="invalid_value", switch="model_rules")
def sound_is_heard(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.hears:
        for index, number, _ in parts_of(case.request["messages"], "input_audio"):
            at = f"messages[{index}]"
            told = f"Invalid '{at}'. Content blocks are expected to be either text or image_url type."
            yield Fault(told, param=at, path=f"{at}.content[{number}]")


@BOOK.law("CV2", "Pictures go to models that see.", ABILITY, grade="B", seen="2025-11", switch="model_rules")
def pictures_are_seen(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.sees:
        for index, number, _ in parts_of(case.request["messages"], "image_url"):
            told = "Invalid content type. image_url is only supported by certain models."
            at = f"messages.[{index}].content.[{number}].type"
            yield Fault(told, param=at, path=f"messages[{index}].content[{number}].type")


@BOOK.law(
    "CV3",
    "A model made for sound is sent some, or is asked for some.",
    ABILITY,
    grade="C",
    seen="2026-03",
    code="invalid_value",
    switch="model_rules",
)
def sound_is_asked_for(case: Case) -> Iterator[Fault]:
    if case.model and case.model.must_hear and "audio" not in (case.request.get("modalities") or ()):
        messages = case.request["messages"]
        if not any(message.get("audio") for message in messages) and not any(parts_of(messages, "input_audio")):
            yield Fault("This model requires that either input content or output modality contain audio.", param="model")


_PICTURES = re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP", re.DOTALL)
"""How pictures of the types that are taken begin."""


@BOOK.law(
    "CV4",
    "A picture is a PNG, JPEG, GIF or WebP.",
    ABILITY,
    grade="A",
    seen="2026-03",
    code="invalid_image_format",
    switch="picture_formats",
)
def picture_has_a_known_format(case: Case) -> Iterator[Fault]:
    for index, number, part in parts_of(case.request["messages"], "image_url"):
        sent = part["image_url"]
        scheme, _, data = (sent if isinstance(sent, str) else sent["url"]).partition(";base64,")
        if scheme.startswith("data:") and not _PICTURES.match(_first_bytes(data)):
            formats = "Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
            yield Fault(f"You uploaded an unsupported image. {formats}", path=f"messages[{index}].content[{number}].image_url.url")


def _first_bytes(data: str) -> bytes:
    try:
        return b64decode(data[:16])
    except ValueError:  # what is no base64 is no picture
        return b""


@BOOK.law("CF1", "A file is a PDF.", ABILITY, grade="C", seen="2026-05", code="invalid_value", switch="pdf_files")
def file_is_a_pdf(case: Case) -> Iterator[Fault]:
    for index, number, part in parts_of(case.request["messages"], "file"):
        scheme, _, rest = (part["file"].get("file_data") or "data:application/pdf").partition(":")
        given = rest.partition(";")[0].partition(",")[0]
        if scheme == "data" and given != "application/pdf":
            at = f"messages[{index}].content[{number}].file.file_data"
            expected = "Expected a base64-encoded data URL with an application/pdf MIME type"
            example = "(e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ==')"
            yield Fault(f"Invalid file data: '{at}'. {expected} {example}, but got unsupported MIME type '{given}'.", param=at)


@BOOK.law("CP12", "Only a model that searches is given options for it.", ABILITY, grade="A", seen="2025-05", switch="model_rules")
def search_is_for_searching(case: Case) -> Iterator[Fault]:
    if case.model and case.model.searches is False and case.given("web_search_options"):
        yield Fault("Web search options not supported with this model.", param="web_search_options")


SAMPLING = ("frequency_penalty", "presence_penalty", "temperature", "top_p")


@BOOK.law("CP13", "A model that searches samples as it likes.", ABILITY, grade="B", seen="2025-07", switch="model_rules")
def search_is_not_sampled(case: Case) -> Iterator[Fault]:
    found = [field for field in SAMPLING if case.given(field)]
    if case.model and case.model.searches and found:
        word = "argument" if len(found) == 1 else "arguments"
        yield Fault(f"Model incompatible request {word} supplied: {', '.join(found)}", path=found[0])


@BOOK.law("CP14", "A model writes no more than it can.", ABILITY, grade="B", seen="2025-06", switch="model_rules")
def limit_is_within_the_models(case: Case) -> Iterator[Fault]:
    most = case.model.output if case.model else 0
    for field in ("max_tokens", "max_completion_tokens"):
        if most and (value := case.request.get(field) or 0) > most:
            told = f"This model supports at most {most} completion tokens, whereas you provided {shown(value)}."
            yield Fault(f"{field} is too large: {shown(value)}. {told}", param=field)


@BOOK.law("CP15", "Output is made to fit a schema only by models that can.", ABILITY, grade="B", seen="2025-01", switch="model_rules")
def schema_is_enforced(case: Case) -> Iterator[Fault]:
    wanted = (case.request.get("response_format") or {}).get("type") == "json_schema"
    if case.model and not case.model.schemas and wanted:
        told = "'response_format' of type 'json_schema' is not supported with this model."
        guide = (
            "Learn more about supported models at the Structured Outputs guide: https://platform.openai.com/docs/guides/structured-outputs"
        )
        yield Fault(f"Invalid parameter: {told} {guide}", path="response_format")


@BOOK.law(
    "CP16",
    "The model can think as hard as it is told.",
    ABILITY,
    grade="C",
    seen="2026-06",
    code="unsupported_value",
    switch="model_rules",
)
def effort_is_taken(case: Case) -> Iterator[Fault]:
    effort = case.request.get("reasoning_effort")
    if case.model and case.model.efforts and effort is not None and effort not in case.model.efforts:
        told = f"'reasoning_effort' does not support '{effort}' with this model. Supported values are: {listed(case.model.efforts)}."
        yield Fault(f"Unsupported value: {told}", param="reasoning_effort")


@BOOK.law(
    "C13", "The model takes function tools together with `reasoning_effort`.", ABILITY, grade="A", seen="2026-11", switch="model_rules"
)
def tools_go_with_effort(case: Case) -> Iterator[Fault]:
    if case.model and not case.model.tools_with_effort and case.request.get("reasoning_effort") not in (None, "none") and case.tools:
        told = f"Function tools with reasoning_effort are not supported for {case.model.name} in /v1/chat/completions."
        yield Fault(f"{told} To use function tools, use /v1/responses or set reasoning_effort to 'none'.", param="reasoning_effort")


@BOOK.law(
    "CP5",
    "The sampling of a model that thinks is left as it is.",
    ABILITY,
    grade="B",
    seen="2026-04",
    code="unsupported_value",
    switch="model_rules",
)
def sampling_is_left(case: Case) -> Iterator[Fault]:
    for field, value in _sampling_changes(case):
        told = f"'{field}' does not support {shown(value)} with this model. Only the default ({USUAL_SAMPLING[field]}) value is supported."
        yield Fault(f"Unsupported value: {told}", param=field)


@BOOK.law("CP6", "Only a reasoning model is told how hard to think.", ABILITY, grade="B", seen="2026-03", switch="model_rules")
def effort_is_for_reasoning(case: Case) -> Iterator[Fault]:
    if case.model and case.model.reasons is False and case.given("reasoning_effort"):
        yield Fault("Unrecognized request argument supplied: reasoning_effort", path="reasoning_effort")


# -- 6. parameters that need one another -------------------------------------------------------------------------------

TOGETHER = BOOK.phase("parameters that need one another")


@BOOK.law("C9", "`tool_choice` comes with tools.", TOGETHER, grade="A", seen="2026-11", switch="combinations")
def choice_has_tools(case: Case) -> Iterator[Fault]:
    if case.given("tool_choice") and not case.request.get("tools"):
        told = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        yield Fault(told, param="tool_choice")


@BOOK.law("CT5", "`parallel_tool_calls` comes with tools.", TOGETHER, grade="B", seen="2026-11", switch="combinations")
def parallel_has_tools(case: Case) -> Iterator[Fault]:
    if case.given("parallel_tool_calls") and not case.request.get("tools"):
        told = "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."
        yield Fault(told, param="parallel_tool_calls")


@BOOK.law("CT6", "The tool that `tool_choice` names is declared.", TOGETHER, grade="D", seen="2026-11", switch="combinations")
def chosen_tool_is_declared(case: Case) -> Iterator[Fault]:
    choice, tools = case.request.get("tool_choice"), case.request.get("tools")
    sort = choice.get("type", "function") if isinstance(choice, dict) else ""
    if sort in ("function", "custom") and tools:
        name = choice[sort]["name"]
        if not any(tool.get("type", "function") == sort and tool[sort]["name"] == name for tool in tools):
            yield Fault(f"Tool choice '{name}' not found in 'tools' parameter.", param="tool_choice")


@BOOK.law(
    "CP17", "The limit is given once.", TOGETHER, grade="B", seen="2025-08", code="invalid_parameter_combination", switch="combinations"
)
def limit_is_given_once(case: Case) -> Iterator[Fault]:
    if case.given("max_tokens") and case.given("max_completion_tokens"):
        yield Fault("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", param="max_tokens")


@BOOK.law("CP7", "`stream_options` comes with `stream`.", TOGETHER, grade="B", seen="2026-11", switch="combinations")
def stream_options_have_a_stream(case: Case) -> Iterator[Fault]:
    if case.given("stream_options") and case.request.get("stream") is not True:
        yield Fault("The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options")


@BOOK.law("CP8", "Who wants a JSON object says so in a message.", TOGETHER, grade="B", seen="2026-05", switch="combinations")
def json_is_asked_for(case: Case) -> Iterator[Fault]:
    wanted = (case.request.get("response_format") or {}).get("type") == "json_object"
    if wanted and not any("json" in text_of(message).lower() for message in case.request["messages"]):
        told = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        yield Fault(told, param="messages")


# -- 7. calls and their answers ----------------------------------------------------------------------------------------

CALLS = BOOK.phase("calls and their answers", each=lambda case: answers(case.request["messages"]))


@BOOK.law("C2", "A tool message follows a message with calls.", CALLS, grade="B", seen="2026-11")
def answer_follows_calls(case: Case, each: Answer | Call) -> Iterator[Fault]:
    if isinstance(each, Answer) and each.calls is None:
        told = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        yield Fault(f"Invalid parameter: {told}", param=f"messages.[{each.index}].role", path=f"messages[{each.index}]")


@BOOK.law("C2b", "A tool message answers a call of the message before it.", CALLS, grade="B", seen="2026-11")
def answer_has_its_call(case: Case, each: Answer | Call) -> Iterator[Fault]:
    if isinstance(each, Answer) and each.calls is not None and each.id not in each.calls:
        told = f"'tool_call_id' of '{each.id}' not found in 'tool_calls' of previous message."
        at = f"messages.[{each.index}].tool_call_id"
        yield Fault(f"Invalid parameter: {told}", param=at, path=f"messages[{each.index}].tool_call_id")


@BOOK.law("C14", "A call is answered once.", CALLS, grade="D", seen="2026-11", switch="duplicate_answers")
def call_is_answered_once(case: Case, each: Answer | Call) -> Iterator[Fault]:
    if isinstance(each, Answer) and each.again:
        told = f"'tool_call_id' of '{each.id}' was already answered by an earlier message."  # our words: nobody has seen the API's
        at = f"messages.[{each.index}].tool_call_id"
        yield Fault(f"Invalid parameter: {told}", param=at, path=f"messages[{each.index}].tool_call_id")


@BOOK.law("C1", "Calls are answered, all of them, right after they are made.", CALLS, grade="B", seen="2026-11")
def calls_are_answered(case: Case, each: Answer | Call) -> Iterator[Fault]:
    if isinstance(each, Call) and (open := unanswered(each)):
        told = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        named = f"The following tool_call_ids did not have response messages: {', '.join(open)}"
        # Seen with the place of the message that stands where an answer should, and with `messages` where nothing follows.
        param = "messages" if each.next is None else f"messages.[{each.next}].role"
        yield Fault(f"{told} {case.profile.pairing_note or named}", param=param, path=f"messages[{each.index}]")


# -- 8. the model's window, and at the very last empty messages --------------------------------------------------------

WINDOW = BOOK.phase("the model's window")


@BOOK.law("C12", "The messages fit the model's window.", WINDOW, grade="A", seen="2026-11", code="context_length_exceeded")
def messages_fit(case: Case) -> Iterator[Fault]:
    if case.model and 0 < case.model.window < case.tokens:
        told = f"This model's maximum context length is {case.model.window} tokens."
        found = f"However, your messages resulted in {case.tokens} tokens."
        yield Fault(f"{told} {found} Please reduce the length of the messages.", param="messages")


CONTENT = BOOK.phase("messages without content")


@BOOK.law("C4", "A message says something, or calls something.", CONTENT, grade="A", seen="2026-11")
def message_says_something(case: Case) -> Iterator[Fault]:
    for index, message in enumerate(case.request["messages"]):
        instead = ("tool_calls", "function_call", "refusal", "audio") if message["role"] == "assistant" else ()
        if message["role"] == "function" or any(message.get(member) is not None for member in instead):
            continue
        if message.get("content") is None:
            told = "Invalid value for 'content': expected a string, got null."
            yield Fault(told, param=f"messages.[{index}].content", path=f"messages[{index}].content")


# -- what is accepted although one might think otherwise ---------------------------------------------------------------

BOOK.permits("CA1", "A message's calls may be answered in any order.", grade="A", seen="2026-07", phase=CALLS)
BOOK.permits("CA2", "Null counts as left out, except for `messages`.", grade="D", seen="2026-11", phase=SHAPE)
BOOK.permits("CA3", "Roles need not alternate, and instructions may stand anywhere.", grade="B", seen="2026-11", phase=SHAPE)
BOOK.permits("CA4", "An assistant's message may have calls and no content.", grade="A", seen="2026-11", phase=CONTENT)
BOOK.permits("CA5", "To `gpt-4-vision-preview` a picture may be its address alone.", grade="A", seen="2023-11", phase=SHAPE)


def judge(request: Any, *, models: Models = any_model, tokens: int = 0, profile: Profile = OPENAI) -> list[Complaint]:
    """What the API has to complain about, first what it would answer with; nothing if the request is legal.

    >>> [str(complaint) for complaint in judge({"model": "gpt-4o"})]
    ["[C11a] 400 Missing required parameter: 'messages'. at messages"]
    """
    name = request.get("model") if isinstance(request, dict) else None
    case = Case(request, models(name if isinstance(name, str) else ""), tokens, profile)
    complaints = list(BOOK.judge(case))
    if profile.null_code:
        complaints = [each if each.code else msgspec.structs.replace(each, code=profile.null_code) for each in complaints]
    return complaints


ABOUT_MESSAGES = (SHAPE, CALLS, CONTENT)
"""The phases that ask nothing but what the messages are, and how they stand to one another."""


def judge_messages(messages: list[dict[str, Any]], profile: Profile = OPENAI) -> list[Complaint]:
    """What the API has to complain about in some messages with all that belongs to them, if the rest of the request is legal.

    >>> [complaint.clause.id for complaint in judge_messages([{"role": "tool", "tool_call_id": "call_1", "content": "done"}])]
    ['C2']
    """
    return list(BOOK.judge(Case({"model": "any", "messages": messages}, ModelInfo("any"), profile=profile), ABOUT_MESSAGES))


def envelope(complaint: Complaint) -> dict[str, Any]:
    """The body of the answer."""
    return {
        "error": {
            "message": _printable(complaint.message),
            "type": complaint.type,
            "param": None if complaint.param is None else _printable(complaint.param),
            "code": complaint.code,
        }
    }


def _printable(text: str) -> str:
    # A request may hold half a surrogate pair, which no answer can carry.
    return text.encode("utf-8", "replace").decode()
