"""The switches of the Chat Completions rules: the defaults where the provider's behaviour is not certain, and other servers' settings."""

from __future__ import annotations

from msgspec import Struct


class ChatRuleSwitches(Struct, frozen=True, kw_only=True):
    """The switches of the Chat Completions rules. A limit of 0 is no limit."""

    requires_model: bool = True  # an Azure path names the deployment, so its body need not
    unknown_parameter: str = "unrecognized"  # or "unknown": the other text seen on this API; empty: unknown parameters are ignored
    unknown_members: bool = False  # seen for some weeks of 2024 only
    supported_values: bool = True  # values outside a parameter's list are refused
    ranges: bool = True  # numbers outside their range are refused
    refuses_empty_arrays: bool = True  # `tool_calls: []`, `tools: []`, `content: []`
    id_limit: int = 64
    name_limit: int = 64
    name_pattern: bool = True
    tool_limit: int = 128
    stop_limit: int = 4
    strict_schemas: bool = True  # the schemas of strict functions are checked
    model_rules: bool = True  # refusals of some models only
    combinations: bool = True  # parameters that need another one
    duplicate_answers: bool = False  # C14: no body of a refusal was ever seen
    strict_shapes: bool = True  # a tool and a call name their type, an image is an object; several compatible servers require neither
    picture_formats: bool = True  # the data of images is checked
    pdf_files: bool = False  # CF1: one report of 2026-05; OpenAI's documents name more types for other APIs
    pairing_note: str = ""  # the text after C1's first sentence, in place of the ids; DeepSeek and DashScope have one
    shows_reasoning: bool = False  # replies have `reasoning_content`, as those of many compatible servers; no rule depends on it
    null_code: str = ""  # some Azure bodies have "invalid_request_error" where OpenAI has null


OPENAI = ChatRuleSwitches()
AZURE = ChatRuleSwitches(requires_model=False)
LENIENT = ChatRuleSwitches(
    unknown_parameter="",
    supported_values=False,
    ranges=False,
    refuses_empty_arrays=False,
    id_limit=0,
    name_limit=0,
    name_pattern=False,
    tool_limit=0,
    stop_limit=0,
    strict_schemas=False,
    model_rules=False,
    combinations=False,
    strict_shapes=False,
    picture_formats=False,
)
"""The rules that nearly every compatible server has: the types of values, and calls paired with their answers."""
