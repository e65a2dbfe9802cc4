"""The SDK's (0.24) default model and settings.

A program that sets no reasoning effort gets the SDK's lowest one, so that migrating it costs no extra reasoning tokens.
"""

from __future__ import annotations

import os
import re

from legato.compat.agents.settings import DEFAULT_MODEL, ModelSettings

_CHAT = re.compile(r"gpt-5(\.[123])?-chat-latest")
_DATED = r"(-\d{4}-\d{2}-\d{2})?"
_EFFORT = {
    rf"gpt-5{_DATED}|gpt-5\.2-codex": "low",
    rf"gpt-5\.[12456]{_DATED}|gpt-5\.4-(mini|nano){_DATED}|gpt-5\.6-(sol|terra|luna){_DATED}|gpt-5\.3-codex": "none",
    rf"gpt-5\.[24]-pro{_DATED}": "medium",
}


def get_default_model() -> str:
    """The model of agents that were given none."""
    return os.environ.get("OPENAI_DEFAULT_MODEL", DEFAULT_MODEL).lower()


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Return True if the model takes reasoning effort and verbosity."""
    return model_name.startswith("gpt-5") and not _CHAT.fullmatch(model_name)


def is_gpt_5_default() -> bool:
    """The same of the model of agents that were given none."""
    return gpt_5_reasoning_settings_required(get_default_model())


def get_default_model_settings(model: str | None = None) -> ModelSettings:
    """Return the settings of a model for which the program sets none.

    >>> get_default_model_settings("gpt-5.1").reasoning, get_default_model_settings("gpt-4.1").verbosity
    ({'effort': 'none'}, None)
    """
    name = get_default_model() if model is None else model
    if not gpt_5_reasoning_settings_required(name):
        return ModelSettings()
    effort = next((effort for pattern, effort in _EFFORT.items() if re.fullmatch(pattern, name)), None)
    return ModelSettings(reasoning={"effort": effort} if effort else None, verbosity="low")


def default_settings_for(model: object) -> ModelSettings:
    """The same for what an agent was given as its model: a name, a model, or nothing."""
    return get_default_model_settings(model) if model is None or isinstance(model, str) else ModelSettings()
