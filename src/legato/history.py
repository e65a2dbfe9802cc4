"""History policies: rules for how much of the conversation an agent sees.

Pass one to `Agent(history=...)` or to `add_handoff(..., history=...)`. A policy keeps or drops whole groups: a message, or a reply with
all its calls and their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.core.argument_checks import require_function, require_whole_number
from legato.core.groups import Group
from legato.core.history_policies import Custom, Dialogue, Everything, LastTurns, OwnTools, SinceHandoff, Summarised
from legato.runtime.definition import History

__all__ = ["Group", "History", "custom", "dialogue", "everything", "last", "own_tools", "since_handoff", "summarised"]


def everything() -> History:
    """Show the complete conversation, including the outputs of other agents' tools. The default."""
    return History(Everything())


def dialogue() -> History:
    """Show the messages of users and agents, without tool traffic."""
    return History(Dialogue())


def since_handoff() -> History:
    """Show everything from the reply that handed over to the agent. An agent that was never handed control sees everything."""
    return History(SinceHandoff())


def last(n: int) -> History:
    """Show the last `n` messages of the user, and everything after the first of them."""
    return History(LastTurns(require_whole_number("n of last(n)", n, 1)))


def own_tools() -> History:
    """Show all messages and replies with the agent's own tool traffic, without that of other agents."""
    return History(OwnTools())


def summarised(tokens: int, *, by: Callable[[str], Any], keep: int = 2) -> History:
    """Show a summary of all but the last `keep` turns, once the conversation exceeds `tokens`. `by(text)` (sync or async) writes it.

    The summary is recorded; the facts that it covers stay in the ledger.
    """
    spec = Summarised(
        require_whole_number("tokens of summarised(...)", tokens, 1), require_whole_number("keep of summarised(...)", keep, 1)
    )
    return History(spec, summarise=require_function("by= of summarised(...)", by))


def custom(choose: Callable[[list[Group]], Sequence[Group]]) -> History:
    """Show the groups that your function chooses. The function must be pure; its choice is recorded with each reply.

    >>> custom(lambda groups: [group for group in groups if group.agent != "chatterbox"]).policy.name
    '<lambda>'
    """
    require_function("the argument of custom(...)", choose)
    return History(Custom(getattr(choose, "__name__", type(choose).__name__)), choose=choose)
