"""Facts: the immutable records that make up a ledger.

A fact is named in the past tense and recorded once. Its position in the ledger identifies it. `at` is a time in milliseconds since
the epoch, supplied by the code that records the fact. Ids from providers (`call_id`, `item_id`, `response_id`) are sent back to the
provider and identify nothing here.

Facts hold no dictionaries: JSON from a model is kept as the text that the model wrote, so a fact cannot change after the event.

Some attributes have a shorter name in a stored ledger; `field(name=...)` gives it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

LEDGER_FORMAT = 1
"""The newest ledger format that this version reads and writes. `codec.py` has the table of formats."""

MAX_COUNT = 2**53
"""The largest number in a fact. Every JSON reader represents it exactly, and a database's integer has room to add to it."""

MAX_TIME_MS = 253_402_214_400_000
"""The last day of the year 9999, the last year that date formats can express."""

SOURCE_STANDING_APPROVAL = "standing"
"""The source of a `Decided` fact that a standing approval caused."""

SOURCE_IMPORT = "brought along"
"""The source of a `Decided` fact that was imported with a conversation from elsewhere."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
"""A number from 0 to `MAX_COUNT`. The decoder checks the bounds: facts may come from anywhere, and code does arithmetic with them."""

Index: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_COUNT)]
"""A position or an index; -1 means none."""

TimeMs: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_TIME_MS)]


class CallRef(Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True, gc=False):
    """The identity of a tool call: the position of the reply that made it and its index among that reply's items."""

    position: Count
    index: Index

    def __str__(self) -> str:
        return f"{self.position}.{self.index}"


# -- parts of messages -------------------------------------------------------------------------------------------------


class Text(Struct, frozen=True, tag_field="part", tag="text", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A text part of a message."""

    text: str


class Image(Struct, frozen=True, tag_field="part", tag="image", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """An image: either a `url`, or bytes kept in the store's contents under `digest`."""

    media_type: str = "image/png"
    url: str = ""
    digest: str = ""


class File(Struct, frozen=True, tag_field="part", tag="file", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A document: either a `url`, or bytes kept in the store's contents under `digest`."""

    name: str = ""
    media_type: str = "application/octet-stream"
    url: str = ""
    digest: str = ""


Part: TypeAlias = Text | Image | File
Content: TypeAlias = str | tuple[Part, ...]
"""Plain text is a string; anything richer is a tuple of parts."""


# -- items of a model's reply ------------------------------------------------------------------------------------------


class OutputText(Struct, frozen=True, tag_field="item", tag="words", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Text that the model wrote to the user. `citations` are JSON text as the provider wrote it.

    `extra`: a JSON object with other members that the provider wants back with the item; empty if there are none. Each API's format
    lists them.
    """

    text: str
    item_id: str = ""
    citations: str = field(default="", name="notes")
    extra: str = ""


class Reasoning(Struct, frozen=True, tag_field="item", tag="reasoning", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A model's reasoning: `text` is a summary for people, `encrypted` the opaque form for the provider that made it.

    `redacted`: the provider returned no text (Anthropic's `redacted_thinking`).
    """

    text: str = ""
    encrypted: str = ""
    item_id: str = ""
    redacted: bool = False


class Call(Struct, frozen=True, tag_field="item", tag="call", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A tool call exactly as the model wrote it. `arguments` is the raw text, valid JSON or not. `extra` is as in `OutputText`."""

    tool: str
    arguments: str = "{}"
    call_id: str = ""
    item_id: str = ""
    extra: str = ""


class Refusal(Struct, frozen=True, tag_field="item", tag="refusal", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Text in which the model declined to answer."""

    text: str
    item_id: str = ""


class HostedToolUse(Struct, frozen=True, tag_field="item", tag="hosted", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A tool that the provider ran itself within the reply: a web search, code execution, a remote tool. `body` is JSON text."""

    kind: str
    body: str = "{}"
    item_id: str = ""


ReplyItem: TypeAlias = OutputText | Reasoning | Call | Refusal | HostedToolUse


class Usage(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The tokens and the cost of one or more model requests.

    `cached` (read from the provider's cache) and `written` (to the cache) are part of `input`; `reasoning` is part of `output`.

    `cost` is in billionths of a dollar, so that sums are exact. It is None if no price is known, and 0 if the request was free. In a sum
    it covers the requests whose price is known; `unpriced` counts the tokens of the others. Sums are recorded, so they stop at
    `MAX_COUNT`.

    >>> Usage(input=10, cost=30) + Usage(input=5)
    Usage(input=15, output=0, cached=0, reasoning=0, cost=30, written=0, unpriced=5)
    """

    input: Count = 0
    output: Count = 0
    cached: Count = 0
    reasoning: Count = 0
    cost: Count | None = None
    written: Count = 0
    unpriced: Count = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    @property
    def dollars(self) -> float | None:
        """The cost in dollars, as far as prices are known; None if none is known. No usage costs 0."""
        return None if self.cost is None and self.total else (self.cost or 0) / 1_000_000_000

    @property
    def unpriced_tokens(self) -> int:
        """The number of tokens whose price is unknown; `dollars` does not include them."""
        return self.total if self.cost is None else self.unpriced

    def __add__(self, other: Usage) -> Usage:
        known = self.cost is not None or other.cost is not None
        return Usage(
            min(self.input + other.input, MAX_COUNT),
            min(self.output + other.output, MAX_COUNT),
            min(self.cached + other.cached, MAX_COUNT),
            min(self.reasoning + other.reasoning, MAX_COUNT),
            min((self.cost or 0) + (other.cost or 0), MAX_COUNT) if known else None,
            min(self.written + other.written, MAX_COUNT),
            min(self.unpriced_tokens + other.unpriced_tokens, MAX_COUNT) if known else 0,
        )

    def increase_over(self, earlier: Usage) -> Usage:
        """Return the usage added since `earlier`; `NO_USAGE` if this sum started later than `earlier` did."""
        added = self - earlier
        return added if min(added.input, added.output, added.cost or 0, added.unpriced) >= 0 else NO_USAGE

    def __sub__(self, earlier: Usage) -> Usage:
        cost, unpriced = (self.cost or 0) - (earlier.cost or 0), self.unpriced_tokens - earlier.unpriced_tokens
        known = cost != 0 or unpriced != self.total - earlier.total
        return Usage(
            self.input - earlier.input,
            self.output - earlier.output,
            self.cached - earlier.cached,
            self.reasoning - earlier.reasoning,
            cost if known else None,
            self.written - earlier.written,
            unpriced if known else 0,
        )


NO_USAGE = Usage()
"""The shared value for no usage. The encoder leaves out a default only if it is this very object."""


class Origin(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The origin of a forked, copied or moved ledger: the session it comes from, and the number of facts taken from it.

    `kind` decides what the new ledger inherits (branch_inheritance.py): a fork or a copy runs beside the original, a move replaces it.
    """

    session: str
    position: Count
    kind: Literal["fork", "copy", "move"] = "fork"


class StandingApproval(Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True, gc=False):
    """An approval of all calls of one tool by one agent, for one session."""

    agent: str
    tool: str


class OfferedTool(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A tool that the client of a run executes itself. `secrets` are the names of its secret arguments."""

    name: str
    secrets: tuple[str, ...] = ()


class RunOptions(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The options of a run that a client sends with its message: tools that it executes itself, and the format of the answer.

    `required`: a reply without a call of these tools is not accepted. `typed`: a final reply must fit a schema. The schemas of the
    answer and of the tools are in the store's contents under `digest` (run_definitions.py).
    """

    tools: tuple[OfferedTool, ...] = ()
    required: bool = False
    typed: bool = False
    digest: str = ""

    @property
    def needs_reply_check(self) -> bool:
        """True if a reply without calls must be checked before it is shown."""
        return self.required or self.typed

    def offers(self, tool: str) -> bool:
        """Return True if the client offers a tool with this name."""
        return any(each.name == tool for each in self.tools)


NO_OPTIONS = RunOptions()


# -- the facts ---------------------------------------------------------------------------------------------------------


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The base class of all facts."""

    at: TimeMs


class Opened(Fact, frozen=True, tag="opened"):
    """A ledger began, or (with `origin`) continues another one from here as a fork, a copy or a moved session.

    `ledger_id` is unique to this ledger; ids of pending requests and idempotency keys are derived from it.
    """

    ledger_id: str = field(name="ledger")
    workflow: str
    format: int = LEDGER_FORMAT
    origin: Origin | None = None


class MessageReceived(Fact, frozen=True, tag="message_received"):
    """A user sent a message. `key` is the sender's idempotency key for this delivery.

    `awaits_guardrails`: the agent's input guardrails have not checked the message yet. Until they let it pass (`GuardrailJudged`), it has
    no effect.

    `options`: the client's options from here on; None removes earlier ones.
    """

    content: Content
    author: str = ""
    key: str = ""
    awaits_guardrails: bool = field(default=False, name="guarded")
    options: RunOptions | None = None


class ModelReplied(Fact, frozen=True, tag="model_replied"):
    """A model gave a whole reply.

    `upto` is the last position that its request included. `context_digest` is the digest of the turn context. `kept_groups` is the choice
    of a custom history policy, as inclusive ranges of group indexes: a decision of user code is recorded.

    `origin` names the API, the address and the model; reasoning is sent back only there. `request_id` is the provider's. `stored`: the
    provider confirmed that it stores the reply as `response_id`. `base` is the response or conversation that the request continued.
    `stored_digest` is the digest of the item sequence that the provider stores after the reply: a later request may continue from there
    if its own sequence has this digest.

    `awaits_checks`: the text is hidden until the output type and the agent's output guardrails have accepted it (`GuardrailJudged`).

    `extra`: a JSON object with what the provider said about the reply as a whole; empty if there is nothing. Each API's format lists the
    members, and which of them a later request sends back.

    `calls_allowed`, `argument_bytes_allowed`: the limits that the calls of the reply exceed, -1 for one that they do not. Calls beyond a
    limit are not run, and no handoff is taken from a reply with too many calls.
    """

    agent: str
    context_digest: str = field(name="frame")
    upto: Index
    items: tuple[ReplyItem, ...]
    finish: Literal["stop", "length", "filter"] = "stop"
    usage: Usage = NO_USAGE
    model: str = ""
    response_id: str = ""
    stored: bool = False
    base: str = ""
    origin: str = ""
    stored_digest: str = field(default="", name="held")
    request_id: str = ""
    kept_groups: tuple[tuple[Count, Count], ...] | None = field(default=None, name="kept")
    losses: tuple[str, ...] = ()
    duration_ms: Count = field(default=0, name="took")
    awaits_checks: bool = field(default=False, name="guarded")
    calls_allowed: Index = -1
    argument_bytes_allowed: Index = -1
    extra: str = ""


class ConversationClaimed(Fact, frozen=True, tag="conversation_claimed"):
    """A request is about to be sent to a conversation that the provider stores.

    If no `ModelReplied` follows, the content of that conversation is unknown, and it is not used again.
    """

    agent: str
    conversation: str
    upto: Index


class ModelRequestFailed(Fact, frozen=True, tag="model_request_failed"):
    """A model request gave no reply: it failed, broke off, or was cancelled.

    `upto` is the last position that the request included, `attempt` its number from 1. `final`: it is not retried automatically.
    `limit` names the limit that stopped it; that is no failure of the model, so the request is repeated with the same attempt number.
    `retry_at`: the request is not repeated before this time, in milliseconds since the epoch, also not by a driver that takes over.
    After a `final` attempt, only a worker repeats it automatically: at this time, or when a worker starts before; never, if it is 0.
    `cause`: the type of the error and its codes, without its message. `conversation_unchanged`: the provider's conversation is as it
    was before the request.
    """

    agent: str
    context_digest: str = field(name="frame")
    error: str
    upto: Index = -1
    code: str = ""
    attempt: Count = field(default=1, name="number")
    final: bool = False
    usage: Usage = NO_USAGE
    duration_ms: Count = field(default=0, name="took")
    limit: str = ""
    retry_at: TimeMs = 0
    cause: str = ""
    conversation_unchanged: bool = False


class ApprovalChecked(Fact, frozen=True, tag="approval_checked"):
    """The approval policy decided if a call needs a person's approval. `digest` is the digest of its exact arguments."""

    call: CallRef
    needed: bool
    digest: str


class Decided(Fact, frozen=True, tag="decided"):
    """A pending request was answered, by the caller of Legato or by the named `source`.

    `kind` is the kind of the request: approval of a call, result of a deferred call, outcome of a lost attempt, a limit, or a standing
    approval that is withdrawn. `digest` is the digest of the arguments that the answer is about. `options`: the client's options from
    here on; None keeps the earlier ones.
    """

    kind: Literal["approval", "result", "outcome", "limit", "standing"]
    verdict: Literal["approve", "reject", "edit", "answer", "revoke"]
    call: CallRef | None = None
    limit: str = ""
    digest: str = ""
    reason: str = field(default="", name="words")
    arguments: str = ""
    output: Content = ""
    standing: StandingApproval | None = None
    source: str = field(default="", name="by")
    """`SOURCE_STANDING_APPROVAL` or `SOURCE_IMPORT`; anything else, usually empty, is an answer of the caller."""
    key: str = ""
    options: RunOptions | None = None

    @property
    def is_from_caller(self) -> bool:
        """True if the caller gave this answer in this conversation."""
        return self.source not in (SOURCE_STANDING_APPROVAL, SOURCE_IMPORT)


class CallStarted(Fact, frozen=True, tag="call_started"):
    """A tool is about to start. This claims the attempt, and is recorded before the tool runs."""

    call: CallRef
    attempt: Count
    epoch: Count
    digest: str = ""
    """The digest of the arguments that run; required if they were approved."""


class CallReturned(Fact, frozen=True, tag="call_returned"):
    """A call has its output. `attempt` 0: the tool never ran. `late`: the call had another output already; this one is kept for people.

    `full_output_digest`: the whole output is in the store's contents under this digest, because `output` was cut.
    """

    call: CallRef
    output: Content
    attempt: Count = 0
    status: Literal["ok", "error", "timeout", "cancelled", "superseded", "stopped"] = "ok"
    full_output_digest: str = field(default="", name="full")
    late: bool = False
    duration_ms: Count = field(default=0, name="took")


class CallLost(Fact, frozen=True, tag="call_lost"):
    """The outcome of an attempt is unknown: its driver is gone, or the tool itself cannot tell (`OutcomeUnknown`).

    `missing`: the attempt used a child session whose ledger is not in the store. A new attempt would repeat the whole task, so a person
    decides even if the tool is idempotent.
    """

    call: CallRef
    attempt: Count
    missing: bool = False


class CallPaused(Fact, frozen=True, tag="call_paused"):
    """An attempt ended because its child session cannot continue now. `length` is the number of facts that `session` had then.

    The call has no output: it waits, and is started again when the child session can continue. `error`: the child session failed, and
    continues when this session is resumed. `needed`: the child session stopped before a model request of about this size, which would
    exceed a limit of a parent session. `retry_at`: the child session continues by itself, not before this time, in milliseconds since
    the epoch. With none of them, the child session waits for people.
    """

    call: CallRef
    attempt: Count
    session: str
    length: Count
    duration_ms: Count = field(default=0, name="took")
    error: str = ""
    needed: Usage = NO_USAGE
    retry_at: TimeMs = 0


class ChildUsageReported(Fact, frozen=True, tag="child_usage_reported"):
    """The child session of a call reported its total usage, its own child sessions included, as pairs of an agent's name and its usage.

    `turns` is the number of model replies.
    """

    call: CallRef
    agents: tuple[tuple[str, Usage], ...]
    turns: Count = 0


class HandedOff(Fact, frozen=True, tag="handed_off"):
    """Control passed from one agent to another by a handoff call, whose arguments carry the reason and the input."""

    call: CallRef
    source: str
    target: str


class GuardrailJudged(Fact, frozen=True, tag="guardrail_judged"):
    """User code checked a message, a reply or a call. `stop`: it objected, for this `reason`.

    `kind` "input" is about the message at `position`, "output" about the reply there, "tool" about the call with this `index` in it.
    `agent` is the agent whose guardrails checked a message. `guardrail` names the guardrail that objected; for a reply also
    "output_type" or "tool_choice".
    """

    kind: Literal["input", "output", "tool"]
    position: Count
    index: Index = -1
    stop: bool = False
    reason: str = field(default="", name="words")
    guardrail: str = field(default="", name="by")
    agent: str = ""


class TerminationJudged(Fact, frozen=True, tag="termination_judged"):
    """The termination condition was evaluated after the reply at `position`. `stop`: the conversation is over."""

    position: Count
    stop: bool = False


class AgentPrompted(Fact, frozen=True, tag="agent_prompted"):
    """An autonomous agent was prompted to continue. The text is synthetic: no user sent it."""

    agent: str
    text: str


class Compacted(Fact, frozen=True, tag="compacted"):
    """A summary replaces everything up to position `upto` in one agent's view. The facts stay in the ledger."""

    agent: str
    upto: Index
    summary: str
    usage: Usage = NO_USAGE


class Cancelled(Fact, frozen=True, tag="cancelled"):
    """A person or a program cancelled what the conversation was doing.

    `parent_lengths`: this is a child session, cancelled because its parent session is being cancelled. They are the numbers of facts
    that the parent session had then, the parent's parent, and so on. A driver that finds this fact may record the cancel of the parent
    session too.
    """

    reason: str = field(default="", name="words")
    parent_lengths: tuple[Count, ...] = field(default=(), name="holders")


class Redacted(Fact, frozen=True, tag="redacted"):
    """Text was erased from the facts at `positions`, and from `derived` facts, which were made from that text.

    The facts remain, without their text. `digests` identify the old fact at each of `positions`. They are keyed, and only the person who
    asked for the redaction has the key: without it, not even a guess can be checked against them.
    """

    positions: tuple[Count, ...]
    digests: tuple[str, ...]
    derived: tuple[Count, ...] = field(default=(), name="along")
    reason: str = ""
    by: str = ""


AnyFact: TypeAlias = (
    Opened
    | MessageReceived
    | ModelReplied
    | ConversationClaimed
    | ModelRequestFailed
    | ApprovalChecked
    | Decided
    | CallStarted
    | CallReturned
    | CallLost
    | CallPaused
    | ChildUsageReported
    | HandedOff
    | GuardrailJudged
    | TerminationJudged
    | AgentPrompted
    | Compacted
    | Cancelled
    | Redacted
)
