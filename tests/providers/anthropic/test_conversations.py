"""Random conversations over the Messages API: every request is legal, grows by what is new, and is the same every time."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from random import Random
from typing import Any

from legato.core.facts import Image, Text
from legato.providers.formats.anthropic.compile import compile_request
from legato.providers.formats.group_cache import clear_cache
from legato.providers.formats.options import Options
from tests.providers.anthropic.talks import (
    BINDS,
    CITED,
    FREE,
    HIDDEN,
    Desk,
    asked,
    blocks_of,
    frame,
    origin_of,
    search,
    thinks,
    thoughts,
    use,
    words,
)

MODELS = (BINDS, "claude-sonnet-5-5", "claude-sonnet-5", FREE)


def play(seed: int, turns: int = 12) -> Desk:
    """A random conversation. Every request in it is judged as the provider would."""
    dice = Random(seed)
    agents = ["a", "b", "c"][: dice.randint(1, 3)]
    desk = Desk.of(*agents)
    shared = dice.choice(MODELS)
    for agent in agents:
        model = shared if dice.random() < 0.7 else dice.choice(MODELS)
        thinking = {"thinking_tokens": 1024} if model == FREE or dice.random() < 0.3 else {"effort": "low"}
        desk.models[agent] = Options(model=model, **thinking)
    active = agents[0]
    desk.say("Hello")
    for number in range(turns):
        if dice.random() < 0.3:
            active = dice.choice(agents)
        if dice.random() < 0.1:
            desk.frames[active] = frame(active, f"tool_{dice.randrange(3)}", messages=("Note.",) if dice.random() < 0.3 else ())
        if dice.random() < 0.15:  # another view of the same: some groups are left out, of some only the words are seen
            seen = [words for group in desk.groups if dice.random() < 0.8 and (words := group if dice.random() < 0.7 else group.words())]
            desk.ask(active, view=seen)
        desk.turn(
            active,
            *_content(dice, number),
            outputs=[dice.choice(("ok", "", (Text("see"), Image(url="https://example.com/p.png")))) for _ in range(3)],
            status=dice.choice(("ok", "error")),
            reasoning=dice.random() < 0.95,
        )
        if not desk.groups[-1].calls or dice.random() < 0.2:
            desk.say(dice.choice(("Go on", "  ", "And then?", (Text(""), Image(url="https://example.com/q.png")))))
    return desk


def _content(dice: Random, number: int) -> list[dict[str, Any]]:
    """What a model says. A search without its result was cut off: one that waits for the output of a call goes on in the next reply."""
    said: list[dict[str, Any]] = []
    for _ in range(dice.randint(1, 4)):
        match dice.randrange(7):
            case 0 | 1:
                said.append(thinks(f"thought {number}"))
            case 2:
                said.append(copy.deepcopy(HIDDEN))
            case 3:
                said += search(f"srv_{number}_{len(said)}")[: dice.choice((1, 2, 2, 2))]
            case 4:
                said.append(words(dice.choice((f"Words {number}.", " ", "Cited.")), citations=CITED if dice.random() < 0.3 else None))
            case _:
                said.append(
                    use(dice.choice((f"toolu_{number}_{len(said)}", "same", "bad id")), dice.choice(("handoff", "tool_0")), n=number)
                )
    if any(block["type"] == "tool_use" for block in said):
        found = {block["tool_use_id"] for block in said if block["type"] == "web_search_tool_result"}
        said = [block for block in said if block["type"] != "server_tool_use" or block["id"] in found]
    return said


def test_every_request_of_random_conversations_is_legal_and_much_thinking_is_sent_back() -> None:
    sent = bound = 0
    for seed in range(150):
        desk = play(seed)
        for agent, body in desk.requests:
            count = len(thoughts(body))
            sent += count
            bound += count if desk.models[agent].model in (BINDS, "claude-sonnet-5-5") else 0
    assert sent > 1000
    assert bound > 300


def test_what_an_agent_was_sent_is_how_its_next_request_in_the_same_frame_begins() -> None:
    for model in MODELS:
        for seed in range(10):
            dice = Random(seed)
            desk = Desk.of("a", "b", model=model, effort=None if model == FREE else "low").say()
            before: dict[str, dict[str, Any]] = {}
            for number in range(10):
                agent = dice.choice("ab")
                body = desk.turn(agent, *_content(dice, number), words("."))
                if agent in before:
                    earlier = before[agent]
                    assert (body["system"], body["tools"]) == (earlier["system"], earlier["tools"])
                    assert blocks_of(body)[: len(blocks_of(earlier))] == blocks_of(earlier)
                before[agent] = body
                if not desk.groups[-1].calls:
                    desk.say("Go on")


def test_the_same_conversation_is_the_same_bytes_with_caches_and_without() -> None:
    for seed in range(20):
        desk = play(seed)
        options = desk.models["a"]
        first = compile_request(asked(desk.frames["a"], desk.groups), options, origin_of(options), stream=True)
        clear_cache(desk.groups)
        again = compile_request(asked(desk.frames["a"], desk.groups), options, origin_of(options), stream=True)
        assert first == again


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "import hashlib; from tests.providers.anthropic.test_conversations import *; desk = play(7); options = desk.models['a'];"
        "made = compile_request(asked(desk.frames['a'], desk.groups), options, origin_of(options), stream=True);"
        "print(hashlib.sha256(made.body).hexdigest(), made.losses)"
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
