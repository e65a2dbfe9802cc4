"""Random conversations over the Messages API: every request is legal, extends the previous one, and is deterministic."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from random import Random
from typing import Any

from legato.core.facts import Image, Text
from legato.providers.formats.anthropic.encode import encode_request
from legato.providers.formats.group_cache import clear_group_caches
from legato.providers.formats.request_options import RequestOptions
from tests.providers.formats.anthropic.conversations import (
    BINDING_MODEL,
    CITATIONS,
    REDACTED_THINKING,
    UNBOUND_MODEL,
    Conversation,
    find_blocks,
    find_thinking,
    make_origin,
    make_request,
    make_turn_context,
    search_blocks,
    text_block,
    thinking_block,
    tool_use_block,
)

MODELS = (BINDING_MODEL, "claude-sonnet-5-5", "claude-sonnet-5", UNBOUND_MODEL)


def play_random_conversation(seed: int, turns: int = 12) -> Conversation:
    """Play a random conversation. Every request in it is checked against the provider's rules."""
    dice = Random(seed)
    agents = ["a", "b", "c"][: dice.randint(1, 3)]
    conversation = Conversation.between(*agents)
    shared = dice.choice(MODELS)
    for agent in agents:
        model = shared if dice.random() < 0.7 else dice.choice(MODELS)
        thinking = {"thinking_tokens": 1024} if model == UNBOUND_MODEL or dice.random() < 0.3 else {"effort": "low"}
        conversation.models[agent] = RequestOptions(model=model, **thinking)
    active = agents[0]
    conversation.add_message("Hello")
    for number in range(turns):
        if dice.random() < 0.3:
            active = dice.choice(agents)
        if dice.random() < 0.1:
            conversation.contexts[active] = make_turn_context(
                active, f"tool_{dice.randrange(3)}", messages=("Note.",) if dice.random() < 0.3 else ()
            )
        if dice.random() < 0.15:  # another view: some groups are missing, and some have no tool traffic
            view = [
                words
                for group in conversation.groups
                if dice.random() < 0.8 and (words := group if dice.random() < 0.7 else group.without_tool_traffic())
            ]
            conversation.encode_request(active, view=view)
        conversation.add_turn(
            active,
            *make_random_blocks(dice, number),
            outputs=[dice.choice(("ok", "", (Text("see"), Image(url="https://example.com/p.png")))) for _ in range(3)],
            status=dice.choice(("ok", "error")),
            with_reasoning=dice.random() < 0.95,
        )
        if not conversation.groups[-1].calls or dice.random() < 0.2:
            conversation.add_message(dice.choice(("Go on", "  ", "And then?", (Text(""), Image(url="https://example.com/q.png")))))
    return conversation


def make_random_blocks(dice: Random, number: int) -> list[dict[str, Any]]:
    """Make the blocks of a reply. A search without a result was cut off, unless it waits for the output of a call."""
    blocks: list[dict[str, Any]] = []
    for _ in range(dice.randint(1, 4)):
        match dice.randrange(7):
            case 0 | 1:
                blocks.append(thinking_block(f"thought {number}"))
            case 2:
                blocks.append(copy.deepcopy(REDACTED_THINKING))
            case 3:
                blocks += search_blocks(f"srv_{number}_{len(blocks)}")[: dice.choice((1, 2, 2, 2))]
            case 4:
                blocks.append(
                    text_block(dice.choice((f"Words {number}.", " ", "Cited.")), citations=CITATIONS if dice.random() < 0.3 else None)
                )
            case _:
                blocks.append(
                    tool_use_block(
                        dice.choice((f"toolu_{number}_{len(blocks)}", "same", "bad id")), dice.choice(("handoff", "tool_0")), n=number
                    )
                )
    if any(block["type"] == "tool_use" for block in blocks):
        result_ids = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
        blocks = [block for block in blocks if block["type"] != "server_tool_use" or block["id"] in result_ids]
    return blocks


def test_requests_are_legal_and_replay_much_thinking() -> None:
    replayed = bound = 0
    for seed in range(150):
        conversation = play_random_conversation(seed)
        for agent, body in conversation.requests:
            count = len(find_thinking(body))
            replayed += count
            bound += count if conversation.models[agent].model in (BINDING_MODEL, "claude-sonnet-5-5") else 0
    assert replayed > 1000
    assert bound > 300


def test_next_request_begins_with_the_last_one() -> None:
    for model in MODELS:
        for seed in range(10):
            dice = Random(seed)
            conversation = Conversation.between("a", "b", model=model, effort=None if model == UNBOUND_MODEL else "low").add_message()
            before: dict[str, dict[str, Any]] = {}
            for number in range(10):
                agent = dice.choice("ab")
                body = conversation.add_turn(agent, *make_random_blocks(dice, number), text_block("."))
                if agent in before:
                    earlier = before[agent]
                    assert (body["system"], body["tools"]) == (earlier["system"], earlier["tools"])
                    assert find_blocks(body)[: len(find_blocks(earlier))] == find_blocks(earlier)
                before[agent] = body
                if not conversation.groups[-1].calls:
                    conversation.add_message("Go on")


def test_request_bytes_do_not_depend_on_caches() -> None:
    for seed in range(20):
        conversation = play_random_conversation(seed)
        options = conversation.models["a"]
        first = encode_request(make_request(conversation.contexts["a"], conversation.groups), options, make_origin(options), stream=True)
        clear_group_caches(conversation.groups)
        again = encode_request(make_request(conversation.contexts["a"], conversation.groups), options, make_origin(options), stream=True)
        assert first == again


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "import hashlib; from tests.providers.formats.anthropic.test_random_conversations import *;"
        "conversation = play_random_conversation(7); options = conversation.models['a'];"
        "request = make_request(conversation.contexts['a'], conversation.groups);"
        "encoded = encode_request(request, options, make_origin(options), stream=True);"
        "print(hashlib.sha256(encoded.body).hexdigest(), encoded.losses)"
    )
    path = os.pathsep.join(path for path in sys.path if path)
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
