"""Which rules of Chat Completions are in force. May know: nothing. Decides: the defaults of what is not certain."""

from __future__ import annotations

from msgspec import Struct


class Profile(Struct, frozen=True, kw_only=True):
    """The switches of this law book. A limit of 0 is no limit."""

    requires_model: bool = True  # an Azure path names the deployment, so its body need not
    unknown_parameter: str = "unrecognized"  # or "unknown": the other text seen on this API; empty: unknown parameters are ignored
    unknown_members: bool = False  # seen for some weeks of 2024 only
    supported_values: bool = True  # whether a value outside a parameter's list is refused
    ranges: bool = True  # whether a number outside its range is refused
    refuses_empty_arrays: bool = True  # `tool_calls: []`, `tools: []`, `content: []`
    id_limit: int = 64
    name_limit: int = 64
    name_pattern: bool = True
    tool_limit: int = 128
    stop_limit: int = 4
    strict_schemas: bool = True  # whether the schema of a strict function is looked at
    model_rules: bool = True  # what only some models refuse
    combinations: bool = True  # parameters that need another one
    duplicate_answers: bool = False  # C14: no body of a refusal was ever seen
    strict_shapes: bool = True  # a tool and a call name their type, a picture is an object; several compatible servers ask for neither
    picture_formats: bool = True  # whether pictures that are sent are looked at
    pdf_files: bool = False  # CF1: one report of 2026-05; OpenAI's documents name more types for other APIs
    pairing_note: str = ""  # said after C1's first sentence instead of the ids; DeepSeek and DashScope have one
    shows_reasoning: bool = False  # answers have `reasoning_content`, as many compatible servers' have; no clause hangs on it
    null_code: str = ""  # some Azure bodies have "invalid_request_error" where OpenAI has null


OPENAI = Profile()
AZURE = Profile(requires_model=False)
LENIENT = Profile(
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
"""What nearly every compatible server insists on: the types of things, and calls paired with their answers."""
