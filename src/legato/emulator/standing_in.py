"""The emulator in place of providers whose keys are not set. May know: the SDKs' variables. Decides: who is stood in for.

The SDKs read addresses and keys from the environment when a client is made, and Legato's models make theirs at their first request. So
variables are all that has to change, and a program is the same with a key and without.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from legato.asgi.blocks import InBlock
from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.emulator.exchanges import Exchange
    from legato.emulator.running import Emulator

KEY = "legato-stand-in"
"""The key that is set for the emulator. It is no key: a stand-in within another, or in a child process, stands in as well."""

CLIENT_LEFT = 499


class Provider(NamedTuple):
    """A provider, as its SDK finds it."""

    name: str
    address: str  # the variable that names where it is
    path: str  # what of the emulator's address belongs there
    key: str
    chosen_by: tuple[str, ...]  # variables any of which says that the program has this provider

    def chosen(self, environment: Mapping[str, str]) -> str:
        """The variable that says so; empty if none does."""
        if environment.get(self.key) == KEY:
            return ""
        return next((name for name in self.chosen_by if environment.get(name)), "")


PROVIDERS = (
    Provider("OpenAI", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY", ("OPENAI_API_KEY",)),
    Provider(
        "Anthropic",
        "ANTHROPIC_BASE_URL",
        "",
        "ANTHROPIC_API_KEY",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID"),
    ),
    # On Azure a key may be missing where a program brings a credential; it cannot do without an endpoint.
    Provider(
        "Azure",
        "AZURE_OPENAI_ENDPOINT",
        "",
        "AZURE_OPENAI_API_KEY",
        ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"),
    ),
)
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
PAST_PROXIES = ("no_proxy", "NO_PROXY")


class StandIn(InBlock):
    """Made by `stand_in`. `emulator` is the one that answers; None where every provider has its key."""

    def __init__(self, mind: object, quiet: bool, options: Mapping[str, Any]) -> None:
        self.emulator: Emulator | None = None
        self._mind = mind
        self._quiet = quiet
        self._options = {**options, "keys": _with_ours(options.get("keys") or ())}
        self._at_work = False
        self._before: dict[str, str | None] = {}
        self._set: dict[str, str] = {}
        self._refused: list[Exchange] = []

    def start(self) -> Self:
        """Stand in for every provider that has no key, and say so."""
        if self._at_work:
            raise BadInput("this stand-in is at work already", do="make another with stand_in()")
        chosen = {provider: name for provider in PROVIDERS if (name := provider.chosen(os.environ))}
        missing = [provider for provider in PROVIDERS if provider not in chosen]
        told = [f"{name} is set, so {_where(provider)} answers" for provider, name in chosen.items()]
        if missing:
            told.append(self._stand_in_for(missing, alone=not chosen))
        self._at_work = True
        self._tell("; ".join(told))
        return self

    def _stand_in_for(self, missing: list[Provider], *, alone: bool) -> str:
        """Start the emulator and point the variables at it. Returns what there is to say."""
        from legato import emulator

        names = _listed(provider.name for provider in missing)
        try:
            emulator.Emulator  # noqa: B018 - it is looked for when it is first wanted
        except BadInput as error:
            if alone:
                do = f"set {' or '.join(provider.key for provider in missing)}; or {error.do}"
                raise BadInput("no key is set, and the emulator that would stand in is not installed", found=error.found, do=do) from None
            return f"nobody stands in for {names}: the emulator is not installed ({error.do})"
        self.emulator = emulator.serve(mind=self._mind, **self._options).start()
        self._refused = []
        self.emulator.log.listen(self._listen)
        aside = _listed(each.address for each in missing if os.environ.get(each.address) and os.environ.get(each.key) != KEY)
        self._set = _variables(missing, self.emulator)
        self._before = {name: os.environ.get(name) for name in self._set}
        os.environ.update(self._set)
        why = "no key is set, so " if alone else ""
        return f"{why}the emulator at {self.emulator.url} stands in for {names}{f' ({aside} is set aside)' if aside else ''}"

    def stop(self) -> None:
        """Stop the emulator and put the variables back, except those that somebody else has set since. Stopping twice is harmless."""
        for name, before in self._before.items():
            if os.environ.get(name) == self._set[name]:
                if before is None:
                    del os.environ[name]
                else:
                    os.environ[name] = before
        self._before, self._set = {}, {}
        if self._at_work and self.emulator is not None:
            self.emulator.stop()
            self._tell(f"the emulator {self._sums(self.emulator.log.requests)}")
        self._at_work = False

    def _listen(self, exchange: Exchange) -> None:
        if exchange.status >= 400 and exchange.status != CLIENT_LEFT and not exchange.fault:
            self._refused.append(exchange)

    def _sums(self, asked: int) -> str:
        if not (asked or self._refused):
            return "was asked nothing"
        answered = f"was asked for {asked} {'reply' if asked == 1 else 'replies'}"
        if not self._refused:
            return f"{answered} and refused none"
        first = self._refused[0]
        return f"{answered} and refused {len(self._refused)}, first number {first.number}: {' '.join(first.told.split())}"

    def _tell(self, line: str) -> None:
        if not self._quiet:
            print(f"legato: {line}", file=sys.stderr, flush=True)

    def __repr__(self) -> str:
        return f"<StandIn: {self.emulator or 'no emulator'}>"


def _where(provider: Provider) -> str:
    """Who answers for a provider that the program has: its address, without a password that may stand in it, or its name."""
    return re.sub(r"//[^/]*@", "//", os.environ.get(provider.address) or provider.name)


def _with_ours(keys: str | Iterable[str]) -> list[str]:
    """The keys that the emulator accepts; none: any."""
    given = [keys] if isinstance(keys, str) else [*keys]
    return [*given, KEY] if given else []


def _variables(providers: Iterable[Provider], emulator: Emulator) -> dict[str, str]:
    """What the environment has to say for these providers to be the emulator."""
    told: dict[str, str] = {}
    for provider in providers:
        told |= {provider.address: f"{emulator.url}{provider.path}", provider.key: KEY}
    if any(os.environ.get(name) for name in PROXIES):  # which cannot reach this machine, and are not to be asked
        told |= {name: ",".join(filter(None, [os.environ.get(name), emulator.options.host])) for name in PAST_PROXIES}
    return told


def _listed(names: Iterable[str]) -> str:
    """
    >>> _listed(["OpenAI", "Anthropic", "Azure"])
    'OpenAI, Anthropic and Azure'
    """
    return " and ".join(filter(None, [", ".join((given := list(names))[:-1]), *given[-1:]]))
