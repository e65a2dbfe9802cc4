"""The Messages API as the server speaks it. May know: the law book, the models, what the model says. Decides: nothing of its own.

The API holds nothing between requests: what it must recognise again comes back to it under its own seal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from legato.emulator.anthropic import failures, reading, writing
from legato.emulator.anthropic.held import SealedHeld
from legato.emulator.asks import Answer, Ask, Event, Failure, Refusal
from legato.emulator.ids import Ids
from legato.emulator.loose import string, whole
from legato.emulator.minds.base import Prompt, Say
from legato.emulator.models import Catalogue, Model
from legato.emulator.seal import Seal
from legato.emulator.tokens import count_request
from legato.providers.rules.anthropic import laws
from legato.providers.rules.anthropic.thinking import dropped_thinking
from legato.providers.rules.rule_set import Complaint

_ABOUT_THE_ANSWER = ("max_tokens", "metadata", "stop_sequences", "temperature", "service_tier", "top_k", "top_p", "stream", "container")
_ROOM = 64_000  # the `max_tokens` that a request to be counted is judged with: it has none


class AnthropicDialect:
    """`POST /v1/messages` and `/v1/messages/count_tokens`."""

    api = "anthropic"

    def __init__(self, ids: Ids, seal: Seal, profile: laws.Profile, models: Catalogue) -> None:
        self._ids = ids
        self._seal = seal
        self._profile = profile
        self._models = models

    def judge(self, ask: Ask) -> Sequence[Complaint]:
        """The law book's complaints. Only what is legal otherwise is counted, to see whether it fits the model's window."""
        return tuple(self._judge(ask, ask.body if ask.stray is None else ask.stray))

    def refuse(self, ask: Ask, complaints: Sequence[Complaint]) -> Refusal:
        """The first complaint in Anthropic's envelope."""
        request_id = self._request_id()
        headers = failures.headers(ask, _organisation(ask), request_id)
        return Refusal(complaints[0].status, laws.envelope(complaints[0], request_id), headers, tuple(complaints))

    def fail(self, ask: Ask, failure: Failure) -> Refusal:
        """A failure of the provider; a refused key comes without the headers of limits."""
        request_id = self._request_id()
        body = failures.body(ask, failure, self._model(ask).window, _tokens(ask), request_id)
        return Refusal(failures.status(failure), body, failures.headers(ask, _organisation(ask), request_id, failure))

    def strike(self, ask: Ask, kind: str) -> bool:
        """There is nothing stored that a request could stand on."""
        return False

    def begin(self, ask: Ask) -> None:
        """Nothing is locked."""

    def prompt(self, ask: Ask) -> Prompt:
        """What the model is given."""
        return reading.prompt(ask.body, self._model(ask).name)

    def answer(self, ask: Ask, say: Say) -> Answer:
        """The message and its events."""
        model, held, terms = self._model(ask), self._held(ask), reading.terms(ask.body)

        def sign(thinking: str, before: Sequence[dict[str, Any]]) -> str:
            return held.sign(ask.body, model.name, thinking, before)

        spoken = writing.speak(say, terms, self._ids, sign, reading.call_ids(ask.body))
        changes = self._changes(ask) if reading.reports_transformations(ask.headers) else None
        body = writing.message(
            self._ids.word("msg_01", 22),
            model.answers_as,
            self._tokens(ask),
            spoken,
            transformations=changes,
            thinks=terms.thinks,
            edits=ask.body.get("context_management") is not None,
        )
        return Answer(body, tuple(writing.events(body, spoken.inputs)))

    def keep(self, ask: Ask, answer: Answer) -> None:
        """Nothing is stored."""

    def end(self, ask: Ask) -> None:
        """Nothing was locked."""

    def fail_stream(self, ask: Ask, answer: Answer, failure: Failure, after: int, flat: bool) -> tuple[Event, ...]:
        """So many events, then an error and the end. The documents and the wire have one form, so `flat` is the same."""
        error = failures.fault(ask, failure, self._model(ask).window, _tokens(ask))
        return (*answer.events[: min(after, len(answer.events) - 1)], Event({"type": "error", "error": error}, "error"))

    def headers(self, ask: Ask, *, streams: bool, status: int = 200) -> dict[str, str]:
        """The headers of an answer."""
        return failures.headers(ask, _organisation(ask), self._request_id())

    def count_tokens(self, ask: Ask) -> tuple[int, dict[str, Any]]:
        """`POST /v1/messages/count_tokens`: the status and the body. What may be sent may be counted, without what is about the answer."""
        request = {name: value for name, value in ask.body.items() if name not in _ABOUT_THE_ANSWER}
        complaints = self._judge(ask, _with_room(request))
        if complaints:
            return complaints[0].status, laws.envelope(complaints[0], self._request_id())
        extra = next((name for name, value in ask.body.items() if name in _ABOUT_THE_ANSWER and value is not None), None)
        if extra:
            error = {"type": "invalid_request_error", "message": f"{extra}: Extra inputs are not permitted"}
            return 400, {"type": "error", "error": error, "request_id": self._request_id()}
        return 200, {"input_tokens": self._tokens(ask)}

    def _held(self, ask: Ask) -> SealedHeld:
        return SealedHeld(ask.account, self._seal, self._models)

    def _model(self, ask: Ask) -> Model:
        name = string(ask.body.get("model"))
        return self._models.find("anthropic", name) or Model(name, "anthropic")

    def _judge(self, ask: Ask, request: Any) -> list[Complaint]:
        held, window = self._held(ask), self._model(ask).window
        complaints = laws.judge(request, ask.headers, held, self._profile, size=ask.size)
        if complaints or not window or (tokens := self._tokens(ask)) <= window:
            return complaints
        return laws.judge(request, ask.headers, held, self._profile, tokens=tokens)

    def _changes(self, ask: Ask) -> list[dict[str, str]]:
        """What becomes of the thinking in a legal request, where it is not read as it was sent."""
        return dropped_thinking(ask.body, ask.headers, self._held(ask), self._profile)

    def _tokens(self, ask: Ask) -> int:
        """The tokens of a legal request; thinking that is dropped counts for nothing."""
        return _tokens(ask, [change["path"] for change in self._changes(ask) if change["type"] == "thinking_dropped"])

    def _request_id(self) -> str:
        return self._ids.word("req_011C", 20)


def _tokens(ask: Ask, dropped: Collection[str] = ()) -> int:
    return count_request(reading.prompt_strings(ask.body, dropped))


def _with_room(request: dict[str, Any]) -> dict[str, Any]:
    """A request to be counted, as one that may be judged: with room for an answer, of which thinking takes no more than there is."""
    thinking = request.get("thinking")
    if isinstance(thinking, dict) and (whole(thinking.get("budget_tokens")) or 0) >= _ROOM:
        request = {**request, "thinking": {**thinking, "budget_tokens": _ROOM - 1}}
    return {**request, "max_tokens": _ROOM}


def _organisation(ask: Ask) -> str:
    """The account's id, in the form that Anthropic gives it."""
    digits = hashlib.sha256(ask.account.encode("utf-8", "replace")).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
