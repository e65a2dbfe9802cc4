"""Erasing a person's words. May know: facts and frames. Decides: what stands in their place, and what goes along.

A fact that loses its words stays what it was: the same kind at the same position, a reply with as many items, a call with its output.
So the ledger folds, calls stay paired and every wire can be written; only short fixed texts are left (`messages_to_model.py`).

What goes along is what was made from the words and cannot be read for them, or what is a copy:

- summaries that cover them, and the reasoning of replies that saw them: nobody can tell what of it is in there;
- what a provider is known to hold after them (`held`): it is a digest of the words too, and the proof is void;
- the digests of arguments, in every fact that was about those arguments, and an edited call's other arguments;
- verdicts about what was erased, and errors and frames that quote it;
- pictures, files and long outputs that nothing else names any more.

What a model or a tool said in words of its own stays, whatever it repeats: `quoted` says where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.core.codec import encode
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
    Hosted,
    Item,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    Reasoning,
    Redacted,
    Refusal,
    Words,
)
from legato.core.messages import contents_of, text_of
from legato.core.messages_to_model import ERASED, ERASED_ARGUMENTS
from legato.core.turn_context import decode_frame, encode_frame
from legato.errors import BadInput

SHORTEST_QUOTE = 4
"""Letters that a text has at least to be looked for elsewhere: 'yes' is everywhere, and means nothing there."""

NOTHING = Reasoning()
"""What is left of reasoning, and of what the provider did by itself: an item, so that those behind it keep their numbers."""

NO_CONTENTS: frozenset[str] = frozenset()


class Erased(Struct, frozen=True):
    """What an erasure is to one ledger.

    `replaced`: the facts as they are from now on, by position; `added`: what is appended, together with that. `contents` are new ones, by
    digest, with the position they belong to; `dropped` were named by what is erased, `named` are named all the same. `quoted`:
    facts that keep their words although some that were erased occur in them.
    """

    replaced: Mapping[int, AnyFact] = {}
    added: tuple[AnyFact, ...] = ()
    contents: Mapping[str, tuple[int, bytes]] = {}
    dropped: frozenset[str] = NO_CONTENTS
    named: frozenset[str] = NO_CONTENTS
    quoted: tuple[int, ...] = ()


class Erases(Protocol):
    """What a store is given to erase words. It asks about each ledger in turn."""

    def looks_at(self, facts: Sequence[AnyFact], shared: int) -> set[str]:
        """The digests of the contents that have to be looked at to tell what becomes of a ledger."""
        ...

    def erased(self, facts: Sequence[AnyFact], shared: int, contents: Mapping[str, bytes]) -> Erased:
        """What becomes of a ledger with these facts, of which the first `shared` are those of the ledger that was named."""
        ...


class Erasing(Struct, frozen=True):
    """What is to be erased: `positions`, or (None) all words of a conversation. Given to a store, which asks it for every ledger that
    shares what it names.

    `key` is for the digests that stay. `frames`: also the instructions and added messages of every turn that saw the words, whether they
    quote them or not.
    """

    positions: frozenset[int] | None
    key: bytes
    at: int
    reason: str = ""
    by: str = ""
    frames: bool = False

    def looks_at(self, facts: Sequence[AnyFact], shared: int) -> set[str]:
        """The digests of the frames it has to see the bytes of."""
        targets = self._targets(facts, shared)
        return set(_made_after(facts, min(targets))) if targets else set()

    def erased(self, facts: Sequence[AnyFact], shared: int, contents: Mapping[str, bytes]) -> Erased:
        """What becomes of a ledger with these facts, of which the first `shared` are those that `positions` are about."""
        targets = self._targets(facts, shared)
        if not targets:
            return Erased(named=frozenset().union(*map(contents_of, facts)))
        return _Erasure(self, facts, targets, contents).made()

    def _targets(self, facts: Sequence[AnyFact], shared: int) -> set[int]:
        """Those that are still to be erased."""
        done = _erased_before(facts)
        if self.positions is None:
            return {position for position, fact in enumerate(facts[:shared]) if has_words(fact)} - done
        targets = {position for position in self.positions if position < shared} - done
        for position in targets:
            if position < 0 or not has_words(facts[position]):
                raise BadInput(
                    f"there are no words to erase at position {position}",
                    found=type(facts[position]).__name__ if position >= 0 else "",
                    do="choose among the messages, replies, outputs and answers in session.facts; nothing was changed",
                )
        return targets

    def __repr__(self) -> str:
        return f"<Erasing {'everything' if self.positions is None else sorted(self.positions)}>"  # the key is nobody's business

    def digest_of(self, fact: AnyFact) -> str:
        """The digest by which a fact is known after its words are gone."""
        return keyed_digest(encode(fact), self.key)


def _erased_before(facts: Sequence[AnyFact]) -> set[int]:
    """The facts that lost their words already."""
    before = [fact for fact in facts if isinstance(fact, Redacted)]
    asked_for = {position for fact in before for position in fact.positions}
    return asked_for | {position for fact in before for position in fact.along if not has_words(facts[position])}


def has_words(fact: AnyFact) -> bool:
    """Whether there is anything in a fact that somebody, or something, said."""
    if isinstance(fact, ModelReplied):  # that a provider holds it is no word
        return any(item != _item(item) for item in fact.items)
    return without_words(fact) != fact


def without_words(fact: AnyFact) -> AnyFact:
    """The fact with its words erased."""
    match fact:
        case MessageReceived():
            return replace(fact, content=_gone(fact.content), author="")
        case ModelReplied():
            return replace(fact, items=tuple(map(_item, fact.items)), held="", extra="")  # it may quote what was said
        case ModelRequestFailed() | CallPaused():
            return replace(fact, error=_gone(fact.error))
        case Decided():
            arguments = ERASED_ARGUMENTS if fact.arguments else ""
            return replace(fact, words=_gone(fact.words), arguments=arguments, output=_gone(fact.output))
        case CallReturned():
            return replace(fact, output=_gone(fact.output), full="")
        case GuardrailJudged() | Cancelled():
            return replace(fact, words=_gone(fact.words))
        case AgentPrompted():
            return replace(fact, text=_gone(fact.text))
        case Compacted():
            return replace(fact, summary=_gone(fact.summary))
        case _:
            return fact


def known_to_branch(facts: Sequence[AnyFact], at: int) -> list[Redacted]:
    """What a branch that begins with the first `at` of these facts has to know: words are gone from them, as is recorded behind them.

    Without it the branch would take what stands in their place for what was said, and a call without its arguments for one to run.
    """
    later = [fact for fact in facts[at:] if isinstance(fact, Redacted)]
    return [_cut(fact, at) for fact in later if min(fact.positions) < at]


def _cut(fact: Redacted, at: int) -> Redacted:
    """What an erasure is to the first `at` facts. What went along stood behind what was asked for, so some of that is left."""
    kept = [(position, digest) for position, digest in zip(fact.positions, fact.digests, strict=True) if position < at]
    positions, digests = zip(*kept, strict=True)
    return replace(fact, positions=positions, digests=digests, along=tuple(position for position in fact.along if position < at))


def same_but_for_erased(whole: Sequence[AnyFact], erased: Sequence[AnyFact]) -> dict[int, AnyFact] | None:
    """Where two ledgers differ because words were erased in the second, each with what stands there now. None: they differ in other
    ways. As long as the shorter of them goes."""
    redacted = [fact for fact in erased if isinstance(fact, Redacted)]
    lowest = min((position for fact in redacted for position in fact.positions), default=len(erased))
    lost = {position for fact in redacted for position in (*fact.positions, *fact.along)}
    changed: dict[int, AnyFact] = {}
    for position, (one, other) in enumerate(zip(whole, erased, strict=False)):
        if one == other:
            continue
        if position < lowest or _bare(one, position in lost) != _bare(other, position in lost):
            return None
        changed[position] = other
    return changed


def _bare(fact: AnyFact, lost: bool) -> AnyFact:
    """A fact without all that an erasure may change in it."""
    bare = without_words(fact) if lost else fact
    match bare:
        case ModelReplied():
            return replace(bare, held="", frame="", items=tuple(_thoughtless(item) for item in bare.items))
        case ModelRequestFailed():
            return replace(bare, frame="")
        case ApprovalChecked() | CallStarted() | Decided():
            return replace(bare, digest="")
        case _:
            return bare


def _gone(content: Any) -> Any:
    return ERASED if content else content


def _item(item: Item) -> Item:
    match item:
        case Words() | Refusal():
            return replace(item, text=_gone(item.text), **({"notes": "", "extra": ""} if isinstance(item, Words) else {}))
        case Call():
            arguments = ERASED_ARGUMENTS if item.arguments not in ("", "{}") else item.arguments
            return replace(item, arguments=arguments, extra="")  # seals of what was thought, and who called: a program that is erased too
        case _:
            return NOTHING


def _thoughtless(item: Item) -> Item:
    return NOTHING if isinstance(item, Reasoning) else item


def _made_after(facts: Sequence[AnyFact], lowest: int) -> dict[str, int]:
    """The frames of requests that saw what stands at a position, and of no request before, each with where it is first named."""
    asked = [(position, fact) for position, fact in enumerate(facts) if isinstance(fact, (ModelReplied, ModelRequestFailed)) and fact.frame]
    before = {fact.frame for _, fact in asked if fact.upto < lowest}
    made: dict[str, int] = {}
    for position, fact in asked:
        if fact.frame not in before:
            made.setdefault(fact.frame, position)
    return made


class _Erasure:
    """One ledger, walked once."""

    def __init__(self, what: Erasing, facts: Sequence[AnyFact], targets: set[int], contents: Mapping[str, bytes]) -> None:
        self._what = what
        self._facts = facts
        self._targets = targets
        self._lowest = min(targets)
        self._quotes = {text for position in targets for text in _texts(facts[position]) if len(text) >= SHORTEST_QUOTE}
        self._written: dict[CallRef, str] = {}  # arguments as the model's replies have them now, of replies that are erased
        self._arguments: dict[CallRef, str] = {}  # the same with edits: of calls whose arguments are not what they were
        self._started: set[CallRef] = set()
        self._contents: dict[str, tuple[int, bytes]] = {}
        self._frames = self._new_frames(contents)

    def made(self) -> Erased:
        replaced: dict[int, AnyFact] = {}
        along: list[int] = []
        for position in range(self._lowest, len(self._facts)):
            fact = self._facts[position]
            lost = without_words(fact) if position in self._targets else self._along(fact)
            new = self._without_traces(position, lost)
            if new != fact:
                replaced[position] = new
            if (lost != fact or getattr(new, "frame", "") != getattr(fact, "frame", "")) and position not in self._targets:
                along.append(position)
        positions = tuple(sorted(self._targets))
        redacted = Redacted(
            at=self._what.at,
            positions=positions,
            digests=tuple(self._what.digest_of(self._facts[position]) for position in positions),
            along=tuple(along),
            reason=self._what.reason,
            by=self._what.by,
        )
        after = [replaced.get(position, fact) for position, fact in enumerate(self._facts)]
        named = frozenset().union(*map(contents_of, after))
        before = frozenset().union(*(contents_of(self._facts[position]) for position in replaced))
        quoted = tuple(position for position, fact in enumerate(after) if self._quoted(_texts(fact)))
        return Erased(replaced, (redacted,), self._contents, before - named, named, quoted)

    def _along(self, fact: AnyFact) -> AnyFact:
        """A fact that was not asked for, without what was made from those that were."""
        match fact:
            case ModelReplied() if fact.upto >= self._lowest:
                return replace(fact, items=tuple(map(_thoughtless, fact.items)))
            case ModelRequestFailed() if fact.upto >= self._lowest and self._quoted([fact.error]):
                return without_words(fact)
            case CallPaused() if self._quoted([fact.error]):
                return without_words(fact)
            case Compacted() if fact.upto >= self._lowest:
                return without_words(fact)
            case GuardrailJudged() if fact.position in self._targets:
                return without_words(fact)
            case Decided() if fact.arguments and fact.call is not None and fact.call.position in self._targets:
                return replace(fact, arguments=ERASED_ARGUMENTS)
            case _:
                return fact

    def _without_traces(self, position: int, fact: AnyFact) -> AnyFact:
        """A fact that points at no digest of what is gone."""
        match fact:
            case ModelReplied():
                return self._reply_without_traces(position, fact)
            case ModelRequestFailed():
                return replace(fact, frame=self._frames.get(fact.frame, fact.frame))
            case ApprovalChecked():
                return replace(fact, digest=self._digest(fact.call, fact.digest))
            case Decided(call=call) if call is not None:
                decided = replace(fact, digest=self._digest(call, fact.digest))
                if fact.arguments and (fact.arguments == ERASED_ARGUMENTS or call in self._arguments):
                    self._arguments[call] = fact.arguments
                return decided
            case CallStarted():
                self._started.add(fact.call)
                return replace(fact, digest=self._digest(fact.call, fact.digest))
            case Opened(origin=origin) if origin is not None and origin.kind != "move":
                # An edit of a call that has not started is void in a branch: see branch_inheritance.py.
                kept = {call: arguments for call, arguments in self._arguments.items() if call in self._started}
                self._arguments = {**self._written, **kept}
                return fact
            case _:
                return fact

    def _reply_without_traces(self, position: int, fact: ModelReplied) -> ModelReplied:
        erased = position in self._targets
        if erased:
            calls = [(index, item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
            self._written.update((CallRef(position, index), call.arguments) for index, call in calls)
            self._arguments.update(self._written)
        held = "" if fact.upto >= self._lowest or erased else fact.held
        return replace(fact, held=held, frame=self._frames.get(fact.frame, fact.frame))

    def _digest(self, call: CallRef, digest: str) -> str:
        return digest_arguments(self._arguments[call]) if digest and call in self._arguments else digest

    def _new_frames(self, contents: Mapping[str, bytes]) -> dict[str, str]:
        """The frames that quote what is erased, and the names of those that stand in their place."""
        renamed: dict[str, str] = {}
        for digest, position in _made_after(self._facts, self._lowest).items():
            if digest not in contents:
                continue
            frame = decode_frame(contents[digest])
            messages = tuple(ERASED if self._goes(text) else text for text in frame.messages)
            instructions = ERASED if self._goes(frame.instructions) else frame.instructions
            if (messages, instructions) != (frame.messages, frame.instructions):
                renamed[digest], data = encode_frame(replace(frame, messages=messages, instructions=instructions))
                self._contents[renamed[digest]] = position, data
        return renamed

    def _goes(self, text: str) -> bool:
        return bool(text) and (self._what.frames or self._quoted([text]))

    def _quoted(self, texts: Sequence[str]) -> bool:
        return any(quote in text for text in texts for quote in self._quotes)


def _texts(fact: AnyFact) -> list[str]:
    """What a fact says, as texts that may be found elsewhere."""
    match fact:
        case MessageReceived(content=content):
            return _words(content)
        case ModelReplied(items=items):
            return [text for item in items for text in _texts_of_item(item)]
        case ModelRequestFailed(error=error) | CallPaused(error=error):
            return [error]
        case Decided():
            return [fact.words, *_leaves(fact.arguments), *_words(fact.output)]
        case CallReturned(output=output):
            return _words(output)
        case GuardrailJudged(words=words) | Cancelled(words=words):
            return [words]
        case AgentPrompted(text=text) | Compacted(summary=text):
            return [text]
        case _:
            return []


def _words(content: Content) -> list[str]:
    text = text_of(content).strip()
    return [text] if text else []


def _texts_of_item(item: Item) -> list[str]:
    match item:
        case Words(text=text) | Refusal(text=text) | Reasoning(text=text):
            return [text.strip()]
        case Call(arguments=arguments):
            return _leaves(arguments)
        case Hosted(body=body):
            return _leaves(body)


def _leaves(arguments: str) -> list[str]:
    """The texts within a JSON text; all of it, if it is none."""
    if arguments in ("", "{}", ERASED_ARGUMENTS):
        return []
    try:
        return list(_strings(msgspec.json.decode(arguments)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [arguments]


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value.strip()
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
