"""The default fake model: it plays a support desk, or a research team.

It reads the user's last message and the messages since. Tools that look something up are called first, in parallel if the request allows
it; then the tool that does what the user wants; then the desk summarizes the outputs. Each tool is called, and each agent handed to, at
most once per user message, so every conversation ends, unless each request demands a call. Its only randomness is the prompt's seed.
"""

from __future__ import annotations

import re

from msgspec import Struct

from legato.emulator.fake_models import support_desk_phrases
from legato.emulator.fake_models.base import (
    FakeReply,
    FakeReplyItem,
    ModelPrompt,
    PromptMessage,
    PromptTool,
    ReplyCall,
    ReplyText,
    ReplyThought,
)
from legato.emulator.fake_models.plausible_values import split_identifier
from legato.emulator.fake_models.prompt_turns import list_messages_since_user
from legato.emulator.fake_models.relevance import abbreviate, extract_keywords, score_relevance
from legato.emulator.fake_models.schema_values import can_fill_arguments, json_text, make_argument_sets, make_value
from legato.emulator.fake_models.schemas import SchemaDocument, SchemaTooLarge, as_mapping, as_sequence
from legato.emulator.fake_models.seeded_random import SeededRandom

MAX_CALL_TURNS = 8  # turns with calls per user message
MAX_PARALLEL_CALLS = 3
_HANDOFF = re.compile(r"(?:handoff_to|hand_off_to|handoff|transfer_to|transfer|delegate_to)[_-]+(.+)", re.IGNORECASE)
_HANDOFF_ARGUMENTS = {
    "reason",
    "input",
    "message",
    "summary",
    "context",
    "task",
    "note",
}  # the required arguments that a handoff tool may have
_ACTION_VERBS_TEXT = """
    add assign book buy cancel change charge close create delete delegate edit escalate issue make move open pay post publish refund
    remove reset save schedule send set submit transfer update upload write
"""
_ACTION_VERBS = frozenset(_ACTION_VERBS_TEXT.split())
_TRIAGE_NAMES = frozenset(["front", "triage", "reception", "receptionist", "router", "dispatcher", "concierge", "greeter"])
"""Names of agents that sort incoming questions."""


class ToolOption(Struct, frozen=True):
    """A tool that could be called now, with its relevance to the user's text."""

    tool: PromptTool
    handoff_target: str  # the agent of a handoff tool; empty for any other tool
    score: int
    name_score: int  # the part of the score that comes from the tool's name
    is_action: bool  # the tool changes something instead of looking it up
    is_about_writing: bool  # writing comes after looking things up


class SupportDesk:
    """A fake model that plays a believable support desk or research team with any tools."""

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return calls, a handoff, or text."""
        planner = _ReplyPlanner(prompt)
        calls = planner.choose_calls()
        items: list[FakeReplyItem] = [ReplyThought(planner.make_thought(calls))] if prompt.has_reasoning else []
        if calls:
            announcement = (
                ""
                if prompt.output_schema is not None or find_handoff_target(calls[0].tool)
                else support_desk_phrases.announce_calls(planner.random)
            )
            return FakeReply((*items, *([ReplyText(announcement)] if announcement else []), *calls))
        return FakeReply((*items, ReplyText(planner.make_text())))

    def __repr__(self) -> str:
        return "<support desk>"


def find_handoff_target(name: str, schema: object = None) -> str:
    """Return the agent of a handoff tool; empty for any other tool. `transfer_funds(amount)` is none: it needs more than a reason.

    >>> [find_handoff_target(name) for name in ("handoff_to_refunds", "transfer_to_billing_agent", "look_up")]
    ['refunds', 'billing_agent', '']
    """
    match = _HANDOFF.fullmatch(name)
    required_arguments = {each for each in as_sequence(as_mapping(schema).get("required")) if isinstance(each, str)}
    return match[1] if match and (required_arguments <= _HANDOFF_ARGUMENTS or not name.lower().startswith("transfer")) else ""


class _ReplyPlanner:
    """The desk's reply to one prompt, in the making."""

    def __init__(self, prompt: ModelPrompt) -> None:
        self.prompt = prompt
        self.messages_since_user = list_messages_since_user(prompt)
        self.called_tools = {call.tool for message in self.messages_since_user for call in message.calls} | {
            message.tool for message in self.messages_since_user if message.role == "tool"
        }
        self.call_turns = sum(1 for message in self.messages_since_user if message.calls)
        self.keywords = extract_keywords(prompt.last_user_text)
        self.random = SeededRandom(prompt.seed, len(prompt.messages), prompt.last_user_text[:2_000])

    @property
    def outputs(self) -> list[PromptMessage]:
        """The tool outputs since the user's last message, without those of handoffs."""
        schemas = {tool.name: tool.schema for tool in self.prompt.tools}
        return [
            message
            for message in self.messages_since_user
            if message.role == "tool" and not _is_handoff_away(message.tool, schemas.get(message.tool))
        ]

    # -- calls

    def choose_calls(self) -> list[ReplyCall]:
        prompt = self.prompt
        max_calls = MAX_PARALLEL_CALLS if prompt.allows_parallel_calls else 1
        if prompt.tool_choice == "none" or not prompt.tools:
            return []
        if prompt.tool_choice not in ("auto", "required"):
            tool = next((tool for tool in prompt.tools if tool.name == prompt.tool_choice), PromptTool(prompt.tool_choice))
            return self._make_calls([tool], 1)
        options = [self._rate_tool(tool) for tool in prompt.tools]
        available = [option for option in options if option.tool.name not in self.called_tools]
        chosen = self._choose_options(available, max_calls) if self.call_turns < MAX_CALL_TURNS else []
        if not chosen and prompt.tool_choice == "required":
            chosen = [max(available or options, key=lambda option: (not option.handoff_target, option.score))]
        return self._make_calls([option.tool for option in chosen], max_calls)

    def _rate_tool(self, tool: PromptTool) -> ToolOption:
        handoff_target = find_handoff_target(tool.name, tool.schema)
        words = split_identifier(handoff_target or tool.name)
        name, description = extract_keywords(" ".join(words)), extract_keywords(tool.description)
        both = set(self.keywords) & {*name, *description}
        score, by_name = score_relevance(self.keywords, name, description), score_relevance(self.keywords, name, [])
        return ToolOption(tool, handoff_target, score, by_name, bool(words) and words[0] in _ACTION_VERBS, "write" in both)

    def _choose_options(self, available: list[ToolOption], max_calls: int) -> list[ToolOption]:
        """Choose the best handoff if its score is at least that of any tool; else lookups; else an action."""
        fitting = [option for option in available if option.score > 0]
        tools = [option for option in fitting if not option.handoff_target]
        handoffs = [option for option in fitting if option.handoff_target and self._may_hand_off(option)]
        best = max((option.score for option in tools), default=0)
        handoff = max(handoffs, key=lambda option: option.score, default=None)
        if handoff and (handoff.score >= best or not tools):
            return [handoff]
        return (
            _choose_lookups(tools, best)[:max_calls]
            or _choose_action(tools)
            or self._choose_random_lookup(available)
            or self._hand_back(available)
        )

    def _hand_back(self, available: list[ToolOption]) -> list[ToolOption]:
        """Choose the handoff to an agent that sorts questions, once, if this agent was handed to earlier and the topic is now another."""
        front = [option for option in available if option.handoff_target and set(split_identifier(option.handoff_target)) & _TRIAGE_NAMES][
            :1
        ]
        own_keywords = extract_keywords(self.prompt.instructions[:300])
        if (
            self.called_tools
            or not self.keywords
            or set(self.keywords) & set(own_keywords)
            or support_desk_phrases.answer_small_talk(self.prompt.last_user_text)
        ):
            return []
        earlier = self.prompt.messages[: len(self.prompt.messages) - len(self.messages_since_user)]
        return front if any(find_handoff_target(call.tool) for message in earlier for call in message.calls) else []

    def _may_hand_off(self, option: ToolOption) -> bool:
        """Return True if the topic is another agent's more than this one's; after lookups, if the other agent writes."""
        if self.outputs:
            return option.is_about_writing
        own_keywords = extract_keywords(re.split(r"[.\n]", self.prompt.instructions[:300], maxsplit=1)[0])
        own_score = score_relevance(self.keywords, own_keywords, [])
        return (option.name_score if own_score else option.score) > own_score

    def _choose_random_lookup(self, available: list[ToolOption]) -> list[ToolOption]:
        lookups = [option for option in available if not option.handoff_target and not option.is_action]
        if self.called_tools or not lookups or support_desk_phrases.answer_small_talk(self.prompt.last_user_text) or self.random(4):
            return []
        option = lookups[self.random(len(lookups))]
        return [option] if can_fill_arguments(option.tool.schema, self.prompt.last_user_text) else []

    def _make_calls(self, tools: list[PromptTool], max_calls: int) -> list[ReplyCall]:
        """Make the calls. A single tool is called several times if the user asks about several things."""
        texts = [self.prompt.last_user_text, *(message.text for message in reversed(self.outputs))]
        texts += [message.text for message in reversed(self.prompt.messages) if message.role == "user"][1:5]
        calls: list[ReplyCall] = []
        for tool in tools:
            max_sets = max_calls if len(tools) == 1 and not find_handoff_target(tool.name) else 1
            for arguments in make_argument_sets(tool.schema, texts, self.prompt.seed, max_sets):
                calls.append(ReplyCall(tool.name, json_text(arguments)))
        return calls[:max_calls]

    # -- text

    def make_text(self) -> str:
        prompt = self.prompt
        outputs = self.outputs
        if outputs:
            text = support_desk_phrases.summarize_outputs(
                [(message.tool, self._call_subject(message), message.text) for message in outputs], self.random
            )
        else:
            text = support_desk_phrases.answer_small_talk(prompt.last_user_text) or support_desk_phrases.answer_without_tools(
                prompt.last_user_text, self.random
            )
        if prompt.output_schema is None:
            return text
        value = make_value(prompt.output_schema, [prompt.last_user_text, *(message.text for message in outputs)], prompt.seed)
        if value == {} and _is_valid({"answer": text}, prompt.output_schema):
            value = {"answer": text}
        return json_text(value)

    def _call_subject(self, output: PromptMessage) -> str:
        """Return the subject of the call of an output."""
        return next(
            (
                support_desk_phrases.describe_call_subject(call.arguments)
                for message in self.messages_since_user
                for call in message.calls
                if call.id and call.id == output.call_id
            ),
            "",
        )

    def make_thought(self, calls: list[ReplyCall]) -> str:
        user_text = abbreviate(self.prompt.last_user_text).rstrip(".!")
        user_sentence = f"The user says: “{user_text}”." if user_text else "The user has not said anything."
        if not calls:
            sources = (
                f"I have heard from {_join_names([message.tool for message in self.outputs])}, so" if self.outputs else "No tool is needed;"
            )
            return f"{user_sentence} {sources} I can answer."
        if handoff_target := find_handoff_target(calls[0].tool):
            return f"{user_sentence} That is for {' '.join(split_identifier(handoff_target))}, so I hand over."
        together = " at once" if len(calls) > 1 else ""
        return f"{user_sentence} I call {_join_names([call.tool for call in calls])}{together} with {abbreviate(calls[0].arguments, 120)}."


def _choose_lookups(tools: list[ToolOption], best: int) -> list[ToolOption]:
    """Choose the tools that look things up and have at least half of the best score."""
    lookups = [option for option in tools if not option.is_action and 2 * option.score >= best]
    return sorted(lookups, key=lambda option: -option.score)


def _choose_action(tools: list[ToolOption]) -> list[ToolOption]:
    """Choose the action with the best score."""
    return sorted((option for option in tools if option.is_action), key=lambda option: -option.score)[:1]


def _is_handoff_away(name: str, schema: object) -> bool:
    """Return True for a handoff after which the other agent replies. A delegation returns a result."""
    return bool(find_handoff_target(name, schema)) and not name.lower().startswith("delegate")


def _join_names(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(name or "a tool" for name in names))


def _is_valid(value: object, schema: object) -> bool:
    try:
        return SchemaDocument(schema).is_valid(value, schema)
    except SchemaTooLarge:
        return False
