"""The model's reply as output items, cut where its tokens end.

A *draft* has both forms of an item: the initial one, for a stream, and the final one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.lenient_json import as_integer, as_object, as_string, parse_partial_json
from legato.emulator.responses.accepted_request import AcceptedRequest
from legato.emulator.responses.items import CALL_TEXT_MEMBERS
from legato.emulator.responses.prompt_builder import allows_parallel_calls, find_free_text_tools, find_namespaces
from legato.emulator.token_budget import TokenBudget

EncryptReasoning: TypeAlias = Callable[[str, str], str]  # (a reasoning item's id, the next item's id) -> encrypted content, empty for none
_MIN_OUTPUT_TOKENS = 16
_INCOMPLETE_REASONS = {"stop": "", "length": "max_output_tokens", "content_filter": "content_filter"}


class ItemDraft(Struct):
    """An output item that is being written."""

    kind: Literal["reasoning", "message", "refusal", "function_call", "custom_tool_call"]
    id: str
    text: str = ""  # the text of a message or refusal; the arguments or input of a call
    summary: tuple[str, ...] = ()
    encrypted_contents: tuple[str, str, str] = ("", "", "")  # in the events `added` and `done`, and in the whole response
    call_id: str = ""
    tool: str = ""
    namespace: str = ""
    phase: str = ""
    is_incomplete: bool = False

    def make_initial_item(self) -> dict[str, Any]:
        """Return the item of a stream's `added` event."""
        return self._make_item("in_progress", text="", encrypted_content=self.encrypted_contents[0], parts=[], summary=())

    def make_final_item(self, content_index: int = 2) -> dict[str, Any]:
        """Return the finished item. `content_index` selects its encrypted content."""
        return self._make_item(
            "incomplete" if self.is_incomplete else "completed",
            self.text,
            self.encrypted_contents[content_index],
            [self.make_part(self.text)],
            self.summary,
        )

    def make_part(self, text: str) -> dict[str, Any]:
        """Return the only part of a message, with this text."""
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": text}
        return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}

    def _make_item(
        self, status: str, text: str, encrypted_content: str, parts: list[dict[str, Any]], summary: tuple[str, ...]
    ) -> dict[str, Any]:
        if self.kind == "reasoning":
            summary_parts = [{"type": "summary_text", "text": part} for part in summary]
            encrypted = {"encrypted_content": encrypted_content} if encrypted_content else {}
            item = {"id": self.id, "type": "reasoning", **encrypted, "summary": summary_parts}
            return {**item, "status": status} if status == "incomplete" else item
        if self.kind in CALL_TEXT_MEMBERS:
            call_members = {CALL_TEXT_MEMBERS[self.kind]: text, "call_id": self.call_id, "name": self.tool}
            call_members |= {"namespace": self.namespace} if self.namespace else {}
            return {"id": self.id, "type": self.kind, "status": status, **call_members}
        item = {"id": self.id, "type": "message", "status": status, "content": parts}
        return {**item, "phase": self.phase, "role": "assistant"} if self.phase else {**item, "role": "assistant"}


class ResponseOutput(Struct, frozen=True):
    """The output items and their tokens. `incomplete_reason` says why the output was cut short; empty if it was not."""

    drafts: list[ItemDraft]
    tokens: int
    reasoning_tokens: int
    incomplete_reason: str = ""


def write_output(reply: FakeReply, accepted: AcceptedRequest, encrypt: EncryptReasoning) -> ResponseOutput:
    """Write the model's reply, as far as the request's token limit allows."""
    token_limit = as_integer(accepted.body.get("max_output_tokens"))
    writer = _OutputWriter(accepted, TokenBudget(None if token_limit is None else max(token_limit, _MIN_OUTPUT_TOKENS)))
    for item in _drop_extra_calls(reply.items, accepted.body):
        if not writer.budget.is_exhausted:
            writer.write(item)
    drafts = writer.drafts
    incomplete_reason = "max_output_tokens" if writer.budget.is_exhausted else _INCOMPLETE_REASONS[reply.finish]
    if incomplete_reason and drafts:
        drafts[-1].is_incomplete = True
    _set_phases(drafts, accepted)
    for number, draft in enumerate(drafts):
        if draft.kind == "reasoning":
            next_item_id = drafts[number + 1].id if number + 1 < len(drafts) else ""
            draft.encrypted_contents = (encrypt(draft.id, next_item_id), encrypt(draft.id, next_item_id), encrypt(draft.id, next_item_id))
    return ResponseOutput(drafts, writer.budget.spent_tokens, writer.reasoning_tokens, incomplete_reason)


def _drop_extra_calls(items: tuple[FakeReplyItem, ...], body: dict[str, Any]) -> list[FakeReplyItem]:
    """Keep one call at most if the request has `parallel_tool_calls: false`."""
    calls = [item for item in items if isinstance(item, ReplyCall)]
    extra_calls = [] if allows_parallel_calls(body) else calls[1:]
    return [item for item in items if not any(item is extra for extra in extra_calls)]


def _set_phases(drafts: list[ItemDraft], accepted: AcceptedRequest) -> None:
    if accepted.model.has_phases:
        calls = any(draft.kind in CALL_TEXT_MEMBERS for draft in drafts)
        for draft in drafts:
            if draft.kind in ("message", "refusal"):
                draft.phase = "commentary" if calls else "final_answer"


class _OutputWriter:
    def __init__(self, accepted: AcceptedRequest, budget: TokenBudget) -> None:
        self.drafts: list[ItemDraft] = []
        self.reasoning_tokens = 0
        self.budget = budget
        self._ids = accepted.item_ids
        self._free_text = find_free_text_tools(accepted.body)
        self._namespaces = find_namespaces(accepted.body)
        reasoning = as_object(accepted.body.get("reasoning"))
        self._wants_summary = bool(as_string(reasoning.get("summary")) or as_string(reasoning.get("generate_summary")))

    def write(self, item: FakeReplyItem) -> None:
        """Write an item, if there are tokens left for it."""
        spent_before = self.budget.spent_tokens
        match item:
            case ReplyThought(text):
                fitting_text = self.budget.spend(text)
                if fitting_text or not self.budget.is_exhausted:
                    self._write_reasoning(fitting_text)
                self.reasoning_tokens += self.budget.spent_tokens - spent_before
            case ReplyText(text) | ReplyRefusal(text):
                fitting_text = self.budget.spend(text)
                if fitting_text or not self.budget.is_exhausted:
                    self.drafts.append(
                        ItemDraft(
                            "refusal" if isinstance(item, ReplyRefusal) else "message", self._ids.make_item_id("message"), fitting_text
                        )
                    )
            case ReplyCall():
                self._write_call(item)

    def _write_reasoning(self, text: str) -> None:
        """Add reasoning. Adjacent thoughts become one item: the provider never has two reasoning items in a row."""
        if not (self.drafts and self.drafts[-1].kind == "reasoning"):
            self.drafts.append(ItemDraft("reasoning", self._ids.make_item_id("reasoning")))
        if self._wants_summary and text:
            self.drafts[-1].summary += (text,)

    def _write_call(self, call: ReplyCall) -> None:
        is_free_text = call.tool in self._free_text
        text = as_string(as_object(parse_partial_json(call.arguments)).get("input")) or call.arguments if is_free_text else call.arguments
        fitting_text = self.budget.spend(text)
        if fitting_text or not self.budget.is_exhausted:
            kind: Literal["custom_tool_call", "function_call"] = "custom_tool_call" if is_free_text else "function_call"
            namespace = self._namespaces.get(call.tool, "")
            self.drafts.append(
                ItemDraft(
                    kind,
                    self._ids.make_item_id(kind),
                    fitting_text,
                    call_id=call.id or self._ids.make_call_id(),
                    tool=call.tool,
                    namespace=namespace,
                )
            )
