"""Options that the Responses API does not have are refused when the model is made, not silently left out."""

from __future__ import annotations

from typing import Any

import pytest

from legato.errors import BadInput
from legato.models import AzureOpenAIResponses, OpenAIResponses


@pytest.mark.parametrize("kind", [OpenAIResponses, AzureOpenAIResponses])
@pytest.mark.parametrize("option", [{"stop": ("END",)}, {"seed": 7}, {"thinking_tokens": 1024}, {"compatible": True}], ids=str)
def test_option_of_another_api_is_refused(kind: type[OpenAIResponses], option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(BadInput, match=f"has no option '{name}'"):
        kind("gpt-5.1", **option)


def test_what_the_api_has_is_taken() -> None:
    model = OpenAIResponses("gpt-5.1", effort="low", verbosity="low", reasoning_summary="auto", service_tier="flex", parallel_calls=False)
    assert model.options.effort == "low"
