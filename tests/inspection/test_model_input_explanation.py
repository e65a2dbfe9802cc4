"""Explanations of model inputs, and the differences between them. (48) S4."""

from __future__ import annotations

import json
from copy import copy
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Secret, Workflow, guardrail, history, image, tool
from legato.core.facts import Call, ModelReplied
from legato.core.secret_arguments import mask_arguments
from legato.core.state import State, fold
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.emulator import serve
from legato.emulator.fake_models import ReplyCall
from legato.errors import BadInput
from legato.inspection.model_input_explanation import ModelInputItem, NameChanges, ValueChange, explain_model_input, summarize_replies
from legato.inspection.model_inputs import rebuild_model_inputs
from legato.inspection.sent_bodies import SentBody, mask_sent_body
from legato.inspection.workflow_from_ledger import rebuild_workflow
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story
from tests.core.fact_builders import message, opening, reply
from tests.inspection.support_desk import PIN, build_desk, run_edited_refund
from tests.stories.all_stories import STORIES

REPLY_FIELDS = {
    "n", "position", "agent", "model", "at", "took", "upto", "frame", "finish", "usage", "after_handoff", "resent", "losses"
}  # fmt: skip
EXPLANATION_FIELDS = REPLY_FIELDS | {
    "instructions",
    "added",
    "tools",
    "history",
    "output",
    "options",
    "items",
    "summary",
    "wire",
    "body",
    "proof",
    "changes",
}
ITEM_FIELDS = {"position", "kind", "author", "text", "calls", "handed_to", "shown", "rule"}
DIFF_FIELDS = {"with", "agent", "instructions", "added", "tools", "history", "options", "items", "body"}


async def test_fields_of_explanation_are_stable() -> None:
    session = await run_edited_refund()
    explanation = msgspec.to_builtins(await explain_model_input(session, 2))
    assert set(explanation) == EXPLANATION_FIELDS
    assert all(set(item) == ITEM_FIELDS for item in explanation["items"])
    assert set(explanation["changes"]["call"]) == set(explanation["changes"]["agent"]) == DIFF_FIELDS
    listed = msgspec.to_builtins(await summarize_replies(session))
    assert all(set(each) == REPLY_FIELDS for each in listed)
    assert [each["n"] for each in listed] == [0, 1, 2, 3]
    assert [bool(each["after_handoff"]) for each in listed] == [False, False, True, False]
    assert {name: explanation[name] for name in REPLY_FIELDS} == listed[2], "the list and the page say the same"
    assert listed[2]["after_handoff"] == {"source": "triage", "target": "refunds", "position": 6}


async def test_unknown_reply_number_is_refused() -> None:
    session = await run_edited_refund()
    assert (await explain_model_input(session, -1)).n == 3
    for number in (4, -5, True, "1"):
        with pytest.raises(BadInput):
            await explain_model_input(session, number)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="has 0 replies"):
        await explain_model_input(await build_desk("x").session("new", store=MemoryStore()).refresh())


# -- visibility and rules --------------------------------------------------------------------------------------------------------


def choose_newest(groups: list[Any]) -> list[Any]:
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
        history.custom(choose_newest),
        [
            *((position, "no", "custom 'choose_newest': not chosen") for position in (1, 2, 5)),
            *((position, "whole", "custom 'choose_newest': chosen") for position in (6, 7)),
        ],
    ),
}


def list_visibilities(items: tuple[ModelInputItem, ...]) -> list[tuple[int, str, str]]:
    return [(item.position, item.visibility, item.rule) for item in items]


@tool
def look_up(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id} is a teapot"


def build_two_agents(policy: Any = None, **more: Any) -> Workflow:
    """Build a workflow whose first agent calls a tool, answers, then hands over to the second with a message."""
    model = ScriptedModel([call("look_up", order_id="7"), "It is a teapot.", ["I pass you on.", handoff("b")], "Hello.", "Yes."])
    return HandoffBuilder("desk", [Agent("triage", "Route.", model, [look_up]), Agent("b", "Help.", model, history=policy, **more)]).build()


@pytest.mark.parametrize("policy", POLICIES)
async def test_every_group_names_the_deciding_rule(policy: str) -> None:
    chosen, expected = POLICIES[policy]
    session = build_two_agents(chosen).session("s", store=MemoryStore())
    await session.run("What is order 7?")
    await session.run("Somebody else, please")
    explanation = await explain_model_input(session)
    assert list_visibilities(explanation.items) == expected
    assert [(item.kind, item.author) for item in explanation.items] == [
        ("said", "user"), ("reply", "triage"), ("reply", "triage"), ("said", "user"), ("reply", "triage")
    ]  # fmt: skip
    assert [each.output for item in explanation.items for each in item.calls] == ["order 7 is a teapot", "Control passed to b."]
    assert explanation.items[-1].handed_to == "b"
    request = await session.seen()
    assert [group.position for group in request.groups] == [item.position for item in explanation.items if item.visibility != "no"]


async def test_summary_replaces_the_groups_it_covers() -> None:
    def summarise(text: str) -> str:
        return "They spoke about a teapot."

    model = ScriptedModel(["a" * 400, "b" * 400, "Done."])
    agent = Agent("a", model=model, history=history.summarised(100, keep=1, by=summarise))
    session = HandoffBuilder("w", [agent]).build().session("s", store=MemoryStore())
    for text in ("One", "Two", "Three"):
        await session.run(text)
    explanation = await explain_model_input(session)
    assert explanation.summary == "They spoke about a teapot."
    covered = [item for item in explanation.items if item.visibility == "no"]
    assert covered
    upto = max(item.position for item in covered)
    assert {item.rule for item in covered} == {f"summarised: replaced by the summary, which covers all up to position {upto}"}
    assert explanation.items[-1].rule == f"summarised: after the summary, which covers all up to position {upto}"


async def test_withheld_and_rejected_groups_name_their_guardrail() -> None:
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
    explanation = await explain_model_input(session)
    rules = {item.text[:10]: (item.visibility, item.rule) for item in explanation.items}
    assert rules["damn it"] == ("no", "withheld by the guardrail 'no_swearing'")
    assert rules["I promise."] == ("no", "a reply that was not accepted: only 'a', whose reply it was, sees it")
    assert rules["Your last "] == ("no", "an objection to a reply: only 'a', whose reply it was, sees it")
    assert rules["Well."] == ("whole", "everything: the whole conversation")


async def test_redacted_words_are_marked_in_the_rule() -> None:
    session = build_desk("Hello.", "Yes.").session("s", store=MemoryStore())
    await session.run("My name is Ada")
    await session.run("And now?")
    await session.redact(session.messages[0])
    explanation = await explain_model_input(session, 0)
    assert explanation.items[0].text == "[erased on request]"
    assert (
        explanation.items[0].rule
        == f"everything: the whole conversation; words of it were erased later, at position {len(session.facts) - 1}"
    )


@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_explanation_equals_the_request_in_every_story(story: Story) -> None:
    explanation = await story.run(MemoryStore())
    model_inputs = await rebuild_model_inputs(explanation.session, range(explanation.session.state.reply_count))
    for number, model_input in model_inputs.items():
        request = await explanation.session.seen(number)
        assert model_input.exact_request.messages == request.messages
        shown = [
            each.group if each.visibility == "whole" else each.group.without_tool_traffic()
            for each in model_input.groups
            if each.visibility != "no"
        ]
        assert [group.entries for group in shown if group] == [group.entries for group in model_input.masked_request.groups]
        assert msgspec.json.encode(await explain_model_input(explanation.session, number))


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
async def test_body_equals_sent_request_except_secrets(wire: str) -> None:
    script = [ReplyCall("open_safe", json.dumps({"order_id": "7", "pin": PIN})), "It is open."]
    with serve(fake_model=script) as provider:
        model = MODELS[wire](provider.url)
        workflow = HandoffBuilder("w", [Agent("a", "Help.", model, [open_safe])]).build()
        session = workflow.session("s", store=MemoryStore())
        result = await session.run("Open the safe of order 7")
        assert result.status == "waiting", result.error
        got = [exchange.request_body for exchange in provider.exchanges if exchange.is_model_request]
    assert len(got) == 2
    for number, request in enumerate(got):
        explanation = await explain_model_input(session, number)
        assert explanation.wire == wire
        assert explanation.proof == ("" if wire == "chat" else "proved"), "the exact body is checked, not the masked one"
        assert PIN not in msgspec.json.encode(explanation).decode()
        assert json.loads(explanation.body) == mask_pin(request)
        assert json.dumps(request).count(PIN) == (0 if wire == "responses" else number), "the provider keeps the call itself"


def mask_pin(value: Any) -> Any:
    """Mask the pin wherever it is in arguments, which are text or an object."""
    match value:
        case dict():
            return {key: mask_pin(each) for key, each in value.items()}
        case list():
            return [mask_pin(each) for each in value]
        case str() if value.startswith("{"):
            return mask_arguments(value, ["pin"])
        case str() if value == PIN:
            return json.loads(mask_arguments(json.dumps({"pin": PIN}), ["pin"]))["pin"]
    return value


@pytest.mark.parametrize("wire", MODELS)
async def test_edited_secret_arguments_are_masked_in_outputs(wire: str) -> None:
    @tool(needs_approval=True)
    def pay(cents: int, pin: Secret[str]) -> str:
        return f"paid {cents}"

    with serve(fake_model=[ReplyCall("pay", json.dumps({"cents": 1, "pin": "0000-1111"})), "It is paid."]) as provider:
        workflow = HandoffBuilder("w", [Agent("a", "Help.", MODELS[wire](provider.url), [pay])]).build()
        session = workflow.session("s", store=MemoryStore())
        await session.run("Pay")
        await session.edit(session.pending[0], {"cents": 2, "pin": PIN})
        assert (await session.resume()).status == "waiting"
        sent = json.dumps([exchange.request_body for exchange in provider.exchanges if exchange.is_model_request])
    assert PIN in sent, "the canary is there to be found"
    for handle in (session, await rebuild_workflow(session.facts).session("s", store=session.store).refresh()):
        explanation = await explain_model_input(handle)
        assert "this ran with" in explanation.body
        for canary in (PIN, "0000-1111"):
            assert canary not in msgspec.json.encode(explanation).decode()


@pytest.mark.parametrize("wire", MODELS)
async def test_same_tool_name_masks_for_all_agents(wire: str) -> None:
    """A body does not say whose a call is: if one agent's tool has a secret argument, another agent's tool of that name is masked too."""

    def log_in(secret: bool) -> Any:
        def with_secret(pin: Secret[str]) -> str:
            return "in"

        def plain(pin: str) -> str:
            return "in"

        return tool(name="log_in", description="Log in.")(with_secret if secret else plain)

    arguments = json.dumps({"pin": PIN})
    script = [ReplyCall("log_in", arguments), ReplyCall("handoff_to_b", "{}"), ReplyCall("log_in", arguments), "Done."]
    with serve(fake_model=script) as provider:
        model = MODELS[wire](provider.url)
        agents = [Agent("a", "A.", model, [log_in(True)]), Agent("b", "B.", model, [log_in(False)])]
        session = HandoffBuilder("w", agents).build().session("s", store=MemoryStore())
        assert (await session.run("Hello")).text == "Done."
    for number in range(4):
        assert PIN not in (await explain_model_input(session, number)).body, "a body does not say whose call it is"


def test_arguments_of_unknown_call_are_masked_whole() -> None:
    group = fold([opening(), message(), reply("a", 1, Call("t", '{"pin": 1}'))], "s").groups[-1]
    masked_group = copy(group)
    masked_group.calls = [copy(group.calls[0])]
    exact, shown = (ModelRequest("s", TurnContext("a"), "f", (each,), 1, 1, 1) for each in (group, masked_group))
    bodies = [
        {"input": [{"type": "function_call", "name": "other", "arguments": '{"pin": "canary"}'}]},
        {"messages": [{"tool_calls": [{"type": "function", "function": {"name": "t", "arguments": '{"pin":"canary"}'}}]}]},
        {"messages": [{"content": [{"type": "tool_use", "name": "t", "input": {"pin": "canary"}}]}]},
    ]
    for body in bodies:
        explanation = mask_sent_body(SentBody("chat", json.dumps(body).encode()), exact, shown).body.decode()
        assert "canary" not in explanation
        assert "secret:" in explanation


async def test_a_ledger_that_was_changed_is_refuted() -> None:
    with serve() as provider:
        workflow = HandoffBuilder("w", [Agent("a", "Help.", MODELS["responses"](provider.url))]).build()
        session = workflow.session("s", store=MemoryStore())
        await session.run("Hello")
    facts = session.facts
    facts[1] = replace(facts[1], content="Goodbye")  # type: ignore[call-arg] # it is a message
    spoiled = MemoryStore()
    frames = {
        fact.context_digest: await session.store.content("s", fact.context_digest) for fact in facts if isinstance(fact, ModelReplied)
    }
    await spoiled.append("s", 0, facts, contents=frames)
    assert (await explain_model_input(session)).proof == "proved"
    assert (await explain_model_input(await workflow.session("s", store=spoiled).refresh())).proof == "refuted"


async def test_pictures_in_body_are_replaced_by_digests() -> None:
    picture = b"\x89PNG" + bytes(range(256)) * 8
    with serve() as provider:
        workflow = HandoffBuilder("w", [Agent("a", "Help.", MODELS["chat"](provider.url))]).build()
        session = workflow.session("s", store=MemoryStore())
        await session.run(["What is this?", image(picture)])
    explanation = await explain_model_input(session)
    assert len(explanation.body) < 1_000
    assert f"[{len(picture)} bytes, digest " in explanation.body


async def test_arguments_are_masked_without_the_program() -> None:
    session = await run_edited_refund()
    recorded = await rebuild_workflow(session.facts).session("s", store=session.store).refresh()
    explanation = msgspec.json.encode(await explain_model_input(recorded)).decode()
    assert PIN not in explanation
    assert '{\\"order_id\\": \\"secret:' in explanation


# -- differences -------------------------------------------------------------------------------------------------------------------


async def test_handoff_changes_show_in_the_differences() -> None:
    session = build_two_agents(history.dialogue()).session("s", store=MemoryStore())
    await session.run("What is order 7?")
    await session.run("Somebody else, please")
    await session.run("Really?")
    first, then = [await explain_model_input(session, number) for number in (3, 4)]
    passed = first.changes.agent
    assert passed is not None
    assert first.changes.call == passed, "the previous request was the other agent's"
    assert (passed.with_, passed.agent) == (2, "triage")
    assert passed.instructions.splitlines() == ["--- triage", "+++ b", "@@ -1 +1 @@", "-Route.", "+Help."]
    assert (passed.tools.added, passed.tools.removed) == (("handoff_to_triage",), ("look_up", "handoff_to_b"))
    assert passed.history == ValueChange("the whole conversation", "all words, no tool traffic")
    assert (passed.items.added, passed.items.removed, passed.items.changed) == ((7,), (2,), ())
    again, other = then.changes.call, then.changes.agent
    assert again is not None
    assert other is not None
    assert (again.with_, again.agent, other.with_, other.agent) == (3, "b", 2, "triage")
    assert (again.instructions, again.history, again.options, again.context_messages) == ("", None, None, None)
    assert again.tools == NameChanges()
    assert again.items.added == (9, 10)
    assert not [line for line in again.body.splitlines()[2:] if line[0] == "-"], "nothing that was sent before is gone"
    assert any(line[0] == "+" and "Really?" in line for line in again.body.splitlines())


async def test_first_request_has_no_differences() -> None:
    explanation = await explain_model_input(await run_edited_refund(), 0)
    assert (explanation.changes.call, explanation.changes.agent) == (None, None)
    assert (await explain_model_input(await run_edited_refund(), 1)).changes.agent is None, "there is no other agent's request"


async def test_added_and_changed_tools_are_listed() -> None:
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
    changed = (await explain_model_input(session)).changes.call
    assert changed is not None
    assert (changed.tools.added, changed.tools.removed, changed.tools.changed) == (("open_safe",), (), ("look_up",))


# -- cost --------------------------------------------------------------------------------------------------------------------------


async def test_facts_are_folded_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(
        lambda asked: [f"Turn {asked.reply_count}.", handoff("b" if asked.agent == "a" else "a")] if asked.reply_count % 5 else "Done."
    )
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
    await explain_model_input(session)
    assert applied <= length
    applied = 0
    assert len(await summarize_replies(session)) == session.state.reply_count > 20
    assert applied <= length
