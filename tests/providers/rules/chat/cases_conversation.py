"""Test cases of the rules about schemas, models, combinations, calls and content of Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.providers.rules.chat.cases_fields import ANSWERED_CALL_REQUEST, make_error_body
from tests.providers.rules.chat.sample_requests import (
    AUDIO_PART,
    HELLO,
    PNG_URL,
    make_call,
    make_call_message,
    make_file_part,
    make_image_part,
    make_request,
    make_tool,
    make_tool_message,
    make_user_message,
)
from tests.providers.rules.rule_cases import RuleCase

CLOSED_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}
OPEN_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def make_strict_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a response format with a strict schema."""
    return {"type": "json_schema", "json_schema": {"name": "order", "strict": True, "schema": schema}}


CASES: list[RuleCase] = [
    # -- the schemas of functions
    RuleCase(
        "CT2",
        make_request(tools=[make_tool(parameters={"type": "string"})]),
        make_error_body(
            "Invalid schema for function 'find_order': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        legal=make_request(tools=[{"type": "function", "function": {"name": "find_order"}}]),
    ),
    RuleCase(
        "CT3",
        make_request(tools=[make_tool(strict=True, parameters=OPEN_SCHEMA)]),
        make_error_body(
            "Invalid schema for function 'find_order': In context=(), 'additionalProperties' is required to be supplied and to be false.",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        legal=make_request(tools=[make_tool(strict=True, parameters=CLOSED_SCHEMA)]),
    ),
    RuleCase(
        "CT3",
        make_request(tools=[make_tool(strict=True, parameters={**CLOSED_SCHEMA, "required": []})]),
        make_error_body(
            "Invalid schema for function 'find_order': In context=(), 'required' is required to be supplied and to be an array "
            "including every key in properties. Missing 'id'.",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        legal=make_request(tools=[make_tool(strict=False, parameters={**CLOSED_SCHEMA, "required": []})]),
    ),
    RuleCase(
        "CT4",
        make_request(response_format=make_strict_format({**CLOSED_SCHEMA, "properties": {"id": OPEN_SCHEMA}})),
        make_error_body(
            "Invalid schema for response_format 'order': In context=('properties', 'id'), "
            "'additionalProperties' is required to be supplied and to be false.",
            "response_format",
        ),
        legal=make_request(response_format=make_strict_format({**CLOSED_SCHEMA, "properties": {"id": CLOSED_SCHEMA}})),
    ),
    RuleCase(
        "CT7",
        make_request(
            response_format={"type": "json_schema", "json_schema": {"name": "order", "schema": {"type": "array", "items": CLOSED_SCHEMA}}}
        ),
        make_error_body(
            "Invalid schema for response_format 'order': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
            "response_format",
        ),
        legal=make_request(response_format={"type": "json_schema", "json_schema": {"name": "order", "schema": CLOSED_SCHEMA}}),
    ),
    # -- the model
    RuleCase(
        "CP3",
        make_request(model="no-such-model"),
        make_error_body("The model `no-such-model` does not exist or you do not have access to it.", code="model_not_found"),
        status=404,
        legal=make_request(),
    ),
    RuleCase(
        "C10b",
        make_request({"role": "developer", "content": "Be brief."}, HELLO, model="o1-mini"),
        make_error_body(
            "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
            "messages[0].role",
            "unsupported_value",
        ),
        legal=make_request({"role": "developer", "content": "Be brief."}, HELLO, model="gpt-5"),
    ),
    RuleCase(
        "C13",
        make_request(model="gpt-5.6-sol", reasoning_effort="low", tools=[make_tool()]),
        make_error_body(
            "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            "reasoning_effort",
        ),
        legal=make_request(model="gpt-5.6-sol", reasoning_effort="none", tools=[make_tool()]),
    ),
    RuleCase(
        "CP4",
        make_request(model="gpt-5", max_tokens=100),
        make_error_body(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        legal=make_request(model="gpt-5", max_completion_tokens=100),
    ),
    RuleCase(
        "CP5",
        make_request(model="gpt-5", temperature=0.2),
        make_error_body(
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        legal=make_request(model="gpt-5", temperature=1),
    ),
    RuleCase(
        "CP6",
        make_request(reasoning_effort="low"),
        make_error_body("Unrecognized request argument supplied: reasoning_effort"),
        legal=make_request(model="gpt-5", reasoning_effort="low"),
    ),
    RuleCase(
        "CP4",
        make_request(model="gpt-5", max_tokens=0, temperature=-0.5),
        make_error_body(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        legal=make_request(model="gpt-3.5-turbo", max_tokens=100),
    ),
    RuleCase(
        "CP5",
        make_request(model="gpt-5.2", reasoning_effort="low", temperature=0),
        make_error_body(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        legal=make_request(model="gpt-5.2", temperature=0),
    ),
    RuleCase(
        "CP9",
        make_request(model="o3", stop=["END"]),
        make_error_body("Unsupported parameter: 'stop' is not supported with this model.", "stop", "unsupported_parameter"),
        legal=make_request(stop=["END"]),
    ),
    RuleCase(
        "CP18",
        make_request(model="gpt-5.2", reasoning_effort="low", top_p=0.5),
        make_error_body("Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "unsupported_parameter"),
        legal=make_request(model="gpt-5.2", top_p=0.5),
    ),
    RuleCase(
        "CP10",
        make_request(model="o3", parallel_tool_calls=False, tools=[make_tool()]),
        make_error_body(
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            "parallel_tool_calls",
            "unsupported_parameter",
        ),
        legal=make_request(model="gpt-5", parallel_tool_calls=False, tools=[make_tool()]),
    ),
    RuleCase(
        "CP11",
        make_request(model="gpt-3.5-turbo-instruct"),
        make_error_body(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?",
            "model",
        ),
        status=404,
        legal=make_request(model="gpt-3.5-turbo"),
    ),
    RuleCase(
        "CP11",
        make_request(model="gpt-5-pro"),
        make_error_body("This model is only supported in v1/responses and not in v1/chat/completions.", "model"),
        status=404,
        legal=make_request(model="gpt-5"),
    ),
    RuleCase(
        "C10c",
        make_request({"role": "system", "content": "Be brief."}, HELLO, model="o1-mini"),
        make_error_body(
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role", "unsupported_value"
        ),
        legal=make_request({"role": "system", "content": "Be brief."}, HELLO, model="gpt-5"),
    ),
    RuleCase(
        "CV1",
        make_request(HELLO, make_user_message(AUDIO_PART), model="gpt-3.5-turbo"),
        make_error_body(
            "Invalid 'messages[1]'. Content blocks are expected to be either text or image_url type.",
            "messages[1]",
            "invalid_value",
        ),
        legal=make_request(HELLO, make_user_message(AUDIO_PART), model="gpt-audio"),
    ),
    RuleCase(
        "CV2",
        make_request(make_user_message(make_image_part()), model="gpt-3.5-turbo"),
        make_error_body("Invalid content type. image_url is only supported by certain models.", "messages.[0].content.[1].type"),
        legal=make_request(make_user_message(make_image_part())),
    ),
    RuleCase(
        "CV3",
        make_request(model="gpt-audio"),
        make_error_body("This model requires that either input content or output modality contain audio.", "model", "invalid_value"),
        legal=make_request(model="gpt-audio", modalities=["text", "audio"], audio={"voice": "alloy", "format": "wav"}),
    ),
    RuleCase(
        "CV4",
        make_request(make_user_message(make_image_part("data:image/jpeg;base64,SGVsbG8="))),
        make_error_body(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
        ),
        legal=make_request(make_user_message(make_image_part("https://example.com/a.svg"), make_image_part())),
    ),
    RuleCase(
        "CF1",
        make_request(make_user_message(make_file_part("text/markdown"))),
        make_error_body(
            "Invalid file data: 'messages[0].content[1].file.file_data'. Expected a base64-encoded data URL with an application/pdf MIME "
            "type (e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type 'text/markdown'.",
            "messages[0].content[1].file.file_data",
            "invalid_value",
        ),
        legal=make_request(make_user_message(make_file_part("application/pdf"))),
        switches={"pdf_files": True},
    ),
    RuleCase(
        "CP12",
        make_request(model="gpt-3.5-turbo", web_search_options={}),
        make_error_body("Web search options not supported with this model.", "web_search_options"),
        legal=make_request(model="gpt-4o-search-preview", web_search_options={}),
    ),
    RuleCase(
        "CP13",
        make_request(model="gpt-4o-search-preview", top_p=0.5, temperature=0),
        make_error_body("Model incompatible request arguments supplied: temperature, top_p"),
        legal=make_request(top_p=0.5, temperature=0),
    ),
    RuleCase(
        "CP13",
        make_request(model="gpt-4o-search-preview", temperature=0),
        make_error_body("Model incompatible request argument supplied: temperature"),
        legal=make_request(model="gpt-4o-search-preview"),
    ),
    RuleCase(
        "CP14",
        make_request(model="gpt-3.5-turbo", max_tokens=8192),
        make_error_body(
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.", "max_tokens"
        ),
        legal=make_request(model="gpt-3.5-turbo", max_tokens=4096),
    ),
    RuleCase(
        "CP15",
        make_request(model="gpt-3.5-turbo", response_format=make_strict_format(CLOSED_SCHEMA)),
        make_error_body(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported "
            "models at the Structured Outputs guide: https://platform.openai.com/docs/guides/structured-outputs",
        ),
        legal=make_request(response_format=make_strict_format(CLOSED_SCHEMA)),
    ),
    RuleCase(
        "CP16",
        make_request(model="o3", reasoning_effort="minimal"),
        make_error_body(
            "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. "
            "Supported values are: 'low', 'medium', and 'high'.",
            "reasoning_effort",
            "unsupported_value",
        ),
        legal=make_request(model="o3", reasoning_effort="low"),
    ),
    # -- parameters that need one another
    RuleCase(
        "CP17",
        make_request(max_tokens=100, max_completion_tokens=100),
        make_error_body(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_tokens",
            "invalid_parameter_combination",
        ),
        legal=make_request(max_completion_tokens=100),
    ),
    RuleCase(
        "C9",
        make_request(tool_choice="auto"),
        make_error_body("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", "tool_choice"),
        legal=make_request(tool_choice="auto", tools=[make_tool()]),
    ),
    RuleCase(
        "CT5",
        make_request(parallel_tool_calls=False),
        make_error_body(
            "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.",
            "parallel_tool_calls",
        ),
        legal=make_request(parallel_tool_calls=False, tools=[make_tool()]),
    ),
    RuleCase(
        "CT6",
        make_request(tool_choice={"type": "function", "function": {"name": "refund"}}, tools=[make_tool("find_order")]),
        make_error_body("Tool choice 'refund' not found in 'tools' parameter.", "tool_choice"),
        legal=make_request(tool_choice={"type": "function", "function": {"name": "find_order"}}, tools=[make_tool("find_order")]),
    ),
    RuleCase(
        "CP7",
        make_request(stream_options={"include_usage": True}),
        make_error_body("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"),
        legal=make_request(stream=True, stream_options={"include_usage": True}),
    ),
    RuleCase(
        "CP8",
        make_request(response_format={"type": "json_object"}),
        make_error_body(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.", "messages"
        ),
        legal=make_request({"role": "user", "content": "Where is my order? Answer in JSON."}, response_format={"type": "json_object"}),
    ),
    # -- calls and their answers
    RuleCase(
        "C1",
        make_request(HELLO, make_call_message("call_1", "call_2"), make_tool_message("call_1"), HELLO),
        make_error_body(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "The following tool_call_ids did not have response messages: call_2",
            "messages.[3].role",
        ),
        legal=make_request(HELLO, make_call_message("call_1", "call_2"), make_tool_message("call_1"), make_tool_message("call_2"), HELLO),
    ),
    RuleCase(
        "C1",
        make_request(HELLO, make_call_message("call_1", "call_2")),
        make_error_body(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "The following tool_call_ids did not have response messages: call_1, call_2",
            "messages",
        ),
        legal=make_request(HELLO, make_call_message("call_1", "call_2"), make_tool_message("call_1"), make_tool_message("call_2")),
    ),
    RuleCase(
        "C1",
        make_request(HELLO, make_call_message("call_1")),
        make_error_body(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "(insufficient tool messages following tool_calls message)",
            "messages",
        ),
        legal=ANSWERED_CALL_REQUEST,
        switches={"pairing_note": "(insufficient tool messages following tool_calls message)"},
    ),
    RuleCase(
        "C2",
        make_request(HELLO, {"role": "assistant", "content": "Let me see."}, make_tool_message("call_1")),
        make_error_body(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            "messages.[2].role",
        ),
        legal=make_request(HELLO, make_call_message("call_1", content="Let me see."), make_tool_message("call_1")),
    ),
    RuleCase(
        "C2b",
        make_request(HELLO, make_call_message("call_1"), make_tool_message("call_1"), make_tool_message("call_9")),
        make_error_body(
            "Invalid parameter: 'tool_call_id' of 'call_9' not found in 'tool_calls' of previous message.",
            "messages.[3].tool_call_id",
        ),
        legal=make_request(HELLO, make_call_message("call_1", "call_9"), make_tool_message("call_1"), make_tool_message("call_9")),
    ),
    RuleCase(
        "C14",
        make_request(HELLO, make_call_message("call_1"), make_tool_message("call_1"), make_tool_message("call_1")),
        make_error_body(
            "Invalid parameter: 'tool_call_id' of 'call_1' was already answered by an earlier message.",
            "messages.[3].tool_call_id",
        ),
        legal=ANSWERED_CALL_REQUEST,
        switches={"duplicate_answers": True},
    ),
    # -- the window, and messages without content
    RuleCase(
        "C12",
        make_request(),
        make_error_body(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 160008 tokens. "
            "Please reduce the length of the messages.",
            "messages",
            "context_length_exceeded",
        ),
        legal=make_request(model="gpt-5"),
        token_count=160_008,
    ),
    RuleCase(
        "C4",
        make_request(HELLO, {"role": "assistant", "content": None, "tool_calls": None}),
        make_error_body("Invalid value for 'content': expected a string, got null.", "messages.[1].content"),
        legal=make_request(HELLO, {"role": "assistant", "content": "", "tool_calls": None}),
    ),
    RuleCase(
        "C4",
        make_request({"role": "user", "content": None}),
        make_error_body("Invalid value for 'content': expected a string, got null.", "messages.[0].content"),
        legal=make_request({"role": "user", "content": ""}),
    ),
    # -- what is accepted
    RuleCase(
        "CA1", legal=make_request(HELLO, make_call_message("call_1", "call_2"), make_tool_message("call_2"), make_tool_message("call_1"))
    ),
    RuleCase("CA2", legal=make_request(temperature=None, tools=None, tool_choice=None, stop=None, stream_options=None)),
    RuleCase("CA3", legal=make_request(HELLO, HELLO, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hm."})),
    RuleCase("CA5", legal=make_request(make_user_message({"type": "image_url", "image_url": PNG_URL}), model="gpt-4-vision-preview")),
    RuleCase("CA4", legal=make_request(HELLO, {"role": "assistant", "tool_calls": [make_call("call_1")]}, make_tool_message("call_1"))),
]
