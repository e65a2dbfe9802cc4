"""The law book of the Messages API. May know: its shapes and switches. Decides: what is refused, in which words and order.

The order of the fields was measured, and that rules about the conversation come after them; within those it was not. `conversation.py`
has the rest of this book: the laws about messages, tools and thinking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from legato.providers.rules.anthropic import conversation
from legato.providers.rules.anthropic.book import BODY, BOOK, CONVERSATION, HEADERS, MODEL, SETTINGS, SHAPE, TOOLS, shape
from legato.providers.rules.anthropic.case import Case
from legato.providers.rules.anthropic.held import Held, Nothing
from legato.providers.rules.anthropic.profile import Profile
from legato.providers.rules.anthropic.shapes import UNSET
from legato.providers.rules.anthropic.thinking import dropped_thinking
from legato.providers.rules.rule_set import Complaint, Fault

__all__ = ["BOOK", "Case", "Profile", "conversation", "dropped_thinking", "envelope", "judge", "judge_messages"]

_NOTHING = Nothing()

# -- 1. before the body is read ----------------------------------------------------------------------------------------


@BOOK.law("M22b", "The body has at most 32 MB.", HEADERS, grade="B", seen="2026-11", status=413, switch="size_limit")
def body_is_not_too_large(case: Case) -> Iterator[Fault]:
    if case.size > case.profile.size_limit:
        yield Fault("Request exceeds the maximum size", type="request_too_large")


@BOOK.law("M21", "The header `anthropic-version` is there.", HEADERS, grade="A", seen="2026-11", switch="version_header")
def version_is_named(case: Case) -> Iterator[Fault]:
    if not case.version:
        yield Fault("anthropic-version: header is required", path="anthropic-version")


@BOOK.law("MB1", "The body is an object.", BODY, grade="D", seen="2026-11")
def body_is_an_object(case: Case) -> Iterator[Fault]:
    if not isinstance(case.request, dict):
        yield Fault("Input should be a valid dictionary or object to extract fields from")


# -- 2. the shape of every field: request.py has the shapes, these rows what a difference means ------------------------

shape("M12", "A message's role is `user` or `assistant` (or `system`).", grade="A", seen="2026-11")
shape("M13b", "A message has a content.", grade="A", seen="2026-11")
shape("M19", "A tool's name has letters, digits, _ and - only, at most 128.", grade="A", seen="2026-11")
shape("M19b", "A tool has a name.", grade="A", seen="2026-11")
shape("M20", "Every field is known.", grade="A", seen="2026-11")
shape("M20b", "Every member is known.", grade="A", seen="2026-11")
shape("MS1", "What must be there is there.", grade="B", seen="2026-11")
shape("MS2", "A value has its type.", grade="B", seen="2026-03")
shape("MS3", "What must be an object is one.", grade="D", seen="2026-11")
shape("MS3b", "A message is an object.", grade="A", seen="2024-06")
shape("MS4", "A value is one of those known.", grade="C", seen="2026-11")
shape("MS5", "A block's or tool's type is known.", grade="B", seen="2026-10")
shape("MS6", "A number is within its range.", grade="B", seen="2026-08")
shape("MS7", "An id has letters, digits, _ and - only.", grade="B", seen="2026-11")
shape("MS8", "A used tool's name has at most 200 characters.", grade="B", seen="2026-11")
shape("MV1", "From version 2026-10-21 on there is no `temperature`, `top_p` or `top_k`.", grade="B", seen="2026-10")
shape("MP1", "`temperature` is from 0 to 1.", grade="B", seen="2026-10")

# -- 3. the model, and settings that do not go together ----------------------------------------------------------------


@BOOK.law("M23", "The model exists.", MODEL, grade="A", seen="2026-11", status=404)
def model_exists(case: Case) -> Iterator[Fault]:
    # Its place was not measured: a body is validated before anybody looks for its model.
    if case.info is None:
        yield Fault(f"model: {case.request['model']}", path="model", type="not_found_error")


@BOOK.law("MP2", "No more tokens are asked for than the model can write.", SETTINGS, grade="B", seen="2025-10")
def output_is_within_the_models_limit(case: Case) -> Iterator[Fault]:
    asked, most = case.request["max_tokens"], case.model.output
    if 0 < most < asked:
        told = f"{asked} > {most}, which is the maximum allowed number of output tokens for {case.model.name}"
        yield Fault(f"max_tokens: {told}", path="max_tokens")


@BOOK.law("MP3", "More tokens are allowed than are to be spent on thinking.", SETTINGS, grade="B", seen="2026-02")
def budget_is_below_the_limit(case: Case) -> Iterator[Fault]:
    if case.thinks == "enabled" and case.request["max_tokens"] <= case.request["thinking"]["budget_tokens"]:
        at = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        told = f"`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at {at}"
        yield Fault(told, path="max_tokens")


@BOOK.law("MP4", "With thinking `temperature` is 1.", SETTINGS, grade="B", seen="2026-11", switch="temperature_with_thinking")
def temperature_is_left(case: Case) -> Iterator[Fault]:
    if case.thinks in ("enabled", "adaptive") and case.request.get("temperature") not in (None, 1):
        yield Fault("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.", path="temperature")


@BOOK.law("MP5", "With thinking no tool is forced.", SETTINGS, grade="B", seen="2026-07", switch="forced_tool_without_thinking")
def no_tool_is_forced(case: Case) -> Iterator[Fault]:
    # Adaptive thinking may be skipped by the model, so that a forced tool goes with it is not ruled out.
    if case.thinks == "enabled" and (case.request.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield Fault("Thinking may not be enabled when tool_choice forces tool use.", path="tool_choice")


@BOOK.law("MP6", "A model that samples in its own way only is left to it.", SETTINGS, grade="B", seen="2026-06")
def sampling_is_left_to_the_model(case: Case) -> Iterator[Fault]:
    # The words were seen of `temperature`; of the others the documents say that they are refused likewise.
    if case.model.samples:
        return
    for name, default in (("temperature", (1,)), ("top_p", (1, 0.99, UNSET)), ("top_k", (UNSET,))):
        if case.request.get(name) is not None and case.request[name] not in default:
            yield Fault(f"`{name}` is deprecated for this model.", path=name)


@BOOK.law("MP7", "A newer model is given `temperature` or `top_p`, not both.", SETTINGS, grade="B", seen="2026-05")
def sampling_is_set_once(case: Case) -> Iterator[Fault]:
    given = [case.request.get(name) not in (None, UNSET) for name in ("temperature", "top_p")]
    if case.model.samples and case.model.samples_by_one and all(given):
        told = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        yield Fault(told, path="top_p")


@BOOK.law("MP8", "A model that takes no effort is given none.", SETTINGS, grade="B", seen="2026-06")
def effort_is_taken(case: Case) -> Iterator[Fault]:
    if case.effort and case.model.efforts == ():
        yield Fault("This model does not support the effort parameter.", path="output_config.effort")


@BOOK.law("MP9", "The effort is one that the model knows.", SETTINGS, grade="A", seen="2026-04")
def effort_is_known(case: Case) -> Iterator[Fault]:
    levels = case.model.efforts
    if levels and case.effort and case.effort not in levels:
        told = f"This model does not support effort level '{case.effort}'. Supported levels: {', '.join(sorted(levels))}."
        yield Fault(told, path="output_config.effort")


@BOOK.law("M19c", "`tool_choice` comes with tools.", SETTINGS, grade="A", seen="2026-11")
def choice_has_tools(case: Case) -> Iterator[Fault]:
    choice = case.request.get("tool_choice")
    if choice and not case.request.get("tools"):
        yield Fault(f"tool_choice.{choice['type']} may only be specified while providing tools", path="tool_choice")


@BOOK.law("M19d", "The tool that is forced is declared.", SETTINGS, grade="A", seen="2026-11")
def forced_tool_is_declared(case: Case) -> Iterator[Fault]:
    choice = case.request.get("tool_choice") or {}
    if choice.get("type") == "tool" and case.request.get("tools") and choice["name"] not in case.tool_names:
        yield Fault(f"Tool '{choice['name']}' not found in provided tools", path="tool_choice.name")


@BOOK.law("MT1", "No two tools have one name.", SETTINGS, grade="B", seen="2026-05", switch="unique_tool_names")
def tool_names_are_unique(case: Case) -> Iterator[Fault]:
    if len(set(case.tool_names)) < len(case.tool_names):
        yield Fault("tools: Tool names must be unique.", path="tools")


def judge(
    request: Any,
    headers: Mapping[str, str] | None = None,
    held: Held | None = None,
    profile: Profile | None = None,
    *,
    tokens: int = 0,
    size: int = 0,
) -> list[Complaint]:
    """What the API has to complain about, first what it would answer with; nothing if the request is legal.

    >>> version = {"anthropic-version": "2023-06-01"}
    >>> [str(complaint) for complaint in judge({"model": "claude-sonnet-5", "max_tokens": 9}, version)]
    ['[MS1] 400 messages: Field required at messages']
    """
    return list(BOOK.judge(Case(request, headers or {}, held or Nothing(), tokens, profile or Profile(), size)))


ABOUT_MESSAGES = (SHAPE, CONVERSATION, TOOLS)
"""The phases that ask what the messages are and how they stand to one another, and that need no provider to answer."""


def judge_messages(messages: list[dict[str, Any]], headers: Mapping[str, str]) -> list[Complaint]:
    """What the API has to complain about in some messages with all that belongs to them, if the rest of the request is legal.

    >>> result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}
    >>> [complaint.clause.id for complaint in judge_messages([result], {"anthropic-version": "2023-06-01"})]
    ['M2']
    """
    return list(BOOK.judge(Case({"model": "any", "max_tokens": 1, "messages": messages}, headers, _NOTHING), ABOUT_MESSAGES))


def envelope(complaint: Complaint, request_id: str | None = None) -> dict[str, Any]:
    """The body of the answer."""
    # A request may hold half a surrogate pair, which no answer can carry.
    message = complaint.message.encode("utf-8", "replace").decode()
    return {"type": "error", "error": {"type": complaint.type, "message": message}, "request_id": request_id}
