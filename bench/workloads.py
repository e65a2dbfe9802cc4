"""The workloads: the texts of users, models and tools, and their sizes. They are the same for every system.

A *play* is the sequence of the fake model's replies, and the record of all texts so far. Every text begins with a mark of its own, such as
`[[reply-17]]`, so that a request can be searched for lost and doubled texts.

    W1  ping-pong handoffs, nothing stored              W5  many conversations at once, each with ten handoffs
    W2  the same, durable after every turn              W6  import time, installed size, dependencies
    W3  a chat with three parallel tools in every turn  W7  the `openai` SDK against a loopback server, after 200 turns
    W4  approvals: saved, loaded, approved, resumed     W8  bytes stored, and time to open a long conversation

Standard library only: it is imported in every system's environment.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

HANDOFF_COUNTS = (10, 50, 100, 200, 400, 800)
"""W1 and W2: the number of handoffs."""
CHAT_TURN_COUNT = 200
"""W3: the number of user messages."""
APPROVAL_COUNT = 200
"""W4: the number of cycles in one conversation."""
CROWD_SIZE = 1_000
"""W5: the number of concurrent conversations."""
LATENCIES_MS = (0, 50)
"""W5: the latencies of the model in milliseconds."""
SDK_HISTORY_TURNS = 200
"""W7: the number of turns before the measured calls."""
SDK_CALL_COUNT = 40
"""W7: the number of measured calls."""
STORED_TURN_COUNTS = (10, 100, 1_000, 10_000)
"""W8: the numbers of turns (a message and its answer) in the opened conversation."""

AGENTS = ("ann", "bob")
INSTRUCTIONS = "You look after customers of a parcel service. Answer briefly, and hand over what your colleague knows better."
TOOLS = ("find_order", "find_customer", "find_parcel")
"""W3: no tool needs approval. W4: the first does."""
QUESTION = "where is the parcel that I was promised for Monday, and can you tell me when it will be here?"
REPLY = "I have looked into this part of the question and will pass on what I found, so that nothing is lost on the way. " * 4
"""About a hundred tokens: a short reply of a model."""
OUTPUT = "held at the sorting centre since Monday 18:42, label unreadable, weight 2.4 kg, a new label was printed this morning"
HANDOFF_OUTPUT = "Control passed to bob."
"""The output of a handoff call, for counting the bytes of the texts; each system has its own text."""

MARK = re.compile(r"\[\[([\w-]+)\]\]")


class Call(NamedTuple):
    """A tool call of the fake model. `target`: the next agent, if the call is a handoff."""

    id: str
    tool: str
    key: str = ""
    target: str = ""


class PlayTurn(NamedTuple):
    """One reply of the fake model."""

    text: str
    calls: tuple[Call, ...] = ()


class RequestContent(NamedTuple):
    """The content of a request: all its texts (messages and tool outputs), the ids of its calls, the ids of its outputs."""

    texts: Iterable[str]
    calls: Iterable[str] = ()
    outputs: Iterable[str] = ()
    unmatched_call_count: int = 0
    """The number of calls, and as many outputs, that are rendered as text without their ids, and so cannot be matched."""


SAMPLE_INTERVAL = 10


class Play:
    """The sequence of the fake model's replies, and the record of all texts so far.

    `searched_count`: this many requests at the end are searched; the time of the search is not counted.
    """

    def __init__(self, turns: Sequence[PlayTurn], searched_count: int = 2) -> None:
        self.turns = turns
        self.request_count = 0
        self.said_bytes = 0
        self.cpu_samples: list[float] = []
        """CPU time at every tenth request, without the search time. Reading the clock takes as long as a quarter of a fast step."""
        self.search_cpu_s = 0.0
        self.search_wall_s = 0.0
        self.lost: set[str] = set()
        self.doubled: set[str] = set()
        self._marks: list[str] = []
        self._calls: list[str] = []
        self._first_searched = len(turns) - searched_count

    def make_user_message(self, number: int | str) -> str:
        """Return the user's next message, and record it."""
        return self._record_text(f"user-{number}", QUESTION)

    def make_tool_output(self, tool: str, key: str) -> str:
        """Return the output of a tool, and record it."""
        return self._record_text(f"{tool}-{key}", OUTPUT)

    def reply(self, read_content: Callable[[], RequestContent]) -> PlayTurn:
        """Return the model's next reply. `read_content` returns the content of the request; it is called for the last requests only."""
        number = self.request_count
        self.request_count += 1
        if number >= self._first_searched:
            self._search_request(read_content)
        if number % SAMPLE_INTERVAL == 0:
            self.cpu_samples.append(time.process_time() - self.search_cpu_s)
        turn = self.turns[number]
        self._marks.append(turn.text[2 : turn.text.index("]")])
        self.said_bytes += len(turn.text)
        for call in turn.calls:
            self._calls.append(call.id)
            self.said_bytes += len(call.tool) + len(encode_arguments(call)) + (len(HANDOFF_OUTPUT) if call.target else 0)
        return turn

    @property
    def is_over(self) -> bool:
        return self.request_count == len(self.turns)

    def _record_text(self, mark: str, text: str) -> str:
        text = f"[[{mark}]] {text}"
        self._marks.append(mark)
        self.said_bytes += len(text)
        return text

    def _search_request(self, read_content: Callable[[], RequestContent]) -> None:
        begun, begun_wall = time.process_time(), time.perf_counter()
        found = read_content()
        marks = [mark for text in found.texts for mark in MARK.findall(text)]
        lost, doubled = find_lost_and_doubled(self._marks, marks)
        self.lost |= lost
        self.doubled |= doubled | (set(marks) - set(self._marks))  # texts of other conversations
        for kind, ids in (("call", found.calls), ("output", found.outputs)):
            lost, doubled = find_lost_and_doubled(self._calls, ids)
            self.lost |= {f"{kind} {id}" for id in sorted(lost)[found.unmatched_call_count :]}
            self.doubled |= {f"{kind} {id}" for id in doubled}
        self.search_cpu_s += time.process_time() - begun
        self.search_wall_s += time.perf_counter() - begun_wall


def find_lost_and_doubled(expected: Iterable[str], found: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the expected marks that were not found, and the marks that were found more than once."""
    counts = Counter(found)
    return {mark for mark in expected if not counts[mark]}, {mark for mark, number in counts.items() if number > 1}


def encode_arguments(call: Call) -> str:
    """Return a call's arguments as the model writes them. Handoffs have none."""
    return "{}" if call.target else f'{{"key": "{call.key}"}}'


def make_reply_text(number: int | str) -> str:
    return f"[[reply-{number}]] {REPLY}"


# -- plays of the workloads ----------------------------------------------------------------------------------------------------


def make_ping_pong(handoffs: int) -> Play:
    """W1, W2: every reply hands over to the other agent, the last one ends it."""
    turns = [
        PlayTurn(make_reply_text(n), (Call(f"call_h{n}", name_handoff_tool(other := AGENTS[(n + 1) % 2]), target=other),))
        for n in range(handoffs)
    ]
    return Play([*turns, PlayTurn(make_reply_text(handoffs))])


def make_tool_chat(turns: int) -> Play:
    """W3: the user asks, the model calls three tools at once, then answers. W4: the same; the first tool needs approval."""

    def both(n: int) -> list[PlayTurn]:
        calls = tuple(Call(f"call_{n}_{tool}", tool, key=str(n)) for tool in TOOLS)
        return [PlayTurn(f"[[look-{n}]] Let me look that up.", calls), PlayTurn(make_reply_text(n))]

    return Play([turn for n in range(turns) for turn in both(n)])


def make_plain_chat(turns: int) -> Play:
    """W8: the user asks, the model answers."""
    return Play([PlayTurn(make_reply_text(n)) for n in range(turns)])


def name_handoff_tool(agent: str) -> str:
    """Return the name of a handoff tool, for systems that let the user choose it, and for counting bytes."""
    return f"handoff_to_{agent}"


# W5: one question, ten handoffs back and forth, one answer. Every conversation has a play of its own, whose marks contain its number: so
# texts of other conversations are found.

CROWD_HANDOFF_COUNT = 10
CROWD_REQUEST_COUNT = CROWD_HANDOFF_COUNT + 1
"""The number of model requests of one conversation."""


class CrowdTurns(Sequence[PlayTurn]):
    """Turns that are created when the model replies, so that they count as memory of the system that stores them."""

    def __init__(self, conversation: int) -> None:
        self.conversation = conversation

    def __len__(self) -> int:
        return CROWD_REQUEST_COUNT

    def __getitem__(self, number: Any) -> Any:
        text = make_reply_text(f"{self.conversation}x{number}")
        if number == CROWD_HANDOFF_COUNT:
            return PlayTurn(text)
        other = AGENTS[(number + 1) % 2]
        return PlayTurn(text, (Call(f"call_h{number}", name_handoff_tool(other), target=other),))


def make_crowd_play(conversation: int) -> Play:
    return Play(CrowdTurns(conversation), searched_count=1)


def is_own_answer(conversation: int, answer: str) -> bool:
    """Return True if this is the final answer of the conversation."""
    return answer.startswith(f"[[reply-{conversation}x{CROWD_HANDOFF_COUNT}]]")
