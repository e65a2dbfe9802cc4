"""A strict provider on your own machine: the law books behind HTTP.

    with serve() as emulator:
        client = openai.OpenAI(base_url=emulator.openai_url, api_key="any")

What the provider would refuse is refused, with the same status and the same words. See docs/emulator.md.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.emulator.options import options_of
from legato.emulator.standing_in import StandIn
from legato.errors import BadInput, install_hint

if TYPE_CHECKING:
    from legato.emulator.running import Emulator


def serve(
    *,
    mind: object = None,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 0,
    faults: Sequence[str] = (),
    state: str | Path | None = None,
    log: str | Path | None = None,
    switches: Mapping[str, Any] | None = None,
    keys: Sequence[str] = (),
    latency: float = 0.0,
    keep: int = 1000,
    longest: int | None = 20_000,
    clock: Callable[[], float] = time.time,
) -> Emulator:
    """An emulator, to be used in a `with` or `async with` block.

    - `mind`: what the model says. A script (`.yaml`), a recorded log (`.jsonl`), a function of the prompt, a list of replies;
      without one, a support desk that uses the tools it is given.
    - `host`, `port`: where it listens; port 0 is any that is free. A host that is not loopback needs `keys`.
    - `seed`: ids, faults by rate and whatever the mind chooses follow from it.
    - `faults`: what goes wrong: `["rate_limit@3", "cut event=5~10%"]`.
    - `state`: a file in which stored responses and conversations survive a restart.
    - `log`: a file to which every exchange is appended as a line of JSON.
    - `switches`: which of the rules that are not certain are in force: `{"responses.zero_data_retention": True}`.
    - `keys`: the API keys that are accepted; without, any.
    - `latency`: seconds before every answer. `keep`: how many exchanges can be looked at afterwards; `longest`: the letters of one text
      that are kept of a request (None: all). `clock`: the time in seconds, for those who cannot wait thirty days until a response
      expires.
    """
    emulator: Emulator = __getattr__("Emulator")(
        options_of(
            mind=mind,
            host=host,
            port=port,
            seed=seed,
            faults=faults,
            state=state,
            log=log,
            switches=switches,
            keys=keys,
            latency=latency,
            keep=keep,
            longest=longest,
            clock=clock,
        )
    )
    return emulator


def stand_in(mind: object = None, *, quiet: bool = False, **serve_options: Any) -> StandIn:
    """An emulator for programs that may have no key, to be used in a `with` or `async with` block.

        async with stand_in():
            result = await Agent("clerk", model="openai:gpt-5.1").run("Hello")

    Where OPENAI_API_KEY is set nothing is done, and the program talks to OpenAI. Where it is not, an emulator is started, and for the time
    of the block OPENAI_BASE_URL and OPENAI_API_KEY name it; likewise for Anthropic and Azure, each by its own variables. Variables belong
    to the whole process, and SDKs read them when a client is made: Legato's models do so at their first request in an event loop.

    - `mind` and all other options are those of `serve`. They count only where the emulator stands in.
    - `quiet`: do not say, on standard error, who answers and at the end whether anything was refused.

    It returns an object whose `emulator` is the running one, or None where every provider has its key. `start()` and `stop()` do the
    same without a block.

    >>> import os
    >>> with stand_in(quiet=True) as standing:
    ...     os.environ["OPENAI_BASE_URL"] == standing.emulator.openai_url
    True
    >>> "OPENAI_BASE_URL" in os.environ
    False
    """
    inspect.signature(serve).bind(mind=mind, **serve_options)  # a misspelled option is told even where a key is set
    return StandIn(mind, quiet, serve_options)


def __getattr__(name: str) -> Any:
    """`Emulator`, which needs a web server: so it is looked for when it is first wanted."""
    if name != "Emulator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from legato.emulator.running import Emulator
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        do = install_hint("emulator")
        raise BadInput("the emulator needs a web server, which is not installed", found=str(missing), do=do) from None
    return Emulator


__all__ = ["Emulator", "StandIn", "serve", "stand_in"]
