"""Client tools: the work that their schemas take."""

from __future__ import annotations

from legato.tools import ClientTool, options_of
from tests.line_counter import count_lines


def test_offering_tools_reads_no_schema_again() -> None:
    """A server creates client tools in a thread and offers them on the event loop, where no schema is read again."""
    properties = {f"p{number}": {"type": "string", "format": "password"} for number in range(20)}
    tools = [ClientTool(f"tool_{number}", parameters={"properties": properties}) for number in range(100)]
    assert count_lines(lambda: options_of(tools)) < 20_000
    assert options_of(tools)[0].tools[99].secrets == tuple(sorted(properties))
