"""The casebooks, put to running emulators over HTTP: what a case sets up is done by real requests, as a client would do it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2

from legato.emulator import serve
from legato.emulator.exchanges import Exchange
from legato.emulator.minds.base import Prompt, Say, Words
from legato.emulator.responses.held import KEPT_FOR
from tests.providers.lawcase import LawCase, Step, filled

NO_HEADERS: Mapping[str, str] = {}
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
COUNTED = {"chat": "prompt_tokens", "anthropic": "input_tokens"}  # where a reply says how long the prompt was
ONE_TOKEN = " abc"  # by the tokenizer, and by the estimate that takes its place


class Told:
    """A mind that says what it was told to say next, and otherwise wishes a good day."""

    def __init__(self) -> None:
        self.next: list[Say] = []

    def reply(self, prompt: Prompt) -> Say:
        """What to say."""
        return self.next.pop(0) if self.next else Say((Words("good day"),))


class Bench:
    """A running emulator with certain switches, and a client of it. `azure`: by the paths of Azure."""

    def __init__(self, switches: Mapping[str, Any], *, azure: bool = False) -> None:
        self._mind = Told()
        self._now = time.time()
        root = "/openai" if azure else ""
        self._emulator = serve(mind=self._mind, switches=switches, clock=lambda: self._now, keep=100).start()
        self._client = httpx2.Client(base_url=self._emulator.url + root, trust_env=False, timeout=60)

    def close(self) -> None:
        """Stop."""
        self._client.close()
        self._emulator.stop()

    @contextmanager
    def after(self, api: str, steps: tuple[Step, ...]) -> Iterator[dict[str, Any]]:
        """Let the steps happen. What they saved; what they hold open is let go of in the end."""
        saved: dict[str, Any] = {}
        with ExitStack() as open_streams:
            for step in steps:
                self._take(api, step, saved, open_streams)
            yield saved

    def put(self, api: str, case: LawCase, request: Any, saved: Mapping[str, Any], *omits: str, stream: bool = False) -> httpx2.Response:
        """Send a request of a case. `omits`: headers that are left out."""
        body = filled(request, saved)
        if case.tokens:
            body = self.lengthened(api, body, case.tokens)
        return self.send(api, {**body, "stream": True} if stream else body, headers=case.headers, omits=omits)

    def send(
        self, api: str, body: Any, *, account: str = "", headers: Mapping[str, str] = NO_HEADERS, omits: Sequence[str] = ()
    ) -> httpx2.Response:
        """A request, and the answer to its end."""
        sent = {**_credentials(api, account), **headers}
        return self._client.post(PATHS[api], json=body, headers={name: value for name, value in sent.items() if name not in omits})

    def newest(self) -> Exchange:
        """What was kept of the request that arrived last."""
        return max(self._emulator.exchanges, key=lambda exchange: exchange.number)

    def lengthened(self, api: str, body: dict[str, Any], tokens: int) -> dict[str, Any]:
        """The same request, its last message so long that the whole prompt comes to so many tokens by the emulator's own account."""
        short = self.send(api, body).json()["usage"][COUNTED[api]]
        *before, last = body["messages"]
        return {**body, "messages": [*before, {**last, "content": last["content"] + ONE_TOKEN * (tokens - short)}]}

    def _take(self, api: str, step: Step, saved: dict[str, Any], open_streams: ExitStack) -> None:
        body = filled(step.body, saved)
        match step.kind:
            case "respond":
                self._mind.next.append(Say(step.say, step.finish))
                answer = self.send(api, body, account=step.account)
                saved[step.name] = answer.json()
            case "conversation":
                answer = self._client.post("/v1/conversations", json=body, headers=_credentials(api))
                saved[step.name] = answer.json()
            case "delete":
                answer = self._client.delete(f"{PATHS[api]}/{saved[step.name]['id']}", headers=_credentials(api))
            case "expire":
                self._now += KEPT_FOR + 1
                return
            case "lock":
                talk = {"model": "gpt-4o-mini", "input": "wait", "conversation": saved[step.name]["id"], "stream": True}
                slowly = {**_credentials(api), "x-legato-fault": "slow delay=60"}
                answer = open_streams.enter_context(self._client.stream("POST", PATHS[api], json=talk, headers=slowly))
        assert answer.status_code == 200, f"{step.kind} {step.name}: {answer.read().decode()}"


def _credentials(api: str, account: str = "") -> dict[str, str]:
    key = f"sk-{account or 'mine'}"
    return {"x-api-key": key, "anthropic-version": "2023-06-01"} if api == "anthropic" else {"authorization": f"Bearer {key}"}


class Benches:
    """One bench for every set of switches that a case asks for, started when it is first wanted."""

    def __init__(self) -> None:
        self._benches: dict[str, Bench] = {}

    def of(self, api: str, case: LawCase, *, azure: bool = False) -> Bench:
        """The bench of a case."""
        switches = {f"{api}.{name}": value for name, value in case.profile.items()}
        name = f"{sorted(switches.items())} {azure}"
        if name not in self._benches:
            self._benches[name] = Bench(switches, azure=azure)
        return self._benches[name]

    def close(self) -> None:
        """Stop them all, at once: each takes its time to notice."""
        with ThreadPoolExecutor() as threads:
            for closed in [threads.submit(bench.close) for bench in self._benches.values()]:
                closed.result()
