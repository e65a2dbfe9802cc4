"""Calls and their outputs. May know: the whole input. Decides: whether every call has its output, and every output its call.

The whole input is what the server holds of the chain or conversation, and then the request's own items. There is no rule about
what may stand between a call and its output.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from legato.providers.rules.responses.book import BOOK, CALLS
from legato.providers.rules.responses.case import Case, Entry, text
from legato.providers.rules.responses.shapes import CALL_OF, SPOKEN
from legato.providers.rules.responses.texts import SEEN
from legato.providers.rules.rule_set import Fault


def _unanswered(case: Case, kind: str) -> Iterator[Fault]:
    found = case.pairs
    for (type, call), places in found.calls.items():
        if type == kind and (type, call) not in found.outputs and not found.may_be_answered(places[0]):
            path = case.entries[places[0]].path
            yield Fault(f"No tool output found for {SPOKEN[kind]} {call}.", "input", path)


def _no_call(entry: Entry) -> Fault:
    spoken = SPOKEN[CALL_OF[entry.type]]
    return Fault(f"No tool call found for {spoken} output with call_id {entry.call}.", "input", entry.path)


def _uncalled(case: Case, kind: str) -> Iterator[Fault]:
    found = case.pairs
    searches = {entry.call for entry in case.entries if entry.type == "tool_search_call"} if kind == "function_call" else set()
    for (type, call), places in found.outputs.items():
        if type == kind and (type, call) not in found.calls and call not in searches and not found.may_be_called(places[0]):
            yield _no_call(case.entries[places[0]])


@BOOK.law("T1", "Every function call has its output: sent, referred to, in the chain, or in the conversation.", CALLS, grade="A", seen=SEEN)
def every_call_has_its_output(case: Case) -> Iterator[Fault]:
    return _unanswered(case, "function_call")


@BOOK.law("T2", "Every function call output has its call.", CALLS, grade="A", seen=SEEN)
def every_output_has_its_call(case: Case) -> Iterator[Fault]:
    return _uncalled(case, "function_call")


@BOOK.law("T3", "An output stands after its call.", CALLS, grade="C", seen=SEEN)
def an_output_comes_after_its_call(case: Case) -> Iterator[Fault]:
    found = case.pairs
    for key, places in found.outputs.items():
        if key in found.calls and places[0] < found.calls[key][0] and not found.may_be_called(places[0]):
            yield _no_call(case.entries[places[0]])


@BOOK.law("T19", "Compaction is not forced between a call and its output.", CALLS, grade="C", seen=SEEN)
def nothing_is_compacted_away(case: Case) -> Iterator[Fault]:
    found = case.pairs
    for key, places in found.outputs.items() if found.triggers else ():
        if key in found.calls and bisect(found.triggers, found.calls[key][0]) < bisect(found.triggers, places[0]):
            yield _no_call(case.entries[places[0]])


@BOOK.law("T23", "Every custom tool call has its output.", CALLS, grade="B", seen=SEEN)
def every_custom_call_has_its_output(case: Case) -> Iterator[Fault]:
    return _unanswered(case, "custom_tool_call")


@BOOK.law("T24", "Every custom tool call output has its call.", CALLS, grade="B", seen=SEEN)
def every_custom_output_has_its_call(case: Case) -> Iterator[Fault]:
    return _uncalled(case, "custom_tool_call")


@BOOK.law("T25", "Every call to apply a patch has its output.", CALLS, grade="C", seen=SEEN)
def every_patch_has_its_output(case: Case) -> Iterator[Fault]:
    return _unanswered(case, "apply_patch_call")


@BOOK.law("T5a", "No two calls share a call id.", CALLS, grade="D", seen=SEEN, switch="unique_call_ids")
def calls_have_ids_of_their_own(case: Case) -> Iterator[Fault]:
    for (kind, call), places in case.pairs.calls.items():
        if len(places) > 1:
            yield Fault(f"Multiple {SPOKEN[kind]}s found with call_id {call}.", "input", case.entries[places[1]].path)


@BOOK.law("T5b", "A call has one output.", CALLS, grade="D", seen=SEEN, switch="single_outputs")
def a_call_has_one_output(case: Case) -> Iterator[Fault]:
    for (kind, call), places in case.pairs.outputs.items():
        if len(places) > 1:
            yield Fault(f"Multiple tool outputs found for {SPOKEN[kind]} {call}.", "input", case.entries[places[1]].path)


def _functions(case: Case) -> Iterator[tuple[str, bool]]:
    """The functions that the request brings, and whether they stand in the default namespace: at the top, and not to be loaded later."""
    loaded = [each.item.get("tools") for each in case.items if each.type in ("additional_tools", "tool_search_output")]
    for tools in (case.sent("tools"), *loaded):
        for tool in tools if isinstance(tools, list) else ():
            if not isinstance(tool, dict):
                continue
            inner = tool.get("tools")
            if tool.get("type") in ("function", "custom"):
                yield text(tool.get("name")), not tool.get("defer_loading")
            elif tool.get("type") == "namespace" and isinstance(inner, list):
                yield from ((text(each.get("name")), False) for each in inner if isinstance(each, dict))


@BOOK.law("T32", "A call of a function that is only in a namespace says which.", CALLS, grade="B", seen="2026-09")
def a_call_says_its_namespace(case: Case) -> Iterator[Fault]:
    nameless = [at for at in case.items if at.type == "function_call" and at.item.get("namespace") is None]
    if not nameless:
        return
    functions = set(_functions(case))
    for at in nameless:
        name = text(at.item.get("name"))
        if (name, False) in functions and (name, True) not in functions:
            yield Fault(
                f"Missing namespace for function_call '{name}'. It does not exist in the default namespace. "
                "Round-trip the model's function_call item with its namespace field included.",
                f"{at.path}.namespace",
            )


BOOK.permits("T33", "A client's search for tools may be answered with the output of a function call.", grade="A", seen=SEEN, phase=CALLS)
BOOK.permits("T4", "Anything may stand between a call and its output.", grade="B", seen=SEEN, phase=CALLS)
BOOK.permits("T6", "An output may name its tool instead of a call.", grade="C", seen=SEEN, phase=CALLS)
