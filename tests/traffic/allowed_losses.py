"""Members of answers that are not recorded, or not sent back, on purpose: each with its reason.

Any other loss fails `make traffic`. A path is written as the table prints it; `*` matches anything. With `values`, only these are allowed.
"""

from __future__ import annotations

from msgspec import Struct

from tests.traffic.corpus import Api
from tests.traffic.members import matches_pattern


class AllowedLoss(Struct, frozen=True):
    """Paths of members that may be lost."""

    api: Api
    paths: tuple[str, ...]
    reason: str
    kinds: tuple[str, ...] = ("lost in reading",)
    """The kinds of losses, as the table calls them."""
    values: tuple[str, ...] = ()

    def covers(self, api: Api, kind: str, path: str, value: str) -> bool:
        """Return True if this entry allows a loss."""
        if api != self.api or kind not in self.kinds or (self.values and value.strip() not in self.values):
            return False
        return any(matches_pattern(path, pattern) for pattern in self.paths)


READING_KINDS = ("lost in reading",)
SENDING_KINDS = ("not sent back",)
ALL_LOSS_KINDS = (*READING_KINDS, *SENDING_KINDS)
ADDITION_KINDS = ("sent back, but never came",)

RESPONSES_LOSSES = (
    AllowedLoss(
        "responses",
        (
            "background", "conversation.id", "frequency_penalty", "instructions*", "max_output_tokens", "max_tool_calls", "metadata.*",
            "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt.*", "prompt_cache_*", "reasoning.*",
            "safety_identifier", "service_tier", "store", "temperature", "text.*", "tool_choice*", "tools[*", "top_logprobs", "top_p",
            "truncation", "user",
        ),
        "settings of the request, repeated: the turn context of the reply has them",
    ),
    AllowedLoss("responses", ("object", "created_at", "completed_at"), "the ledger has its own times"),
    AllowedLoss("responses", ("billing.payer", "total_tokens"), "about the bill, and the sum of what is recorded"),
    AllowedLoss("responses", ("tool_usage.*",), "no tool was used", values=("0",)),
    AllowedLoss("responses", ("tool_usage.web_search.num_requests",), "each search is recorded as an item"),
    AllowedLoss("responses", ("status",), "written by hand: the provider says `completed`", values=("complete",)),
    AllowedLoss(
        "responses", ("*.internal_chat_message_metadata_passthrough.*", "output[*].metadata.turn_id"),
        "the provider's own bookkeeping: its own client does not send it back", ALL_LOSS_KINDS,
    ),
    AllowedLoss(
        "responses", ("status", "incomplete_details.reason"), "recorded as the finish of the reply",
        values=("completed", "incomplete", "max_output_tokens", "content_filter"),
    ),
    AllowedLoss("responses", ("content_filters*", "moderation.*"), "a filter that stops a reply is recorded as its finish"),
    AllowedLoss(
        "responses",
        (
            "output[message].type", "output[message].role", "output[message].content[*].type", "output[function_call].type",
            "*[reasoning].type", "*[reasoning].summary[summary_text].type",
        ),
        "recorded as the kind of the item",
    ),
    AllowedLoss(
        "responses", ("output[*].status", "*[reasoning].status"), "an item is whole, unless its reply was cut short", ALL_LOSS_KINDS,
        ("completed", "incomplete"),
    ),
    AllowedLoss("responses", ("*[*].id",), "content is sent by value, without the ids of items", SENDING_KINDS),
    AllowedLoss("responses", ("output[message].type", "output[message].content[*].type"), "implied by role and text", SENDING_KINDS),
    AllowedLoss(
        "responses",
        tuple(f"wordless message[message].{name}" for name in ("type", "role", "id", "status", "phase", "content[*].type")),
        "nothing is recorded of a message without text, and of a refusal only its text", ALL_LOSS_KINDS,
    ),
    AllowedLoss(
        "responses", ("output[message].content[output_text].logprobs*",),
        "numbers about tokens, not needed in later requests", ALL_LOSS_KINDS
    ),
    AllowedLoss("responses", ("output[file_search_call]*",), "accepted only with an id that was stored", SENDING_KINDS),
    AllowedLoss(
        "responses",
        (
            "output[apply_patch_call]", "output[computer_call]", "output[local_shell_call]", "output[mcp_approval_request]",
            "output[shell_call]",
        ),
        "the client has no tool of that kind, and a call without output is not sent back", SENDING_KINDS,
    ),
    AllowedLoss("responses", ("output[mcp_call].approval_request_id",), "an id that would be looked up", SENDING_KINDS),
    AllowedLoss("responses", ("output[*].created_by",), "its author: requests have no such member", SENDING_KINDS),
    AllowedLoss("responses", ("output[agent_message]", "output[multi_agent_call*]"), "a format that is not published", SENDING_KINDS),
    AllowedLoss("responses", ("*[reasoning].content[reasoning_text].type",), "recorded as the kind of the item"),
    AllowedLoss("responses", ("output[reasoning].summary*",), "for people: the encrypted content has the reasoning", SENDING_KINDS),
    AllowedLoss("responses", ("unsealed reasoning[*",), "reasoning without encrypted content cannot be sent by value", SENDING_KINDS),
    AllowedLoss("responses", ("reasoning at the end[*",), "the API refuses reasoning without a following item", SENDING_KINDS),
    AllowedLoss(
        "responses", ("input[web_search_call].id", "input[mcp_list_tools].id", "input[mcp_call].id", "input[code_interpreter_call].id"),
        "an id of ours that is not looked up",
        ADDITION_KINDS,
    ),
)  # fmt: skip

CHAT_LOSSES = (
    AllowedLoss("chat", ("object", "created"), "the ledger has its own times"),
    AllowedLoss(
        "chat", ("service_tier", "system_fingerprint", "latency_checkpoint.*", "warning", "choices[].message.end_turn"),
        "about the server, and not needed in requests",
    ),
    AllowedLoss("chat", ("metadata.*",), "settings of the request, repeated"),
    AllowedLoss(
        "chat", ("choices[].finish_reason", "choices[].finish_details.type"), "recorded as the finish of the reply",
        values=("stop", "length", "max_tokens", "tool_calls", "function_call", "content_filter"),
    ),
    AllowedLoss("chat", ("choices after the first*",), "an agent gives one reply at a time: the number of choices is recorded as a loss"),
    AllowedLoss("chat", ("choices[].logprobs*",), "not part of the conversation: recorded as a loss"),
    AllowedLoss(
        "chat", ("prompt_filter_results*", "prompt_annotations*", "choices[].content_filter_*", "moderation.*"),
        "a filter that stops a reply is recorded as its finish",
    ),
    AllowedLoss(
        "chat", ("choices[].index", "choices[].message.role", "choices[].message.tool_calls[function].type"),
        "recorded as the kind of the item",
    ),
    AllowedLoss(
        "chat", ("choices[].message.tool_calls[*].index", "message[].tool_calls[*].index"),
        "the order of the pieces of a stream", ALL_LOSS_KINDS,
    ),
    AllowedLoss("chat", ("message[].role",), "a message without content is not sent", SENDING_KINDS),
    AllowedLoss("chat", ("messages[].role",), "every message has it, also if a stream left it out", ADDITION_KINDS),
    AllowedLoss("chat", ("message[].audio*",), "audio is sent back as text: the provider deletes its audio", SENDING_KINDS),
    AllowedLoss("chat", ("message[].annotations*",), "citations are sent back as text only", SENDING_KINDS),
    AllowedLoss(
        "chat", ("message[].context*", "message[].executed_tools*", "message[].images*", "message[].end_turn"),
        "actions of the provider are recorded, and only their text is sent back", SENDING_KINDS,
    ),
    AllowedLoss(
        "chat", ("message[].reasoning_content", "message[].reasoning"),
        "OpenAI's own API has no member for reasoning; a compatible server gets its reasoning back", SENDING_KINDS,
    ),
    AllowedLoss(
        "chat", ("messages[].tool_calls[function].type", "messages[].tool_calls[function].id"),
        "function calls from before tools existed are sent as tool calls, with ids of ours", ADDITION_KINDS,
    ),
)  # fmt: skip

ANTHROPIC_LOSSES = (
    AllowedLoss("anthropic", ("type", "role"), "the same in every message"),
    AllowedLoss(
        "anthropic", ("stop_reason",), "recorded as the finish of the reply",
        values=(
            "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "compaction", "refusal", "model_context_window_exceeded",
        ),
    ),
    AllowedLoss(
        "anthropic", ("content[text].type", "content[tool_use].type", "content[thinking].type", "content[redacted_thinking].type"),
        "recorded as the kind of the item",
    ),
    AllowedLoss("anthropic", ("content[text].text",), "the API refuses texts that are blank", SENDING_KINDS, ("",)),
    AllowedLoss("anthropic", ("content[tool_use].caller.type",), "the default of a call", ALL_LOSS_KINDS, ("direct",)),
    AllowedLoss("anthropic", ("content[thinking].estimated_tokens",), "an estimate; the end of the stream has the count", ALL_LOSS_KINDS),
    AllowedLoss("anthropic", ("container[].expires_at", "container[].skills*"), "a container is requested by its id", SENDING_KINDS),
    AllowedLoss("anthropic", ("unsigned thinking[*",), "the API refuses thinking without its signature", SENDING_KINDS),
    AllowedLoss("anthropic", ("thinking at the end[*",), "the API refuses thinking without a following block", SENDING_KINDS),
    AllowedLoss("anthropic", ("half of a turn[*",), "the parts of a paused turn are joined, and sent back as one", SENDING_KINDS),
)  # fmt: skip

ALLOWED_LOSSES = (*RESPONSES_LOSSES, *CHAT_LOSSES, *ANTHROPIC_LOSSES)


def find_allowed_loss(api: Api, kind: str, path: str, value: str) -> AllowedLoss | None:
    """Return the entry that allows a loss, if there is one."""
    return next((entry for entry in ALLOWED_LOSSES if entry.covers(api, kind, path, value)), None)
