"""A strict local provider that speaks the APIs of OpenAI, Anthropic and Azure.

    with serve() as emulator:
        client = openai.OpenAI(base_url=emulator.openai_url, api_key="any")

It rejects what the provider would reject, with the same status and the same error message. See docs/emulator.md.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.emulator.fallback_emulator import FallbackEmulator
from legato.emulator.options import make_options
from legato.errors import BadInput, install_hint

if TYPE_CHECKING:
    from legato.emulator.server import Emulator


def serve(
    *,
    fake_model: object = None,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 0,
    faults: Sequence[str] = (),
    state: str | Path | None = None,
    log: str | Path | None = None,
    switches: Mapping[str, Any] | None = None,
    keys: Sequence[str] = (),
    latency: float = 0.0,
    max_exchanges: int = 1000,
    max_text_chars: int | None = 20_000,
    clock: Callable[[], float] = time.time,
) -> Emulator:
    """Return an emulator, for a `with` or `async with` block.

    - `fake_model`: the source of the model's replies. A script (`.yaml`), a recorded log (`.jsonl`), a function of the prompt, a list of
      replies; by default a support desk that uses the tools of the request.
    - `host`, `port`: the address to listen on; port 0 is any free port. A host other than loopback needs `keys`.
    - `seed`: determines ids, faults by rate and the choices of the fake model.
    - `faults`: the faults to apply: `["rate_limit@3", "cut event=5~10%"]`.
    - `state`: a file in which stored responses and conversations survive a restart.
    - `log`: a file to which every exchange is appended as a line of JSON.
    - `switches`: settings for rules that are not certain: `{"responses.zero_data_retention": True}`.
    - `keys`: the accepted API keys; by default any.
    - `latency`: seconds before every reply.
    - `max_exchanges`: the number of exchanges to keep in memory.
    - `max_text_chars`: the characters of one text of a request to keep (None: all).
    - `clock`: returns the time in seconds; a test need not wait thirty days for a response to expire.
    """
    emulator: Emulator = __getattr__("Emulator")(
        make_options(
            fake_model=fake_model,
            host=host,
            port=port,
            seed=seed,
            faults=faults,
            state=state,
            log=log,
            switches=switches,
            keys=keys,
            latency=latency,
            max_exchanges=max_exchanges,
            max_text_chars=max_text_chars,
            clock=clock,
        )
    )
    return emulator


def stand_in(fake_model: object = None, *, quiet: bool = False, **serve_options: Any) -> FallbackEmulator:
    """Return an emulator that replaces the providers without an API key, for a `with` or `async with` block.

        async with stand_in():
            result = await Agent("clerk", model="openai:gpt-5.1").run("Hello")

    If OPENAI_API_KEY is set, nothing is done, and the program talks to OpenAI. If it is not, an emulator is started, and for the time of
    the block OPENAI_BASE_URL and OPENAI_API_KEY name it; likewise for Anthropic and Azure, each by its own variables. Variables belong to
    the whole process, and SDKs read them when a client is made: Legato's models do so at their first request in an event loop.

    - `fake_model` and all other options are those of `serve`. They count only if an emulator is started.
    - `quiet`: do not print, on standard error, which provider replies and at the end whether requests were refused.

    The returned object's `emulator` is the running emulator, or None if every provider has its key. `start()` and `stop()` do the same
    without a block.

    >>> import os
    >>> with stand_in(quiet=True) as standing:
    ...     os.environ["OPENAI_BASE_URL"] == standing.emulator.openai_url
    True
    >>> "OPENAI_BASE_URL" in os.environ
    False
    """
    inspect.signature(serve).bind(fake_model=fake_model, **serve_options)  # so a misspelled option is an error also where a key is set
    return FallbackEmulator(fake_model, quiet, serve_options)


def __getattr__(name: str) -> Any:
    """Import `Emulator` when it is first used: it needs a web server, which is an extra."""
    if name != "Emulator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from legato.emulator.server import Emulator
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        do = install_hint("emulator")
        raise BadInput("the emulator needs a web server, which is not installed", found=str(missing), do=do) from None
    return Emulator


__all__ = ["Emulator", "FallbackEmulator", "serve", "stand_in"]
