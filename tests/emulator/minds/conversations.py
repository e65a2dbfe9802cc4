"""Conversations with a mind, without a server: what a client would do with its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.minds import Heard, Mind, Prompt, Say, Tool, Use, Words


def tool(name: str, description: str = "", **types: str) -> Tool:
    """A tool whose arguments have these types and are all required."""
    properties = {key: {"type": kind} for key, kind in types.items()}
    return Tool(name, description, {"type": "object", "properties": properties, "required": list(types)})


def prompt(said: str = "", *tools: Tool, **rest: Any) -> Prompt:
    """A prompt that ends with what the user said."""
    heard = (Heard("user", said),) if said else ()
    return Prompt(**{"api": "chat", "model": "m", "tools": tools, "heard": heard, **rest})


class Agent(Struct, frozen=True):
    """Instructions and tools; a handoff changes both."""

    instructions: str
    tools: tuple[Tool, ...] = ()


class Told(Struct):
    """What came of it."""

    says: list[Say]
    heard: tuple[Heard, ...]

    @property
    def calls(self) -> list[list[str]]:
        """The tools called in each turn that called any."""
        return [names for say in self.says if (names := [item.tool for item in say.items if isinstance(item, Use)])]

    @property
    def words(self) -> str:
        """The last words."""
        return next((item.text for item in reversed(self.says[-1].items) if isinstance(item, Words)), "")


def uses(say: Say) -> list[Use]:
    """The calls of an answer."""
    return [item for item in say.items if isinstance(item, Use)]


def talk(
    mind: Mind,
    said: str,
    agents: Mapping[str, Agent],
    outputs: Mapping[str, str] | Callable[[Use], str] = {},  # noqa: B006 - only read
    *,
    begin: Sequence[Heard] = (),
    most: int = 50,
    **rest: Any,
) -> Told:
    """One message of the user's and all that follows, the first agent first. An output for every call; a handoff changes the agent."""
    agent = next(iter(agents.values()))
    heard = (*begin, Heard("user", said))
    says: list[Say] = []
    for turn in range(most):
        asked = Prompt(**{"api": "chat", "model": "m", **rest, "instructions": agent.instructions, "tools": agent.tools, "heard": heard})
        say = mind.reply(asked)
        says.append(say)
        called = [replace(use, id=f"call_{len(heard)}_{turn}_{at}") for at, use in enumerate(uses(say))]
        words = " ".join(item.text for item in say.items if isinstance(item, Words))
        heard = (*heard, Heard("assistant", words, tuple(called)))
        if not called:
            break
        for use in called:
            output = outputs(use) if callable(outputs) else outputs.get(use.tool, "done")
            heard = (*heard, Heard("tool", output, call=use.id, tool=use.tool))
            agent = agents.get(use.tool, agent)
    return Told(says, heard)
