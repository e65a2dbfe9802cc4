"""One accepted request in hand. May know: the store. Decides: what the model gets to read, and what that costs.

The *effective input* is what the request stands on (the chain or the conversation that it names), then its own items, each reference
replaced by what it stands for. *Fresh* are the items that the request itself sent, as they would be stored.
"""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct

from legato.emulator.asks import Ask
from legato.emulator.ids import Ids
from legato.emulator.loose import as_text, mapping, string
from legato.emulator.models import Model
from legato.emulator.responses.held import Store
from legato.emulator.responses.items import ItemIds, input_items, stored_form, tokens_of
from legato.emulator.responses.turns import REFERENCE, Turn
from legato.emulator.tokens import FOR_THE_REPLY, PER_MESSAGE, count
from legato.providers.rules.responses.case import type_of


class Work(Struct, frozen=True):
    """A request and everything that was looked up for it."""

    ask: Ask
    request: dict[str, Any]  # the body; with an Azure path's deployment as its model
    model: Model
    ids: ItemIds
    response: str  # the id of the answer
    conversation: str
    earlier: list[dict[str, Any]]
    fresh: list[dict[str, Any]]
    fresh_tokens: int
    input_tokens: int
    cached_tokens: int  # those that the turns before it had read in the same frame
    frame: str

    @property
    def items(self) -> list[dict[str, Any]]:
        """The effective input."""
        return self.earlier + self.fresh

    @property
    def overflows(self) -> bool:
        """Whether it is more than the model can read, and may not be shortened."""
        return bool(self.model.window) and self.input_tokens > self.model.window and self.request.get("truncation") != "auto"


def request_of(ask: Ask) -> dict[str, Any]:
    """The body as it is judged: a deployment named by the path is its model, and what is null was left out."""
    body = {key: value for key, value in ask.body.items() if value is not None or key in ("model", "input")}
    return {**body, "model": ask.deployment} if ask.deployment else body


def conversation_of(request: dict[str, Any]) -> str:
    """The id of the conversation that a request names, bare or as an object."""
    named = request.get("conversation")
    return string(named) or string(mapping(named).get("id"))


def begin_work(ask: Ask, store: Store, ids: Ids, *, keeps: bool = True) -> Work:
    """Look up what a request stands on. `keeps`: whether the account keeps anything; if not, nothing is stored."""
    request = request_of(ask) if keeps else {**request_of(ask), "store": False}
    name = string(request.get("model"))
    model = store.models.find("openai", name, deployment=ask.azure) or Model(name)
    item_ids = ItemIds(ids, ask.now)
    response, conversation = item_ids.new("resp_"), conversation_of(request)
    turns, gone = _stands_on(ask, request, store)
    earlier = [item for turn in turns for item in turn.items if item["id"] not in gone]
    fresh = [_found(item, ask.account, store, item_ids) for item in input_items(request.get("input"))]
    frame, frame_tokens = _frame(request, model)
    read_before = max((number for number, turn in enumerate(turns, start=1) if turn.frame), default=0)
    same_frame = bool(read_before) and turns[read_before - 1].frame == frame
    fresh_tokens = tokens_of(fresh)
    earlier_tokens = tokens_of(earlier) if gone else sum(turn.tokens for turn in turns)
    return Work(
        ask=ask,
        request=request,
        model=model,
        ids=item_ids,
        response=response,
        conversation=conversation,
        earlier=earlier,
        fresh=fresh,
        fresh_tokens=fresh_tokens,
        input_tokens=FOR_THE_REPLY + frame_tokens + earlier_tokens + fresh_tokens,
        cached_tokens=frame_tokens + sum(turn.tokens for turn in turns[:read_before]) if same_frame and not gone else 0,
        frame=frame,
    )


def tokens_to_judge(ask: Ask, store: Store) -> int:
    """How many tokens a request comes to, counted only if they might be too many: no token is shorter than a byte."""
    request = request_of(ask)
    model = store.models.find("openai", string(request.get("model")), deployment=ask.azure)
    if model is None or not model.window or request.get("truncation") == "auto":
        return 0
    items = input_items(request.get("input"))
    at_most = len(as_text(ask.body).encode()) + sum(turn.tokens for turn in _stands_on(ask, request, store)[0])
    if at_most <= model.window and all(type_of(item) != REFERENCE for item in items):
        return 0
    return begin_work(ask, store, Ids()).input_tokens


def turn_of(work: Work, output: list[dict[str, Any]], parent: str) -> Turn:
    """What the request and its answer add to what is kept."""
    return Turn(
        id=work.response,
        items=work.fresh + output,
        parent=parent,
        inputs=len(work.fresh),
        tokens=work.fresh_tokens + tokens_of(output),
        frame=work.frame,
    )


def _stands_on(ask: Ask, request: dict[str, Any], store: Store) -> tuple[list[Turn], set[str]]:
    """The turns before this one, and the items that were deleted from them."""
    previous, conversation = string(request.get("previous_response_id")), conversation_of(request)
    if previous:
        return store.turns.walk(ask.account, previous), set()
    row = store.conversation(ask.account, conversation) if conversation else None
    return (store.conversation_turns(ask.account, row), set(row["deleted"])) if row else ([], set())


def _found(item: dict[str, Any], account: str, store: Store, ids: ItemIds) -> dict[str, Any]:
    kind, id = type_of(item), string(item.get("id"))
    held = store.turns.item(account, id) if kind == REFERENCE else None
    if held:
        return held.item
    if kind == "reasoning" and not id and (blob := store.seal.open(string(item.get("encrypted_content")))):
        return stored_form({**item, "id": blob.item}, ids)  # its seal says which item it is
    return stored_form(item, ids)


def _frame(request: dict[str, Any], model: Model) -> tuple[str, int]:
    """What stands before all items: a digest that tells it apart, and its tokens."""
    instructions, tools = string(request.get("instructions")), as_text(request["tools"]) if request.get("tools") else ""
    texts = [text for text in (tools, instructions) if text]
    digest = hashlib.sha256("\0".join((model.answers_as, tools, instructions)).encode("utf-8", "replace")).hexdigest()
    return digest[:16], sum(PER_MESSAGE + count(text) for text in texts)
