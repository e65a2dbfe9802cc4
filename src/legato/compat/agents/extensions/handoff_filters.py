"""The SDK's `agents.extensions.handoff_filters`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato.compat.agents.handoffs import HandoffInputData

_WORDS = ("message", None)
_ITEMS = ("message_output_item",)


def remove_all_tools(handoff_input_data: HandoffInputData) -> HandoffInputData:
    """Without calls, outputs and reasoning. Given to `handoff(...)` by itself it is `legato.history.own_tools()`."""
    history = handoff_input_data.input_history
    return handoff_input_data.clone(
        input_history=history if isinstance(history, str) else tuple(item for item in history if item.get("type") in _WORDS),
        pre_handoff_items=_words(handoff_input_data.pre_handoff_items),
        new_items=_words(handoff_input_data.new_items),
    )


def _words(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(item for item in items if item.type in _ITEMS)
