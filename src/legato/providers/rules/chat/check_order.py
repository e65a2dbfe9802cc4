"""The phases of the Chat Completions rules, in the order in which they are checked.

Of the order only this was measured: C4 comes last of all, and CP4 before CS4. The rest follows the Responses API, whose order was measured.
"""

from __future__ import annotations

from legato.providers.rules.chat.messages import pair_calls_with_outputs
from legato.providers.rules.chat.request_context import ChatContext
from legato.providers.rules.chat.request_shape import check_fields
from legato.providers.rules.rule_set import RuleSet

RULES: RuleSet[ChatContext] = RuleSet("chat")

BODY = RULES.add_phase("the body")
REQUIRED_PARAMETERS = RULES.add_phase("required parameters")
UNKNOWN_PARAMETERS = RULES.add_phase("unknown parameters")
SUPPORTED_PARAMETERS = RULES.add_phase("parameters that the model supports")  # before the ranges of others, as seen in 2025-08
FIELD_SHAPES = RULES.add_phase("the shape of the fields", find_subjects=lambda context: check_fields(context.switches, context.request))
FUNCTION_SCHEMAS = RULES.add_phase("the schemas of functions")
MODEL_EXISTS = RULES.add_phase("the model")
MODEL_CAPABILITIES = RULES.add_phase("the model's capabilities")
PARAMETER_COMBINATIONS = RULES.add_phase("parameters that need one another")
CALLS = RULES.add_phase("calls and their outputs", find_subjects=lambda context: pair_calls_with_outputs(context.request["messages"]))
CONTEXT_WINDOW = RULES.add_phase("the context window")
MESSAGE_CONTENT = RULES.add_phase("messages without content")
