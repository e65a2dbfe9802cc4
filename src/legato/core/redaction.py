"""Redaction: erasing a person's text from a ledger.

A redacted fact keeps its kind and its position, a reply its number of items, a call its output. So the ledger still folds, calls stay
paired and every provider format can be encoded; only short fixed texts remain (`texts_for_model.py`).

Copies of the text, and everything made from it in a form that cannot be inspected, are redacted too:

- summaries that cover it, and the reasoning of replies that saw it: what they contain of it is unknown;
- `stored_digest` of later replies: it is a digest of the text too, and the provider's stored sequence no longer matches;
- the digests of arguments, in every fact about those arguments, and an edited call's other arguments;
- verdicts about the text, and errors and turn contexts that quote it;
- images, files and long outputs that no other fact names.

Text that a model or a tool wrote itself stays, even if it repeats the redacted text: `quoting_positions` lists those facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.core.codec import encode_fact
from legato.core.digests import digest_arguments, keyed_digest
from legato.core.facts import (
    AgentPrompted,
    AnyFact,
    ApprovalChecked,
    Call,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    Compacted,
    Content,
    Decided,
    GuardrailJudged,
    HostedToolUse,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    OutputText,
    Reasoning,
    Redacted,
    Refusal,
    ReplyItem,
)
from legato.core.messages import find_content_digests, render_content
from legato.core.texts_for_model import REDACTED_ARGUMENTS, REDACTED_TEXT
from legato.core.turn_context import decode_turn_context, encode_turn_context
from legato.errors import BadInput

MIN_QUOTE_CHARS = 4
"""The minimum length of a text that is searched for in other facts: 'yes' occurs everywhere, and says nothing there."""

REDACTED_ITEM = Reasoning()
"""The replacement for reasoning and for hosted tool use: an item, so that later items keep their indexes."""

NO_DIGESTS: frozenset[str] = frozenset()


class LedgerRedaction(Struct, frozen=True):
    """The changes that a redaction makes to one ledger.

    `replacements`: the new facts, by position. `appended_facts`: facts to append together with the replacements. `new_contents`: new
    contents by digest, with the position of the fact that names them. `dropped_contents`: contents that redacted facts named, and no
    fact names any more. `remaining_contents`: contents that facts still name. `quoting_positions`: facts that keep their text although
    redacted text occurs in it.
    """

    replacements: Mapping[int, AnyFact] = {}
    appended_facts: tuple[AnyFact, ...] = ()
    new_contents: Mapping[str, tuple[int, bytes]] = {}
    dropped_contents: frozenset[str] = NO_DIGESTS
    remaining_contents: frozenset[str] = NO_DIGESTS
    quoting_positions: tuple[int, ...] = ()


class Redactor(Protocol):
    """The object that a store is passed to redact ledgers. The store calls it for each ledger that shares the named facts."""

    def find_needed_contents(self, facts: Sequence[AnyFact], shared_length: int) -> set[str]:
        """Return the digests of the contents that `redact` needs for a ledger."""
        ...

    def redact(self, facts: Sequence[AnyFact], shared_length: int, contents: Mapping[str, bytes]) -> LedgerRedaction:
        """Return the changes to a ledger. Its first `shared_length` facts are shared with the ledger that the caller named."""
        ...


class PositionRedactor(Struct, frozen=True):
    """A redactor for the facts at `positions`, or (None) for all text of a conversation.

    `key` is the key of the digests that remain. `includes_turn_contexts`: erase the instructions and added messages of every turn that saw
    the text, even if they do not quote it.
    """

    positions: frozenset[int] | None
    key: bytes
    at: int
    reason: str = ""
    by: str = ""
    includes_turn_contexts: bool = False

    def find_needed_contents(self, facts: Sequence[AnyFact], shared_length: int) -> set[str]:
        """Return the digests of the turn contexts that may quote the text."""
        targets = self._find_targets(facts, shared_length)
        return set(_find_contexts_after(facts, min(targets))) if targets else set()

    def redact(self, facts: Sequence[AnyFact], shared_length: int, contents: Mapping[str, bytes]) -> LedgerRedaction:
        """Return the changes to a ledger. `positions` are about its first `shared_length` facts."""
        targets = self._find_targets(facts, shared_length)
        if not targets:
            return LedgerRedaction(remaining_contents=frozenset().union(*map(find_content_digests, facts)))
        return _LedgerRedactor(self, facts, targets, contents).redact()

    def _find_targets(self, facts: Sequence[AnyFact], shared_length: int) -> set[int]:
        """Return the positions of the facts that are still to be redacted."""
        done = _find_redacted(facts)
        if self.positions is None:
            return {position for position, fact in enumerate(facts[:shared_length]) if has_text(fact)} - done
        targets = {position for position in self.positions if position < shared_length} - done
        for position in targets:
            if position < 0 or not has_text(facts[position]):
                raise BadInput(
                    f"there is no text to erase at position {position}",
                    found=type(facts[position]).__name__ if position >= 0 else "",
                    do="choose among the messages, replies, outputs and answers in session.facts; nothing was changed",
                )
        return targets

    def __repr__(self) -> str:
        # Without the key, which must not appear in logs.
        return f"<PositionRedactor of {'everything' if self.positions is None else sorted(self.positions)}>"

    def make_digest(self, fact: AnyFact) -> str:
        """Return the keyed digest that identifies a fact after its text is erased."""
        return keyed_digest(encode_fact(fact), self.key)


def _find_redacted(facts: Sequence[AnyFact]) -> set[int]:
    """Return the positions of the facts that have been redacted already."""
    redactions = [fact for fact in facts if isinstance(fact, Redacted)]
    requested = {position for fact in redactions for position in fact.positions}
    return requested | {position for fact in redactions for position in fact.derived if not has_text(facts[position])}


def has_text(fact: AnyFact) -> bool:
    """Return True if a fact has text that can be erased."""
    if isinstance(fact, ModelReplied):  # its `stored_digest` alone is no text
        return any(item != _redact_item(item) for item in fact.items)
    return redact_fact(fact) != fact


def redact_fact(fact: AnyFact) -> AnyFact:
    """Return the fact with its text erased."""
    match fact:
        case MessageReceived():
            return replace(fact, content=_redact_content(fact.content), author="")
        case ModelReplied():
            return replace(fact, items=tuple(map(_redact_item, fact.items)), stored_digest="", extra="")  # `extra` may quote the text
        case ModelRequestFailed() | CallPaused():
            return replace(fact, error=_redact_content(fact.error))
        case Decided():
            arguments = REDACTED_ARGUMENTS if fact.arguments else ""
            return replace(fact, reason=_redact_content(fact.reason), arguments=arguments, output=_redact_content(fact.output))
        case CallReturned():
            return replace(fact, output=_redact_content(fact.output), full_output_digest="")
        case GuardrailJudged() | Cancelled():
            return replace(fact, reason=_redact_content(fact.reason))
        case AgentPrompted():
            return replace(fact, text=_redact_content(fact.text))
        case Compacted():
            return replace(fact, summary=_redact_content(fact.summary))
        case _:
            return fact


def find_redactions_for_branch(facts: Sequence[AnyFact], at: int) -> list[Redacted]:
    """Return the redactions that a branch with the first `at` of these facts must record, because they are recorded after that point.

    Without them the branch would take the replacement texts for real ones, and would run a call whose arguments are erased.
    """
    later = [fact for fact in facts[at:] if isinstance(fact, Redacted)]
    return [_limit_redaction(fact, at) for fact in later if min(fact.positions) < at]


def _limit_redaction(fact: Redacted, at: int) -> Redacted:
    """Return the part of a redaction that is about the first `at` facts.

    Derived facts come after the redacted ones, so at least one of `positions` is among them.
    """
    shared = [(position, digest) for position, digest in zip(fact.positions, fact.digests, strict=True) if position < at]
    positions, digests = zip(*shared, strict=True)
    return replace(fact, positions=positions, digests=digests, derived=tuple(position for position in fact.derived if position < at))


def find_redacted_differences(original: Sequence[AnyFact], redacted: Sequence[AnyFact]) -> dict[int, AnyFact] | None:
    """Return the facts of a redacted ledger that differ from the original, by position; None if other facts differ too.

    Only the length of the shorter ledger is compared.
    """
    redactions = [fact for fact in redacted if isinstance(fact, Redacted)]
    lowest = min((position for fact in redactions for position in fact.positions), default=len(redacted))
    redacted_positions = {position for fact in redactions for position in (*fact.positions, *fact.derived)}
    differences: dict[int, AnyFact] = {}
    for position, (before, after) in enumerate(zip(original, redacted, strict=False)):
        if before == after:
            continue
        is_redacted = position in redacted_positions
        if position < lowest or _strip_redactable(before, is_redacted) != _strip_redactable(after, is_redacted):
            return None
        differences[position] = after
    return differences


def _strip_redactable(fact: AnyFact, is_redacted: bool) -> AnyFact:
    """Return a fact without everything that a redaction may change in it."""
    stripped = redact_fact(fact) if is_redacted else fact
    match stripped:
        case ModelReplied():
            return replace(stripped, stored_digest="", context_digest="", items=tuple(_redact_reasoning(item) for item in stripped.items))
        case ModelRequestFailed():
            return replace(stripped, context_digest="")
        case ApprovalChecked() | CallStarted() | Decided():
            return replace(stripped, digest="")
        case _:
            return stripped


def _redact_content(content: Any) -> Any:
    return REDACTED_TEXT if content else content


def _redact_item(item: ReplyItem) -> ReplyItem:
    match item:
        case OutputText():
            return replace(item, text=_redact_content(item.text), citations="", extra="")
        case Refusal():
            return replace(item, text=_redact_content(item.text))
        case Call():
            arguments = REDACTED_ARGUMENTS if item.arguments not in ("", "{}") else item.arguments
            return replace(item, arguments=arguments, extra="")  # `extra`: signatures of reasoning, or the program that made the call
        case _:
            return REDACTED_ITEM


def _redact_reasoning(item: ReplyItem) -> ReplyItem:
    return REDACTED_ITEM if isinstance(item, Reasoning) else item


def _find_contexts_after(facts: Sequence[AnyFact], lowest: int) -> dict[str, int]:
    """Return the turn contexts that only requests after a position used, each with the position of the first fact that names it."""
    requests = [
        (position, fact)
        for position, fact in enumerate(facts)
        if isinstance(fact, (ModelReplied, ModelRequestFailed)) and fact.context_digest
    ]
    earlier = {fact.context_digest for _, fact in requests if fact.upto < lowest}
    later: dict[str, int] = {}
    for position, fact in requests:
        if fact.context_digest not in earlier:
            later.setdefault(fact.context_digest, position)
    return later


class _LedgerRedactor:
    """The redaction of one ledger, in one pass over its facts."""

    def __init__(self, request: PositionRedactor, facts: Sequence[AnyFact], targets: set[int], contents: Mapping[str, bytes]) -> None:
        self._request = request
        self._facts = facts
        self._targets = targets
        self._lowest = min(targets)
        self._quotes = {text for position in targets for text in _list_texts(facts[position]) if len(text) >= MIN_QUOTE_CHARS}
        self._recorded_arguments: dict[CallRef, str] = {}  # the new arguments of calls in redacted replies
        self._current_arguments: dict[CallRef, str] = {}  # the same with edits applied, for calls whose arguments change
        self._started_calls: set[CallRef] = set()
        self._new_contents: dict[str, tuple[int, bytes]] = {}
        self._context_digests = self._redact_turn_contexts(contents)

    def redact(self) -> LedgerRedaction:
        replacements: dict[int, AnyFact] = {}
        derived: list[int] = []
        for position in range(self._lowest, len(self._facts)):
            fact = self._facts[position]
            without_text = redact_fact(fact) if position in self._targets else self._redact_derived(fact)
            new = self._replace_digests(position, without_text)
            if new != fact:
                replacements[position] = new
            context_changed = getattr(new, "context_digest", "") != getattr(fact, "context_digest", "")
            if (without_text != fact or context_changed) and position not in self._targets:
                derived.append(position)
        positions = tuple(sorted(self._targets))
        redacted = Redacted(
            at=self._request.at,
            positions=positions,
            digests=tuple(self._request.make_digest(self._facts[position]) for position in positions),
            derived=tuple(derived),
            reason=self._request.reason,
            by=self._request.by,
        )
        new_facts = [replacements.get(position, fact) for position, fact in enumerate(self._facts)]
        remaining_contents = frozenset().union(*map(find_content_digests, new_facts))
        old_contents = frozenset().union(*(find_content_digests(self._facts[position]) for position in replacements))
        quoting_positions = tuple(position for position, fact in enumerate(new_facts) if self._has_quote(_list_texts(fact)))
        return LedgerRedaction(
            replacements, (redacted,), self._new_contents, old_contents - remaining_contents, remaining_contents, quoting_positions
        )

    def _redact_derived(self, fact: AnyFact) -> AnyFact:
        """Return a fact that is not a target without everything that was made from the targets."""
        match fact:
            case ModelReplied() if fact.upto >= self._lowest:
                return replace(fact, items=tuple(map(_redact_reasoning, fact.items)))
            case ModelRequestFailed() if fact.upto >= self._lowest and self._has_quote([fact.error]):
                return redact_fact(fact)
            case CallPaused() if self._has_quote([fact.error]):
                return redact_fact(fact)
            case Compacted() if fact.upto >= self._lowest:
                return redact_fact(fact)
            case GuardrailJudged() if fact.position in self._targets:
                return redact_fact(fact)
            case Decided() if fact.arguments and fact.call is not None and fact.call.position in self._targets:
                return replace(fact, arguments=REDACTED_ARGUMENTS)
            case _:
                return fact

    def _replace_digests(self, position: int, fact: AnyFact) -> AnyFact:
        """Return a fact without digests of erased text."""
        match fact:
            case ModelReplied():
                return self._replace_reply_digests(position, fact)
            case ModelRequestFailed():
                return replace(fact, context_digest=self._context_digests.get(fact.context_digest, fact.context_digest))
            case ApprovalChecked():
                return replace(fact, digest=self._find_digest(fact.call, fact.digest))
            case Decided(call=call) if call is not None:
                decided = replace(fact, digest=self._find_digest(call, fact.digest))
                if fact.arguments and (fact.arguments == REDACTED_ARGUMENTS or call in self._current_arguments):
                    self._current_arguments[call] = fact.arguments
                return decided
            case CallStarted():
                self._started_calls.add(fact.call)
                return replace(fact, digest=self._find_digest(fact.call, fact.digest))
            case Opened(origin=origin) if origin is not None and origin.kind != "move":
                # An edit of a call that has not started is void in a branch: see branch_inheritance.py.
                kept = {call: arguments for call, arguments in self._current_arguments.items() if call in self._started_calls}
                self._current_arguments = {**self._recorded_arguments, **kept}
                return fact
            case _:
                return fact

    def _replace_reply_digests(self, position: int, fact: ModelReplied) -> ModelReplied:
        is_target = position in self._targets
        if is_target:
            calls = [(index, item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
            self._recorded_arguments.update((CallRef(position, index), call.arguments) for index, call in calls)
            self._current_arguments.update(self._recorded_arguments)
        stored_digest = "" if fact.upto >= self._lowest or is_target else fact.stored_digest
        context_digest = self._context_digests.get(fact.context_digest, fact.context_digest)
        return replace(fact, stored_digest=stored_digest, context_digest=context_digest)

    def _find_digest(self, call: CallRef, digest: str) -> str:
        return digest_arguments(self._current_arguments[call]) if digest and call in self._current_arguments else digest

    def _redact_turn_contexts(self, contents: Mapping[str, bytes]) -> dict[str, str]:
        """Redact the turn contexts that quote erased text, and return the old and the new digest of each."""
        new_digests: dict[str, str] = {}
        for digest, position in _find_contexts_after(self._facts, self._lowest).items():
            if digest not in contents:
                continue
            context = decode_turn_context(contents[digest])
            messages = tuple(REDACTED_TEXT if self._must_redact(text) else text for text in context.messages)
            instructions = REDACTED_TEXT if self._must_redact(context.instructions) else context.instructions
            if (messages, instructions) != (context.messages, context.instructions):
                new_digests[digest], data = encode_turn_context(replace(context, messages=messages, instructions=instructions))
                self._new_contents[new_digests[digest]] = position, data
        return new_digests

    def _must_redact(self, text: str) -> bool:
        return bool(text) and (self._request.includes_turn_contexts or self._has_quote([text]))

    def _has_quote(self, texts: Sequence[str]) -> bool:
        return any(quote in text for text in texts for quote in self._quotes)


def _list_texts(fact: AnyFact) -> list[str]:
    """Return the texts of a fact, to search for them in other facts."""
    match fact:
        case MessageReceived(content=content):
            return _list_content_texts(content)
        case ModelReplied(items=items):
            return [text for item in items for text in _list_item_texts(item)]
        case ModelRequestFailed(error=error) | CallPaused(error=error):
            return [error]
        case Decided():
            return [fact.reason, *_list_json_strings(fact.arguments), *_list_content_texts(fact.output)]
        case CallReturned(output=output):
            return _list_content_texts(output)
        case GuardrailJudged(reason=reason) | Cancelled(reason=reason):
            return [reason]
        case AgentPrompted(text=text) | Compacted(summary=text):
            return [text]
        case _:
            return []


def _list_content_texts(content: Content) -> list[str]:
    text = render_content(content).strip()
    return [text] if text else []


def _list_item_texts(item: ReplyItem) -> list[str]:
    match item:
        case OutputText(text=text) | Refusal(text=text) | Reasoning(text=text):
            return [text.strip()]
        case Call(arguments=arguments):
            return _list_json_strings(arguments)
        case HostedToolUse(body=body):
            return _list_json_strings(body)


def _list_json_strings(arguments: str) -> list[str]:
    """Return all strings in a JSON document; the raw text if it does not parse."""
    if arguments in ("", "{}", REDACTED_ARGUMENTS):
        return []
    try:
        return list(_iterate_strings(msgspec.json.decode(arguments)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [arguments]


def _iterate_strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value.strip()
        case dict():
            for each in value.values():
                yield from _iterate_strings(each)
        case list():
            for each in value:
                yield from _iterate_strings(each)
