"""Parsing of handoff arguments: the reason and the input that a handoff call carries.

They exist only in the call that the model wrote (or a person edited); nothing copies them.
"""

from __future__ import annotations

import json

from msgspec import Struct


class IncomingHandoff(Struct, frozen=True, gc=False):
    """The handoff that gave control to the active agent."""

    source: str
    target: str
    arguments: str

    @property
    def reason(self) -> str:
        return self._parse()[0]

    @property
    def input(self) -> str:
        """The typed input as JSON text; empty if there is none."""
        return self._parse()[1]

    def _parse(self) -> tuple[str, str]:
        try:
            return parse_handoff_arguments(self.arguments)
        except ValueError:  # a driver checks the arguments before it hands over, but a ledger may come from anywhere
            return "", ""


def parse_handoff_arguments(arguments: str) -> tuple[str, str]:
    """Return the reason and the input (JSON text) of a handoff call. `ValueError` says what is wrong with the arguments.

    >>> parse_handoff_arguments('{"reason": "broken", "input": {"order": 7}}')
    ('broken', '{"order": 7}')
    """
    if arguments in ("", "{}"):
        return "", ""
    try:
        values = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"They are not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("They must be a JSON object.")
    reason, handoff_input = values.get("reason"), values.get("input")
    if not (reason is None or isinstance(reason, str)):
        raise ValueError("'reason' must be text.")
    input_json = "" if handoff_input is None else json.dumps(handoff_input, ensure_ascii=False)
    try:
        f"{reason}{input_json}".encode()
    except UnicodeEncodeError:
        raise ValueError("They are not valid Unicode: they hold half of a surrogate pair.") from None
    return reason or "", input_json
