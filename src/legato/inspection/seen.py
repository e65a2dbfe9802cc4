"""What an agent saw when it replied, and why. May know: sessions. Decides: how a model call is explained, and what it is compared with.

Three things of each call: the conversation up to then, every part of it marked as shown or not with the rule that decided; the request
as the provider was sent it, compiled again from the ledger; and what had changed since the call before, and since the last call of
another agent, which is what a handoff changes. Secrets are digests in all of it. Pictures and files stand in a request as long lines of
letters: in what is shown, their digests stand there.

A call is looked at in one pass over the facts before it, however many it is compared with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from legato.core.explanation import Explained, Mark, policy_told
from legato.core.facts import ModelReplied
from legato.core.groups import Group, spoken
from legato.core.messages import text_of
from legato.core.turn_context import Frame
from legato.inspection.differences import unified
from legato.inspection.looking import Look, looks, readable, replies
from legato.inspection.spending import Passed, TokenRange, Used, first_replies, sent_again, used
from legato.inspection.wired import Proof
from legato.runtime.past_requests import numbered
from legato.runtime.session import Session

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ModelCall(Struct, frozen=True, kw_only=True):
    """One reply of a model. `n` counts them from 0; `upto` is the last position that its request saw.

    `after_handoff`: the handoff whose first reply it is; then `resent` says how many tokens were sent again because of it (see `spending`).
    """

    n: int
    position: int
    agent: str
    model: str
    at: int
    took: int
    upto: int
    frame: str
    finish: str
    usage: Used
    after_handoff: Passed | None
    resent: TokenRange | None
    losses: tuple[str, ...]


class ShownCall(Struct, frozen=True):
    """A tool call of a reply, and its output. `arguments` are the text that the model wrote, or that a person changed it to."""

    id: str
    tool: str
    arguments: str
    output: str
    status: str


class Item(Struct, frozen=True, kw_only=True):
    """One group of the conversation. `shown`: whether the agent was shown it; `rule`: why."""

    position: int
    kind: str
    author: str
    text: str
    calls: tuple[ShownCall, ...]
    handed_to: str
    shown: Mark
    rule: str


class ShownTool(Struct, frozen=True):
    """A tool as the model was told of it."""

    name: str
    description: str
    parameters: Any


class Policy(Struct, frozen=True):
    """The history policy that was in force, as data and in words."""

    policy: dict[str, Any]
    told: str


class Names(Struct, frozen=True):
    """What is there and was not, what was there and is not, and what is another than it was."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class Positions(Struct, frozen=True):
    """The same of groups: `changed` are those of which now more, or less, is shown."""

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


class Changed(Struct, frozen=True):
    """Something that is another than it was."""

    before: Any
    after: Any


class Diff(Struct, frozen=True, kw_only=True):
    """What is different from another call. `with` is its number. What is the same is empty, or None."""

    with_: int = field(name="with")
    agent: str
    instructions: str
    added: Changed | None
    tools: Names
    history: Changed | None
    options: Changed | None
    items: Positions
    body: str


class Changes(Struct, frozen=True):
    """What is different from the call before, and from the last call of another agent."""

    call: Diff | None
    agent: Diff | None


class Seen(ModelCall, frozen=True, kw_only=True):
    """A model call, explained. `added`: messages that were put before the conversation; `summary`: what stands for its beginning.

    `wire` is the API that it went over, `body` the request that was sent. `proof`: a digest of the request was recorded with the reply,
    and fits the body, or does not; empty where none was. A model of the user's own has no wire; then the body is what Legato handed it.
    """

    instructions: str
    added: tuple[str, ...]
    tools: tuple[ShownTool, ...]
    history: Policy
    output: Any
    options: Any
    items: tuple[Item, ...]
    summary: str
    wire: str
    body: str
    proof: Proof
    changes: Changes


async def calls(session: Session) -> list[ModelCall]:
    """Every reply of a session, in order."""
    first, resent = first_replies(session.state.facts), await sent_again(session)
    return [ModelCall(**_about(n, *found, first, resent)) for n, found in enumerate(replies(session))]


async def seen(session: Session, n: int = -1) -> Seen:
    """A reply's call, explained, and compared. `n` counts replies from 0, or from the end."""
    number, found = numbered(session, n), replies(session)
    agent = found[number][1].agent
    other = next((each for each in range(number - 1, -1, -1) if found[each][1].agent != agent), -1)
    looked = await looks(session, {number, number - 1, other} - {-1})
    about = _about(number, *found[number], first_replies(session.state.facts), await sent_again(session))
    return await asyncio.to_thread(_compared_with, looked, number, other, about)  # the thread has the calls that were looked at to itself


def _compared_with(looked: dict[int, Look], number: int, other: int, about: dict[str, Any]) -> Seen:
    look, frame = looked[number], looked[number].request.frame
    bodies = {each: _Body(looked[each]) for each in looked}
    diffs = {each: _diff(looked[each], look, bodies[each].pretty, bodies[number].pretty) for each in looked if each != number}
    return Seen(
        **about,
        instructions=frame.instructions,
        added=frame.messages,
        tools=tuple(ShownTool(tool.name, tool.description, _plain(tool.parameters)) for tool in frame.tools),
        history=Policy(msgspec.to_builtins(frame.history), policy_told(frame.history)),
        output=_plain(frame.output),
        options=_plain(frame.options),
        items=tuple(map(item, look.told)),
        summary=look.request.summary,
        wire=bodies[number].wire,
        body=bodies[number].text,
        proof=bodies[number].proof,
        changes=Changes(diffs.get(number - 1), diffs.get(other)),
    )


def item(told: Explained) -> Item:
    """A group of the conversation, as a page shows it beside the request. Its secrets are hidden already."""
    group = told.group
    return Item(
        position=group.position,
        kind=group.kind,
        author=group.agent or (group.author or "user" if group.kind == "said" else ""),
        text=spoken(group.fact) if group.fact is not None else text_of(group.content),
        calls=_calls(group),
        handed_to=group.handed_to,
        shown=told.shown,
        rule=told.rule,
    )


def _calls(group: Group) -> tuple[ShownCall, ...]:
    return tuple(
        ShownCall(
            str(call.ref),
            call.call.tool,
            call.arguments,
            text_of(call.output.content) if call.output is not None else "",
            call.output.status if call.output is not None else "",
        )
        for call in group.calls
    )


def _about(n: int, position: int, fact: ModelReplied, first: Mapping[int, Passed], resent: Mapping[int, TokenRange]) -> dict[str, Any]:
    return {
        "n": n,
        "position": position,
        "agent": fact.agent,
        "model": fact.model,
        "at": fact.at,
        "took": fact.took,
        "upto": fact.upto,
        "frame": fact.frame,
        "finish": fact.finish,
        "usage": used(fact.usage),
        "after_handoff": first.get(position),
        "resent": resent.get(position),
        "losses": fact.losses,
    }


# -- what changed ------------------------------------------------------------------------------------------------------


class _Body:
    """A request as text, and laid out in lines for a comparison."""

    def __init__(self, look: Look) -> None:
        wired = look.wired()
        self.wire, self.proof = wired.wire, wired.proof
        self.text = readable(wired.body, look.request.contents)
        self.pretty = msgspec.json.format(self.text, indent=2)


def _diff(was: Look, now: Look, body: str, body_now: str) -> Diff:
    before, after = was.request.frame, now.request.frame
    return Diff(
        with_=was.n,
        agent=was.fact.agent,
        instructions=unified(before.instructions, after.instructions, before.agent, after.agent),
        added=_changed(before.messages, after.messages),
        tools=Names(*_compared(_tools(before), _tools(after))),
        history=_changed(policy_told(before.history), policy_told(after.history)),
        options=_changed(_plain(before.options), _plain(after.options)),
        items=Positions(*_compared(was.marks, now.marks)),
        body=unified(body, body_now, f"call {was.n} of {before.agent}", f"call {now.n} of {after.agent}"),
    )


def _tools(frame: Frame) -> dict[str, object]:
    return {tool.name: tool for tool in frame.tools}


def _compared(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[tuple[K, ...], tuple[K, ...], tuple[K, ...]]:
    """What was added, removed and changed, each in the order in which it stands."""
    return (
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
        tuple(name for name in after if name in before and after[name] != before[name]),
    )


def _changed(before: Any, after: Any) -> Changed | None:
    return Changed(before, after) if before != after else None


def _plain(text: str) -> Any:
    """What was recorded as JSON text, as data; None if it is none."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
