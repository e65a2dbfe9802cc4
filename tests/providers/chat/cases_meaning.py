"""Cases about what a Chat Completions request means: functions, models, settings, calls and their answers."""

from __future__ import annotations

from typing import Any

from tests.providers.chat.cases_fields import FOUND_CALL, error
from tests.providers.chat.world import HELLO, PNG, SOUND, ask, call, calls, document, parts, picture, result, tool
from tests.providers.lawcase import LawCase

CLOSED = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "order", "strict": True, "schema": schema}}


CASES: list[LawCase] = [
    # -- the schemas of functions
    LawCase(
        "CT2",
        ask(tools=[tool(parameters={"type": "string"})]),
        error(
            "Invalid schema for function 'find_order': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        obeys=ask(tools=[{"type": "function", "function": {"name": "find_order"}}]),
    ),
    LawCase(
        "CT3",
        ask(tools=[tool(strict=True, parameters=OPEN)]),
        error(
            "Invalid schema for function 'find_order': In context=(), 'additionalProperties' is required to be supplied and to be false.",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        obeys=ask(tools=[tool(strict=True, parameters=CLOSED)]),
    ),
    LawCase(
        "CT3",
        ask(tools=[tool(strict=True, parameters={**CLOSED, "required": []})]),
        error(
            "Invalid schema for function 'find_order': In context=(), 'required' is required to be supplied and to be an array "
            "including every key in properties. Missing 'id'.",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        obeys=ask(tools=[tool(strict=False, parameters={**CLOSED, "required": []})]),
    ),
    LawCase(
        "CT4",
        ask(response_format=strict({**CLOSED, "properties": {"id": OPEN}})),
        error(
            "Invalid schema for response_format 'order': In context=('properties', 'id'), "
            "'additionalProperties' is required to be supplied and to be false.",
            "response_format",
        ),
        obeys=ask(response_format=strict({**CLOSED, "properties": {"id": CLOSED}})),
    ),
    LawCase(
        "CT7",
        ask(response_format={"type": "json_schema", "json_schema": {"name": "order", "schema": {"type": "array", "items": CLOSED}}}),
        error(
            "Invalid schema for response_format 'order': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
            "response_format",
        ),
        obeys=ask(response_format={"type": "json_schema", "json_schema": {"name": "order", "schema": CLOSED}}),
    ),
    # -- the model
    LawCase(
        "CP3",
        ask(model="no-such-model"),
        error("The model `no-such-model` does not exist or you do not have access to it.", code="model_not_found"),
        status=404,
        obeys=ask(),
    ),
    LawCase(
        "C10b",
        ask({"role": "developer", "content": "Be brief."}, HELLO, model="o1-mini"),
        error(
            "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
            "messages[0].role",
            "unsupported_value",
        ),
        obeys=ask({"role": "developer", "content": "Be brief."}, HELLO, model="gpt-5"),
    ),
    LawCase(
        "C13",
        ask(model="gpt-5.6-sol", reasoning_effort="low", tools=[tool()]),
        error(
            "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            "reasoning_effort",
        ),
        obeys=ask(model="gpt-5.6-sol", reasoning_effort="none", tools=[tool()]),
    ),
    LawCase(
        "CP4",
        ask(model="gpt-5", max_tokens=100),
        error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        obeys=ask(model="gpt-5", max_completion_tokens=100),
    ),
    LawCase(
        "CP5",
        ask(model="gpt-5", temperature=0.2),
        error(
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        obeys=ask(model="gpt-5", temperature=1),
    ),
    LawCase(
        "CP6",
        ask(reasoning_effort="low"),
        error("Unrecognized request argument supplied: reasoning_effort"),
        obeys=ask(model="gpt-5", reasoning_effort="low"),
    ),
    LawCase(
        "CP4",
        ask(model="gpt-5", max_tokens=0, temperature=-0.5),
        error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        obeys=ask(model="gpt-3.5-turbo", max_tokens=100),
    ),
    LawCase(
        "CP5",
        ask(model="gpt-5.2", reasoning_effort="low", temperature=0),
        error(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
            "temperature",
            "unsupported_value",
        ),
        obeys=ask(model="gpt-5.2", temperature=0),
    ),
    LawCase(
        "CP9",
        ask(model="o3", stop=["END"]),
        error("Unsupported parameter: 'stop' is not supported with this model.", "stop", "unsupported_parameter"),
        obeys=ask(stop=["END"]),
    ),
    LawCase(
        "CP18",
        ask(model="gpt-5.2", reasoning_effort="low", top_p=0.5),
        error("Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "unsupported_parameter"),
        obeys=ask(model="gpt-5.2", top_p=0.5),
    ),
    LawCase(
        "CP10",
        ask(model="o3", parallel_tool_calls=False, tools=[tool()]),
        error(
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            "parallel_tool_calls",
            "unsupported_parameter",
        ),
        obeys=ask(model="gpt-5", parallel_tool_calls=False, tools=[tool()]),
    ),
    LawCase(
        "CP11",
        ask(model="gpt-3.5-turbo-instruct"),
        error(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?",
            "model",
        ),
        status=404,
        obeys=ask(model="gpt-3.5-turbo"),
    ),
    LawCase(
        "CP11",
        ask(model="gpt-5-pro"),
        error("This model is only supported in v1/responses and not in v1/chat/completions.", "model"),
        status=404,
        obeys=ask(model="gpt-5"),
    ),
    LawCase(
        "C10c",
        ask({"role": "system", "content": "Be brief."}, HELLO, model="o1-mini"),
        error("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role", "unsupported_value"),
        obeys=ask({"role": "system", "content": "Be brief."}, HELLO, model="gpt-5"),
    ),
    LawCase(
        "CV1",
        ask(HELLO, parts(SOUND), model="gpt-3.5-turbo"),
        error(
            "Invalid 'messages[1]'. Content blocks are expected to be either text or image_url type.",
            "messages[1]",
            "invalid_value",
        ),
        obeys=ask(HELLO, parts(SOUND), model="gpt-audio"),
    ),
    LawCase(
        "CV2",
        ask(parts(picture()), model="gpt-3.5-turbo"),
        error("Invalid content type. image_url is only supported by certain models.", "messages.[0].content.[1].type"),
        obeys=ask(parts(picture())),
    ),
    LawCase(
        "CV3",
        ask(model="gpt-audio"),
        error("This model requires that either input content or output modality contain audio.", "model", "invalid_value"),
        obeys=ask(model="gpt-audio", modalities=["text", "audio"], audio={"voice": "alloy", "format": "wav"}),
    ),
    LawCase(
        "CV4",
        ask(parts(picture("data:image/jpeg;base64,SGVsbG8="))),
        error(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
        ),
        obeys=ask(parts(picture("https://example.com/a.svg"), picture())),
    ),
    LawCase(
        "CF1",
        ask(parts(document("text/markdown"))),
        error(
            "Invalid file data: 'messages[0].content[1].file.file_data'. Expected a base64-encoded data URL with an application/pdf MIME "
            "type (e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type 'text/markdown'.",
            "messages[0].content[1].file.file_data",
            "invalid_value",
        ),
        obeys=ask(parts(document("application/pdf"))),
        profile={"pdf_files": True},
    ),
    LawCase(
        "CP12",
        ask(model="gpt-3.5-turbo", web_search_options={}),
        error("Web search options not supported with this model.", "web_search_options"),
        obeys=ask(model="gpt-4o-search-preview", web_search_options={}),
    ),
    LawCase(
        "CP13",
        ask(model="gpt-4o-search-preview", top_p=0.5, temperature=0),
        error("Model incompatible request arguments supplied: temperature, top_p"),
        obeys=ask(top_p=0.5, temperature=0),
    ),
    LawCase(
        "CP13",
        ask(model="gpt-4o-search-preview", temperature=0),
        error("Model incompatible request argument supplied: temperature"),
        obeys=ask(model="gpt-4o-search-preview"),
    ),
    LawCase(
        "CP14",
        ask(model="gpt-3.5-turbo", max_tokens=8192),
        error(
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.", "max_tokens"
        ),
        obeys=ask(model="gpt-3.5-turbo", max_tokens=4096),
    ),
    LawCase(
        "CP15",
        ask(model="gpt-3.5-turbo", response_format=strict(CLOSED)),
        error(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported "
            "models at the Structured Outputs guide: https://platform.openai.com/docs/guides/structured-outputs",
        ),
        obeys=ask(response_format=strict(CLOSED)),
    ),
    LawCase(
        "CP16",
        ask(model="o3", reasoning_effort="minimal"),
        error(
            "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. "
            "Supported values are: 'low', 'medium', and 'high'.",
            "reasoning_effort",
            "unsupported_value",
        ),
        obeys=ask(model="o3", reasoning_effort="low"),
    ),
    # -- parameters that need one another
    LawCase(
        "CP17",
        ask(max_tokens=100, max_completion_tokens=100),
        error(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_tokens",
            "invalid_parameter_combination",
        ),
        obeys=ask(max_completion_tokens=100),
    ),
    LawCase(
        "C9",
        ask(tool_choice="auto"),
        error("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", "tool_choice"),
        obeys=ask(tool_choice="auto", tools=[tool()]),
    ),
    LawCase(
        "CT5",
        ask(parallel_tool_calls=False),
        error(
            "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.",
            "parallel_tool_calls",
        ),
        obeys=ask(parallel_tool_calls=False, tools=[tool()]),
    ),
    LawCase(
        "CT6",
        ask(tool_choice={"type": "function", "function": {"name": "refund"}}, tools=[tool("find_order")]),
        error("Tool choice 'refund' not found in 'tools' parameter.", "tool_choice"),
        obeys=ask(tool_choice={"type": "function", "function": {"name": "find_order"}}, tools=[tool("find_order")]),
    ),
    LawCase(
        "CP7",
        ask(stream_options={"include_usage": True}),
        error("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"),
        obeys=ask(stream=True, stream_options={"include_usage": True}),
    ),
    LawCase(
        "CP8",
        ask(response_format={"type": "json_object"}),
        error("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.", "messages"),
        obeys=ask({"role": "user", "content": "Where is my order? Answer in JSON."}, response_format={"type": "json_object"}),
    ),
    # -- calls and their answers
    LawCase(
        "C1",
        ask(HELLO, calls("call_1", "call_2"), result("call_1"), HELLO),
        error(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "The following tool_call_ids did not have response messages: call_2",
            "messages.[3].role",
        ),
        obeys=ask(HELLO, calls("call_1", "call_2"), result("call_1"), result("call_2"), HELLO),
    ),
    LawCase(
        "C1",
        ask(HELLO, calls("call_1", "call_2")),
        error(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "The following tool_call_ids did not have response messages: call_1, call_2",
            "messages",
        ),
        obeys=ask(HELLO, calls("call_1", "call_2"), result("call_1"), result("call_2")),
    ),
    LawCase(
        "C1",
        ask(HELLO, calls("call_1")),
        error(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "(insufficient tool messages following tool_calls message)",
            "messages",
        ),
        obeys=FOUND_CALL,
        profile={"pairing_note": "(insufficient tool messages following tool_calls message)"},
    ),
    LawCase(
        "C2",
        ask(HELLO, {"role": "assistant", "content": "Let me see."}, result("call_1")),
        error(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            "messages.[2].role",
        ),
        obeys=ask(HELLO, calls("call_1", content="Let me see."), result("call_1")),
    ),
    LawCase(
        "C2b",
        ask(HELLO, calls("call_1"), result("call_1"), result("call_9")),
        error(
            "Invalid parameter: 'tool_call_id' of 'call_9' not found in 'tool_calls' of previous message.",
            "messages.[3].tool_call_id",
        ),
        obeys=ask(HELLO, calls("call_1", "call_9"), result("call_1"), result("call_9")),
    ),
    LawCase(
        "C14",
        ask(HELLO, calls("call_1"), result("call_1"), result("call_1")),
        error(
            "Invalid parameter: 'tool_call_id' of 'call_1' was already answered by an earlier message.",
            "messages.[3].tool_call_id",
        ),
        obeys=FOUND_CALL,
        profile={"duplicate_answers": True},
    ),
    # -- the window, and messages without content
    LawCase(
        "C12",
        ask(),
        error(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 160008 tokens. "
            "Please reduce the length of the messages.",
            "messages",
            "context_length_exceeded",
        ),
        obeys=ask(model="gpt-5"),
        tokens=160_008,
    ),
    LawCase(
        "C4",
        ask(HELLO, {"role": "assistant", "content": None, "tool_calls": None}),
        error("Invalid value for 'content': expected a string, got null.", "messages.[1].content"),
        obeys=ask(HELLO, {"role": "assistant", "content": "", "tool_calls": None}),
    ),
    LawCase(
        "C4",
        ask({"role": "user", "content": None}),
        error("Invalid value for 'content': expected a string, got null.", "messages.[0].content"),
        obeys=ask({"role": "user", "content": ""}),
    ),
    # -- what is accepted
    LawCase("CA1", obeys=ask(HELLO, calls("call_1", "call_2"), result("call_2"), result("call_1"))),
    LawCase("CA2", obeys=ask(temperature=None, tools=None, tool_choice=None, stop=None, stream_options=None)),
    LawCase("CA3", obeys=ask(HELLO, HELLO, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hm."})),
    LawCase("CA5", obeys=ask(parts({"type": "image_url", "image_url": PNG}), model="gpt-4-vision-preview")),
    LawCase("CA4", obeys=ask(HELLO, {"role": "assistant", "tool_calls": [call("call_1")]}, result("call_1"))),
]
