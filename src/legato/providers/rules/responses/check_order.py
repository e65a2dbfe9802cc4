"""The phases of the Responses rules, in the order in which the server checks them.

The order of the phases numbered 1 to 7 was measured with live requests. The order of the rest is inferred (grade D): each phase takes for
granted what earlier ones checked. The rules are in rules.py (presence, state, lookups), item_rules.py and part_rules.py (the schema
of the input), field_rules.py and tool_rules.py (the schemas of the other fields), call_rules.py and reasoning_rules.py (related items).
"""

from __future__ import annotations

from collections.abc import Iterable

from legato.providers.rules.responses.request_context import DeclaredTool, InputEntry, RequestItem, ResponsesContext
from legato.providers.rules.rule_set import RuleSet

RULES: RuleSet[ResponsesContext] = RuleSet("responses")


def _items(context: ResponsesContext) -> Iterable[RequestItem]:
    return context.items


def _tools(context: ResponsesContext) -> Iterable[DeclaredTool]:
    return context.tools


def _encrypted_reasoning(context: ResponsesContext) -> Iterable[InputEntry]:
    return context.encrypted_reasoning


# 0-3: an object, its required members, and no unknown ones.
BODY = RULES.add_phase("the body")  # its position is inferred
MODEL_PRESENT = RULES.add_phase("the model is present")
INPUT_PRESENT = RULES.add_phase("the input is present")
KNOWN_KEYS = RULES.add_phase("every key is known")

# 4: the schemas of the fields, in the server's order.
MODEL_AND_INPUT_TYPES = RULES.add_phase("the types of model and input")
ITEMS = RULES.add_phase("the schema of the input items", find_subjects=_items)
EARLY_FIELDS = RULES.add_phase("the fields before the tools")
TOOL_LIST = RULES.add_phase("the list of tools")
EACH_TOOL = RULES.add_phase("the schema of the tools", find_subjects=_tools)
TOOL_CHOICE = RULES.add_phase("the tool choice")
LATE_FIELDS = RULES.add_phase("the fields after the tools")
MODEL_EXISTS = RULES.add_phase("the model exists")  # its position is inferred

# 5-7: stored state, an input to answer, the model's capabilities.
STATE = RULES.add_phase("stored state")
SOMETHING_TO_ANSWER = RULES.add_phase("there is something to answer")
MODEL_CAPABILITIES = RULES.add_phase("the model's capabilities")

# 8: the whole input, stored items included. Order inferred.
DUPLICATES = RULES.add_phase("no duplicate items")
LOOKUP = RULES.add_phase("items that are looked up")
ENCRYPTED_CONTENT = RULES.add_phase("encrypted content", find_subjects=_encrypted_reasoning)
CALLS = RULES.add_phase("calls and their outputs")
REASONING = RULES.add_phase("reasoning and its next items")
CONTEXT_WINDOW = RULES.add_phase("the context window")
