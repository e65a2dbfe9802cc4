"""Cases about the fields other than `input`, `tools` and what the server holds."""

from __future__ import annotations

from typing import Any

from tests.providers.lawcase import LawCase
from tests.providers.responses.lawcase import PLAIN, THINKS, THINKS_WHEN_TOLD, UNKNOWN, ask, error, refused, without

OPEN = {"type": "object", "properties": {}}
CLOSED = {**OPEN, "additionalProperties": False}
INCLUDABLE = (
    "'file_search_call.results', 'web_search_call.results', 'web_search_call.action.sources', 'message.input_image.image_url', "
    "'computer_call_output.output.image_url', 'code_interpreter_call.outputs', 'reasoning.encrypted_content', "
    "and 'message.output_text.logprobs'"
)
MANY = {f"key{number}": "value" for number in range(17)}
MOVED = (
    "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'. Try again with the new parameter. "
    "See the API documentation for more information: https://platform.openai.com/docs/api-reference/responses/create."
)


def typed(clause: str, name: str, wrong: Any, right: Any, expected: str, got: str) -> LawCase:
    """A field of the wrong type."""
    message = f"Invalid type for '{name}': expected {expected}, but got {got} instead."
    return refused(clause, ask(**{name: wrong}), ask(**{name: right}), message, name, "invalid_type")


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    return ask(text={"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}})


def sampled(clause: str, name: str, value: float) -> LawCase:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return refused(clause, ask(model=THINKS, **{name: value}), ask(model=THINKS_WHEN_TOLD, **{name: value}), message, name)


CASES = [
    LawCase(
        "P0",
        ["hello"],
        error("Invalid type for request body: expected an object, but got an array instead.", None, "invalid_type"),
        obeys=ask(),
    ),
    refused("P1", without(ask(), "model"), ask(), "Missing required parameter: 'model'.", "model", "missing_required_parameter"),
    refused("P2", without(ask(), "input"), ask(), "Missing required parameter: 'input'.", "input", "missing_required_parameter"),
    refused("P3", ask(stop=["."]), ask(store=True), "Unknown parameter: 'stop'. Did you mean 'store'?", "stop", "unknown_parameter"),
    refused("P4", ask(messages=[{"role": "user", "content": "hello"}]), ask(), MOVED, None, "unsupported_parameter"),
    typed("V1", "previous_response_id", {"id": "resp_1"}, None, "a string", "an object"),
    refused(
        "S4",
        ask(previous_response_id="@results.ress"),
        ask(),
        "Invalid 'previous_response_id': '@results.ress'. Expected an ID that contains letters, numbers, underscores, or dashes, "
        "but this value contained additional characters.",
        "previous_response_id",
        "invalid_value",
    ),
    typed("V2", "prompt", "pmpt_1", None, "an object", "a string"),
    typed("V3", "moderation", "strict", None, "an object", "a string"),
    refused(
        "V4",
        ask(include=["bogus.thing"]),
        ask(include=["reasoning.encrypted_content"]),
        f"Invalid value: 'bogus.thing'. Supported values are: {INCLUDABLE}.",
        "include[0]",
        "invalid_value",
    ),
    typed("V7", "metadata", "x", {"a": "b"}, "a metadata object", "a string"),
    refused(
        "O3",
        ask(metadata=MANY),
        ask(metadata=without(MANY, "key0")),
        "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, "
        "but got an object with 17 properties instead.",
        "metadata",
        "object_above_max_properties",
    ),
    refused(
        "O4",
        ask(metadata={"k" * 65: "v"}),
        ask(metadata={"k" * 64: "v"}),
        f"Invalid property name in 'metadata': '{'k' * 65}' is too long. Expected a string with maximum length 64, "
        "but got a string with length 65 instead.",
        f"metadata.{'k' * 65}",
        "property_name_above_max_length",
    ),
    refused(
        "O5",
        ask(metadata={"k": "v" * 513}),
        ask(metadata={"k": "v" * 512}),
        "Invalid 'metadata.k': string too long. Expected a string with maximum length 512, but got a string with length 513 instead.",
        "metadata.k",
        "string_above_max_length",
    ),
    refused(
        "V8",
        ask(text={"verbosity": "bogus"}),
        ask(text={"verbosity": "low"}),
        "Invalid value: 'bogus'. Supported values are: 'low', 'medium', and 'high'.",
        "text.verbosity",
        "invalid_value",
    ),
    refused(
        "O13",
        strict(OPEN),
        strict(CLOSED),
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required to be supplied and to be false.",
        "text.format.schema",
        "invalid_json_schema",
    ),
    refused(
        "O17",
        ask(text={"format": {"type": "json_schema", "name": "answer", "schema": {"type": "array", "items": CLOSED}}}),
        ask(text={"format": {"type": "json_schema", "name": "answer", "schema": CLOSED}}),
        "Invalid schema for response_format 'answer': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        "text.format.schema",
        "invalid_json_schema",
    ),
    typed("V9", "temperature", "hot", 0.5, "a decimal", "a string"),
    refused(
        "V10",
        ask(top_p=1.5),
        ask(top_p=1),
        "Invalid 'top_p': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.",
        "top_p",
        "decimal_above_max_value",
    ),
    typed("V11", "presence_penalty", "x", -0.5, "a decimal", "a string"),
    typed("V12", "frequency_penalty", "x", 0.5, "a decimal", "a string"),
    typed("V13", "parallel_tool_calls", "yes", True, "a boolean", "a string"),
    typed("V14", "stream", "no", False, "a boolean", "a string"),
    typed("V15", "stream_options", "x", {"include_obfuscation": False}, "an object", "a string"),
    refused(
        "O8",
        ask(stream_options={"include_usage": True}),
        ask(stream_options={"include_obfuscation": True}),
        "Unknown parameter: 'stream_options.include_usage'.",
        "stream_options.include_usage",
        "unknown_parameter",
    ),
    typed("V16", "background", "no", False, "a boolean", "a string"),
    typed("V17", "max_output_tokens", True, 100, "an integer", "a boolean"),
    refused(
        "O1",
        ask(max_output_tokens=15),
        ask(max_output_tokens=16),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.",
        "max_output_tokens",
        "integer_below_min_value",
    ),
    typed("V18", "max_tool_calls", 1.5, 2, "an integer", "a decimal"),
    refused(
        "O2",
        ask(max_tool_calls=0),
        ask(max_tool_calls=1),
        "Invalid 'max_tool_calls': integer below minimum value. Expected a value >= 1, but got 0 instead.",
        "max_tool_calls",
        "integer_below_min_value",
    ),
    refused(
        "V19",
        ask(model=THINKS, reasoning={"effort": "bogus"}),
        ask(model=THINKS, reasoning={"effort": "low", "summary": "auto"}),
        "Invalid value: 'bogus'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'.",
        "reasoning.effort",
        "invalid_value",
    ),
    typed("V20", "user", 7, "someone", "a string", "an integer"),
    typed("V21", "safety_identifier", 7, "someone", "a string", "an integer"),
    refused(
        "V22",
        ask(prompt_cache_options={"bogus": 1}),
        ask(prompt_cache_options={"mode": "implicit"}),
        "Unknown parameter: 'prompt_cache_options.bogus'.",
        "prompt_cache_options.bogus",
        "unknown_parameter",
    ),
    typed("V23", "prompt_cache_key", ["k"], "k", "a string", "an array"),
    refused(
        "O6",
        ask(prompt_cache_key="k" * 65),
        ask(prompt_cache_key="k" * 64),
        "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
        "prompt_cache_key",
        "string_above_max_length",
    ),
    refused(
        "V24",
        ask(prompt_cache_retention="x"),
        ask(prompt_cache_retention="24h"),
        "Invalid value: 'x'. Supported values are: 'in_memory' and '24h'.",
        "prompt_cache_retention",
        "invalid_value",
    ),
    refused(
        "O7",
        ask(truncation="bogus"),
        ask(truncation="disabled"),
        "Invalid value: 'bogus'. Supported values are: 'auto' and 'disabled'.",
        "truncation",
        "invalid_value",
    ),
    typed("V25", "instructions", ["be brief"], "be brief", "a string", "an array"),
    typed("V26", "store", "no", False, "a boolean", "a string"),
    refused(
        "V27",
        ask(service_tier="bogus"),
        ask(service_tier="flex"),
        "Invalid value: 'bogus'. Supported values are: 'auto', 'default', 'fast', 'flex', and 'priority'.",
        "service_tier",
        "invalid_value",
    ),
    typed("V28", "top_logprobs", "x", 2, "an integer", "a string"),
    typed("V29", "context_management", "x", [], "an array of objects", "a string"),
    typed("V30", "conversation", 7, None, "one of a string or object", "an integer"),
    typed("V31", "access_programs", "x", {}, "an object", "a string"),
    typed("V32", "image", "x", {}, "an object", "a string"),
    typed("V34", "client_metadata", "x", {"installation": "1"}, "an object", "a string"),
    refused(
        "O18",
        ask(model=THINKS, reasoning={"effort": "minimal"}),
        ask(model=THINKS, reasoning={"effort": "xhigh"}),
        f"Unsupported value: 'minimal' is not supported with the '{THINKS}' model. "
        "Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.",
        "reasoning.effort",
        "unsupported_value",
    ),
    refused(
        "O19",
        ask(model=THINKS, reasoning={"generate_summary": "auto"}),
        ask(model=THINKS, reasoning={"summary": "auto"}),
        "Unknown parameter: 'reasoning.generate_summary'.",
        "reasoning.generate_summary",
        "unknown_parameter",
        profile={"refuses_generate_summary": True},
    ),
    refused("O9", ask(model=UNKNOWN), ask(), f"The requested model '{UNKNOWN}' does not exist.", "model", "model_not_found"),
    sampled("O10", "temperature", 0.5),
    sampled("O11", "top_p", 0.5),
    sampled("O14", "presence_penalty", 0.5),
    sampled("O15", "frequency_penalty", 0.5),
    refused(
        "O12",
        ask(model=THINKS, include=["message.output_text.logprobs"]),
        ask(model=THINKS_WHEN_TOLD, include=["message.output_text.logprobs"]),
        "logprobs are not supported with reasoning models.",
        "include",
        "unsupported_parameter",
    ),
    refused(
        "O16",
        ask(model=PLAIN, reasoning={"effort": "low"}),
        ask(model=THINKS, reasoning={"effort": "low"}),
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "reasoning.effort",
        "unsupported_parameter",
    ),
]
