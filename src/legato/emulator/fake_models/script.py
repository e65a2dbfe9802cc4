"""Scripts: fake models that follow rules. The first rule that applies makes the reply.

The same prompt gets the same reply, whatever else the model was asked: even `times` is counted in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from legato.emulator.fake_models.base import FakeModel, FakeReply, ModelPrompt
from legato.emulator.fake_models.prompt_turns import list_earlier_prompts
from legato.emulator.fake_models.script_rules import ScriptRule
from legato.emulator.fake_models.support_desk import SupportDesk
from legato.errors import BadInput, install_hint


class Script:
    """A fake model that follows rules.

    The fallback, by default the support desk, replies if no rule applies, and for a rule without `say`.

    >>> from legato.emulator.fake_models.base import PromptMessage
    >>> prompt = ModelPrompt("chat", "m", messages=(PromptMessage("user", "A refund!"),))
    >>> Script([ScriptRule(said="refund", say="You said: {said}")]).reply(prompt).items
    (ReplyText(text='You said: A refund!'),)
    """

    def __init__(self, rules: Sequence[ScriptRule], fallback: FakeModel | None = None) -> None:
        for rule in rules:
            if not isinstance(rule, ScriptRule):
                raise BadInput("a script is made of rules", expected="Script([ScriptRule(...), ...])", found=repr(rule)[:200])
        self.rules = tuple(rules)
        self.fallback: FakeModel = fallback or SupportDesk()
        self._has_limited_rules = any(rule.times is not None for rule in self.rules)

    @classmethod
    def from_yaml(cls, path_or_text: str | Path, fallback: FakeModel | None = None) -> Script:
        """Load a script from a file, or from YAML text. `BadInput` names the file, the line, the key, and the allowed values."""
        try:
            from legato.emulator.fake_models.script_file import load_rules  # here: only scripts in YAML need PyYAML
        except ImportError as error:
            raise BadInput("a script in YAML needs PyYAML", found=str(error), do=install_hint("emulator")) from None
        return cls(load_rules(path_or_text), fallback)

    def find_rule(self, prompt: ModelPrompt) -> ScriptRule | None:
        """Return the first rule that applies, or None."""
        use_counts = [0] * len(self.rules)
        for earlier in list_earlier_prompts(prompt) if self._has_limited_rules else ():
            index = self._find_first(earlier, use_counts)
            if index is not None:
                use_counts[index] += 1
        index = self._find_first(prompt, use_counts)
        return None if index is None else self.rules[index]

    def _find_first(self, prompt: ModelPrompt, use_counts: Sequence[int]) -> int | None:
        for index, rule in enumerate(self.rules):
            if (rule.times is None or use_counts[index] < rule.times) and rule.applies_to(prompt):
                return index
        return None

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return the reply of the first rule that applies."""
        rule = self.find_rule(prompt)
        if rule is None:
            return self.fallback.reply(prompt)
        if rule.say is None:
            reply = self.fallback.reply(prompt)
            return reply if rule.finish == "stop" else replace(reply, finish=rule.finish)
        return FakeReply(rule.make_items(prompt), rule.finish)

    def fault(self, prompt: ModelPrompt) -> str:
        """Return the fault of the first rule that applies; empty if it has none."""
        rule = self.find_rule(prompt)
        return rule.fault if rule else ""

    def __repr__(self) -> str:
        return f"<script: {len(self.rules)} rules, else {self.fallback!r}>"
