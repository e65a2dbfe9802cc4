"""Odd replies of models, and odd answers of some servers. All are random, and the same for the same seed.

Call ids that are repeated, illegal, very long, missing or like Legato's own; text in several pieces, blank text, text after calls;
refusals; thinking in odd places; odd tool names; uses of hosted tools.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Workflow, history
from legato.core.facts import Call, OutputText, Reasoning, Refusal
from legato.core.messages import MessageInput, file, image
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.request_types import ApiReply, StreamEvent
from legato.providers.rules.identifiers import sanitize_tool_name
from legato.testing import ScriptedModel
from tests.providers.sweep.format_variants import FormatVariant
from tests.sim.random_workflows import SEEDS_PER_WORKFLOW, fetch, look_up, make_random_workflow, refund, slow

ODD_TEXTS = ("two\nlines", 'a "quoted" word', "é \u2028 \U0001f600", "\t", " ", "{}", "<|end|>")
ODD_NAMES = ("Größe der Wand", "a/b", "n" * 80, "handoff to nobody")


# -- replies of models -------------------------------------------------------------------------------------------------


def make_odd_reply(reply: ModelReply, dice: Random, request: ModelRequest, variant: FormatVariant) -> FakeReply:
    """Make an odd reply from a scripted one."""
    items: list[FakeReplyItem] = []
    if dice.random() < 0.5:
        items.append(ReplyThought(f"thought {dice.randrange(1000)}"))
    refuses = dice.random() < 0.05
    for item in reply.items:
        match item:
            case OutputText(text=text):
                items.append(ReplyRefusal(text) if refuses else ReplyText(text))
                if dice.random() < 0.15:
                    items.append(ReplyText(dice.choice(ODD_TEXTS)))
            case Refusal(text=text):
                items.append(ReplyRefusal(text))
            case Call() if not _is_stopped(items, variant):
                items += _make_odd_calls(item, dice, request)
            case Reasoning():
                items.append(ReplyThought(item.text or "hm"))
        if dice.random() < 0.08:
            items.append(ReplyThought(f"afterthought {dice.randrange(1000)}"))
    if dice.random() < 0.1:
        items.append(ReplyText("and that is all"))
    finish: Any = {"stop": "stop", "length": "length", "filter": "content_filter"}[reply.finish]
    return FakeReply(tuple(items), "content_filter" if finish == "stop" and dice.random() < 0.01 else finish)


def _is_stopped(items: list[FakeReplyItem], variant: FormatVariant) -> bool:
    """Return True if a refusal ended the reply, as Anthropic's API has it."""
    return variant.api == "anthropic" and any(isinstance(item, ReplyRefusal) for item in items)


def _make_odd_calls(call: Call, dice: Random, request: ModelRequest) -> list[FakeReplyItem]:
    name = dice.choice(ODD_NAMES) if dice.random() < 0.04 else sanitize_tool_name(call.tool)
    uses: list[FakeReplyItem] = [ReplyCall(name, call.arguments, _make_odd_id(call.call_id, dice, request))]
    if dice.random() < 0.03:
        uses.append(uses[0])  # the same call again, with the same id
    return uses


def _make_odd_id(call_id: str, dice: Random, request: ModelRequest) -> str:
    """Make an id for a call, or an empty one, for which the provider makes an id."""
    match dice.randrange(16):
        case 0:
            return f"call_{request.upto + 1 + dice.randrange(3)}_{dice.randrange(3)}"  # like an id of Legato for this reply or a later one
        case 1:
            return f"call_{dice.randrange(request.upto + 2)}_{dice.randrange(3)}"  # like an id of Legato for an earlier reply
        case 2:
            return f"functions.look_up:{dice.randrange(2)}"
        case 3:
            return dice.choice(("x" * 64, "y" * 65, "z" * 400, "a b", "ид"))
        case 4:
            call_ids = [state.call.call_id for group in request.groups for state in group.calls]
            return dice.choice(call_ids) if call_ids else "call_1"
        case 5:
            return "call"
        case 6 | 7:
            return call_id
        case _:
            return ""


# -- answers of some servers -------------------------------------------------------------------------------------------


def add_server_oddities(answer: ApiReply, dice: Random, variant: FormatVariant, *, stream: bool) -> ApiReply:
    """Add to an answer what no fake model can give: uses of hosted tools, plain reasoning, missing ids."""
    if variant.api == "chat" and variant.options.compatible:
        return _add_compatible_oddities(answer, dice, stream)
    if stream or dice.random() > 0.06:
        return answer
    if variant.api == "responses":
        id = f"ws_{dice.getrandbits(64):016x}"
        action = {"type": "search", "query": "q", "queries": ["q"]}
        output = answer.body["output"]
        place = 0 if output and output[0]["type"] == "reasoning" else len(output)  # nothing comes between reasoning and what follows it
        output.insert(place, {"id": id, "type": "web_search_call", "status": "completed", "action": action})
    elif variant.api == "anthropic":
        id = f"srvtoolu_{dice.getrandbits(64):016x}"
        result = {"type": "web_search_result", "title": "T", "url": "https://example.com", "encrypted_content": "e", "page_age": None}
        content = answer.body["content"]
        place = max((index + 1 for index, block in enumerate(content) if block["type"] == "thinking"), default=0)
        content[place:place] = [
            {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": id, "content": [result]},
        ]
    return answer


def _add_compatible_oddities(answer: ApiReply, dice: Random, stream: bool) -> ApiReply:
    if dice.random() < 0.4:
        thought = f"thinking aloud {dice.randrange(1000)}"
        answer.body["choices"][0]["message"]["reasoning_content"] = thought
        reasoning_event = StreamEvent({"choices": [{"index": 0, "delta": {"reasoning_content": thought}}]})
        answer = ApiReply(answer.body, (answer.events[0], reasoning_event, *answer.events[1:]))
    if not stream and dice.random() < 0.3:
        for call in answer.body["choices"][0]["message"].get("tool_calls", ()):
            if dice.random() < 0.5:
                del call["id"]
    return answer


# -- messages and workflows --------------------------------------------------------------------------------------------


def make_message(number: int, text: str) -> MessageInput | Iterable[MessageInput]:
    """Make a user's message from a text, sometimes with a picture or a file."""
    dice = Random(f"{text} in {number}")
    if dice.random() < 0.8:
        return text
    more = (
        image(b"\x89PNG " + text.encode()),
        image("https://example.com/cat.png"),
        file(b"%PDF " + text.encode(), "plan.pdf", "application/pdf"),
        file("https://example.com/plan.pdf", "plan.pdf"),
        "and some more words",
    )
    return [text, *dice.sample(more, dice.randrange(1, 3))]


def make_workflow(seed: int) -> Workflow:
    """Return the simulator's workflow for a seed; for every fourth number a workflow with odd names of agents and handoff tools."""
    number = seed // SEEDS_PER_WORKFLOW
    return _make_odd_workflow(number) if number % 4 == 3 else make_random_workflow(seed)


_odd_workflows: dict[int, Workflow] = {}


def _make_odd_workflow(number: int) -> Workflow:
    if number not in _odd_workflows:
        _odd_workflows.clear()
        dice = Random(f"odd workflow {number}")
        names = ("Größe & Maße", "a b", "x" * 70)
        policies = (None, None, None, history.dialogue, history.own_tools, lambda: history.last(2))
        agents = [
            Agent(name, f"You are {name}.", ScriptedModel(by_agent={}), dice.sample((look_up, fetch, refund, slow), 2),
                  history=policy() if (policy := dice.choice(policies)) else None)
            for name in names
        ]  # fmt: skip
        _odd_workflows[number] = HandoffBuilder(f"odd{number}", agents).with_limits(Limits(turns=8)).build()
    return _odd_workflows[number]
