"""Sends the cases of the provider rules to running emulators over HTTP. The setup of a case is done with real requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2

from legato.emulator import serve
from legato.emulator.exchanges import Exchange
from legato.emulator.fake_models.base import FakeReply, ModelPrompt, ReplyText
from legato.emulator.responses.provider_state import RESPONSE_LIFETIME_S
from tests.providers.rules.rule_cases import RuleCase, SetupStep, fill_placeholders

NO_HEADERS: Mapping[str, str] = {}
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
TOKEN_COUNT_MEMBERS = {"chat": "prompt_tokens", "anthropic": "input_tokens"}  # the member of a reply with the prompt's tokens
ONE_TOKEN = " abc"  # for the tokenizer, and for the estimate


class QueuedFakeModel:
    """A fake model with a queue of replies. With an empty queue it replies "good day"."""

    def __init__(self) -> None:
        self.next_replies: list[FakeReply] = []

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        """Return the next reply."""
        return self.next_replies.pop(0) if self.next_replies else FakeReply((ReplyText("good day"),))


class RuleCaseClient:
    """A running emulator with some switches, and an HTTP client of it. `is_azure`: with Azure's paths."""

    def __init__(self, switches: Mapping[str, Any], *, is_azure: bool = False) -> None:
        self._fake_model = QueuedFakeModel()
        self._now = time.time()
        root = "/openai" if is_azure else ""
        self._emulator = serve(fake_model=self._fake_model, switches=switches, clock=lambda: self._now, max_exchanges=100).start()
        self._client = httpx2.Client(base_url=self._emulator.url + root, trust_env=False, timeout=60)

    def close(self) -> None:
        """Stop the emulator."""
        self._client.close()
        self._emulator.stop()

    @contextmanager
    def prepare(self, api: str, steps: tuple[SetupStep, ...]) -> Iterator[dict[str, Any]]:
        """Run the setup steps. Yields the objects that they saved, and closes their streams at the end."""
        saved: dict[str, Any] = {}
        with ExitStack() as open_streams:
            for step in steps:
                self._run_step(api, step, saved, open_streams)
            yield saved

    def send_case(
        self, api: str, case: RuleCase, request: Any, saved: Mapping[str, Any], *omitted_headers: str, stream: bool = False
    ) -> httpx2.Response:
        """Send a request of a case, without the omitted headers."""
        body = fill_placeholders(request, saved)
        if case.token_count:
            body = self.lengthen(api, body, case.token_count)
        return self.send(api, {**body, "stream": True} if stream else body, headers=case.headers, omitted_headers=omitted_headers)

    def send(
        self, api: str, body: Any, *, account: str = "", headers: Mapping[str, str] = NO_HEADERS, omitted_headers: Sequence[str] = ()
    ) -> httpx2.Response:
        """Send a request and read the whole response."""
        request_headers = {**_credentials(api, account), **headers}
        return self._client.post(
            PATHS[api], json=body, headers={name: value for name, value in request_headers.items() if name not in omitted_headers}
        )

    def find_newest_exchange(self) -> Exchange:
        """Return the exchange of the request that arrived last."""
        return max(self._emulator.exchanges, key=lambda exchange: exchange.number)

    def lengthen(self, api: str, body: dict[str, Any], tokens: int) -> dict[str, Any]:
        """Return the request with a longer last message, so that the emulator counts this number of tokens."""
        token_count = self.send(api, body).json()["usage"][TOKEN_COUNT_MEMBERS[api]]
        *earlier, last = body["messages"]
        return {**body, "messages": [*earlier, {**last, "content": last["content"] + ONE_TOKEN * (tokens - token_count)}]}

    def _run_step(self, api: str, step: SetupStep, saved: dict[str, Any], open_streams: ExitStack) -> None:
        body = fill_placeholders(step.body, saved)
        match step.kind:
            case "respond":
                self._fake_model.next_replies.append(FakeReply(step.model_output, step.finish_reason))
                response = self.send(api, body, account=step.account)
                saved[step.name] = response.json()
            case "conversation":
                response = self._client.post("/v1/conversations", json=body, headers=_credentials(api))
                saved[step.name] = response.json()
            case "delete":
                response = self._client.delete(f"{PATHS[api]}/{saved[step.name]['id']}", headers=_credentials(api))
            case "expire":
                self._now += RESPONSE_LIFETIME_S + 1
                return
            case "lock":
                body = {"model": "gpt-4o-mini", "input": "wait", "conversation": saved[step.name]["id"], "stream": True}
                headers = {**_credentials(api), "x-legato-fault": "slow delay=60"}
                response = open_streams.enter_context(self._client.stream("POST", PATHS[api], json=body, headers=headers))
        assert response.status_code == 200, f"{step.kind} {step.name}: {response.read().decode()}"


def _credentials(api: str, account: str = "") -> dict[str, str]:
    key = f"sk-{account or 'mine'}"
    return {"x-api-key": key, "anthropic-version": "2023-06-01"} if api == "anthropic" else {"authorization": f"Bearer {key}"}


class RuleCaseClients:
    """A client for every set of switches, started when a case first needs it."""

    def __init__(self) -> None:
        self._clients: dict[str, RuleCaseClient] = {}

    def find(self, api: str, case: RuleCase, *, is_azure: bool = False) -> RuleCaseClient:
        """Return the client for a case."""
        switches = {f"{api}.{name}": value for name, value in case.switches.items()}
        name = f"{sorted(switches.items())} {is_azure}"
        if name not in self._clients:
            self._clients[name] = RuleCaseClient(switches, is_azure=is_azure)
        return self._clients[name]

    def close(self) -> None:
        """Stop all emulators in parallel, because each takes some time."""
        with ThreadPoolExecutor() as threads:
            for future in [threads.submit(client.close) for client in self._clients.values()]:
                future.result()
