"""What goes into the API and comes out of it. May know: msgspec. Decides: names and types, once for reading and for describing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from legato.inspection.listing import Question
from legato.inspection.seen import ModelCall

SESSION = "/api/sessions/{id}"
"""Where a session is."""

Key = Annotated[str, Meta(max_length=400)]
SessionId = Annotated[str, Meta(max_length=400)]
Cursor = Annotated[str, Meta(max_length=500)]
Limit = Annotated[int, Meta(ge=1, le=500)]
Words = Annotated[str, Meta(max_length=50_000)]
SomeWords = Annotated[str, Meta(min_length=1, max_length=1_000_000)]


class Given(Struct, frozen=True, forbid_unknown_fields=True):
    """What is sent to us: a field that is not known is a mistake of whoever sent it."""


# -- workflows ---------------------------------------------------------------------------------------------------------


class ToolShape(Struct, frozen=True):
    """A tool of an agent. `asks`: whether people are asked before it runs; `deferred`: its result comes from elsewhere."""

    name: str
    description: str
    parameters: dict[str, Any]
    asks: bool | Literal["depends"]
    deferred: bool
    secrets: list[str]


class AgentShape(Struct, frozen=True):
    """An agent of a workflow."""

    name: str
    model: str
    description: str
    tools: list[ToolShape]


class HandoffShape(Struct, frozen=True):
    """Who may hand over to whom, and by which tool."""

    source: str
    target: str
    tool: str
    asks: bool


class WorkflowShape(Struct, frozen=True):
    """A workflow that is served."""

    name: str
    description: str
    start: str
    agents: list[AgentShape]
    handoffs: list[HandoffShape]


class About(Struct, frozen=True):
    """What is served here. `drives`: this process drives the conversations itself; else workers elsewhere do."""

    legato: str
    store: str
    drives: bool
    workflows: list[WorkflowShape]


# -- giving ------------------------------------------------------------------------------------------------------------


class TextPart(Given, tag_field="part", tag="text", frozen=True):
    """Words."""

    text: SomeWords


class ImagePart(Given, tag_field="part", tag="image", frozen=True):
    """A picture, by its bytes."""

    base64: str
    media_type: str = "image/png"
    name: str = ""


class FilePart(Given, tag_field="part", tag="file", frozen=True):
    """A document, by its bytes."""

    base64: str
    media_type: str = "application/octet-stream"
    name: str = ""


MessageParts = Annotated[list[TextPart | ImagePart | FilePart], Meta(min_length=1, max_length=50)]


class BeginBody(Given, frozen=True):
    """A new session; with a message, it begins to be driven."""

    workflow: str = ""
    id: SessionId = ""
    message: SomeWords | MessageParts | None = None
    key: Key = ""


class SayBody(Given, frozen=True):
    """A message. With a `key` it is recorded once, however often it is delivered."""

    message: SomeWords | MessageParts
    key: Key = ""


class CancelBody(Given, frozen=True):
    """Why the conversation is stopped, for the record."""

    words: Words = ""


class AnswerBody(Given, frozen=True):
    """An answer to a request. `digest` is that of the arguments which were looked at: it is required where a call is asked about."""

    request: Annotated[str, Meta(min_length=1, max_length=400)]
    verdict: Literal["approve", "reject", "edit", "answer"]
    digest: str = ""
    always: bool = False
    words: Words = ""
    arguments: dict[str, Any] | None = None
    value: Any = None
    key: Key = ""


class ForkBody(Given, frozen=True):
    """`at`: how many facts to share, all by default. `id`: what the new session is called, made up by default."""

    at: Annotated[int, Meta(ge=0)] | None = None
    id: SessionId = ""


class SessionsQuery(Given, frozen=True):
    """`search` finds ids and words that were said. `after` is the `next` of the page before."""

    search: Annotated[str, Meta(max_length=400)] = ""
    status: Literal["", "new", "running", "waiting", "pending", "terminated", "cancelled", "failed", "damaged", "unreadable"] = ""
    workflow: Annotated[str, Meta(max_length=400)] = ""
    limit: Limit = 50
    after: Cursor = ""


class InboxQuery(Given, frozen=True):
    """`after` is the `next` of the page before."""

    limit: Limit = 50
    after: Cursor = ""


class FactsQuery(Given, frozen=True):
    """Which facts: from a position on."""

    start: Annotated[int, Meta(ge=0)] = field(default=0, name="from")
    limit: Annotated[int, Meta(ge=1, le=5_000)] = 500


class ExportQuery(Given, frozen=True):
    """As what. `session` is exact, has the session's secrets, and wants `exact=yes`."""

    form: Literal["json", "markdown", "session"] = field(default="json", name="as")
    exact: Literal["", "yes"] = ""


class EventsQuery(Given, frozen=True):
    """`after`: the `id` of the last event that was received, where the header `Last-Event-ID` cannot be sent."""

    after: Annotated[str, Meta(max_length=100)] = ""


# -- what is shown -----------------------------------------------------------------------------------------------------


class Rests(Struct, frozen=True):
    """How a session is after what was given to it."""

    status: str


class Taken(Struct, frozen=True):
    """What was given is recorded: how many facts there are, and how the session is."""

    facts: int
    status: str


class PendingShape(Struct, frozen=True):
    """What blocks a conversation until somebody answers."""

    pending: list[Question]


class CallsShape(Struct, frozen=True):
    """The replies of a session's models."""

    calls: list[ModelCall]


class Deleted(Struct, frozen=True):
    """It is gone."""

    deleted: bool
