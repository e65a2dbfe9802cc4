"""History policies: what an agent sees of the conversation. Give one to `Agent(history=...)` or to `add_handoff(..., history=...)`.

The unit that a policy keeps or drops is a whole group: a message, or a reply with all its calls and their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.core.argument_checks import function, whole_number
from legato.core.groups import Group
from legato.core.history_policies import Custom, Dialogue, Everything, Last, OwnTools, SinceHandoff, Summarised
from legato.runtime.definition import History

__all__ = ["Group", "History", "custom", "dialogue", "everything", "last", "own_tools", "since_handoff", "summarised"]


def everything() -> History:
    """The complete conversation, including what other agents' tools returned. The default."""
    return History(Everything())


def dialogue() -> History:
    """What users and agents said, and no tool traffic."""
    return History(Dialogue())


def since_handoff() -> History:
    """From the reply that handed over to the agent on. An agent that was never handed control sees everything."""
    return History(SinceHandoff())


def last(n: int) -> History:
    """The last `n` messages of the user, and all that followed them."""
    return History(Last(whole_number("n of last(n)", n, 1)))


def own_tools() -> History:
    """All words, and the agent's own tool traffic, but not that of other agents."""
    return History(OwnTools())


def summarised(tokens: int, *, by: Callable[[str], Any], keep: int = 2) -> History:
    """A summary, made by `by(text)` (sync or async), of all but the last `keep` turns, as soon as the conversation exceeds `tokens`.

    The summary is recorded; the facts it stands for stay in the ledger.
    """
    spec = Summarised(whole_number("tokens of summarised(...)", tokens, 1), whole_number("keep of summarised(...)", keep, 1))
    return History(spec, summarise=function("by= of summarised(...)", by))


def custom(choose: Callable[[list[Group]], Sequence[Group]]) -> History:
    """What your function picks from the groups it is given. It must be pure; its choice is recorded with each reply.

    >>> custom(lambda groups: [group for group in groups if group.agent != "chatterbox"]).spec.name
    '<lambda>'
    """
    function("what custom(f) takes", choose)
    return History(Custom(getattr(choose, "__name__", type(choose).__name__)), choose=choose)
