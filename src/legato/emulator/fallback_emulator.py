"""An emulator in place of the providers whose API keys are not set.

The SDKs read addresses and keys from the environment when a client is made, and Legato's models make their clients at their first
request. So only variables have to change, and a program is the same with a key and without.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from legato.asgi.server_context import ServerContext
from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.emulator.exchanges import Exchange
    from legato.emulator.server import Emulator

STAND_IN_KEY = "legato-stand-in"
"""The API key for the emulator. It does not count as a key: a fallback emulator within another, or in a child process, starts as well."""

CLIENT_CLOSED_STATUS = 499


class ReplaceableProvider(NamedTuple):
    """A provider with the environment variables of its SDK."""

    name: str
    url_variable: str
    url_path: str  # the path of the emulator's URL for this variable
    key_variable: str
    credential_variables: tuple[str, ...]  # the program has this provider if any of these is set

    def find_credential(self, environment: Mapping[str, str]) -> str:
        """Return the name of the variable that is set for this provider; empty if there is none."""
        if environment.get(self.key_variable) == STAND_IN_KEY:
            return ""
        return next((name for name in self.credential_variables if environment.get(name)), "")


PROVIDERS = (
    ReplaceableProvider("OpenAI", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY", ("OPENAI_API_KEY",)),
    ReplaceableProvider(
        "Anthropic",
        "ANTHROPIC_BASE_URL",
        "",
        "ANTHROPIC_API_KEY",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID"),
    ),
    # On Azure a program may use a credential instead of a key, but it always needs an endpoint.
    ReplaceableProvider(
        "Azure",
        "AZURE_OPENAI_ENDPOINT",
        "",
        "AZURE_OPENAI_API_KEY",
        ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT"),
    ),
)
PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
NO_PROXY_VARIABLES = ("no_proxy", "NO_PROXY")


class FallbackEmulator(ServerContext):
    """The result of `stand_in`. `emulator` is the running emulator, or None if every provider has its key."""

    def __init__(self, fake_model: object, is_quiet: bool, options: Mapping[str, Any]) -> None:
        self.emulator: Emulator | None = None
        self._fake_model = fake_model
        self._is_quiet = is_quiet
        self._options = {**options, "keys": _add_stand_in_key(options.get("keys") or ())}
        self._is_started = False
        self._previous_variables: dict[str, str | None] = {}
        self._emulator_variables: dict[str, str] = {}
        self._error_exchanges: list[Exchange] = []

    def start(self) -> Self:
        """Start an emulator for the providers without a key, and print which provider replies."""
        if self._is_started:
            raise BadInput("this stand-in is running already", do="make another with stand_in()")
        variables_by_provider = {provider: name for provider in PROVIDERS if (name := provider.find_credential(os.environ))}
        missing = [provider for provider in PROVIDERS if provider not in variables_by_provider]
        sentences = [f"{name} is set, so {_describe_provider(provider)} answers" for provider, name in variables_by_provider.items()]
        if missing:
            sentences.append(self._start_emulator_for(missing, has_no_key=not variables_by_provider))
        self._is_started = True
        self._print("; ".join(sentences))
        return self

    def _start_emulator_for(self, missing: list[ReplaceableProvider], *, has_no_key: bool) -> str:
        """Start the emulator and set the variables. Returns the sentence to print."""
        from legato import emulator

        names = _join_names(provider.name for provider in missing)
        try:
            emulator.Emulator  # noqa: B018 - it is imported when it is first used
        except BadInput as error:
            if has_no_key:
                do = f"set {' or '.join(provider.key_variable for provider in missing)}; or {error.do}"
                raise BadInput("no key is set, and the emulator that would stand in is not installed", found=error.found, do=do) from None
            return f"no emulator stands in for {names}: it is not installed ({error.do})"
        self.emulator = emulator.serve(fake_model=self._fake_model, **self._options).start()
        self._error_exchanges = []
        self.emulator.log.listen(self._record_error)
        ignored_variables = _join_names(
            each.url_variable for each in missing if os.environ.get(each.url_variable) and os.environ.get(each.key_variable) != STAND_IN_KEY
        )
        self._emulator_variables = _make_variables(missing, self.emulator)
        self._previous_variables = {name: os.environ.get(name) for name in self._emulator_variables}
        os.environ.update(self._emulator_variables)
        reason = "no key is set, so " if has_no_key else ""
        remark = f" ({ignored_variables} is set aside)" if ignored_variables else ""
        return f"{reason}the emulator at {self.emulator.url} stands in for {names}{remark}"

    def stop(self) -> None:
        """Stop the emulator and restore the variables, except those that the program has changed since. Stopping twice is harmless."""
        for name, previous in self._previous_variables.items():
            if os.environ.get(name) == self._emulator_variables[name]:
                if previous is None:
                    del os.environ[name]
                else:
                    os.environ[name] = previous
        self._previous_variables, self._emulator_variables = {}, {}
        if self._is_started and self.emulator is not None:
            self.emulator.stop()
            self._print(f"the emulator {self._describe_totals(self.emulator.log.requests)}")
        self._is_started = False

    def _record_error(self, exchange: Exchange) -> None:
        if exchange.status >= 400 and exchange.status != CLIENT_CLOSED_STATUS and not exchange.fault:
            self._error_exchanges.append(exchange)

    def _describe_totals(self, request_count: int) -> str:
        if not (request_count or self._error_exchanges):
            return "was asked for nothing"
        total = f"was asked for {request_count} {'reply' if request_count == 1 else 'replies'}"
        if not self._error_exchanges:
            return f"{total} and refused none"
        first = self._error_exchanges[0]
        return f"{total} and refused {len(self._error_exchanges)}, first number {first.number}: {' '.join(first.summary_line.split())}"

    def _print(self, line: str) -> None:
        if not self._is_quiet:
            print(f"legato: {line}", file=sys.stderr, flush=True)

    def __repr__(self) -> str:
        return f"<FallbackEmulator: {self.emulator or 'no emulator'}>"


def _describe_provider(provider: ReplaceableProvider) -> str:
    """Return the address of a provider, without a password, or its name."""
    return re.sub(r"//[^/]*@", "//", os.environ.get(provider.url_variable) or provider.name)


def _add_stand_in_key(keys: str | Iterable[str]) -> list[str]:
    """Return the keys that the emulator accepts, with its own; empty for any key."""
    accepted = [keys] if isinstance(keys, str) else [*keys]
    return [*accepted, STAND_IN_KEY] if accepted else []


def _make_variables(providers: Iterable[ReplaceableProvider], emulator: Emulator) -> dict[str, str]:
    """Return the variables that point these providers' SDKs to the emulator."""
    variables: dict[str, str] = {}
    for provider in providers:
        variables |= {provider.url_variable: f"{emulator.url}{provider.url_path}", provider.key_variable: STAND_IN_KEY}
    if any(os.environ.get(name) for name in PROXY_VARIABLES):  # a proxy cannot reach this machine
        variables |= {name: ",".join(filter(None, [os.environ.get(name), emulator.options.host])) for name in NO_PROXY_VARIABLES}
    return variables


def _join_names(names: Iterable[str]) -> str:
    """Join names as in a sentence.

    >>> _join_names(["OpenAI", "Anthropic", "Azure"])
    'OpenAI, Anthropic and Azure'
    """
    return " and ".join(filter(None, [", ".join((all_names := list(names))[:-1]), *all_names[-1:]]))
