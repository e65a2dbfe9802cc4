"""The phases of the Anthropic Messages rules, in the order in which the API checks them.

The order of the fields was measured, and that rules about the conversation come after them; the order within those was not.
"""

from __future__ import annotations

from legato.providers.rules.anthropic.request_context import AnthropicContext
from legato.providers.rules.anthropic.request_shape import check_fields
from legato.providers.rules.anthropic.turns import pair_with_neighbours
from legato.providers.rules.rule_set import RuleSet

RULES: RuleSet[AnthropicContext] = RuleSet("anthropic")

HEADERS = RULES.add_phase("before the body is read")
BODY = RULES.add_phase("the body")
FIELD_SHAPES = RULES.add_phase(
    "the shape of the fields", find_subjects=lambda context: check_fields(context.request, context.betas, context.removed_fields)
)
MODEL_EXISTS = RULES.add_phase("the model")
SETTINGS = RULES.add_phase("settings that exclude one another")
TURNS = RULES.add_phase("roles and contents")
TOOL_RESULTS = RULES.add_phase("tool uses and their results", find_subjects=lambda context: pair_with_neighbours(context.turns))
TOOL_LOOP = RULES.add_phase("thinking within a tool loop")
THINKING = RULES.add_phase("thinking that is sent back", find_subjects=lambda context: context.thinking_blocks)
CONVERSATION_END = RULES.add_phase("the end of the conversation")
CACHE = RULES.add_phase("caching")
CONTEXT_WINDOW = RULES.add_phase("the context window")
