"""The rules about the model: it exists, and it supports what the request asks of it.

`ChatContext.model` refuses nothing where the model's properties are not known.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from legato.providers.rules.chat.check_order import MODEL_CAPABILITIES, MODEL_EXISTS, RULES, SUPPORTED_PARAMETERS
from legato.providers.rules.chat.messages import find_parts
from legato.providers.rules.chat.request_context import ChatContext
from legato.providers.rules.chat.shape_checks import format_number, join_quoted
from legato.providers.rules.rule_set import Finding

DEFAULT_SAMPLING = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}


def _list_sampling_changes(context: ChatContext) -> Iterator[tuple[str, Any]]:
    """List the sampling fields that differ from their defaults, if the model reasons about the request."""
    for field, default in DEFAULT_SAMPLING.items() if context.is_reasoning_on else ():
        value = context.request.get(field)
        if value is not None and value != default:
            yield field, value


# -- parameters that the model supports --------------------------------------------------------------------------------


@RULES.rule(
    "CP4",
    "The token limit of a reasoning model is `max_completion_tokens`.",
    SUPPORTED_PARAMETERS,
    grade="A",
    as_of="2026-07",
    code="unsupported_parameter",
    switch="model_rules",
)
def limit_has_its_current_name(context: ChatContext) -> Iterator[Finding]:
    if context.model.has_reasoning and context.has_field("max_tokens"):
        message = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        yield Finding(f"Unsupported parameter: {message}", param="max_tokens")


@RULES.rule(
    "CP9",
    "`stop` goes only to models that support it.",
    SUPPORTED_PARAMETERS,
    grade="A",
    as_of="2026-01",
    code="unsupported_parameter",
    switch="model_rules",
)
def stop_is_supported(context: ChatContext) -> Iterator[Finding]:
    if not context.model.accepts_stop and context.has_field("stop"):
        yield Finding("Unsupported parameter: 'stop' is not supported with this model.", param="stop")


@RULES.rule(
    "CP18",
    "A reasoning model gets only the sampling parameters that it has.",
    SUPPORTED_PARAMETERS,
    grade="B",
    as_of="2025-09",
    code="unsupported_parameter",
    switch="model_rules",
)
def sampling_is_supported(context: ChatContext) -> Iterator[Finding]:
    for field, _ in _list_sampling_changes(context):
        if field in context.model.fixed_sampling:
            yield Finding(f"Unsupported parameter: '{field}' is not supported with this model.", param=field)


@RULES.rule(
    "CP10",
    "`parallel_tool_calls` goes only to models that support it.",
    SUPPORTED_PARAMETERS,
    grade="B",
    as_of="2025-07",
    code="unsupported_parameter",
    switch="model_rules",
)
def parallel_tool_calls_are_supported(context: ChatContext) -> Iterator[Finding]:
    if not context.model.accepts_parallel_tool_calls and context.has_field("parallel_tool_calls"):
        yield Finding("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", param="parallel_tool_calls")


# -- the model ---------------------------------------------------------------------------------------------------------


@RULES.rule("CP3", "The model exists.", MODEL_EXISTS, grade="A", as_of="2026-11", status=404, code="model_not_found")
def model_exists(context: ChatContext) -> Iterator[Finding]:
    if context.model_info is None:
        yield Finding(f"The model `{context.request.get('model')}` does not exist or you do not have access to it.", path="model")


@RULES.rule("CP11", "The model is served by this API.", MODEL_EXISTS, grade="A", as_of="2025-08", status=404, switch="model_rules")
def model_is_served_by_this_api(context: ChatContext) -> Iterator[Finding]:
    endpoint = context.model.other_endpoint
    if endpoint == "v1/completions":
        message = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
        yield Finding(f"{message} Did you mean to use {endpoint}?", param="model")
    elif endpoint:
        yield Finding(f"This model is only supported in {endpoint} and not in v1/chat/completions.", param="model")


# -- capabilities ------------------------------------------------------------------------------------------------------


def _find_role(context: ChatContext, role: str) -> Iterator[Finding]:
    for index, message in enumerate(context.request["messages"]):
        if message["role"] == role:
            path = f"messages[{index}].role"
            yield Finding(f"Unsupported value: '{path}' does not support '{role}' with this model.", param=path)


@RULES.rule(
    "C10b",
    "The model supports the role `developer`.",
    MODEL_CAPABILITIES,
    grade="A",
    as_of="2026-11",
    code="unsupported_value",
    switch="model_rules",
)
def developer_role_is_supported(context: ChatContext) -> Iterator[Finding]:
    if not context.model.accepts_developer_role:
        yield from _find_role(context, "developer")


@RULES.rule(
    "C10c",
    "The model supports the role `system`.",
    MODEL_CAPABILITIES,
    grade="A",
    as_of="2025-07",
    code="unsupported_value",
    switch="model_rules",
)
def system_role_is_supported(context: ChatContext) -> Iterator[Finding]:
    if not context.model.accepts_system_role:
        yield from _find_role(context, "system")


@RULES.rule(
    "CV1",
    "Audio goes only to models that accept it.",
    MODEL_CAPABILITIES,
    grade="A",
    as_of="2026-07",
    code="invalid_value",
    switch="model_rules",
)
def audio_is_supported(context: ChatContext) -> Iterator[Finding]:
    if not context.model.accepts_audio:
        for index, number, _ in find_parts(context.request["messages"], "input_audio"):
            param = f"messages[{index}]"
            message = f"Invalid '{param}'. Content blocks are expected to be either text or image_url type."
            yield Finding(message, param=param, path=f"{param}.content[{number}]")


@RULES.rule("CV2", "Images go only to models that accept them.", MODEL_CAPABILITIES, grade="B", as_of="2025-11", switch="model_rules")
def images_are_supported(context: ChatContext) -> Iterator[Finding]:
    if not context.model.accepts_images:
        for index, number, _ in find_parts(context.request["messages"], "image_url"):
            message = "Invalid content type. image_url is only supported by certain models."
            param = f"messages.[{index}].content.[{number}].type"
            yield Finding(message, param=param, path=f"messages[{index}].content[{number}].type")


@RULES.rule(
    "CV3",
    "An audio model gets audio, or its output has audio.",
    MODEL_CAPABILITIES,
    grade="C",
    as_of="2026-03",
    code="invalid_value",
    switch="model_rules",
)
def audio_model_has_audio(context: ChatContext) -> Iterator[Finding]:
    if context.model.requires_audio and "audio" not in (context.request.get("modalities") or ()):
        messages = context.request["messages"]
        if not any(message.get("audio") for message in messages) and not any(find_parts(messages, "input_audio")):
            yield Finding("This model requires that either input content or output modality contain audio.", param="model")


_IMAGE_SIGNATURE = re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP", re.DOTALL)
"""The first bytes of images in the accepted formats."""


@RULES.rule(
    "CV4",
    "An image is a PNG, JPEG, GIF or WebP.",
    MODEL_CAPABILITIES,
    grade="A",
    as_of="2026-03",
    code="invalid_image_format",
    switch="picture_formats",
)
def image_has_a_known_format(context: ChatContext) -> Iterator[Finding]:
    for index, number, part in find_parts(context.request["messages"], "image_url"):
        image = part["image_url"]
        scheme, _, data = (image if isinstance(image, str) else image["url"]).partition(";base64,")
        if scheme.startswith("data:") and not _IMAGE_SIGNATURE.match(_decode_first_bytes(data)):
            formats = "Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
            yield Finding(f"You uploaded an unsupported image. {formats}", path=f"messages[{index}].content[{number}].image_url.url")


def _decode_first_bytes(data: str) -> bytes:
    try:
        return b64decode(data[:16])
    except ValueError:  # anything but base64 is no image
        return b""


@RULES.rule("CF1", "A file is a PDF.", MODEL_CAPABILITIES, grade="C", as_of="2026-05", code="invalid_value", switch="pdf_files")
def file_is_a_pdf(context: ChatContext) -> Iterator[Finding]:
    for index, number, part in find_parts(context.request["messages"], "file"):
        scheme, _, rest = (part["file"].get("file_data") or "data:application/pdf").partition(":")
        mime_type = rest.partition(";")[0].partition(",")[0]
        if scheme == "data" and mime_type != "application/pdf":
            path = f"messages[{index}].content[{number}].file.file_data"
            expected = "Expected a base64-encoded data URL with an application/pdf MIME type"
            example = "(e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ==')"
            message = f"Invalid file data: '{path}'. {expected} {example}, but got unsupported MIME type '{mime_type}'."
            yield Finding(message, param=path)


@RULES.rule(
    "CP12", "Only a model with web search gets options for it.", MODEL_CAPABILITIES, grade="A", as_of="2025-05", switch="model_rules"
)
def web_search_is_supported(context: ChatContext) -> Iterator[Finding]:
    if context.model.has_web_search is False and context.has_field("web_search_options"):
        yield Finding("Web search options not supported with this model.", param="web_search_options")


SAMPLING_FIELDS = ("frequency_penalty", "presence_penalty", "temperature", "top_p")


@RULES.rule(
    "CP13", "A model with web search gets no sampling parameters.", MODEL_CAPABILITIES, grade="B", as_of="2025-07", switch="model_rules"
)
def web_search_has_no_sampling(context: ChatContext) -> Iterator[Finding]:
    fields = [field for field in SAMPLING_FIELDS if context.has_field(field)]
    if context.model.has_web_search and fields:
        word = "argument" if len(fields) == 1 else "arguments"
        yield Finding(f"Model incompatible request {word} supplied: {', '.join(fields)}", path=fields[0])


@RULES.rule("CP14", "The token limit is within the model's.", MODEL_CAPABILITIES, grade="B", as_of="2025-06", switch="model_rules")
def limit_is_within_the_models(context: ChatContext) -> Iterator[Finding]:
    limit = context.model.max_output_tokens
    for field in ("max_tokens", "max_completion_tokens"):
        if limit and (value := context.request.get(field) or 0) > limit:
            message = f"This model supports at most {limit} completion tokens, whereas you provided {format_number(value)}."
            yield Finding(f"{field} is too large: {format_number(value)}. {message}", param=field)


@RULES.rule(
    "CP15", "Only a model that supports it gets an output schema.", MODEL_CAPABILITIES, grade="B", as_of="2025-01", switch="model_rules"
)
def output_schema_is_supported(context: ChatContext) -> Iterator[Finding]:
    has_schema = (context.request.get("response_format") or {}).get("type") == "json_schema"
    if not context.model.accepts_json_schema and has_schema:
        message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
        guide = "https://platform.openai.com/docs/guides/structured-outputs"
        yield Finding(f"{message} Learn more about supported models at the Structured Outputs guide: {guide}", path="response_format")


@RULES.rule(
    "CP16",
    "The model supports the effort.",
    MODEL_CAPABILITIES,
    grade="C",
    as_of="2026-06",
    code="unsupported_value",
    switch="model_rules",
)
def effort_is_supported(context: ChatContext) -> Iterator[Finding]:
    effort, efforts = context.request.get("reasoning_effort"), context.model.efforts
    if efforts and effort is not None and effort not in efforts:
        message = f"'reasoning_effort' does not support '{effort}' with this model. Supported values are: {join_quoted(efforts)}."
        yield Finding(f"Unsupported value: {message}", param="reasoning_effort")


@RULES.rule(
    "C13",
    "The model supports function tools together with `reasoning_effort`.",
    MODEL_CAPABILITIES,
    grade="A",
    as_of="2026-11",
    switch="model_rules",
)
def tools_with_effort_are_supported(context: ChatContext) -> Iterator[Finding]:
    has_effort = context.request.get("reasoning_effort") not in (None, "none")
    if not context.model.accepts_tools_with_effort and has_effort and context.function_tools:
        message = f"Function tools with reasoning_effort are not supported for {context.model.name} in /v1/chat/completions."
        yield Finding(f"{message} To use function tools, use /v1/responses or set reasoning_effort to 'none'.", param="reasoning_effort")


@RULES.rule(
    "CP5",
    "A reasoning model keeps its default sampling.",
    MODEL_CAPABILITIES,
    grade="B",
    as_of="2026-04",
    code="unsupported_value",
    switch="model_rules",
)
def sampling_is_the_default(context: ChatContext) -> Iterator[Finding]:
    for field, value in _list_sampling_changes(context):
        problem = f"'{field}' does not support {format_number(value)} with this model."
        yield Finding(f"Unsupported value: {problem} Only the default ({DEFAULT_SAMPLING[field]}) value is supported.", param=field)


@RULES.rule("CP6", "Only a reasoning model gets `reasoning_effort`.", MODEL_CAPABILITIES, grade="B", as_of="2026-03", switch="model_rules")
def effort_needs_a_reasoning_model(context: ChatContext) -> Iterator[Finding]:
    if context.model.has_reasoning is False and context.has_field("reasoning_effort"):
        yield Finding("Unrecognized request argument supplied: reasoning_effort", path="reasoning_effort")
