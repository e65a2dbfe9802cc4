"""What can happen in a conversation. May know: nothing but data. Decides: the vocabulary of the ledger.

A fact is past tense, immutable and recorded once. Its identity is its position in the ledger; `at` is the time in
milliseconds since the epoch, supplied by whoever records it. Ids that a provider gave (`call_id`, `item_id`,
`response_id`) are attributes for the wire and identify nothing here.

Facts hold no dictionaries: what a model wrote is kept as the text it wrote, so a fact cannot change after the event.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

FORMAT = 1
"""The newest ledger format that this version writes and reads. See `codec.py` for the table of formats."""

MAX_COUNT = 2**53
"""The largest number in a fact. Every JSON reader has it exactly, and a database's integer has room for what is added to it."""

MAX_TIME_MS = 253_402_214_400_000
"""The last day of the year 9999, the last that dates are written for."""

STANDING = "standing"
"""The source of a `Decided` that a standing approval made."""

IMPORTED = "brought along"
"""The source of a `Decided` that was made in another conversation and imported with it."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
"""A number that the decoder refuses unless it is in these bounds: facts may come from anywhere, and are counted with."""

Index: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_COUNT)]
"""A position or an index, or -1 for none."""

TimeMs: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_TIME_MS)]


class CallRef(Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True, gc=False):
    """The identity of a tool call: the position of the reply that made it and its index among that reply's items."""

    position: Count
    index: Index

    def __str__(self) -> str:
        return f"{self.position}.{self.index}"


# -- what messages are made of ---------------------------------------------------------------------------------------


class Text(Struct, frozen=True, tag_field="part", tag="text", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Words."""

    text: str


class Image(Struct, frozen=True, tag_field="part", tag="image", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A picture: either a `url`, or bytes kept in the store's contents under `digest`."""

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
"""Plain text stays plain; anything richer is a tuple of parts."""


# -- what a model's reply is made of ---------------------------------------------------------------------------------


class Words(Struct, frozen=True, tag_field="item", tag="words", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Text that the model addressed to the user. `notes` are its citations, as the provider wrote them (JSON text).

    `extra`: other members that the provider wants back with it, as a JSON object; empty if there are none. Each API's format lists them.
    """

    text: str
    item_id: str = ""
    notes: str = ""
    extra: str = ""


class Reasoning(Struct, frozen=True, tag_field="item", tag="reasoning", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A provider's reasoning: its summary for people, its opaque form for the provider that made it.

    `redacted`: the provider showed no text at all (Anthropic's `redacted_thinking`).
    """

    text: str = ""
    encrypted: str = ""
    item_id: str = ""
    redacted: bool = False


class Call(Struct, frozen=True, tag_field="item", tag="call", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A tool call exactly as the model wrote it; `arguments` is the raw text, valid JSON or not.

    `extra`: other members that the provider wants back with it, as in `Words`.
    """

    tool: str
    arguments: str = "{}"
    call_id: str = ""
    item_id: str = ""
    extra: str = ""


class Refusal(Struct, frozen=True, tag_field="item", tag="refusal", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The model declined, in words."""

    text: str
    item_id: str = ""


class Hosted(Struct, frozen=True, tag_field="item", tag="hosted", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Something that the provider did by itself within the reply: a web search, code it ran, a remote tool. `body` is JSON text."""

    kind: str
    body: str = "{}"
    item_id: str = ""


Item: TypeAlias = Words | Reasoning | Call | Refusal | Hosted


class Usage(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Tokens of one or more model calls. `cached` (read from the provider's cache) and `written` (to it) are part of `input`, `reasoning`
    is part of `output`.

    `cost` counts billionths of a dollar, so that sums are exact. It is None where no price is known, and 0 for what is free. In a sum it
    is the cost of the calls whose price is known; `unpriced` counts the tokens of the others. Sums are recorded, and end at `MAX_COUNT`.

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
        """The cost in dollars, as far as prices are known; None if none is known. Nothing used costs 0."""
        return None if self.cost is None and self.total else (self.cost or 0) / 1_000_000_000

    @property
    def unpriced_tokens(self) -> int:
        """The tokens whose price is not known: `dollars` does not contain what they cost."""
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
        """What was added since `earlier`; nothing if this counts from a later beginning."""
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
"""One object for 'none': a default that is the very same object is not written."""


class Origin(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Where a forked, copied or moved ledger comes from: the session, and how many of its facts lie before this point.

    `kind` says what the new ledger inherits (branch_inheritance.py): a fork or a copy runs beside the original, a move replaces it.
    """

    session: str
    position: Count
    kind: Literal["fork", "copy", "move"] = "fork"


class Standing(Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True, gc=False):
    """'Approve all like this one': one tool of one agent, for one session."""

    agent: str
    tool: str


class OfferedTool(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A tool that the client of a run runs itself, as far as it decides what happens next: its name, and which arguments are secret."""

    name: str
    secrets: tuple[str, ...] = ()


class RunOptions(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The options of a run that a client gives with its message: tools that it runs itself, and the format of the answer.

    `required`: an answer without a call of these tools is not accepted. `typed`: an answer is accepted only if it fits a schema. That
    schema and those of the tools are in the store's contents under `digest` (run_options.py).
    """

    tools: tuple[OfferedTool, ...] = ()
    required: bool = False
    typed: bool = False
    digest: str = ""

    @property
    def judged(self) -> bool:
        """Tell whether a reply without calls is judged before anybody sees it."""
        return self.required or self.typed

    def offers(self, tool: str) -> bool:
        """Tell whether the client has a tool of this name."""
        return any(each.name == tool for each in self.tools)


NO_OPTIONS = RunOptions()


# -- the facts -------------------------------------------------------------------------------------------------------


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The root of all facts."""

    at: TimeMs


class Opened(Fact, frozen=True, tag="opened"):
    """A conversation began, or (with `origin`) goes on from here as a fork, a copy or the new place of another.

    `ledger` is a name that no other ledger has; ids of requests and idempotency keys are made from it.
    """

    ledger: str
    workflow: str
    format: int = FORMAT
    origin: Origin | None = None


class MessageReceived(Fact, frozen=True, tag="message_received"):
    """The user said something. `key` is the sender's name for this delivery.

    `guarded`: an agent's input guardrails are yet to look at it. Until one of them has let it pass (`GuardrailJudged`), it is
    part of nothing.

    `options`: what the client asks of the run, in force from here on; None: nothing, whatever was asked before.
    """

    content: Content
    author: str = ""
    key: str = ""
    guarded: bool = False
    options: RunOptions | None = None


class ModelReplied(Fact, frozen=True, tag="model_replied"):
    """A model's whole reply. `upto` is the last position its request saw; `frame` the digest of what surrounded it.

    `kept` is what a custom history policy chose, as inclusive runs of groups: what user code decided is a fact.

    `origin` says who made it (API, address, model): reasoning goes back only there. `stored`: the provider confirmed that it keeps the
    reply as `response_id`; `base`: what the request was chained on (a response, a conversation); `held`: the digest of the sequence
    that the provider holds after it, so that a later request can be proved to go on from there. `request_id` is the provider's own.

    `guarded`: nobody is shown its words before its output type and the agent's output guardrails have accepted them (`GuardrailJudged`).

    `extra`: what the provider said of the whole reply besides its items, as a JSON object; empty if there is nothing. Each API's format
    lists the members, and which of them a later request takes back.

    `calls_allowed`, `argument_bytes_allowed`: limits that its calls exceed, -1 where they do not. Calls beyond them are not run, and no
    handoff is taken from a reply with too many calls.
    """

    agent: str
    frame: str
    upto: Index
    items: tuple[Item, ...]
    finish: Literal["stop", "length", "filter"] = "stop"
    usage: Usage = NO_USAGE
    model: str = ""
    response_id: str = ""
    stored: bool = False
    base: str = ""
    origin: str = ""
    held: str = ""
    request_id: str = ""
    kept: tuple[tuple[Count, Count], ...] | None = None
    losses: tuple[str, ...] = ()
    took: Count = 0
    guarded: bool = False
    calls_allowed: Index = -1
    argument_bytes_allowed: Index = -1
    extra: str = ""


class ConversationClaimed(Fact, frozen=True, tag="conversation_claimed"):
    """A request is about to go to a conversation that the provider keeps. Without a `ModelReplied` after it, nobody knows what the
    provider holds in there: it is never used again."""

    agent: str
    conversation: str
    upto: Index


class ModelRequestFailed(Fact, frozen=True, tag="model_request_failed"):
    """A model call that left no words: it failed, broke off, or was cancelled. `upto` is what it saw; `final`: not tried again unasked.

    `limit` names the limit that stopped it, which is no failure of the model: it is made again as the same attempt.
    `retry_at`: not made again before this time, in milliseconds since the epoch. A driver that takes over waits until then too. After a
    `final` attempt, only a worker makes the request again unasked: at this time, or when a worker starts before that; never, if it is 0.
    `cause`: the kind of error and its codes, without its words. `conversation_unchanged`: the provider's conversation is as it was
    before the request.
    """

    agent: str
    frame: str
    error: str
    upto: Index = -1
    code: str = ""
    number: Count = 1
    final: bool = False
    usage: Usage = NO_USAGE
    took: Count = 0
    limit: str = ""
    retry_at: TimeMs = 0
    cause: str = ""
    conversation_unchanged: bool = False


class ApprovalChecked(Fact, frozen=True, tag="approval_checked"):
    """Whether a call needs a person's approval was decided; `digest` is of the exact arguments."""

    call: CallRef
    needed: bool
    digest: str


class Decided(Fact, frozen=True, tag="decided"):
    """A request was answered: by whoever called Legato, or by what `source` names.

    `kind` says what was asked: approval of a call, result of a deferred call, outcome of a lost attempt, a limit, or a
    standing approval withdrawn. `digest` is that of the arguments the answer was given for. `options`: what the client asks of the run
    from here on; None: the same as before.
    """

    kind: Literal["approval", "result", "outcome", "limit", "standing"]
    verdict: Literal["approve", "reject", "edit", "answer", "revoke"]
    call: CallRef | None = None
    limit: str = ""
    digest: str = ""
    words: str = ""
    arguments: str = ""
    output: Content = ""
    standing: Standing | None = None
    source: str = field(default="", name="by")
    """What answered: nothing for the caller of Legato, or `STANDING` or `IMPORTED`. Its name in a stored ledger is `by`."""
    key: str = ""
    options: RunOptions | None = None

    @property
    def from_outside(self) -> bool:
        """Whether the caller gave this answer to this conversation."""
        return self.source not in (STANDING, IMPORTED)


class CallStarted(Fact, frozen=True, tag="call_started"):
    """A tool is about to start: the claim on this attempt, recorded before anything happens."""

    call: CallRef
    attempt: Count
    epoch: Count
    digest: str = ""
    """Of the arguments that run; required where they were approved."""


class CallReturned(Fact, frozen=True, tag="call_returned"):
    """A call has its output. `attempt` 0: the tool never ran. `late`: known only after the call had been answered, kept for people."""

    call: CallRef
    output: Content
    attempt: Count = 0
    status: Literal["ok", "error", "timeout", "cancelled", "superseded", "stopped"] = "ok"
    full: str = ""
    late: bool = False
    took: Count = 0


class CallLost(Fact, frozen=True, tag="call_lost"):
    """Nobody knows how this attempt ended: the driver that ran it is gone, or the tool itself cannot tell (`OutcomeUnknown`).

    `missing`: it worked in a child session whose ledger is not there. A new attempt would repeat the whole task, so a person decides,
    although the tool is idempotent.
    """

    call: CallRef
    attempt: Count
    missing: bool = False


class CallPaused(Fact, frozen=True, tag="call_paused"):
    """An attempt ended because its child session cannot go on now: `session`, of which it had seen `length` facts.

    The attempt is over, and the call is not answered: it waits, and is started again when the child session can go on. `error`: the
    child failed, and goes on when the session is resumed. `needed`: the child stopped before a model request of about this size,
    which would exceed a limit of a caller. `retry_at`: the child goes on by itself, not before this time, in milliseconds since the
    epoch. With none of them, the child waits for people.
    """

    call: CallRef
    attempt: Count
    session: str
    length: Count
    took: Count = 0
    error: str = ""
    needed: Usage = NO_USAGE
    retry_at: TimeMs = 0


class ChildUsageReported(Fact, frozen=True, tag="child_usage_reported"):
    """The child session of a call has used this much so far, its own children included: an agent's name and its usage, in pairs.

    `turns` is the number of model replies.
    """

    call: CallRef
    agents: tuple[tuple[str, Usage], ...]
    turns: Count = 0


class HandedOff(Fact, frozen=True, tag="handed_off"):
    """Control passed from `source` to `target` by `call`, whose arguments carry the reason and the input."""

    call: CallRef
    source: str
    target: str


class GuardrailJudged(Fact, frozen=True, tag="guardrail_judged"):
    """User code judged a message, a reply, a call or the conversation. `stop`: it said no (or, for termination: enough).

    `agent` is whose guardrails judged a message; `by` the one that objected.
    """

    kind: Literal["input", "output", "tool", "termination"]
    position: Count
    index: Index = -1
    stop: bool = False
    words: str = ""
    by: str = ""
    agent: str = ""


class AgentPrompted(Fact, frozen=True, tag="agent_prompted"):
    """An autonomous agent was told to go on. Synthetic: no user said this."""

    agent: str
    text: str


class Compacted(Fact, frozen=True, tag="compacted"):
    """For one agent, everything up to `upto` is from now on seen as this summary. The facts stay."""

    agent: str
    upto: Index
    summary: str
    usage: Usage = NO_USAGE


class Cancelled(Fact, frozen=True, tag="cancelled"):
    """Somebody asked the conversation to stop what it was doing.

    `holders`: it works for a call of another conversation, and was stopped because that is being stopped: how many facts its caller had
    then, its caller's caller, and so on. Whoever finds it so may record the stop of the caller too.
    """

    words: str = ""
    holders: tuple[Count, ...] = ()


class Redacted(Fact, frozen=True, tag="redacted"):
    """Words were erased: what stood at `positions`, and at those `along` which were made from it and cannot be read for it.

    The facts there are still there, without their words. `digests` name what stood at each of `positions`, by a key that only
    whoever asked for it was given: without the key they tell nothing, not even to those who guess.
    """

    positions: tuple[Count, ...]
    digests: tuple[str, ...]
    along: tuple[Count, ...] = ()
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
    | AgentPrompted
    | Compacted
    | Cancelled
    | Redacted
)
