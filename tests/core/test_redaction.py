"""Redaction: the replacement texts, derived facts that are redacted too, and ledgers that still fold."""

from random import Random

import pytest
from msgspec.structs import replace

from legato.core.codec import encode_fact
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
    OutputText,
    Reasoning,
    Redacted,
    Text,
)
from legato.core.groups import OutputEntry
from legato.core.history_policies import Everything
from legato.core.planner import AnswerCall, make_plan
from legato.core.redaction import PositionRedactor, find_redacted_differences, has_text
from legato.core.state import State, fold
from legato.core.texts_for_model import REDACTED_ARGUMENTS, REDACTED_TEXT
from legato.core.turn_context import TurnContext, decode_turn_context, encode_turn_context
from legato.core.view import select_groups
from legato.errors import BadInput
from tests.core.fact_builders import ARGS, approval_check, call, decision, make_graph, message, opening, output, reply, start
from tests.core.random_ledgers import make_random_graph, make_random_ledger

KEY = b"k" * 32


def redact(facts: list[AnyFact] | tuple[AnyFact, ...], *positions: int, contents=None, turn_contexts: bool = False):
    """Return the redacted ledger, and the changes."""
    redactor = PositionRedactor(frozenset(positions) if positions else None, KEY, 99, "asked for", "ada", turn_contexts)
    done = redactor.redact(facts, len(facts), contents or {})
    return [*(done.replacements.get(position, fact) for position, fact in enumerate(facts)), *done.appended_facts], done


def test_extra_of_a_reply_is_erased() -> None:
    """What a provider said about a reply as a whole is erased with the reply's text."""
    facts = [opening(), message("Hello"), replace(reply("a", 1, "Not that."), extra='{"stop_details":{"explanation":"They said hello"}}')]
    redacted, _ = redact(facts)
    assert b"They said hello" not in b"".join(map(encode_fact, redacted))


@pytest.mark.parametrize("arguments", ["{}", ARGS])
def test_extra_of_a_call_is_erased(arguments: str) -> None:
    """It may be a signature of reasoning, which only the provider can read."""
    original = Call("t", arguments, "c1", extra='{"thought_signature":"c2VhbA=="}')
    redacted, _ = redact([opening(), message("Hello"), replace(reply("a", 1), items=(original,))], 2)
    assert b"c2VhbA" not in b"".join(map(encode_fact, redacted))
    assert redacted[2].items[0].call_id == "c1"


def make_texts_unique(facts: list[AnyFact]) -> list[AnyFact]:
    """Return the ledger with a different text at each position; text that is redacted already stays redacted."""
    changed: list[AnyFact] = []
    for position, fact in enumerate(facts):
        token = f"<<{position:04}>>"
        match fact:
            case _ if not has_text(fact):
                changed.append(fact)
            case MessageReceived():
                changed.append(replace(fact, content=token))
            case ModelReplied():
                changed.append(replace(fact, items=tuple(OutputText(token) if isinstance(item, OutputText) else item for item in fact.items)))
            case CallReturned():
                changed.append(replace(fact, output=token))
            case GuardrailJudged() if fact.reason:
                changed.append(replace(fact, reason=token))
            case Compacted():
                changed.append(replace(fact, summary=token))
            case ModelRequestFailed():
                changed.append(replace(fact, error=token))
            case _:
                changed.append(fact)
    return changed


@pytest.mark.parametrize("part", range(4))
def test_redacted_random_ledgers_fold_at_every_length(part: int) -> None:
    for seed in range(part * 15, part * 15 + 15):
        dice = Random(seed)
        rules = make_random_graph(dice)
        facts = make_texts_unique(make_random_ledger(dice, rules, 40))
        with_text = [position for position, fact in enumerate(facts) if has_text(fact)]
        chosen = dice.sample(with_text, min(len(with_text), dice.choice((1, 2, 8))))
        after, done = redact(facts, *chosen)
        bodies = b"".join(map(encode_fact, after))
        assert not [position for position in chosen if f"<<{position:04}>>".encode() in bodies], seed
        assert [type(fact) for fact in after[:-1]] == [type(fact) for fact in facts], seed
        state = State()
        state.session_id = "s"
        for fact in after:
            state.apply(fact)
            for agent in "ab":
                check_calls_have_outputs(select_groups(state, Everything(), agent), state)
        assert find_redacted_differences(facts, after) == done.replacements, seed
        again, nothing = redact(after, *chosen)
        assert (again, nothing.appended_facts) == (after, ()), seed
        make_plan(state, rules, 1)


def check_calls_have_outputs(groups, state: State) -> None:
    """Check that every call in a view has its output, except in the open batch."""
    for group in groups:
        answers = [entry.ref for entry in group.entries if isinstance(entry, OutputEntry)]
        assert len(answers) == len(group.calls) or group is state.last_reply


def test_redacting_everything_leaves_no_text() -> None:
    facts = [opening(), message("hello Ann"), reply("a", 1, "hello", call()), start(2, 1), output(2, 1, output="Ann's order"), reply("a", 4, "done")]
    after, done = redact(facts)
    assert not any(has_text(fact) for fact in after[:-1])
    assert done.appended_facts[0].positions == (1, 2, 4, 5)
    assert fold(after).groups[0].entries[0].content == REDACTED_TEXT


def test_decisions_follow_the_redacted_arguments() -> None:
    """A redacted reply keeps its calls, and the digests of decisions about them are those of the new arguments."""
    edited = decision(2, 1, verdict="edit", arguments='{"name": "Ann B."}')
    facts = [
        opening(), message(), reply("a", 1, Reasoning("hm", "enc", "rs"), call(arguments='{"name": "Ann"}')),
        approval_check(2, 1, arguments='{"name": "Ann"}'), replace(edited, digest=digest_arguments('{"name": "Ann"}')),
        start(2, 1, digest=digest_arguments('{"name": "Ann B."}')), output(2, 1), reply("a", 6, "done"),
    ]  # fmt: skip
    fold(facts)
    after, done = redact(facts, 2)
    assert after[2].items == (Reasoning(), Call("t", REDACTED_ARGUMENTS))
    same = digest_arguments(REDACTED_ARGUMENTS)
    assert [fact.digest for fact in after if isinstance(fact, (ApprovalChecked, Decided, CallStarted))] == [same] * 3
    assert after[4].arguments == REDACTED_ARGUMENTS
    assert done.appended_facts[0].derived == (4,)
    assert "Ann" not in str(fold(after).groups[1].entries)


def test_redacted_edit_leaves_the_original_call() -> None:
    facts = [
        opening(), message(), reply("a", 1, call()), approval_check(2), decision(2, verdict="edit", arguments='{"x": "Ann"}'),
        start(2, digest=digest_arguments('{"x": "Ann"}')), output(2),
    ]  # fmt: skip
    after, _ = redact(facts, 4)
    fold(after)
    assert after[2] == facts[2]
    assert (after[3].digest, after[4].digest) == (digest_arguments(ARGS), digest_arguments(ARGS))
    assert after[5].digest == digest_arguments(REDACTED_ARGUMENTS)


def test_unreadable_derived_content_is_redacted_too() -> None:
    """Summaries and reasoning are redacted too, from the first request that included the text."""
    first_reply = reply("a", 1, Reasoning("hm", "enc"), "hello", stored=True, stored_digest="h1", response_id="r1")
    facts = [
        opening(), message("first"), first_reply, message("my name is Ann"), ModelRequestFailed(at=1, agent="a", context_digest="f", error="cannot read 'my name is Ann'", upto=3),
        reply("a", 4, Reasoning("Ann, hm", "enc"), "welcome", stored=True, stored_digest="h2", response_id="r2"),
        Compacted(at=2, agent="a", upto=2, summary="first things"), Compacted(at=2, agent="a", upto=5, summary="it is Ann"), message("go on"),
    ]  # fmt: skip
    assert fold(facts).summaries["a"].summary == "it is Ann"
    after, done = redact(facts, 3)
    assert after[2] == first_reply  # its request did not include the text
    assert after[4].error == REDACTED_TEXT
    assert (after[5].stored_digest, after[5].items) == ("", (Reasoning(), OutputText("welcome")))
    assert done.appended_facts[0].derived == (4, 5, 7)
    state = fold(after)
    assert state.summaries["a"].summary == "first things"  # the agent sees again what the void summary covered
    assert state.context_digest == ""


def test_verdict_about_redacted_text_is_redacted() -> None:
    facts = [opening(), replace(message("bad words"), awaits_guardrails=True), GuardrailJudged(at=1, kind="input", position=1, stop=True, reason="'bad words': no", guardrail="g", agent="a")]
    after, done = redact(facts, 1)
    assert (after[2].reason, done.appended_facts[0].derived) == (REDACTED_TEXT, (2,))


def test_quoting_turn_contexts_are_redacted() -> None:
    plain, plain_bytes = encode_turn_context(TurnContext("a", "be kind"))
    quoting, quoting_bytes = encode_turn_context(TurnContext("b", "The customer said: my name is Ann", ("a handed over", "Reason: my name is Ann")))
    facts = [
        opening(), message("my name is Ann"), replace(reply("a", 1, "hm"), context_digest=plain), message("go on"), replace(reply("a", 3, "so"), context_digest=quoting),
    ]  # fmt: skip
    after, done = redact(facts, 1, contents={plain: plain_bytes, quoting: quoting_bytes})
    assert after[2].context_digest == plain
    assert done.dropped_contents == {quoting}
    position, data = done.new_contents[after[4].context_digest]
    assert (position, decode_turn_context(data)) == (4, TurnContext("b", REDACTED_TEXT, ("a handed over", REDACTED_TEXT)))
    all_of_them, _ = redact(facts, 1, contents={plain: plain_bytes, quoting: quoting_bytes}, turn_contexts=True)
    assert all_of_them[2].context_digest not in (plain, "")


def test_image_is_dropped_with_its_last_fact() -> None:
    picture = MessageReceived(at=1, content=(Text("see"), Image(digest="p" * 32)))
    facts = [opening(), picture, reply("a", 1, "nice"), picture, reply("a", 3, "again")]
    once, done = redact(facts, 1)
    assert done.dropped_contents == frozenset()
    assert "p" * 32 in done.remaining_contents
    _, done = redact(once, 3)
    assert done.dropped_contents == {"p" * 32}


def test_facts_that_still_quote_are_reported() -> None:
    facts = [opening(), message("my name is Ann"), reply("a", 1, "You said: my name is Ann. Welcome!"), message("yes")]
    _, done = redact(facts, 1)
    assert done.quoting_positions == (2,)
    _, done = redact([*facts, reply("a", 3, "yes it is")], 3)
    assert done.quoting_positions == ()  # too short to search for


def test_remaining_digest_needs_the_key() -> None:
    facts = [opening(), message("yes")]
    _, done = redact(facts, 1)
    (redacted,) = done.appended_facts
    assert isinstance(redacted, Redacted)
    assert redacted.digests == (keyed_digest(encode_fact(facts[1]), KEY),)
    assert redacted.digests != (keyed_digest(encode_fact(facts[1]), b"another"),)


def test_call_with_redacted_arguments_does_not_start() -> None:
    """A call that has not started is answered when its arguments are erased; a running one finishes."""
    facts = [opening(), message(), reply("a", 1, call(), call()), start(2, 0)]
    after, _ = redact(facts, 2)
    state = fold(after)
    effects = make_plan(state, make_graph(), 1).effects
    assert [effect.text for effect in effects if isinstance(effect, AnswerCall)] == ["Not run: the arguments of 't' were erased on request before it started."]
    state.apply(output(2, 0))
    assert state.batch[0].output.status == "ok"


def test_fact_without_text_is_refused() -> None:
    facts = [opening(), message(), reply("a", 1, call()), start(2)]
    with pytest.raises(BadInput, match="no text to erase at position 3"):
        redact(facts, 3)


def test_fork_loses_only_the_shared_text() -> None:
    redactor = PositionRedactor(frozenset((1, 3)), KEY, 99)
    fork = [opening(), message("shared"), reply("a", 1, "hello"), message("its own")]
    done = redactor.redact(fork, 2, {})
    assert done.appended_facts[0].positions == (1,)
    assert 3 not in done.replacements
    assert redactor.redact(fork, 0, {}).replacements == {}


def test_otherwise_different_ledgers_are_not_matched() -> None:
    facts = [opening(), message("one"), reply("a", 1, "hello"), message("two")]
    after, _ = redact(facts, 1)
    assert find_redacted_differences(facts, after) == {1: after[1]}
    assert find_redacted_differences(facts[:2], after) == {1: after[1]}
    assert find_redacted_differences([*facts[:3], message("another")], after) is None
    assert find_redacted_differences([facts[0], reply("a", 0, "x"), *facts[2:]], after) is None
