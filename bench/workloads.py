"""The workloads: what is said, how much of it, and by whom. The same text for every system.

A *play* is what the fake model says, in order, and the record of everything said so far. Every sentence carries a mark of its own, such as
`[[reply-17]]`, so that a request can be searched for what is missing in it and for what is in it twice.

    W1  ping-pong handoffs, nothing stored              W5  many conversations at once, each with ten handoffs
    W2  the same, durable after every turn              W6  import time, installed size, dependencies
    W3  a chat with three parallel tools in every turn  W7  the `openai` SDK against a loopback server, after 200 turns
    W4  approvals: saved, loaded, approved, resumed     W8  bytes stored, and time to open a long conversation

Standard library only: it is read in every system's environment.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

HANDOFFS = (10, 50, 100, 200, 400, 800)
"""W1 and W2: how often control is handed over."""
CHAT_TURNS = 200
"""W3: how often the user speaks."""
APPROVALS = 200
"""W4: cycles in one conversation."""
CROWD = 1_000
"""W5: conversations at once."""
LATENCIES = (0, 50)
"""W5: milliseconds that the model takes."""
CALLS_AT = 200
"""W7: turns of history behind the calls that are measured."""
CALLS = 40
"""W7: calls that are measured."""
STORED_TURNS = (10, 100, 1_000, 10_000)
"""W8: turns (a message and its answer) in the conversation that is opened."""

AGENTS = ("ann", "bob")
INSTRUCTIONS = "You look after customers of a parcel service. Answer briefly, and hand over what your colleague knows better."
TOOLS = ("find_order", "find_customer", "find_parcel")
"""W3: all are open. W4: the first needs approval."""
QUESTION = "where is the parcel that I was promised for Monday, and can you tell me when it will be here?"
REPLY = "I have looked into this part of the question and will pass on what I found, so that nothing is lost on the way. " * 4
"""About a hundred tokens: a short reply of a model."""
OUTPUT = "held at the sorting centre since Monday 18:42, label unreadable, weight 2.4 kg, a new label was printed this morning"
PASSED = "Control passed to bob."
"""What a handoff call is answered with, for counting what was said; each system has its own words for it."""

MARK = re.compile(r"\[\[([\w-]+)\]\]")


class Call(NamedTuple):
    """A tool call that the fake model makes. `to`: the agent that it hands over to, if it is a handoff."""

    id: str
    tool: str
    key: str = ""
    to: str = ""


class Turn(NamedTuple):
    """One reply of the fake model."""

    text: str
    calls: tuple[Call, ...] = ()


class Seen(NamedTuple):
    """What a request holds: all its texts (words and tool outputs), the ids of its calls, the ids of its outputs."""

    texts: Iterable[str]
    calls: Iterable[str] = ()
    outputs: Iterable[str] = ()
    retold_calls: int = 0
    """Calls, and as many outputs, that are told as words without their ids: they are there, and cannot be matched."""


EVERY = 10


class Play:
    """What the fake model says, in order, and the record of all that was said by anybody.

    `watched`: the numbers of the requests (from the end) that are searched; the time this takes is not counted.
    """

    def __init__(self, turns: Sequence[Turn], watched: int = 2) -> None:
        self.turns = turns
        self.asked = 0
        self.said_bytes = 0
        self.moments: list[float] = []
        """CPU time at every tenth request, without what the searching took: asking for it takes as long as a quarter of a quick step."""
        self.searching = 0.0
        self.searching_wall = 0.0
        self.lost: set[str] = set()
        self.doubled: set[str] = set()
        self._marks: list[str] = []
        self._calls: list[str] = []
        self._watched_from = len(turns) - watched

    def user(self, number: int | str) -> str:
        """The user's next message."""
        return self._note(f"user-{number}", QUESTION)

    def output(self, tool: str, key: str) -> str:
        """What a tool returns."""
        return self._note(f"{tool}-{key}", OUTPUT)

    def next(self, seen: Callable[[], Seen]) -> Turn:
        """The model's next reply. `seen` says what the request holds; it is asked for the last requests only."""
        number = self.asked
        self.asked += 1
        if number >= self._watched_from:
            self._search(seen)
        if number % EVERY == 0:
            self.moments.append(time.process_time() - self.searching)
        turn = self.turns[number]
        self._marks.append(turn.text[2 : turn.text.index("]")])
        self.said_bytes += len(turn.text)
        for call in turn.calls:
            self._calls.append(call.id)
            self.said_bytes += len(call.tool) + len(arguments(call)) + (len(PASSED) if call.to else 0)
        return turn

    @property
    def ended(self) -> bool:
        return self.asked == len(self.turns)

    def _note(self, mark: str, text: str) -> str:
        text = f"[[{mark}]] {text}"
        self._marks.append(mark)
        self.said_bytes += len(text)
        return text

    def _search(self, seen: Callable[[], Seen]) -> None:
        begun, begun_wall = time.process_time(), time.perf_counter()
        found = seen()
        marks = [mark for text in found.texts for mark in MARK.findall(text)]
        lost, doubled = compare(self._marks, marks)
        self.lost |= lost
        self.doubled |= doubled | (set(marks) - set(self._marks))  # what was said elsewhere, and stands here too
        for kind, ids in (("call", found.calls), ("output", found.outputs)):
            lost, doubled = compare(self._calls, ids)
            self.lost |= {f"{kind} {id}" for id in sorted(lost)[found.retold_calls :]}
            self.doubled |= {f"{kind} {id}" for id in doubled}
        self.searching += time.process_time() - begun
        self.searching_wall += time.perf_counter() - begun_wall


def compare(said: Iterable[str], found: Iterable[str]) -> tuple[set[str], set[str]]:
    """What was said and is not there, and what is there more than once."""
    counts = Counter(found)
    return {mark for mark in said if not counts[mark]}, {mark for mark, number in counts.items() if number > 1}


def arguments(call: Call) -> str:
    """A call's arguments, as the model writes them. Handoffs take none."""
    return "{}" if call.to else f'{{"key": "{call.key}"}}'


def reply(number: int | str) -> str:
    return f"[[reply-{number}]] {REPLY}"


# -- one play per workload -----------------------------------------------------------------------------------------------------


def ping_pong(handoffs: int) -> Play:
    """W1, W2: every reply hands over to the other agent, the last one ends it."""
    turns = [Turn(reply(n), (Call(f"call_h{n}", handoff_to(other := AGENTS[(n + 1) % 2]), to=other),)) for n in range(handoffs)]
    return Play([*turns, Turn(reply(handoffs))])


def chat_with_tools(turns: int) -> Play:
    """W3: the user asks, the model calls three tools at once, then answers. W4: the same; the first tool needs approval."""

    def both(n: int) -> list[Turn]:
        calls = tuple(Call(f"call_{n}_{tool}", tool, key=str(n)) for tool in TOOLS)
        return [Turn(f"[[look-{n}]] Let me look that up.", calls), Turn(reply(n))]

    return Play([turn for n in range(turns) for turn in both(n)])


def plain_chat(turns: int) -> Play:
    """W8: the user asks, the model answers."""
    return Play([Turn(reply(n)) for n in range(turns)])


def handoff_to(agent: str) -> str:
    """How handoff tools are called where the system lets one choose; it is what is counted."""
    return f"handoff_to_{agent}"


# W5: one question, ten handoffs back and forth, one answer. Every conversation has a play of its own, whose marks name it: what it did not
# say itself is another's.

CROWD_HANDOFFS = 10
CROWD_CALLS = CROWD_HANDOFFS + 1
"""Model calls of one conversation."""


class CrowdTurns(Sequence[Turn]):
    """Made when they are said, as a model's words are: so they are counted as memory of who keeps them."""

    def __init__(self, conversation: int) -> None:
        self.conversation = conversation

    def __len__(self) -> int:
        return CROWD_CALLS

    def __getitem__(self, number: Any) -> Any:
        text = reply(f"{self.conversation}x{number}")
        if number == CROWD_HANDOFFS:
            return Turn(text)
        other = AGENTS[(number + 1) % 2]
        return Turn(text, (Call(f"call_h{number}", handoff_to(other), to=other),))


def crowd_play(conversation: int) -> Play:
    return Play(CrowdTurns(conversation), watched=1)


def crowd_ok(conversation: int, answer: str) -> bool:
    """Whether this is the answer that the conversation ends with."""
    return answer.startswith(f"[[reply-{conversation}x{CROWD_HANDOFFS}]]")
