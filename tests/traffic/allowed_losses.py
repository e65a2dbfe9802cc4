"""Members of answers that are not recorded, or not sent back, on purpose: each with its reason.

Whatever is not here and is lost fails `make traffic`. A path is written as the table prints it; `*` stands for anything. With `values`,
only these are allowed.
"""

from __future__ import annotations

from msgspec import Struct

from tests.traffic.corpus import Api
from tests.traffic.members import matches


class AllowedLoss(Struct, frozen=True):
    """Paths of members that may be lost."""

    api: Api
    paths: tuple[str, ...]
    reason: str
    kinds: tuple[str, ...] = ("lost in reading",)
    """The kinds of losses, as the table calls them."""
    values: tuple[str, ...] = ()

    def covers(self, api: Api, kind: str, path: str, value: str) -> bool:
        """Whether a loss is one that is allowed."""
        if api != self.api or kind not in self.kinds or (self.values and value.strip() not in self.values):
            return False
        return any(matches(path, pattern) for pattern in self.paths)


READING = ("lost in reading",)
SENDING = ("not sent back",)
BOTH = (*READING, *SENDING)
ADDED = ("sent back, but never came",)

RESPONSES = (
    AllowedLoss(
        "responses",
        (
            "background", "conversation.id", "frequency_penalty", "instructions*", "max_output_tokens", "max_tool_calls", "metadata.*",
            "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt.*", "prompt_cache_*", "reasoning.*",
            "safety_identifier", "service_tier", "store", "temperature", "text.*", "tool_choice*", "tools[*", "top_logprobs", "top_p",
            "truncation", "user",
        ),
        "settings of the request, said again: the frame of the reply has what was asked for",
    ),
    AllowedLoss("responses", ("object", "created_at", "completed_at"), "the ledger has its own times"),
    AllowedLoss("responses", ("billing.payer", "total_tokens"), "about the bill, and the sum of what is recorded"),
    AllowedLoss("responses", ("tool_usage.*",), "nothing was used", values=("0",)),
    AllowedLoss("responses", ("tool_usage.web_search.num_requests",), "each search is recorded as an item"),
    AllowedLoss("responses", ("status",), "written by hand: the provider says `completed`", values=("complete",)),
    AllowedLoss(
        "responses", ("*.internal_chat_message_metadata_passthrough.*", "output[*].metadata.turn_id"),
        "the provider's own bookkeeping: its own client does not send it back", BOTH,
    ),
    AllowedLoss(
        "responses", ("status", "incomplete_details.reason"), "recorded as how the reply ended",
        values=("completed", "incomplete", "max_output_tokens", "content_filter"),
    ),
    AllowedLoss("responses", ("content_filters*", "moderation.*"), "a filter that stops a reply is recorded as how it ended"),
    AllowedLoss(
        "responses",
        (
            "output[message].type", "output[message].role", "output[message].content[*].type", "output[function_call].type",
            "*[reasoning].type", "*[reasoning].summary[summary_text].type",
        ),
        "recorded as the kind of the item",
    ),
    AllowedLoss(
        "responses", ("output[*].status", "*[reasoning].status"), "an item is whole, unless its reply was cut short", BOTH,
        ("completed", "incomplete"),
    ),
    AllowedLoss("responses", ("*[*].id",), "content goes by value, without the ids of items", SENDING),
    AllowedLoss("responses", ("output[message].type", "output[message].content[*].type"), "said by the role and by the text", SENDING),
    AllowedLoss(
        "responses",
        tuple(f"wordless message[message].{name}" for name in ("type", "role", "id", "status", "phase", "content[*].type")),
        "without words nothing of a message is recorded, of a refusal its words", BOTH,
    ),
    AllowedLoss(
        "responses", ("output[message].content[output_text].logprobs*",), "numbers about tokens, which no later request wants back", BOTH
    ),
    AllowedLoss("responses", ("output[file_search_call]*",), "taken back only by an id that was stored", SENDING),
    AllowedLoss(
        "responses",
        (
            "output[apply_patch_call]", "output[computer_call]", "output[local_shell_call]", "output[mcp_approval_request]",
            "output[shell_call]",
        ),
        "it waits for its caller, who has no tool of that kind: unanswered, it is not sent back", SENDING,
    ),
    AllowedLoss("responses", ("output[mcp_call].approval_request_id",), "an id that would be looked up", SENDING),
    AllowedLoss("responses", ("output[*].created_by",), "who made it: requests have no such member", SENDING),
    AllowedLoss("responses", ("output[agent_message]", "output[multi_agent_call*]"), "of a form that nobody has published", SENDING),
    AllowedLoss("responses", ("*[reasoning].content[reasoning_text].type",), "recorded as the kind of the item"),
    AllowedLoss("responses", ("output[reasoning].summary*",), "a summary is for people: the seal has the reasoning", SENDING),
    AllowedLoss("responses", ("unsealed reasoning[*",), "without its seal reasoning cannot go back by value", SENDING),
    AllowedLoss("responses", ("reasoning at the end[*",), "reasoning that nothing followed is refused", SENDING),
    AllowedLoss(
        "responses", ("input[web_search_call].id", "input[mcp_list_tools].id", "input[mcp_call].id", "input[code_interpreter_call].id"),
        "an id of ours that is not looked up",
        ADDED,
    ),
)  # fmt: skip

CHAT = (
    AllowedLoss("chat", ("object", "created"), "the ledger has its own times"),
    AllowedLoss(
        "chat", ("service_tier", "system_fingerprint", "latency_checkpoint.*", "warning", "choices[].message.end_turn"),
        "about the server, and never wanted back",
    ),
    AllowedLoss("chat", ("metadata.*",), "settings of the request, said again"),
    AllowedLoss(
        "chat", ("choices[].finish_reason", "choices[].finish_details.type"), "recorded as how the reply ended",
        values=("stop", "length", "max_tokens", "tool_calls", "function_call", "content_filter"),
    ),
    AllowedLoss("chat", ("choices after the first*",), "an agent says one thing at a time: how many there are is recorded as a loss"),
    AllowedLoss("chat", ("choices[].logprobs*",), "no part of the conversation: recorded as a loss"),
    AllowedLoss(
        "chat", ("prompt_filter_results*", "prompt_annotations*", "choices[].content_filter_*", "moderation.*"),
        "a filter that stops a reply is recorded as how it ended",
    ),
    AllowedLoss(
        "chat", ("choices[].index", "choices[].message.role", "choices[].message.tool_calls[function].type"),
        "recorded as the kind of the item",
    ),
    AllowedLoss(
        "chat", ("choices[].message.tool_calls[*].index", "message[].tool_calls[*].index"),
        "the order of the pieces of a stream", BOTH,
    ),
    AllowedLoss("chat", ("message[].role",), "a message that says nothing is not sent", SENDING),
    AllowedLoss("chat", ("messages[].role",), "said by every message, also where a stream has left it out", ADDED),
    AllowedLoss("chat", ("message[].audio*",), "what was spoken goes back as words: the provider forgets its audio", SENDING),
    AllowedLoss("chat", ("message[].annotations*",), "citations go back as words only", SENDING),
    AllowedLoss(
        "chat", ("message[].context*", "message[].executed_tools*", "message[].images*", "message[].end_turn"),
        "what a provider did by itself is recorded, and only its words go on", SENDING,
    ),
    AllowedLoss(
        "chat", ("message[].reasoning_content", "message[].reasoning"),
        "OpenAI's own API has no place for reasoning; to a compatible server that made it it goes back", SENDING,
    ),
    AllowedLoss(
        "chat", ("messages[].tool_calls[function].type", "messages[].tool_calls[function].id"),
        "calls of the time before there were tools are sent as calls of tools, under ids of ours", ADDED,
    ),
)  # fmt: skip

ANTHROPIC = (
    AllowedLoss("anthropic", ("type", "role"), "the same in every message"),
    AllowedLoss(
        "anthropic", ("stop_reason",), "recorded as how the reply ended",
        values=(
            "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "compaction", "refusal", "model_context_window_exceeded",
        ),
    ),
    AllowedLoss(
        "anthropic", ("content[text].type", "content[tool_use].type", "content[thinking].type", "content[redacted_thinking].type"),
        "recorded as the kind of the item",
    ),
    AllowedLoss("anthropic", ("content[text].text",), "the API refuses texts that are blank", SENDING, ("",)),
    AllowedLoss("anthropic", ("content[tool_use].caller.type",), "what a call has by default", BOTH, ("direct",)),
    AllowedLoss("anthropic", ("content[thinking].estimated_tokens",), "an estimate of what the end of the stream counts", BOTH),
    AllowedLoss("anthropic", ("container[].expires_at", "container[].skills*"), "a container is asked for by its id", SENDING),
    AllowedLoss("anthropic", ("unsigned thinking[*",), "the API refuses thinking without its signature", SENDING),
    AllowedLoss("anthropic", ("thinking at the end[*",), "the API refuses thinking that nothing follows", SENDING),
    AllowedLoss("anthropic", ("half of a turn[*",), "a turn that the provider pauses is joined, and goes back whole", SENDING),
)  # fmt: skip

ALLOWED_LOSSES = (*RESPONSES, *CHAT, *ANTHROPIC)


def allowed_loss(api: Api, kind: str, path: str, value: str) -> AllowedLoss | None:
    """The entry that a loss is allowed by, if there is one."""
    return next((entry for entry in ALLOWED_LOSSES if entry.covers(api, kind, path, value)), None)
