"""A script: rules, the first that applies speaks. May know: rules. Decides: nothing that a rule does not say.

The same prompt gets the same answer, whatever was asked before and whoever else is asking: even `times` is counted in the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutine
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from legato.emulator.minds.base import Item, Mind, Prompt, Refused, Say, Thought, Use, Words
from legato.emulator.minds.desk import Desk
from legato.emulator.minds.rules import Rule
from legato.emulator.minds.turns import earlier, turn_of
from legato.errors import BadInput, install_hint

Reply: TypeAlias = Say | str | Item | Sequence[str | Item]


class Script:
    """A mind that follows rules. Where none applies, or the one that does says nothing, the fallback speaks: the desk, if not told.

    >>> from legato.emulator.minds.base import Heard
    >>> Script([Rule(said="refund", say="You said: {said}")]).reply(Prompt("chat", "m", heard=(Heard("user", "A refund!"),))).items
    (Words(text='You said: A refund!'),)
    """

    def __init__(self, rules: Sequence[Rule], fallback: Mind | None = None) -> None:
        for rule in rules:
            if not isinstance(rule, Rule):
                raise BadInput("a script is made of rules", expected="Script([Rule(...), ...])", found=repr(rule)[:200])
        self.rules = tuple(rules)
        self.fallback: Mind = fallback or Desk()
        self._counts = any(rule.times is not None for rule in self.rules)

    @classmethod
    def from_yaml(cls, path_or_text: str | Path, fallback: Mind | None = None) -> Script:
        """A script from a file, or from YAML text. `BadInput` says the file, the line, the key, and what is allowed there."""
        try:
            from legato.emulator.minds.script_file import rules_from  # here: YAML is needed only by those who write it
        except ImportError as error:
            raise BadInput("a script in YAML needs PyYAML", found=str(error), do=install_hint("emulator")) from None
        return cls(rules_from(path_or_text), fallback)

    def rule_for(self, prompt: Prompt) -> Rule | None:
        """The first rule that applies."""
        used = [0] * len(self.rules)
        for before in earlier(prompt) if self._counts else ():
            at = self._first(before, used)
            if at is not None:
                used[at] += 1
        at = self._first(prompt, used)
        return None if at is None else self.rules[at]

    def _first(self, prompt: Prompt, used: Sequence[int]) -> int | None:
        for at, rule in enumerate(self.rules):
            if (rule.times is None or used[at] < rule.times) and rule.applies(prompt):
                return at
        return None

    def reply(self, prompt: Prompt) -> Say:
        """What the first rule that applies says."""
        rule = self.rule_for(prompt)
        if rule is None:
            return self.fallback.reply(prompt)
        if rule.say is None:
            said = self.fallback.reply(prompt)
            return said if rule.finish == "stop" else replace(said, finish=rule.finish)
        return Say(rule.items(prompt), rule.finish)

    def fault(self, prompt: Prompt) -> str:
        """What goes wrong with the answer, by the same rule; empty if nothing does."""
        rule = self.rule_for(prompt)
        return rule.fault if rule else ""

    def __repr__(self) -> str:
        return f"<script: {len(self.rules)} rules, else {self.fallback!r}>"


class Called:
    """A mind that is a function of the prompt. It returns a `Say`, a text, an item, or a list of texts and items."""

    def __init__(self, mind_function: Callable[[Prompt], Reply]) -> None:
        self.function = mind_function

    def reply(self, prompt: Prompt) -> Say:
        """What the function returns."""
        name = getattr(self.function, "__name__", repr(self.function))
        return as_say(self.function(prompt), f"the mind {name}()")

    def __repr__(self) -> str:
        return f"<mind: {getattr(self.function, '__name__', 'a function')}()>"


class Queue:
    """Replies one after another: the first to a conversation in which the model has not spoken, and so on. Each conversation has its own
    place in it, since that is read from the prompt."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = tuple(as_say(reply, f"reply number {number}") for number, reply in enumerate(replies, 1))

    def reply(self, prompt: Prompt) -> Say:
        """The reply for this turn of the conversation."""
        turn = turn_of(prompt)
        if turn > len(self.replies):
            raise BadInput(
                f"there is no reply number {turn}",
                expected=f"a conversation in which the model speaks {len(self.replies)} times",
                found=f"{turn - 1} turns of the model, then {prompt.heard[-1].who if prompt.heard else 'nothing'}",
                do="add a reply to the list",
            )
        return self.replies[turn - 1]

    def __repr__(self) -> str:
        return f"<queue: {len(self.replies)} replies>"


def as_say(reply: object, whose: str) -> Say:
    """A reply in any of the forms in which people write one; `BadInput` if it is none."""
    if isinstance(reply, Say):
        return reply
    told = list(reply) if isinstance(reply, list | tuple) else [reply]
    items: list[Item] = []
    for item in told:
        if isinstance(item, str):
            items.append(Words(item))
        elif isinstance(item, Words | Thought | Use | Refused):
            items.append(item)
        else:
            if iscoroutine(item):
                item.close()  # nobody will await it
            raise BadInput(
                f"{whose} is nothing that can be said",
                expected="a Say, text, Words, Thought, Use, Refused, or a list of them",
                found=repr(item)[:200],
                do="make it an ordinary function, without async" if iscoroutine(item) else "",
            )
    return Say(tuple(items))
