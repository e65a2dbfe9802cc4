"""What is known of a Chat Completions model. May know: data. Decides: nothing; the API itself holds nothing between requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct


class ModelInfo(Struct, frozen=True):
    """What matters about a model. The defaults stand for what is not known, and refuse nothing."""

    name: str
    reasons: bool | None = None  # whether it reasons before it speaks; None: not known
    window: int = 0  # tokens; 0: no limit known
    developer: bool = True  # whether it takes the role `developer`
    tools_with_effort: bool = True  # whether function tools and `reasoning_effort` go together
    system: bool = True  # whether it takes the role `system`
    stop: bool = True  # whether it takes `stop`
    fixed_sampling: tuple[str, ...] = ()  # what it does not take of a request's sampling, whatever the value, while it thinks
    parallel: bool = True  # whether it takes `parallel_tool_calls`
    effort: str = ""  # how hard it thinks if the request does not say; "none": it samples as it is told
    efforts: tuple[str, ...] = ()  # the values of `reasoning_effort` that it takes; empty: not known
    sees: bool = True  # whether it takes pictures
    hears: bool = True  # whether it takes recorded sound
    must_hear: bool = False  # whether sound is asked of it, or of the reply
    searches: bool | None = None  # whether it searches the web by itself; None: not known
    schemas: bool = True  # whether its output can be made to fit a schema
    output: int = 0  # the most tokens it writes; 0: no limit known
    endpoint: str = ""  # the API that has it instead of this one


Models: TypeAlias = Callable[[str], ModelInfo | None]


def any_model(name: str) -> ModelInfo | None:
    """Every name is a model: what a request is judged by on its own.

    >>> any_model("gpt-4o").name
    'gpt-4o'
    """
    return ModelInfo(name)
