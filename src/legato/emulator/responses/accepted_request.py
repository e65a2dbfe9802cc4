"""An accepted request with its effective input and its token counts.

The *effective input* is the history that the request continues (the chain or the conversation that it names), then its own items, with
references replaced by the items that they name. *New items* are the request's own, in their stored form.
"""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct

from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_object, as_string, encode_json_or_empty
from legato.emulator.model_catalogue import CatalogueModel
from legato.emulator.request_types import EmulatorRequest
from legato.emulator.responses.items import ItemIdGenerator, count_item_tokens, list_input_items, to_stored_item
from legato.emulator.responses.provider_state import ResponsesStorage
from legato.emulator.responses.stored_turns import REFERENCE_TYPE, StoredTurn
from legato.emulator.tokens import MESSAGE_OVERHEAD_TOKENS, REPLY_OVERHEAD_TOKENS, count_tokens
from legato.providers.rules.responses.request_context import infer_item_type


class AcceptedRequest(Struct, frozen=True):
    """A request with everything that was looked up for it."""

    request: EmulatorRequest
    body: dict[str, Any]  # with an Azure path's deployment as its model
    model: CatalogueModel
    item_ids: ItemIdGenerator
    response_id: str
    conversation_id: str  # empty: the request names no conversation
    earlier_items: list[dict[str, Any]]
    new_items: list[dict[str, Any]]
    new_item_tokens: int
    input_tokens: int
    cached_tokens: int  # the tokens that earlier turns read with the same context
    context_digest: str  # of the instructions, tools and model

    @property
    def items(self) -> list[dict[str, Any]]:
        """The effective input."""
        return self.earlier_items + self.new_items

    @property
    def exceeds_context_window(self) -> bool:
        """True if the input is longer than the model's context window, and the request does not allow truncation."""
        return bool(self.model.context_window) and self.input_tokens > self.model.context_window and self.body.get("truncation") != "auto"


def normalize_body(request: EmulatorRequest) -> dict[str, Any]:
    """Return the body for checks: without null members, and with a path's deployment as its model."""
    body = {key: value for key, value in request.body.items() if value is not None or key in ("model", "input")}
    return {**body, "model": request.deployment} if request.deployment else body


def find_conversation_id(body: dict[str, Any]) -> str:
    """Return the id of the conversation that a body names, as a string or as an object."""
    conversation = body.get("conversation")
    return as_string(conversation) or as_string(as_object(conversation).get("id"))


def accept_request(
    request: EmulatorRequest, storage: ResponsesStorage, ids: IdGenerator, *, stores_anything: bool = True
) -> AcceptedRequest:
    """Look up the history that a request continues. `stores_anything` is False for an account with zero data retention."""
    body = normalize_body(request) if stores_anything else {**normalize_body(request), "store": False}
    name = as_string(body.get("model"))
    model = storage.models.find("openai", name, is_deployment=request.is_azure) or CatalogueModel(name)
    item_ids = ItemIdGenerator(ids, request.now)
    response_id, conversation_id = item_ids.make_id("resp_"), find_conversation_id(body)
    turns, deleted_ids = _find_earlier_turns(request, body, storage)
    earlier_items = [item for turn in turns for item in turn.items if item["id"] not in deleted_ids]
    new_items = [_resolve_item(item, request.account, storage, item_ids) for item in list_input_items(body.get("input"))]
    context_digest, context_tokens = _digest_context(body, model)
    last_model_turn = max((number for number, turn in enumerate(turns, start=1) if turn.context_digest), default=0)
    has_same_context = bool(last_model_turn) and turns[last_model_turn - 1].context_digest == context_digest
    new_item_tokens = count_item_tokens(new_items)
    earlier_tokens = count_item_tokens(earlier_items) if deleted_ids else sum(turn.tokens for turn in turns)
    return AcceptedRequest(
        request=request,
        body=body,
        model=model,
        item_ids=item_ids,
        response_id=response_id,
        conversation_id=conversation_id,
        earlier_items=earlier_items,
        new_items=new_items,
        new_item_tokens=new_item_tokens,
        input_tokens=REPLY_OVERHEAD_TOKENS + context_tokens + earlier_tokens + new_item_tokens,
        cached_tokens=context_tokens + sum(turn.tokens for turn in turns[:last_model_turn]) if has_same_context and not deleted_ids else 0,
        context_digest=context_digest,
    )


def count_tokens_to_check(request: EmulatorRequest, storage: ResponsesStorage) -> int:
    """Count a request's input tokens, or return 0 if they cannot exceed the context window: no token is shorter than a byte."""
    body = normalize_body(request)
    model = storage.models.find("openai", as_string(body.get("model")), is_deployment=request.is_azure)
    if model is None or not model.context_window or body.get("truncation") == "auto":
        return 0
    items = list_input_items(body.get("input"))
    max_tokens = len(encode_json_or_empty(request.body).encode()) + sum(
        turn.tokens for turn in _find_earlier_turns(request, body, storage)[0]
    )
    if max_tokens <= model.context_window and all(infer_item_type(item) != REFERENCE_TYPE for item in items):
        return 0
    return accept_request(request, storage, IdGenerator()).input_tokens


def make_turn(accepted: AcceptedRequest, output: list[dict[str, Any]], parent_id: str) -> StoredTurn:
    """Return the turn that stores a request's items and its output."""
    return StoredTurn(
        id=accepted.response_id,
        items=accepted.new_items + output,
        parent_id=parent_id,
        input_count=len(accepted.new_items),
        tokens=accepted.new_item_tokens + count_item_tokens(output),
        context_digest=accepted.context_digest,
    )


def _find_earlier_turns(request: EmulatorRequest, body: dict[str, Any], storage: ResponsesStorage) -> tuple[list[StoredTurn], set[str]]:
    """Return the turns that a request continues, and the ids of the items that were deleted from them."""
    previous_id, conversation_id = as_string(body.get("previous_response_id")), find_conversation_id(body)
    if previous_id:
        return storage.turns.list_chain(request.account, previous_id), set()
    row = storage.find_conversation(request.account, conversation_id) if conversation_id else None
    return (storage.list_turns(request.account, row), set(row["deleted"])) if row else ([], set())


def _resolve_item(item: dict[str, Any], account: str, storage: ResponsesStorage, ids: ItemIdGenerator) -> dict[str, Any]:
    kind, id = infer_item_type(item), as_string(item.get("id"))
    stored = storage.turns.find_item(account, id) if kind == REFERENCE_TYPE else None
    if stored:
        return stored.item
    if kind == "reasoning" and not id and (content := storage.cipher.decrypt_reasoning(as_string(item.get("encrypted_content")))):
        return to_stored_item({**item, "id": content.item_id}, ids)  # the encrypted content has the item's id
    return to_stored_item(item, ids)


def _digest_context(body: dict[str, Any], model: CatalogueModel) -> tuple[str, int]:
    """Return a digest of the instructions, tools and model, and the tokens of the instructions and tools."""
    instructions, tools = as_string(body.get("instructions")), encode_json_or_empty(body["tools"]) if body.get("tools") else ""
    texts = [text for text in (tools, instructions) if text]
    digest = hashlib.sha256("\0".join((model.reply_name, tools, instructions)).encode("utf-8", "replace")).hexdigest()
    return digest[:16], sum(MESSAGE_OVERHEAD_TOKENS + count_tokens(text) for text in texts)
