"""Replies as no well-behaved model gives them, and answers as only some servers give them. All by dice, the same for the same seed.

Ids that repeat, that no wire takes, that are very long, that are missing, that look like those Legato makes itself; words in several
pieces, blank ones, words after calls; refusals; thinking in odd places; tools of odd names; things that the provider did by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Workflow, history
from legato.core.facts import Call, Reasoning, Refusal, Words
from legato.core.messages import Sendable, file, image
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.emulator.asks import Answer, Event
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use
from legato.emulator.minds.base import Words as Told
from legato.providers.rules.names import wire_name
from legato.testing import ScriptedModel
from tests.providers.sweep.lines import Line
from tests.sim.workflows import SEEDS_EACH, fetch, look_up, random_workflow, refund, slow

ODD_WORDS = ("two\nlines", 'a "quoted" word', "é \u2028 \U0001f600", "\t", " ", "{}", "<|end|>")
ODD_NAMES = ("Größe der Wand", "a/b", "n" * 80, "handoff to nobody")


# -- what is said ------------------------------------------------------------------------------------------------------


def spoken(reply: Reply, dice: Random, request: Request, line: Line) -> Say:
    """What the model says in place of this reply."""
    items: list[Item] = []
    if dice.random() < 0.5:
        items.append(Thought(f"thought {dice.randrange(1000)}"))
    refuses = dice.random() < 0.05
    for item in reply.items:
        match item:
            case Words(text=text):
                items.append(Refused(text) if refuses else Told(text))
                if dice.random() < 0.15:
                    items.append(Told(dice.choice(ODD_WORDS)))
            case Refusal(text=text):
                items.append(Refused(text))
            case Call() if not _stopped(items, line):
                items += _called(item, dice, request)
            case Reasoning():
                items.append(Thought(item.text or "hm"))
        if dice.random() < 0.08:
            items.append(Thought(f"afterthought {dice.randrange(1000)}"))
    if dice.random() < 0.1:
        items.append(Told("and that is all"))
    finish: Any = {"stop": "stop", "length": "length", "filter": "content_filter"}[reply.finish]
    return Say(tuple(items), "content_filter" if finish == "stop" and dice.random() < 0.01 else finish)


def _stopped(items: list[Item], line: Line) -> bool:
    """Anthropic's refusal ends the reply."""
    return line.api == "anthropic" and any(isinstance(item, Refused) for item in items)


def _called(call: Call, dice: Random, request: Request) -> list[Item]:
    name = dice.choice(ODD_NAMES) if dice.random() < 0.04 else wire_name(call.tool)
    uses: list[Item] = [Use(name, call.arguments, _id(call.call_id, dice, request))]
    if dice.random() < 0.03:
        uses.append(uses[0])  # the very same call again, its id too
    return uses


def _id(given: str, dice: Random, request: Request) -> str:
    """An id for a call. Half of them are as the provider makes them."""
    match dice.randrange(16):
        case 0:
            return f"call_{request.upto + 1 + dice.randrange(3)}_{dice.randrange(3)}"  # as ours, of this very reply or a later one
        case 1:
            return f"call_{dice.randrange(request.upto + 2)}_{dice.randrange(3)}"  # of an earlier one
        case 2:
            return f"functions.look_up:{dice.randrange(2)}"
        case 3:
            return dice.choice(("x" * 64, "y" * 65, "z" * 400, "a b", "ид"))
        case 4:
            seen = [state.call.call_id for group in request.groups for state in group.calls]
            return dice.choice(seen) if seen else "call_1"
        case 5:
            return "call"
        case 6 | 7:
            return given
        case _:
            return ""


# -- what only some servers answer -------------------------------------------------------------------------------------


def spoiled(answer: Answer, dice: Random, line: Line, *, stream: bool) -> Answer:
    """The answer with what no mind can say: what the provider did by itself, reasoning in the open, ids left out."""
    if line.api == "chat" and line.options.compatible:
        return _like_some_server(answer, dice, stream)
    if stream or dice.random() > 0.06:
        return answer
    if line.api == "responses":
        id = f"ws_{dice.getrandbits(64):016x}"
        action = {"type": "search", "query": "q", "queries": ["q"]}
        output = answer.body["output"]
        place = 0 if output and output[0]["type"] == "reasoning" else len(output)  # nothing comes between reasoning and what follows it
        output.insert(place, {"id": id, "type": "web_search_call", "status": "completed", "action": action})
    elif line.api == "anthropic":
        id = f"srvtoolu_{dice.getrandbits(64):016x}"
        found = {"type": "web_search_result", "title": "T", "url": "https://example.com", "encrypted_content": "e", "page_age": None}
        content = answer.body["content"]
        place = max((index + 1 for index, block in enumerate(content) if block["type"] == "thinking"), default=0)
        content[place:place] = [
            {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": id, "content": [found]},
        ]
    return answer


def _like_some_server(answer: Answer, dice: Random, stream: bool) -> Answer:
    if dice.random() < 0.4:
        thought = f"thinking aloud {dice.randrange(1000)}"
        answer.body["choices"][0]["message"]["reasoning_content"] = thought
        told = Event({"choices": [{"index": 0, "delta": {"reasoning_content": thought}}]})
        answer = Answer(answer.body, (answer.events[0], told, *answer.events[1:]))
    if not stream and dice.random() < 0.3:
        for call in answer.body["choices"][0]["message"].get("tool_calls", ()):
            if dice.random() < 0.5:
                del call["id"]
    return answer


# -- what people send, and to whom -------------------------------------------------------------------------------------


def message(number: int, words: str) -> Sendable | Iterable[Sendable]:
    """What a person sends for some words: now and then with a picture or a file."""
    dice = Random(f"{words} in {number}")
    if dice.random() < 0.8:
        return words
    more = (
        image(b"\x89PNG " + words.encode()),
        image("https://example.com/cat.png"),
        file(b"%PDF " + words.encode(), "plan.pdf", "application/pdf"),
        file("https://example.com/plan.pdf", "plan.pdf"),
        "and some more words",
    )
    return [words, *dice.sample(more, dice.randrange(1, 3))]


def workflow(seed: int) -> Workflow:
    """The simulator's workflow for a seed; for every fourth number one whose agents, and so the tools that hand over to them, have
    odd names."""
    number = seed // SEEDS_EACH
    return _odd(number) if number % 4 == 3 else random_workflow(seed)


_known: dict[int, Workflow] = {}


def _odd(number: int) -> Workflow:
    if number not in _known:
        _known.clear()
        dice = Random(f"odd workflow {number}")
        names = ("Größe & Maße", "a b", "x" * 70)
        policies = (None, None, None, history.dialogue, history.own_tools, lambda: history.last(2))
        agents = [
            Agent(name, f"You are {name}.", ScriptedModel(by_agent={}), dice.sample((look_up, fetch, refund, slow), 2),
                  history=policy() if (policy := dice.choice(policies)) else None)
            for name in names
        ]  # fmt: skip
        _known[number] = HandoffBuilder(f"odd{number}", agents).with_limits(Limits(turns=8)).build()
    return _known[number]
