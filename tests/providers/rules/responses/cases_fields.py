"""Test cases of the rules about fields other than `input`, `tools` and those about stored state."""

from __future__ import annotations

from typing import Any

from tests.providers.rules.responses.sample_requests import (
    NON_REASONING_MODEL,
    OPTIONAL_REASONING_MODEL,
    REASONING_MODEL,
    UNKNOWN_MODEL,
    drop_fields,
    make_case,
    make_error_body,
    make_request,
)
from tests.providers.rules.rule_cases import RuleCase

OPEN_SCHEMA = {"type": "object", "properties": {}}
CLOSED_SCHEMA = {**OPEN_SCHEMA, "additionalProperties": False}
INCLUDE_VALUES = (
    "'file_search_call.results', 'web_search_call.results', 'web_search_call.action.sources', 'message.input_image.image_url', "
    "'computer_call_output.output.image_url', 'code_interpreter_call.outputs', 'reasoning.encrypted_content', "
    "and 'message.output_text.logprobs'"
)
LARGE_METADATA = {f"key{number}": "value" for number in range(17)}
MESSAGES_PARAMETER_MESSAGE = (
    "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to 'input'. Try again with the new parameter. "
    "See the API documentation for more information: https://platform.openai.com/docs/api-reference/responses/create."
)


def make_type_case(rule_id: str, name: str, illegal_value: Any, legal_value: Any, expected_type: str, found_type: str) -> RuleCase:
    """Return a case of a field with a value of the wrong type."""
    message = f"Invalid type for '{name}': expected {expected_type}, but got {found_type} instead."
    return make_case(rule_id, make_request(**{name: illegal_value}), make_request(**{name: legal_value}), message, name, "invalid_type")


def make_strict_request(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a request for output with a strict schema."""
    return make_request(text={"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}})


def make_sampling_case(rule_id: str, name: str, value: float) -> RuleCase:
    """Return a case of a sampling field for a reasoning model."""
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return make_case(
        rule_id,
        make_request(model=REASONING_MODEL, **{name: value}),
        make_request(model=OPTIONAL_REASONING_MODEL, **{name: value}),
        message,
        name,
    )


CASES = [
    RuleCase(
        "P0",
        ["hello"],
        make_error_body("Invalid type for request body: expected an object, but got an array instead.", None, "invalid_type"),
        legal=make_request(),
    ),
    make_case(
        "P1",
        drop_fields(make_request(), "model"),
        make_request(),
        "Missing required parameter: 'model'.",
        "model",
        "missing_required_parameter",
    ),
    make_case(
        "P2",
        drop_fields(make_request(), "input"),
        make_request(),
        "Missing required parameter: 'input'.",
        "input",
        "missing_required_parameter",
    ),
    make_case(
        "P3",
        make_request(stop=["."]),
        make_request(store=True),
        "Unknown parameter: 'stop'. Did you mean 'store'?",
        "stop",
        "unknown_parameter",
    ),
    make_case(
        "P4",
        make_request(messages=[{"role": "user", "content": "hello"}]),
        make_request(),
        MESSAGES_PARAMETER_MESSAGE,
        None,
        "unsupported_parameter",
    ),
    make_type_case("V1", "previous_response_id", {"id": "resp_1"}, None, "a string", "an object"),
    make_case(
        "S4",
        make_request(previous_response_id="@results.ress"),
        make_request(),
        "Invalid 'previous_response_id': '@results.ress'. Expected an ID that contains letters, numbers, underscores, or dashes, "
        "but this value contained additional characters.",
        "previous_response_id",
        "invalid_value",
    ),
    make_type_case("V2", "prompt", "pmpt_1", None, "an object", "a string"),
    make_type_case("V3", "moderation", "strict", None, "an object", "a string"),
    make_case(
        "V4",
        make_request(include=["bogus.thing"]),
        make_request(include=["reasoning.encrypted_content"]),
        f"Invalid value: 'bogus.thing'. Supported values are: {INCLUDE_VALUES}.",
        "include[0]",
        "invalid_value",
    ),
    make_type_case("V7", "metadata", "x", {"a": "b"}, "a metadata object", "a string"),
    make_case(
        "O3",
        make_request(metadata=LARGE_METADATA),
        make_request(metadata=drop_fields(LARGE_METADATA, "key0")),
        "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, "
        "but got an object with 17 properties instead.",
        "metadata",
        "object_above_max_properties",
    ),
    make_case(
        "O4",
        make_request(metadata={"k" * 65: "v"}),
        make_request(metadata={"k" * 64: "v"}),
        f"Invalid property name in 'metadata': '{'k' * 65}' is too long. Expected a string with maximum length 64, "
        "but got a string with length 65 instead.",
        f"metadata.{'k' * 65}",
        "property_name_above_max_length",
    ),
    make_case(
        "O5",
        make_request(metadata={"k": "v" * 513}),
        make_request(metadata={"k": "v" * 512}),
        "Invalid 'metadata.k': string too long. Expected a string with maximum length 512, but got a string with length 513 instead.",
        "metadata.k",
        "string_above_max_length",
    ),
    make_case(
        "V8",
        make_request(text={"verbosity": "bogus"}),
        make_request(text={"verbosity": "low"}),
        "Invalid value: 'bogus'. Supported values are: 'low', 'medium', and 'high'.",
        "text.verbosity",
        "invalid_value",
    ),
    make_case(
        "O13",
        make_strict_request(OPEN_SCHEMA),
        make_strict_request(CLOSED_SCHEMA),
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required to be supplied and to be false.",
        "text.format.schema",
        "invalid_json_schema",
    ),
    make_case(
        "O17",
        make_request(text={"format": {"type": "json_schema", "name": "answer", "schema": {"type": "array", "items": CLOSED_SCHEMA}}}),
        make_request(text={"format": {"type": "json_schema", "name": "answer", "schema": CLOSED_SCHEMA}}),
        "Invalid schema for response_format 'answer': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        "text.format.schema",
        "invalid_json_schema",
    ),
    make_type_case("V9", "temperature", "hot", 0.5, "a decimal", "a string"),
    make_case(
        "V10",
        make_request(top_p=1.5),
        make_request(top_p=1),
        "Invalid 'top_p': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.",
        "top_p",
        "decimal_above_max_value",
    ),
    make_type_case("V11", "presence_penalty", "x", -0.5, "a decimal", "a string"),
    make_type_case("V12", "frequency_penalty", "x", 0.5, "a decimal", "a string"),
    make_type_case("V13", "parallel_tool_calls", "yes", True, "a boolean", "a string"),
    make_type_case("V14", "stream", "no", False, "a boolean", "a string"),
    make_type_case("V15", "stream_options", "x", {"include_obfuscation": False}, "an object", "a string"),
    make_case(
        "O8",
        make_request(stream_options={"include_usage": True}),
        make_request(stream_options={"include_obfuscation": True}),
        "Unknown parameter: 'stream_options.include_usage'.",
        "stream_options.include_usage",
        "unknown_parameter",
    ),
    make_type_case("V16", "background", "no", False, "a boolean", "a string"),
    make_type_case("V17", "max_output_tokens", True, 100, "an integer", "a boolean"),
    make_case(
        "O1",
        make_request(max_output_tokens=15),
        make_request(max_output_tokens=16),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.",
        "max_output_tokens",
        "integer_below_min_value",
    ),
    make_type_case("V18", "max_tool_calls", 1.5, 2, "an integer", "a decimal"),
    make_case(
        "O2",
        make_request(max_tool_calls=0),
        make_request(max_tool_calls=1),
        "Invalid 'max_tool_calls': integer below minimum value. Expected a value >= 1, but got 0 instead.",
        "max_tool_calls",
        "integer_below_min_value",
    ),
    make_case(
        "V19",
        make_request(model=REASONING_MODEL, reasoning={"effort": "bogus"}),
        make_request(model=REASONING_MODEL, reasoning={"effort": "low", "summary": "auto"}),
        "Invalid value: 'bogus'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'.",
        "reasoning.effort",
        "invalid_value",
    ),
    make_type_case("V20", "user", 7, "someone", "a string", "an integer"),
    make_type_case("V21", "safety_identifier", 7, "someone", "a string", "an integer"),
    make_case(
        "V22",
        make_request(prompt_cache_options={"bogus": 1}),
        make_request(prompt_cache_options={"mode": "implicit"}),
        "Unknown parameter: 'prompt_cache_options.bogus'.",
        "prompt_cache_options.bogus",
        "unknown_parameter",
    ),
    make_type_case("V23", "prompt_cache_key", ["k"], "k", "a string", "an array"),
    make_case(
        "O6",
        make_request(prompt_cache_key="k" * 65),
        make_request(prompt_cache_key="k" * 64),
        "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
        "prompt_cache_key",
        "string_above_max_length",
    ),
    make_case(
        "V24",
        make_request(prompt_cache_retention="x"),
        make_request(prompt_cache_retention="24h"),
        "Invalid value: 'x'. Supported values are: 'in_memory' and '24h'.",
        "prompt_cache_retention",
        "invalid_value",
    ),
    make_case(
        "O7",
        make_request(truncation="bogus"),
        make_request(truncation="disabled"),
        "Invalid value: 'bogus'. Supported values are: 'auto' and 'disabled'.",
        "truncation",
        "invalid_value",
    ),
    make_type_case("V25", "instructions", ["be brief"], "be brief", "a string", "an array"),
    make_type_case("V26", "store", "no", False, "a boolean", "a string"),
    make_case(
        "V27",
        make_request(service_tier="bogus"),
        make_request(service_tier="flex"),
        "Invalid value: 'bogus'. Supported values are: 'auto', 'default', 'fast', 'flex', and 'priority'.",
        "service_tier",
        "invalid_value",
    ),
    make_type_case("V28", "top_logprobs", "x", 2, "an integer", "a string"),
    make_type_case("V29", "context_management", "x", [], "an array of objects", "a string"),
    make_type_case("V30", "conversation", 7, None, "one of a string or object", "an integer"),
    make_type_case("V31", "access_programs", "x", {}, "an object", "a string"),
    make_type_case("V32", "image", "x", {}, "an object", "a string"),
    make_type_case("V34", "client_metadata", "x", {"installation": "1"}, "an object", "a string"),
    make_case(
        "O18",
        make_request(model=REASONING_MODEL, reasoning={"effort": "minimal"}),
        make_request(model=REASONING_MODEL, reasoning={"effort": "xhigh"}),
        f"Unsupported value: 'minimal' is not supported with the '{REASONING_MODEL}' model. "
        "Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.",
        "reasoning.effort",
        "unsupported_value",
    ),
    make_case(
        "O19",
        make_request(model=REASONING_MODEL, reasoning={"generate_summary": "auto"}),
        make_request(model=REASONING_MODEL, reasoning={"summary": "auto"}),
        "Unknown parameter: 'reasoning.generate_summary'.",
        "reasoning.generate_summary",
        "unknown_parameter",
        switches={"refuses_generate_summary": True},
    ),
    make_case(
        "O9",
        make_request(model=UNKNOWN_MODEL),
        make_request(),
        f"The requested model '{UNKNOWN_MODEL}' does not exist.",
        "model",
        "model_not_found",
    ),
    make_sampling_case("O10", "temperature", 0.5),
    make_sampling_case("O11", "top_p", 0.5),
    make_sampling_case("O14", "presence_penalty", 0.5),
    make_sampling_case("O15", "frequency_penalty", 0.5),
    make_case(
        "O12",
        make_request(model=REASONING_MODEL, include=["message.output_text.logprobs"]),
        make_request(model=OPTIONAL_REASONING_MODEL, include=["message.output_text.logprobs"]),
        "logprobs are not supported with reasoning models.",
        "include",
        "unsupported_parameter",
    ),
    make_case(
        "O16",
        make_request(model=NON_REASONING_MODEL, reasoning={"effort": "low"}),
        make_request(model=REASONING_MODEL, reasoning={"effort": "low"}),
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "reasoning.effort",
        "unsupported_parameter",
    ),
]
