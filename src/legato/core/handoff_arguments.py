"""What a handoff carries. May know: JSON. Decides: how the arguments of a handoff call are read.

The reason and the input are in the call that the model wrote (or a person edited); nothing copies them.
"""

from __future__ import annotations

import json

from msgspec import Struct


class Arrival(Struct, frozen=True, gc=False):
    """How control came to an agent: by whom, and by which arguments."""

    source: str
    target: str
    arguments: str

    @property
    def reason(self) -> str:
        return self._carried()[0]

    @property
    def input(self) -> str:
        """The typed input, as JSON text; empty if there is none."""
        return self._carried()[1]

    def _carried(self) -> tuple[str, str]:
        try:
            return handoff_arguments(self.arguments)
        except ValueError:  # a driver checks before it hands over, but a ledger may come from anywhere
            return "", ""


def handoff_arguments(arguments: str) -> tuple[str, str]:
    """The reason and the input (JSON text) of a handoff call. `ValueError` says what is wrong with the arguments.

    >>> handoff_arguments('{"reason": "broken", "input": {"order": 7}}')
    ('broken', '{"order": 7}')
    """
    if arguments in ("", "{}"):
        return "", ""
    try:
        given = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"They are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("They must be a JSON object.")
    reason, carried = given.get("reason"), given.get("input")
    if not (reason is None or isinstance(reason, str)):
        raise ValueError("'reason' must be text.")
    told = "" if carried is None else json.dumps(carried, ensure_ascii=False)
    try:
        f"{reason}{told}".encode()
    except UnicodeEncodeError:
        raise ValueError("They are not valid Unicode: they hold half of a surrogate pair.") from None
    return reason or "", told
