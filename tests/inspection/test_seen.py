"""What an agent saw when it replied, why, and what had changed. (48) S4."""

from __future__ import annotations

import json
from copy import copy
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Secret, Workflow, guardrail, history, image, tool
from legato.core.facts import Call, ModelReplied
from legato.core.secret_arguments import masked
from legato.core.state import State, fold
from legato.core.turn_context import Frame
from legato.core.view import Request
from legato.emulator import serve
from legato.emulator.minds import Use
from legato.errors import BadInput
from legato.inspection.looking import looks
from legato.inspection.recorded import as_recorded
from legato.inspection.seen import Changed, Item, Names, calls, seen
from legato.inspection.wired import Wired, shown_sent
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story
from tests.core.ledgers import answered, opened, said
from tests.inspection.desk import PIN, desk, refunded
from tests.stories.all import STORIES

CALL = {
    "n", "position", "agent", "model", "at", "took", "upto", "frame", "finish", "usage", "after_handoff", "resent", "losses"
}  # fmt: skip
SEEN = CALL | {"instructions", "added", "tools", "history", "output", "options", "items", "summary", "wire", "body", "proof", "changes"}
ITEM = {"position", "kind", "author", "text", "calls", "handed_to", "shown", "rule"}
DIFF = {"with", "agent", "instructions", "added", "tools", "history", "options", "items", "body"}


async def test_a_call_is_told_in_stable_fields() -> None:
    session = await refunded()
    told = msgspec.to_builtins(await seen(session, 2))
    assert set(told) == SEEN
    assert all(set(item) == ITEM for item in told["items"])
    assert set(told["changes"]["call"]) == set(told["changes"]["agent"]) == DIFF
    listed = msgspec.to_builtins(await calls(session))
    assert all(set(each) == CALL for each in listed)
    assert [each["n"] for each in listed] == [0, 1, 2, 3]
    assert [bool(each["after_handoff"]) for each in listed] == [False, False, True, False]
    assert {name: told[name] for name in CALL} == listed[2], "the list and the page say the same"
    assert listed[2]["after_handoff"] == {"source": "triage", "target": "refunds", "position": 6}


async def test_a_call_that_is_not_there_is_refused() -> None:
    session = await refunded()
    assert (await seen(session, -1)).n == 3
    for number in (4, -5, True, "1"):
        with pytest.raises(BadInput):
            await seen(session, number)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="has 0 replies"):
        await seen(await desk("x").session("new", store=MemoryStore()).refresh())


# -- in or out, and why ----------------------------------------------------------------------------------------------------------


def newest(groups: list[Any]) -> list[Any]:
    return groups[-2:]


POLICIES: dict[str, tuple[Any, list[tuple[int, str, str]]]] = {
    "everything": (
        history.everything(),
        [(position, "whole", "everything: the whole conversation") for position in (1, 2, 5, 6, 7)],
    ),
    "dialogue": (
        history.dialogue(),
        [
            (1, "whole", "dialogue: words"),
            (2, "no", "dialogue: only tool traffic, which is left out"),
            (5, "whole", "dialogue: words"),
            (6, "whole", "dialogue: words"),
            (7, "words", "dialogue: only the words; tool traffic is left out"),
        ],
    ),
    "since the handoff": (
        history.since_handoff(),
        [
            *((position, "no", "since_handoff: before triage handed over at position 7") for position in (1, 2, 5, 6)),
            (7, "whole", "since_handoff: since triage handed over at position 7"),
        ],
    ),
    "the last message": (
        history.last(1),
        [
            *((position, "no", "last(1): older than the last message of the user") for position in (1, 2, 5)),
            *((position, "whole", "last(1): within the last message of the user and what followed") for position in (6, 7)),
        ],
    ),
    "own tools": (
        history.own_tools(),
        [
            (1, "whole", "own_tools: words"),
            (2, "no", "own_tools: only another agent's tool traffic, which is left out"),
            (5, "whole", "own_tools: words"),
            (6, "whole", "own_tools: words"),
            (7, "words", "own_tools: only the words; another agent's tool traffic is left out"),
        ],
    ),
    "a function": (
        history.custom(newest),
        [
            *((position, "no", "custom 'newest': not chosen") for position in (1, 2, 5)),
            *((position, "whole", "custom 'newest': chosen") for position in (6, 7)),
        ],
    ),
}


def marks(items: tuple[Item, ...]) -> list[tuple[int, str, str]]:
    return [(item.position, item.shown, item.rule) for item in items]


@tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id} is a teapot"


def two(policy: Any = None, **more: Any) -> Workflow:
    """Triage looks something up, answers, then hands over to the other with words."""
    model = ScriptedModel([call("look_up", order_id="7"), "It is a teapot.", ["I pass you on.", handoff("b")], "Hello.", "Yes."])
    return HandoffBuilder("desk", [Agent("triage", "Route.", model, [look_up]), Agent("b", "Help.", model, history=policy, **more)]).build()


@pytest.mark.parametrize("policy", POLICIES)
async def test_every_part_of_the_conversation_is_marked_with_the_rule_that_decided(policy: str) -> None:
    chosen, expected = POLICIES[policy]
    session = two(chosen).session("s", store=MemoryStore())
    await session.run("What is order 7?")
    await session.run("Somebody else, please")
    told = await seen(session)
    assert marks(told.items) == expected
    assert [(item.kind, item.author) for item in told.items] == [
        ("said", "user"), ("reply", "triage"), ("reply", "triage"), ("said", "user"), ("reply", "triage")
    ]  # fmt: skip
    assert [each.output for item in told.items for each in item.calls] == ["order 7 is a teapot", "Control passed to b."]
    assert told.items[-1].handed_to == "b"
    request = await session.seen()
    assert [group.position for group in request.groups] == [item.position for item in told.items if item.shown != "no"]


async def test_a_summary_stands_for_what_it_covers() -> None:
    def summarise(text: str) -> str:
        return "They spoke about a teapot."

    model = ScriptedModel(["a" * 400, "b" * 400, "Done."])
    agent = Agent("a", model=model, history=history.summarised(100, keep=1, by=summarise))
    session = HandoffBuilder("w", [agent]).build().session("s", store=MemoryStore())
    for text in ("One", "Two", "Three"):
        await session.run(text)
    told = await seen(session)
    assert told.summary == "They spoke about a teapot."
    covered = [item for item in told.items if item.shown == "no"]
    assert covered
    upto = max(item.position for item in covered)
    assert {item.rule for item in covered} == {f"summarised: told by the summary, which covers all up to position {upto}"}
    assert told.items[-1].rule == f"summarised: after the summary, which covers all up to position {upto}"


async def test_what_guardrails_withhold_and_reject_is_told_as_theirs() -> None:
    @guardrail("input")
    def no_swearing(context: Any, text: str) -> str | None:
        return "Please be polite." if "damn" in text else None

    @guardrail("output")
    def no_promises(context: Any, text: str) -> str | None:
        return "Promise nothing." if "promise" in text else None

    model = ScriptedModel(["I promise.", "Well.", handoff("b"), "Hello."])
    agents = [Agent("a", model=model, guardrails=[no_swearing, no_promises]), Agent("b", model=model)]
    session = HandoffBuilder("w", agents).build().session("s", store=MemoryStore())
    for text in ("Hello", "damn it", "Somebody else"):
        await session.run(text)
    told = await seen(session)
    rules = {item.text[:10]: (item.shown, item.rule) for item in told.items}
    assert rules["damn it"] == ("no", "withheld by the guardrail 'no_swearing'")
    assert rules["I promise."] == ("no", "a reply that was not accepted: only 'a', whose reply it was, sees it")
    assert rules["Your last "] == ("no", "an objection to a reply: only 'a', whose reply it was, sees it")
    assert rules["Well."] == ("whole", "everything: the whole conversation")


async def test_words_that_were_erased_since_are_told_as_such() -> None:
    session = desk("Hello.", "Yes.").session("s", store=MemoryStore())
    await session.run("My name is Ada")
    await session.run("And now?")
    await session.redact(session.messages[0])
    told = await seen(session, 0)
    assert told.items[0].text == "[erased on request]"
    assert told.items[0].rule == f"everything: the whole conversation; words of it were erased later, at position {len(session.facts) - 1}"


@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_in_every_story_the_explanation_is_the_request(story: Story) -> None:
    told = await story.tell(MemoryStore())
    looked = await looks(told.session, range(told.session.state.replies))
    for number, look in looked.items():
        request = await told.session.seen(number)
        assert look.exact.messages == request.messages
        shown = [each.group if each.shown == "whole" else each.group.words() for each in look.told if each.shown != "no"]
        assert [group.entries for group in shown if group] == [group.entries for group in look.request.groups]
        assert msgspec.json.encode(await seen(told.session, number))


# -- the exact request -----------------------------------------------------------------------------------------------------------

MODELS: dict[str, Any] = {
    "responses": lambda url: OpenAIResponses("gpt-5.1", base_url=f"{url}/v1", api_key="k", memory="chained"),
    "chat": lambda url: OpenAIChat("gpt-5.1", base_url=f"{url}/v1", api_key="k"),
    "anthropic": lambda url: Anthropic("claude-sonnet-5", base_url=url, api_key="k"),
}


@tool
def open_safe(order_id: str, pin: Secret[str] = PIN) -> str:
    """Open the safe of an order."""
    return f"the safe of order {order_id} is open"


@pytest.mark.parametrize("wire", MODELS)
async def test_the_body_is_what_the_provider_was_sent_but_for_secrets(wire: str) -> None:
    mind = [Use("open_safe", json.dumps({"order_id": "7", "pin": PIN})), "It is open."]
    with serve(mind=mind) as provider:
        model = MODELS[wire](provider.url)
        workflow = HandoffBuilder("w", [Agent("a", "Help.", model, [open_safe])]).build()
        session = workflow.session("s", store=MemoryStore())
        result = await session.run("Open the safe of order 7")
        assert result.status == "waiting", result.error
        got = [exchange.request for exchange in provider.exchanges if exchange.asks]
    assert len(got) == 2
    for number, request in enumerate(got):
        told = await seen(session, number)
        assert told.wire == wire
        assert told.proof == ("" if wire == "chat" else "proved"), "what is shown has digests in it; what is proved is what was sent"
        assert PIN not in msgspec.json.encode(told).decode()
        assert json.loads(told.body) == hiding(request)
        assert json.dumps(request).count(PIN) == (0 if wire == "responses" else number), "the provider keeps the call itself"


def hiding(value: Any) -> Any:
    """What was sent, with the pin in arguments hidden wherever it stands: they are text, or an object."""
    match value:
        case dict():
            return {key: hiding(each) for key, each in value.items()}
        case list():
            return [hiding(each) for each in value]
        case str() if value.startswith("{"):
            return masked(value, ["pin"])
        case str() if value == PIN:
            return json.loads(masked(json.dumps({"pin": PIN}), ["pin"]))["pin"]
    return value


@pytest.mark.parametrize("wire", MODELS)
async def test_arguments_that_a_person_changed_are_hidden_where_the_model_is_told_of_them(wire: str) -> None:
    @tool(needs_approval=True)
    def pay(cents: int, pin: Secret[str]) -> str:
        return f"paid {cents}"

    with serve(mind=[Use("pay", json.dumps({"cents": 1, "pin": "0000-1111"})), "It is paid."]) as provider:
        workflow = HandoffBuilder("w", [Agent("a", "Help.", MODELS[wire](provider.url), [pay])]).build()
        session = workflow.session("s", store=MemoryStore())
        await session.run("Pay")
        await session.edit(session.pending[0], {"cents": 2, "pin": PIN})
        assert (await session.resume()).status == "waiting"
        sent = json.dumps([exchange.request for exchange in provider.exchanges if exchange.asks])
    assert PIN in sent, "the canary is there to be found"
    for handle in (session, await as_recorded(session.facts).session("s", store=session.store).refresh()):
        told = await seen(handle)
        assert "this ran with" in told.body
        for canary in (PIN, "0000-1111"):
            assert canary not in msgspec.json.encode(told).decode()


@pytest.mark.parametrize("wire", MODELS)
async def test_a_secret_of_one_agent_is_none_of_another_whose_tool_has_the_same_name(wire: str) -> None:
    def log_in(secret: bool) -> Any:
        def hidden(pin: Secret[str]) -> str:
            return "in"

        def plain(pin: str) -> str:
            return "in"

        return tool(name="log_in", description="Log in.")(hidden if secret else plain)

    arguments = json.dumps({"pin": PIN})
    mind = [Use("log_in", arguments), Use("handoff_to_b", "{}"), Use("log_in", arguments), "Done."]
    with serve(mind=mind) as provider:
        model = MODELS[wire](provider.url)
        agents = [Agent("a", "A.", model, [log_in(True)]), Agent("b", "B.", model, [log_in(False)])]
        session = HandoffBuilder("w", agents).build().session("s", store=MemoryStore())
        assert (await session.run("Hello")).text == "Done."
    for number in range(4):
        assert PIN not in (await seen(session, number)).body, "one body, in which nobody could tell whose it is"


def test_arguments_of_a_call_that_nobody_knows_are_hidden_whole() -> None:
    group = fold([opened(), said(), answered("a", 1, Call("t", '{"pin": 1}'))], "s").groups[-1]
    hidden = copy(group)
    hidden.calls = [copy(group.calls[0])]
    exact, shown = (Request("s", Frame("a"), "f", (each,), 1, 1, 1) for each in (group, hidden))
    bodies = [
        {"input": [{"type": "function_call", "name": "other", "arguments": '{"pin": "canary"}'}]},
        {"messages": [{"tool_calls": [{"type": "function", "function": {"name": "t", "arguments": '{"pin":"canary"}'}}]}]},
        {"messages": [{"content": [{"type": "tool_use", "name": "t", "input": {"pin": "canary"}}]}]},
    ]
    for body in bodies:
        told = shown_sent(Wired("chat", json.dumps(body).encode()), exact, shown).body.decode()
        assert "canary" not in told
        assert "secret:" in told


async def test_a_ledger_that_was_changed_is_refuted() -> None:
    with serve() as provider:
        workflow = HandoffBuilder("w", [Agent("a", "Help.", MODELS["responses"](provider.url))]).build()
        session = workflow.session("s", store=MemoryStore())
        await session.run("Hello")
    facts = session.facts
    facts[1] = replace(facts[1], content="Goodbye")  # type: ignore[call-arg] # it is a message
    spoiled = MemoryStore()
    frames = {fact.frame: await session.store.content("s", fact.frame) for fact in facts if isinstance(fact, ModelReplied)}
    await spoiled.append("s", 0, facts, contents=frames)
    assert (await seen(session)).proof == "proved"
    assert (await seen(await workflow.session("s", store=spoiled).refresh())).proof == "refuted"


async def test_where_a_picture_stands_in_a_request_its_digest_is_shown() -> None:
    picture = b"\x89PNG" + bytes(range(256)) * 8
    with serve() as provider:
        workflow = HandoffBuilder("w", [Agent("a", "Help.", MODELS["chat"](provider.url))]).build()
        session = workflow.session("s", store=MemoryStore())
        await session.run(["What is this?", image(picture)])
    told = await seen(session)
    assert len(told.body) < 1_000
    assert f"[{len(picture)} bytes, digest " in told.body


async def test_without_the_program_no_value_of_an_argument_is_in_it() -> None:
    session = await refunded()
    recorded = await as_recorded(session.facts).session("s", store=session.store).refresh()
    told = msgspec.json.encode(await seen(recorded)).decode()
    assert PIN not in told
    assert '{\\"order_id\\": \\"secret:' in told


# -- what had changed --------------------------------------------------------------------------------------------------------------


async def test_a_handoff_changes_instructions_tools_policy_and_what_is_shown() -> None:
    session = two(history.dialogue()).session("s", store=MemoryStore())
    await session.run("What is order 7?")
    await session.run("Somebody else, please")
    await session.run("Really?")
    first, then = [await seen(session, number) for number in (3, 4)]
    passed = first.changes.agent
    assert passed is not None
    assert first.changes.call == passed, "the call before was the other agent's"
    assert (passed.with_, passed.agent) == (2, "triage")
    assert passed.instructions.splitlines() == ["--- triage", "+++ b", "@@ -1 +1 @@", "-Route.", "+Help."]
    assert (passed.tools.added, passed.tools.removed) == (("handoff_to_triage",), ("look_up", "handoff_to_b"))
    assert passed.history == Changed("the whole conversation", "all words, no tool traffic")
    assert (passed.items.added, passed.items.removed, passed.items.changed) == ((7,), (2,), ())
    again, other = then.changes.call, then.changes.agent
    assert again is not None
    assert other is not None
    assert (again.with_, again.agent, other.with_, other.agent) == (3, "b", 2, "triage")
    assert (again.instructions, again.history, again.options, again.added) == ("", None, None, None)
    assert again.tools == Names()
    assert again.items.added == (9, 10)
    assert not [line for line in again.body.splitlines()[2:] if line[0] == "-"], "nothing that was sent before is gone"
    assert any(line[0] == "+" and "Really?" in line for line in again.body.splitlines())


async def test_the_first_call_is_compared_with_nothing() -> None:
    told = await seen(await refunded(), 0)
    assert (told.changes.call, told.changes.agent) == (None, None)
    assert (await seen(await refunded(), 1)).changes.agent is None, "nobody else has spoken"


async def test_a_tool_that_changed_and_one_that_came_are_told() -> None:
    def built(*tools: Any) -> Workflow:
        return HandoffBuilder("w", [Agent("a", "Help.", ScriptedModel(["Yes."] * 3), list(tools))]).build()

    @tool(name="look_up")
    def other(order_id: str, quick: bool) -> str:
        """Look an order up, quickly."""
        return ""

    store = MemoryStore()
    await built(look_up).session("s", store=store).run("One")
    session = built(other, open_safe).session("s", store=store)
    await session.run("Two")
    changed = (await seen(session)).changes.call
    assert changed is not None
    assert (changed.tools.added, changed.tools.removed, changed.tools.changed) == (("open_safe",), (), ("look_up",))


# -- what it costs -----------------------------------------------------------------------------------------------------------------


async def test_a_call_is_looked_at_in_one_pass_and_so_are_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(lambda asked: [f"Turn {asked.turn}.", handoff("b" if asked.agent == "a" else "a")] if asked.turn % 5 else "Done.")
    session = HandoffBuilder("w", [Agent("a", "A.", model), Agent("b", "B.", model)]).build().session("s", store=MemoryStore())
    for number in range(20):
        await session.run(f"Message {number}")
    length, applied = len(session.facts), 0
    inner = State.apply

    def counted(state: State, fact: Any) -> None:
        nonlocal applied
        applied += 1
        inner(state, fact)

    monkeypatch.setattr(State, "apply", counted)
    await seen(session)
    assert applied <= length
    applied = 0
    assert len(await calls(session)) == session.state.replies > 20
    assert applied <= length
