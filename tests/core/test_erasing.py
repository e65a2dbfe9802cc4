"""Erasing words: what stands in their place, what goes along, and that every ledger still folds."""

from random import Random

import pytest
from msgspec.structs import replace

from legato.core.codec import encode
from legato.core.digests import digest_arguments, keyed_digest
from legato.core.facts import (
    AnyFact,
    ApprovalChecked,
    Call,
    CallReturned,
    CallStarted,
    Compacted,
    Decided,
    GuardrailJudged,
    Image,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Reasoning,
    Redacted,
    Text,
    Words,
)
from legato.core.groups import OutputEntry
from legato.core.history_policies import Everything
from legato.core.messages_to_model import ERASED, ERASED_ARGUMENTS
from legato.core.planner import Answer, plan
from legato.core.redaction import Erasing, has_words, same_but_for_erased
from legato.core.state import State, fold
from legato.core.turn_context import Frame, decode_frame, encode_frame
from legato.core.view import visible
from legato.errors import BadInput
from tests.core.ledgers import ARGS, answered, call, decided, gated, graph, opened, returned, said, started
from tests.core.worlds import random_graph, random_ledger

KEY = b"k" * 32


def erase(facts: list[AnyFact] | tuple[AnyFact, ...], *positions: int, contents=None, frames: bool = False):
    """The ledger afterwards, and what was done to it."""
    erasing = Erasing(frozenset(positions) if positions else None, KEY, 99, "asked for", "ada", frames)
    done = erasing.erased(facts, len(facts), contents or {})
    return [*(done.replaced.get(position, fact) for position, fact in enumerate(facts)), *done.added], done


def test_what_a_provider_said_of_a_whole_reply_goes_with_its_words() -> None:
    facts = [opened(), said("Hello"), replace(answered("a", 1, "Not that."), extra='{"stop_details":{"explanation":"They said hello"}}')]
    erased, _ = erase(facts)
    assert b"They said hello" not in b"".join(map(encode, erased))


@pytest.mark.parametrize("arguments", ["{}", ARGS])
def test_what_a_provider_said_of_a_call_goes_with_it(arguments: str) -> None:
    """It may be a seal over what the model thought, which only its provider can read."""
    made = Call("t", arguments, "c1", extra='{"thought_signature":"c2VhbA=="}')
    erased, _ = erase([opened(), said("Hello"), replace(answered("a", 1), items=(made,))], 2)
    assert b"c2VhbA" not in b"".join(map(encode, erased))
    assert erased[2].items[0].call_id == "c1"


def told_apart(facts: list[AnyFact]) -> list[AnyFact]:
    """The same ledger, in which all words are of one position alone; those that were erased already stay so."""
    made: list[AnyFact] = []
    for position, fact in enumerate(facts):
        token = f"<<{position:04}>>"
        match fact:
            case _ if not has_words(fact):
                made.append(fact)
            case MessageReceived():
                made.append(replace(fact, content=token))
            case ModelReplied():
                made.append(replace(fact, items=tuple(Words(token) if isinstance(item, Words) else item for item in fact.items)))
            case CallReturned():
                made.append(replace(fact, output=token))
            case GuardrailJudged() if fact.words:
                made.append(replace(fact, words=token))
            case Compacted():
                made.append(replace(fact, summary=token))
            case ModelRequestFailed():
                made.append(replace(fact, error=token))
            case _:
                made.append(fact)
    return made


@pytest.mark.parametrize("part", range(4))
def test_any_words_erased_from_any_ledger_leave_one_that_folds_at_every_length(part: int) -> None:
    for seed in range(part * 15, part * 15 + 15):
        dice = Random(seed)
        rules = random_graph(dice)
        facts = told_apart(random_ledger(dice, rules, 40))
        worded = [position for position, fact in enumerate(facts) if has_words(fact)]
        chosen = dice.sample(worded, min(len(worded), dice.choice((1, 2, 8))))
        after, done = erase(facts, *chosen)
        bodies = b"".join(map(encode, after))
        assert not [position for position in chosen if f"<<{position:04}>>".encode() in bodies], seed
        assert [type(fact) for fact in after[:-1]] == [type(fact) for fact in facts], seed
        state = State()
        state.session = "s"
        for fact in after:
            state.apply(fact)
            for agent in "ab":
                complete(visible(state, Everything(), agent), state)
        assert same_but_for_erased(facts, after) == done.replaced, seed
        again, nothing = erase(after, *chosen)
        assert (again, nothing.added) == (after, ()), seed
        plan(state, rules, 1)


def complete(groups, state: State) -> None:
    """Every call in a view has its output, but for those of the open batch."""
    for group in groups:
        answers = [entry.ref for entry in group.entries if isinstance(entry, OutputEntry)]
        assert len(answers) == len(group.calls) or group is state.reply


def test_everything_erased_is_a_conversation_without_a_word() -> None:
    facts = [opened(), said("hello Ann"), answered("a", 1, "hello", call()), started(2, 1), returned(2, 1, output="Ann's order"), answered("a", 4, "done")]
    after, done = erase(facts)
    assert not any(has_words(fact) for fact in after[:-1])
    assert done.added[0].positions == (1, 2, 4, 5)
    assert fold(after).groups[0].entries[0].content == ERASED


def test_a_reply_keeps_its_calls_and_what_was_decided_about_them_holds_for_the_arguments_that_stand_there_now() -> None:
    edited = decided(2, 1, verdict="edit", arguments='{"name": "Ann B."}')
    facts = [
        opened(), said(), answered("a", 1, Reasoning("hm", "enc", "rs"), call(arguments='{"name": "Ann"}')),
        gated(2, 1, arguments='{"name": "Ann"}'), replace(edited, digest=digest_arguments('{"name": "Ann"}')),
        started(2, 1, digest=digest_arguments('{"name": "Ann B."}')), returned(2, 1), answered("a", 6, "done"),
    ]  # fmt: skip
    fold(facts)
    after, done = erase(facts, 2)
    assert after[2].items == (Reasoning(), Call("t", ERASED_ARGUMENTS))
    same = digest_arguments(ERASED_ARGUMENTS)
    assert [fact.digest for fact in after if isinstance(fact, (ApprovalChecked, Decided, CallStarted))] == [same] * 3
    assert after[4].arguments == ERASED_ARGUMENTS
    assert done.added[0].along == (4,)
    assert "Ann" not in str(fold(after).groups[1].entries)


def test_an_edit_erased_alone_leaves_the_call_as_the_model_wrote_it() -> None:
    facts = [
        opened(), said(), answered("a", 1, call()), gated(2), decided(2, verdict="edit", arguments='{"x": "Ann"}'),
        started(2, digest=digest_arguments('{"x": "Ann"}')), returned(2),
    ]  # fmt: skip
    after, _ = erase(facts, 4)
    fold(after)
    assert after[2] == facts[2]
    assert (after[3].digest, after[4].digest) == (digest_arguments(ARGS), digest_arguments(ARGS))
    assert after[5].digest == digest_arguments(ERASED_ARGUMENTS)


def test_what_nobody_can_read_goes_along_from_where_the_words_were_seen() -> None:
    reply = answered("a", 1, Reasoning("hm", "enc"), "hello", stored=True, held="h1", response_id="r1")
    facts = [
        opened(), said("first"), reply, said("my name is Ann"), ModelRequestFailed(at=1, agent="a", frame="f", error="cannot read 'my name is Ann'", upto=3),
        answered("a", 4, Reasoning("Ann, hm", "enc"), "welcome", stored=True, held="h2", response_id="r2"),
        Compacted(at=2, agent="a", upto=2, summary="first things"), Compacted(at=2, agent="a", upto=5, summary="it is Ann"), said("go on"),
    ]  # fmt: skip
    assert fold(facts).summaries["a"].summary == "it is Ann"
    after, done = erase(facts, 3)
    assert after[2] == reply  # it had not seen them
    assert after[4].error == ERASED
    assert (after[5].held, after[5].items) == ("", (Reasoning(), Words("welcome")))
    assert done.added[0].along == (4, 5, 7)
    state = fold(after)
    assert state.summaries["a"].summary == "first things"  # what the other covered is seen again
    assert state.frame == ""


def test_a_verdict_about_what_was_erased_goes_along() -> None:
    facts = [opened(), replace(said("bad words"), guarded=True), GuardrailJudged(at=1, kind="input", position=1, stop=True, words="'bad words': no", by="g", agent="a")]
    after, done = erase(facts, 1)
    assert (after[2].words, done.added[0].along) == (ERASED, (2,))


def test_frames_that_quote_what_was_erased_are_kept_without_it() -> None:
    plain, plain_bytes = encode_frame(Frame("a", "be kind"))
    quoting, quoting_bytes = encode_frame(Frame("b", "The customer said: my name is Ann", ("a handed over", "Reason: my name is Ann")))
    facts = [
        opened(), said("my name is Ann"), replace(answered("a", 1, "hm"), frame=plain), said("go on"), replace(answered("a", 3, "so"), frame=quoting),
    ]  # fmt: skip
    after, done = erase(facts, 1, contents={plain: plain_bytes, quoting: quoting_bytes})
    assert after[2].frame == plain
    assert done.dropped == {quoting}
    position, data = done.contents[after[4].frame]
    assert (position, decode_frame(data)) == (4, Frame("b", ERASED, ("a handed over", ERASED)))
    all_of_them, _ = erase(facts, 1, contents={plain: plain_bytes, quoting: quoting_bytes}, frames=True)
    assert all_of_them[2].frame not in (plain, "")


def test_a_picture_goes_with_the_last_fact_that_shows_it() -> None:
    picture = MessageReceived(at=1, content=(Text("see"), Image(digest="p" * 32)))
    facts = [opened(), picture, answered("a", 1, "nice"), picture, answered("a", 3, "again")]
    once, done = erase(facts, 1)
    assert done.dropped == frozenset()
    assert "p" * 32 in done.named
    _, done = erase(once, 3)
    assert done.dropped == {"p" * 32}


def test_where_the_words_are_still_quoted_is_said() -> None:
    facts = [opened(), said("my name is Ann"), answered("a", 1, "You said: my name is Ann. Welcome!"), said("yes")]
    _, done = erase(facts, 1)
    assert done.quoted == (2,)
    _, done = erase([*facts, answered("a", 3, "yes it is")], 3)
    assert done.quoted == ()  # too short to mean anything


def test_the_digest_that_stays_can_be_checked_with_the_key_and_guessed_without_it_never() -> None:
    facts = [opened(), said("yes")]
    _, done = erase(facts, 1)
    (redacted,) = done.added
    assert isinstance(redacted, Redacted)
    assert redacted.digests == (keyed_digest(encode(facts[1]), KEY),)
    assert redacted.digests != (keyed_digest(encode(facts[1]), b"another"),)


def test_a_call_that_has_not_run_is_answered_when_its_arguments_are_erased_and_one_that_runs_comes_to_its_end() -> None:
    facts = [opened(), said(), answered("a", 1, call(), call()), started(2, 0)]
    after, _ = erase(facts, 2)
    state = fold(after)
    effects = plan(state, graph(), 1).effects
    assert [effect.words for effect in effects if isinstance(effect, Answer)] == ["Not run: the arguments of 't' were erased on request before it started."]
    state.apply(returned(2, 0))
    assert state.batch[0].output.status == "ok"


def test_what_has_no_words_is_refused_by_name() -> None:
    facts = [opened(), said(), answered("a", 1, call()), started(2)]
    with pytest.raises(BadInput, match="no words to erase at position 3"):
        erase(facts, 3)


def test_a_fork_loses_what_it_shares_and_nothing_else() -> None:
    erasing = Erasing(frozenset((1, 3)), KEY, 99)
    fork = [opened(), said("shared"), answered("a", 1, "hello"), said("its own")]
    done = erasing.erased(fork, 2, {})
    assert done.added[0].positions == (1,)
    assert 3 not in done.replaced
    assert erasing.erased(fork, 0, {}).replaced == {}


def test_ledgers_that_differ_in_other_ways_are_not_taken_for_one() -> None:
    facts = [opened(), said("one"), answered("a", 1, "hello"), said("two")]
    after, _ = erase(facts, 1)
    assert same_but_for_erased(facts, after) == {1: after[1]}
    assert same_but_for_erased(facts[:2], after) == {1: after[1]}
    assert same_but_for_erased([*facts[:3], said("another")], after) is None
    assert same_but_for_erased([facts[0], answered("a", 0, "x"), *facts[2:]], after) is None
