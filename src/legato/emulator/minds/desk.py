"""The default mind: a support desk, or a research team. May know: prompts. Decides: what is called, who is handed to, what is said.

It looks at what the user said last and at what has happened since. Tools that look something up are called first, together if they
may be; then the one that does what was asked for; then it says what came of it. Each tool is called, and each colleague is handed to,
once for each time the user speaks, so every exchange ends, unless each request demands a call. It draws from the prompt's seed and
nothing else.
"""

from __future__ import annotations

import re

from msgspec import Struct

from legato.emulator.minds import wording
from legato.emulator.minds.arguments import is_called_for, json_text, several_arguments_for, value_for
from legato.emulator.minds.base import Heard, Item, Prompt, Say, Thought, Tool, Use, Words
from legato.emulator.minds.concerns import concern, in_brief, meanings
from legato.emulator.minds.dice import Dice
from legato.emulator.minds.guesses import words_of
from legato.emulator.minds.schemas import Schemas, TooMuch, listed, mapping
from legato.emulator.minds.turns import since_user

MOST_STEPS = 8  # turns with calls for each time the user speaks
MOST_TOGETHER = 3
_HANDOFF = re.compile(r"(?:handoff_to|hand_off_to|handoff|transfer_to|transfer|delegate_to)[_-]+(.+)", re.IGNORECASE)
_CARRIED = {"reason", "input", "message", "summary", "context", "task", "note"}  # what a handoff may ask for
_DOING = """
    add assign book buy cancel change charge close create delete delegate edit escalate issue make move open pay post publish refund
    remove reset save schedule send set submit transfer update upload write
"""
_DOES = frozenset(_DOING.split())
_SORTS = frozenset(["front", "triage", "reception", "receptionist", "router", "dispatcher", "concierge", "greeter"])
"""Names of agents that sort what comes in."""


class Option(Struct, frozen=True):
    """A tool that could be called now, and how much what was said concerns it."""

    tool: Tool
    target: str  # the colleague, if it is a handoff
    score: int
    by_name: int  # how much of that is due to its name
    does: bool  # it changes something, rather than looking it up
    writes: bool  # it is about writing, which comes after looking things up


class Desk:
    """Plays a believable support desk or research team with whatever tools it is given."""

    def reply(self, prompt: Prompt) -> Say:
        """Calls, a handoff, or words."""
        seen = _Seen(prompt)
        uses = seen.calls()
        items: list[Item] = [Thought(seen.thought(uses))] if prompt.thinks else []
        if uses:
            before = "" if prompt.schema is not None or handoff_target(uses[0].tool) else wording.before_calls(seen.dice)
            return Say((*items, *([Words(before)] if before else []), *uses))
        return Say((*items, Words(seen.words())))

    def __repr__(self) -> str:
        return "<desk>"


def handoff_target(name: str, schema: object = None) -> str:
    """Who a handoff tool hands to; empty if the tool is none. `transfer_funds(amount)` is none: it needs more than a reason.

    >>> handoff_target("handoff_to_refunds"), handoff_target("transfer_to_billing_agent"), handoff_target("look_up")
    ('refunds', 'billing_agent', '')
    """
    match = _HANDOFF.fullmatch(name)
    needed = {each for each in listed(mapping(schema).get("required")) if isinstance(each, str)}
    return match[1] if match and (needed <= _CARRIED or not name.lower().startswith("transfer")) else ""


class _Seen:
    """A prompt, looked at once."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.since = since_user(prompt)
        self.called = {use.tool for heard in self.since for use in heard.uses} | {heard.tool for heard in self.since if heard.who == "tool"}
        self.steps = sum(1 for heard in self.since if heard.uses)
        self.said = meanings(prompt.said)
        self.dice = Dice(prompt.seed, len(prompt.heard), prompt.said[:2_000])

    @property
    def outputs(self) -> list[Heard]:
        """What the tools gave since the user spoke; what a handoff gave is no news."""
        schemas = {tool.name: tool.schema for tool in self.prompt.tools}
        return [heard for heard in self.since if heard.who == "tool" and not _moved(heard.tool, schemas.get(heard.tool))]

    # -- what is done

    def calls(self) -> list[Use]:
        prompt = self.prompt
        most = MOST_TOGETHER if prompt.parallel else 1
        if prompt.choice == "none" or not prompt.tools:
            return []
        if prompt.choice not in ("auto", "required"):
            named = next((tool for tool in prompt.tools if tool.name == prompt.choice), Tool(prompt.choice))
            return self._uses([named], 1)
        options = [self._option(tool) for tool in prompt.tools]
        free = [option for option in options if option.tool.name not in self.called]
        chosen = self._chosen(free, most) if self.steps < MOST_STEPS else []
        if not chosen and prompt.choice == "required":
            chosen = [max(free or options, key=lambda option: (not option.target, option.score))]
        return self._uses([option.tool for option in chosen], most)

    def _option(self, tool: Tool) -> Option:
        target = handoff_target(tool.name, tool.schema)
        words = words_of(target or tool.name)
        name, description = meanings(" ".join(words)), meanings(tool.description)
        both = set(self.said) & {*name, *description}
        score, by_name = concern(self.said, name, description), concern(self.said, name, [])
        return Option(tool, target, score, by_name, bool(words) and words[0] in _DOES, "write" in both)

    def _chosen(self, free: list[Option], most: int) -> list[Option]:
        """The best handoff if it is at least as fitting as any tool; else what looks things up; else what does something."""
        fitting = [option for option in free if option.score > 0]
        tools = [option for option in fitting if not option.target]
        handoffs = [option for option in fitting if option.target and self._may_hand_off(option)]
        best = max((option.score for option in tools), default=0)
        handoff = max(handoffs, key=lambda option: option.score, default=None)
        if handoff and (handoff.score >= best or not tools):
            return [handoff]
        return _lookups(tools, best)[:most] or _deed(tools) or self._on_a_whim(free) or self._back(free)

    def _back(self, free: list[Option]) -> list[Option]:
        """Back to whoever sorts questions, once: another was handed the conversation earlier, and now it is about something else."""
        front = [option for option in free if option.target and set(words_of(option.target)) & _SORTS][:1]
        own = meanings(self.prompt.instructions[:300])
        if self.called or not self.said or set(self.said) & set(own) or wording.small_talk(self.prompt.said):
            return []
        before = self.prompt.heard[: len(self.prompt.heard) - len(self.since)]
        return front if any(handoff_target(use.tool) for heard in before for use in heard.uses) else []

    def _may_hand_off(self, option: Option) -> bool:
        """What is another's more than one's own; and what was looked up, to whoever writes it down."""
        if self.outputs:
            return option.writes
        own = meanings(re.split(r"[.\n]", self.prompt.instructions[:300], maxsplit=1)[0])
        mine = concern(self.said, own, [])
        return (option.by_name if mine else option.score) > mine

    def _on_a_whim(self, free: list[Option]) -> list[Option]:
        looking = [option for option in free if not option.target and not option.does]
        if self.called or not looking or wording.small_talk(self.prompt.said) or self.dice(4):
            return []
        option = looking[self.dice(len(looking))]
        return [option] if is_called_for(option.tool.schema, self.prompt.said) else []

    def _uses(self, tools: list[Tool], most: int) -> list[Use]:
        """The calls. One tool is called several times at once if the user asked about several things."""
        texts = [self.prompt.said, *(heard.text for heard in reversed(self.outputs))]
        texts += [heard.text for heard in reversed(self.prompt.heard) if heard.who == "user"][1:5]
        uses: list[Use] = []
        for tool in tools:
            several = most if len(tools) == 1 and not handoff_target(tool.name) else 1
            for arguments in several_arguments_for(tool.schema, texts, self.prompt.seed, several):
                uses.append(Use(tool.name, json_text(arguments)))
        return uses[:most]

    # -- what is said

    def words(self) -> str:
        prompt = self.prompt
        outputs = self.outputs
        if outputs:
            text = wording.summary([(heard.tool, self._subject(heard), heard.text) for heard in outputs], self.dice)
        else:
            text = wording.small_talk(prompt.said) or wording.nothing_fits(prompt.said, self.dice)
        if prompt.schema is None:
            return text
        value = value_for(prompt.schema, [prompt.said, *(heard.text for heard in outputs)], prompt.seed)
        if value == {} and _fits({"answer": text}, prompt.schema):
            value = {"answer": text}
        return json_text(value)

    def _subject(self, output: Heard) -> str:
        """What the call of an output was about."""
        return next((wording.subject(use.arguments) for heard in self.since for use in heard.uses if use.id and use.id == output.call), "")

    def thought(self, uses: list[Use]) -> str:
        said = in_brief(self.prompt.said).rstrip(".!")
        asked = f"The user says: “{said}”." if said else "The user has not said anything."
        if not uses:
            known = f"I have heard from {_listed([heard.tool for heard in self.outputs])}, so" if self.outputs else "No tool is needed;"
            return f"{asked} {known} I can answer."
        if target := handoff_target(uses[0].tool):
            return f"{asked} That is for {' '.join(words_of(target))}, so I hand over."
        together = " at once" if len(uses) > 1 else ""
        return f"{asked} I call {_listed([use.tool for use in uses])}{together} with {in_brief(uses[0].arguments, 120)}."


def _lookups(tools: list[Option], best: int) -> list[Option]:
    """What looks things up, and is nearly as fitting as the best."""
    looking = [option for option in tools if not option.does and 2 * option.score >= best]
    return sorted(looking, key=lambda option: -option.score)


def _deed(tools: list[Option]) -> list[Option]:
    """The most fitting of what does something."""
    return sorted((option for option in tools if option.does), key=lambda option: -option.score)[:1]


def _moved(name: str, schema: object) -> bool:
    """A handoff after which another speaks. One that delegates comes back with a result."""
    return bool(handoff_target(name, schema)) and not name.lower().startswith("delegate")


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(name or "a tool" for name in names))


def _fits(value: object, schema: object) -> bool:
    try:
        return Schemas(schema).fits(value, schema)
    except TooMuch:
        return False
