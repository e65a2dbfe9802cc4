"""What the model says as output items. May know: items, tokens and the seal. Decides: where an answer is cut short.

A *draft* is an item that can be told twice: as it begins (in a stream) and as it is in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from legato.emulator.loose import from_text, mapping, string, whole
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use, Words
from legato.emulator.pieces import Budget
from legato.emulator.responses.items import CALLS
from legato.emulator.responses.prompting import free_text_tools, namespaces, parallel
from legato.emulator.responses.work import Work

Sealer: TypeAlias = Callable[[str, str], str]  # the ids of a reasoning item and of what follows it -> a new blob; empty: it is not shown
_LEAST_LIMIT = 16
_CUT_BY = {"stop": "", "length": "max_output_tokens", "content_filter": "content_filter"}


class Draft(Struct):
    """One output item in the making."""

    kind: Literal["reasoning", "message", "refusal", "function_call", "custom_tool_call"]
    id: str
    text: str = ""  # of a message or refusal; of a call, what the tool is called with
    summary: tuple[str, ...] = ()
    blobs: tuple[str, str, str] = ("", "", "")  # as it is added, when it is done, in the whole response
    call: str = ""
    tool: str = ""
    namespace: str = ""
    phase: str = ""
    cut: bool = False

    def begun(self) -> dict[str, Any]:
        """The item as it is added to a stream."""
        return self._item("in_progress", text="", blob=self.blobs[0], parts=[], summary=())

    def done(self, blob: int = 2) -> dict[str, Any]:
        """The item as it is in the end."""
        return self._item("incomplete" if self.cut else "completed", self.text, self.blobs[blob], [self.part(self.text)], self.summary)

    def part(self, text: str) -> dict[str, Any]:
        """The one part of a message, with as much of its text."""
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": text}
        return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}

    def _item(self, status: str, text: str, blob: str, parts: list[dict[str, Any]], summary: tuple[str, ...]) -> dict[str, Any]:
        if self.kind == "reasoning":
            told = [{"type": "summary_text", "text": part} for part in summary]
            sealed = {"encrypted_content": blob} if blob else {}
            item = {"id": self.id, "type": "reasoning", **sealed, "summary": told}
            return {**item, "status": status} if status == "incomplete" else item
        if self.kind in CALLS:
            called = {CALLS[self.kind]: text, "call_id": self.call, "name": self.tool}
            called |= {"namespace": self.namespace} if self.namespace else {}
            return {"id": self.id, "type": self.kind, "status": status, **called}
        item = {"id": self.id, "type": "message", "status": status, "content": parts}
        return {**item, "phase": self.phase, "role": "assistant"} if self.phase else {**item, "role": "assistant"}


class Output(Struct, frozen=True):
    """All that is said, and what it cost. `cut` is the reason why it is not all that the model had to say."""

    drafts: list[Draft]
    tokens: int
    reasoning_tokens: int
    cut: str = ""


def write_output(say: Say, work: Work, seal: Sealer) -> Output:
    """What the model says, as far as the request's limit allows."""
    limit = whole(work.request.get("max_output_tokens"))
    writer = _Writer(work, Budget(None if limit is None else max(limit, _LEAST_LIMIT)))
    for item in _allowed(say.items, work.request):
        if not writer.budget.exhausted:
            writer.write(item)
    drafts = writer.drafts
    cut = "max_output_tokens" if writer.budget.exhausted else _CUT_BY[say.finish]
    if cut and drafts:
        drafts[-1].cut = True
    _name_phases(drafts, work)
    for number, draft in enumerate(drafts):
        if draft.kind == "reasoning":
            following = drafts[number + 1].id if number + 1 < len(drafts) else ""
            draft.blobs = (seal(draft.id, following), seal(draft.id, following), seal(draft.id, following))
    return Output(drafts, writer.budget.spent, writer.reasoning_tokens, cut)


def _allowed(items: tuple[Item, ...], request: dict[str, Any]) -> list[Item]:
    """With `parallel_tool_calls: false` no more than one call is made, whatever the model had in mind."""
    calls = [item for item in items if isinstance(item, Use)]
    spare = [] if parallel(request) else calls[1:]
    return [item for item in items if not any(item is one for one in spare)]


def _name_phases(drafts: list[Draft], work: Work) -> None:
    if work.model.phases:
        calls = any(draft.kind in CALLS for draft in drafts)
        for draft in drafts:
            if draft.kind in ("message", "refusal"):
                draft.phase = "commentary" if calls else "final_answer"


class _Writer:
    def __init__(self, work: Work, budget: Budget) -> None:
        self.drafts: list[Draft] = []
        self.reasoning_tokens = 0
        self.budget = budget
        self._ids = work.ids
        self._free_text = free_text_tools(work.request)
        self._namespaces = namespaces(work.request)
        asked = mapping(work.request.get("reasoning"))
        self._summarises = bool(string(asked.get("summary")) or string(asked.get("generate_summary")))

    def write(self, item: Item) -> None:
        """One more item; nothing if no token is left for it."""
        before = self.budget.spent
        match item:
            case Thought(text):
                kept = self.budget.take(text)
                if kept or not self.budget.exhausted:
                    self._reason(kept)
                self.reasoning_tokens += self.budget.spent - before
            case Words(text) | Refused(text):
                kept = self.budget.take(text)
                if kept or not self.budget.exhausted:
                    self.drafts.append(Draft("refusal" if isinstance(item, Refused) else "message", self._ids.of("message"), kept))
            case Use():
                self._call(item)

    def _reason(self, text: str) -> None:
        """Thoughts that come one after the other are one item: the provider has no two reasoning items in a row."""
        if not (self.drafts and self.drafts[-1].kind == "reasoning"):
            self.drafts.append(Draft("reasoning", self._ids.of("reasoning")))
        if self._summarises and text:
            self.drafts[-1].summary += (text,)

    def _call(self, use: Use) -> None:
        free = use.tool in self._free_text
        given = string(mapping(from_text(use.arguments)).get("input")) or use.arguments if free else use.arguments
        kept = self.budget.take(given)
        if kept or not self.budget.exhausted:
            kind: Literal["custom_tool_call", "function_call"] = "custom_tool_call" if free else "function_call"
            namespace = self._namespaces.get(use.tool, "")
            self.drafts.append(Draft(kind, self._ids.of(kind), kept, call=use.id or self._ids.call(), tool=use.tool, namespace=namespace))
