"""The parts of messages under the framework's names.

All of these are renderings: made from the ledger for output, read once as input, and stored nowhere.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.errors import BadInput


@mirrors("Content")
@dataclass
class Content:
    """One piece of a message, told apart by `type`: text, data, uri, function_call, function_result, function_approval_request, ..."""

    type: str
    _: KW_ONLY
    text: str | None = None
    uri: str | None = None
    media_type: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | Mapping[str, Any] | None = None
    result: Any = None
    exception: str | None = None
    message: str | None = None
    id: str | None = None
    function_call: Content | None = None
    approved: bool | None = None
    user_input_request: bool = False
    additional_properties: dict[str, Any] = field(default_factory=dict)
    raw_representation: Any = field(default=None, repr=False)

    # What only contents of other kinds have (of tools that the provider runs, of shells and screens). There are none of them here.
    annotations = protected_data = usage_details = error_code = error_details = items = file_id = vector_store_id = None
    inputs = outputs = image_id = commands = timeout_ms = max_output_length = status = actions = screenshot = None
    pending_safety_checks = acknowledged_safety_checks = stdout = stderr = exit_code = timed_out = None
    tool_name = server_name = output = hosted = consent_link = merge_mode = None
    informational_only = False

    @classmethod
    def from_text(cls, text: str, **more: Any) -> Content:
        return cls("text", text=text, **more)

    @classmethod
    def from_text_reasoning(cls, *, text: str | None = None, **more: Any) -> Content:
        return cls("text_reasoning", text=text, **more)

    @classmethod
    def from_data(cls, data: bytes, media_type: str, **more: Any) -> Content:
        return cls("data", uri=f"data:{media_type};base64,{b64encode(data).decode()}", media_type=media_type, **more)

    @classmethod
    def from_uri(cls, uri: str, *, media_type: str | None = None, **more: Any) -> Content:
        return cls("data" if uri.startswith("data:") else "uri", uri=uri, media_type=media_type, **more)

    @classmethod
    def from_error(cls, *, message: str | None = None, **more: Any) -> Content:
        return cls("error", message=message, **more)

    @classmethod
    def from_function_call(cls, call_id: str, name: str, *, arguments: str | Mapping[str, Any] | None = None, **more: Any) -> Content:
        return cls("function_call", call_id=call_id, name=name, arguments=arguments, **more)

    @classmethod
    def from_function_result(cls, call_id: str, *, result: Any = None, **more: Any) -> Content:
        return cls("function_result", call_id=call_id, result=result, **more)

    @classmethod
    def from_function_approval_request(cls, id: str, function_call: Content, **more: Any) -> Content:
        return cls("function_approval_request", id=id, function_call=function_call, user_input_request=True, **more)

    @classmethod
    def from_function_approval_response(cls, approved: bool, id: str, function_call: Content | None = None, **more: Any) -> Content:
        return cls("function_approval_response", approved=approved, id=id, function_call=function_call, **more)

    def to_function_approval_response(self, approved: bool) -> Content:
        """The answer to this request. It names the recorded call by id; which arguments run is the ledger's to say."""
        if self.type != "function_approval_request" or self.id is None:
            raise BadInput("only a function_approval_request is answered so", found=f"a content of type {self.type!r}")
        return Content.from_function_approval_response(approved, self.id, self.function_call)

    create_response = to_function_approval_response  # what it was called before

    def parse_arguments(self) -> dict[str, Any] | None:
        """The arguments of a call; text that is no JSON object comes as {"raw": text}."""
        if self.arguments is None or isinstance(self.arguments, Mapping):
            return None if self.arguments is None else dict(self.arguments)
        try:
            value = json.loads(self.arguments or "{}")
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {"raw": self.arguments}

    def to_dict(self, **_: Any) -> dict[str, Any]:
        """Return the fields that are set."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("raw_representation", "function_call")}
        called = {"function_call": self.function_call.to_dict()} if self.function_call else {}
        empty: tuple[Any, ...] = (None, False, {})
        return {name: value for name, value in said.items() if value not in empty or (name, value) == ("approved", False)} | called

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Content:
        """Read the output of `to_dict`; `BadInput` for a content of an unknown shape."""
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in data.items() if value is not None}
        if unknown := sorted(given.keys() - known):
            raise BadInput(f"a content here says no {unknown[0]!r}", found=f"a content of type {data.get('type')!r}")
        if isinstance(called := given.get("function_call"), Mapping):
            given["function_call"] = cls.from_dict(called)
        return cls(**given)

    def has_top_level_media_type(self, top_level_media_type: str) -> bool:
        """Return True if the media type is an "image", a "text", an "audio", ..."""
        return (self.media_type or "").partition("/")[0].lower() == top_level_media_type.lower()
