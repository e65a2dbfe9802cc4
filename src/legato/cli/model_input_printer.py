"""Explanations of model inputs on a terminal."""

from __future__ import annotations

import msgspec

from legato.cli.terminal import AgentColours, print_line
from legato.core.visibility_explanation import VISIBILITY_SIGNS, Visibility
from legato.inspection.model_input_explanation import ModelInputDiff, ModelInputExplanation, ModelInputItem
from legato.inspection.terminal_safe_text import escape_unprintable, to_one_line


def print_model_input(explanation: ModelInputExplanation, agents: list[str]) -> None:
    """Print a model input: instructions, tools, and each group of the conversation with its visibility and rule."""
    colours = AgentColours(agents)
    agent = (explanation.agent, colours.of(explanation.agent))
    print_line((f"reply {explanation.n} ", "bold"), "of ", agent, f" by {explanation.model}; it saw the facts 0 to {explanation.upto}")
    print_line(("instructions  ", "dim"), explanation.instructions or "none")
    for text in explanation.context_messages:
        print_line(("context       ", "dim"), text)
    print_line(("tools         ", "dim"), ", ".join(tool.name for tool in explanation.tools) or "none")
    rule = f"{explanation.history.policy['policy']}: {explanation.history.description}"
    print_line(("history       ", "dim"), rule)
    if explanation.summary:
        print_line(("summary       ", "dim"), explanation.summary)
    for item in explanation.items:
        if item.rule != rule:
            print_line((f"  {item.rule}", "dim"))
        rule = item.rule
        _print_item(item, colours)


VISIBILITY_COLOURS = {"whole": "green", "words": "yellow", "no": "red"}


def _print_item(item: ModelInputItem, colours: AgentColours) -> None:
    dim_style = "dim" if item.visibility == "no" else ""
    style = {"said": "bold", "reply": colours.of(item.author)}.get(item.kind, "dim")
    author = item.author if item.kind in ("said", "reply") else f"{item.kind} by Legato"
    text = _indent_lines(f" {item.text}") if item.text else ""
    print_line(
        (f"  {VISIBILITY_SIGNS[item.visibility]} ", VISIBILITY_COLOURS[item.visibility]),
        (f"{author}:", dim_style or style),
        (text, dim_style),
    )
    for call in item.calls:
        mark: Visibility = "whole" if item.visibility == "whole" else "no"  # "words" leaves tool calls out
        output = (_indent_lines(call.output), "" if mark == "whole" else "dim")
        print_line((f"    {VISIBILITY_SIGNS[mark]} ", VISIBILITY_COLOURS[mark]), (f"{call.tool}({call.arguments}) = ", "dim"), output)


def _indent_lines(text: str) -> str:
    """Indent all lines after the first, so that none looks like another item."""
    return text.replace("\n", "\n      ")


def print_changes(explanation: ModelInputExplanation, agents: list[str], body: bool) -> None:
    """Print the differences from earlier model inputs, with the lines of the bodies if `body`."""
    colours = AgentColours(agents)
    print_line((f"reply {explanation.n} ", "bold"), "of ", (explanation.agent, colours.of(explanation.agent)))
    call, agent = explanation.changes.call, explanation.changes.agent
    if call is None:
        print_line("this was the first request: there is nothing to compare it with")
    if call is not None and (agent is None or agent.with_ != call.with_):
        _print_diff(call, "the previous request", body)
    if agent is not None:
        is_previous = call is not None and call.with_ == agent.with_
        _print_diff(agent, "the previous request, of another agent" if is_previous else "the last request of another agent", body)


def _print_diff(diff: ModelInputDiff, comparison: str, body: bool) -> None:
    print_line((f"since reply {diff.with_} of {diff.agent}", "bold"), f", {comparison}")
    if body:
        _print_diff_lines(diff.body or "the requests are the same")
        return
    _print_diff_lines(diff.instructions)
    for name, change in (("context", diff.context_messages), ("history", diff.history), ("options", diff.options)):
        if change is not None:
            print_line((f"{name:<14}", "dim"), f"{_shorten(change.before)} -> {_shorten(change.after)}")
    tool_changes = [*_prefix_each("+", diff.tools.added), *_prefix_each("-", diff.tools.removed), *_prefix_each("~", diff.tools.changed)]
    item_changes = [*_prefix_each("+", diff.items.added), *_prefix_each("-", diff.items.removed), *_prefix_each("~", diff.items.changed)]
    print_line(("tools         ", "dim"), " ".join(tool_changes) or "the same")
    print_line(("facts         ", "dim"), " ".join(item_changes) or "the same")


def _prefix_each(mark: str, values: tuple[str, ...] | tuple[int, ...]) -> list[str]:
    return [f"{mark}{each}" for each in values]


def _shorten(value: object) -> str:
    return to_one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 200)


def _print_diff_lines(diff: str) -> None:
    for line in diff.splitlines():
        colour = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        print_line((escape_unprintable(line, joiners=""), colour))
