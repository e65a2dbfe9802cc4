"""Chat Completions as the server speaks it. May know: the law book, the models, what the model says. Decides: nothing of its own.

The API holds nothing between requests, but for completions that ask to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from legato.emulator.asks import Answer, Ask, Event, Failure, Refusal
from legato.emulator.chat import failures, reading, writing
from legato.emulator.ids import Ids
from legato.emulator.loose import string
from legato.emulator.minds.base import Prompt, Say
from legato.emulator.models import Catalogue, Model
from legato.emulator.responses.failures import retry_headers, wait_of
from legato.emulator.responses.headers import headers_of
from legato.emulator.responses.lists import not_found
from legato.emulator.shelf import Shelf
from legato.emulator.tokens import count_request
from legato.providers.rules.chat import laws
from legato.providers.rules.chat.held import ModelInfo, Models
from legato.providers.rules.rule_set import Complaint

STORED = "chat.completion"
"""The kind under which a stored completion lies on the shelf."""


class ChatDialect:
    """`POST /v1/chat/completions`, and Azure's path for the same."""

    api = "chat"

    def __init__(self, shelf: Shelf, ids: Ids, profile: laws.Profile, models: Catalogue) -> None:
        self._shelf = shelf
        self._ids = ids
        self._profile = profile
        self._models = models

    def judge(self, ask: Ask) -> Sequence[Complaint]:
        """The law book's complaints."""
        request = _request(ask) if ask.stray is None else ask.stray
        return tuple(laws.judge(request, models=self._info(ask), tokens=_tokens(ask), profile=self._profile))

    def refuse(self, ask: Ask, complaints: Sequence[Complaint]) -> Refusal:
        """The first complaint in OpenAI's envelope."""
        first = complaints[0]
        return Refusal(first.status, laws.envelope(first), headers_of(ask, self._ids, status=first.status), tuple(complaints))

    def fail(self, ask: Ask, failure: Failure) -> Refusal:
        """A failure of the provider, in OpenAI's envelope, with the headers that belong to it."""
        wait = wait_of(failure) if failure.kind == "rate_limit" else 0.0
        headers = headers_of(ask, self._ids, status=failure.status, wait=wait)
        body = failures.body(ask, failure, self._model(ask).window, _tokens(ask))
        return Refusal(failure.status, body, headers | retry_headers(failure))

    def strike(self, ask: Ask, kind: str) -> bool:
        """There is nothing stored that a request could stand on."""
        return False

    def begin(self, ask: Ask) -> None:
        """Nothing is locked."""

    def prompt(self, ask: Ask) -> Prompt:
        """What the model is given for the first choice."""
        return self.prompts(ask)[0]

    def prompts(self, ask: Ask) -> tuple[Prompt, ...]:
        """What the model is given for each choice that is asked for (`n`): the same but for the seed."""
        model, body = self._model(ask), _request(ask)
        return tuple(reading.prompt(body, model.name, bool(model.reasons), choice) for choice in range(reading.terms(body).choices))

    def answer(self, ask: Ask, say: Say, *others: Say) -> Answer:
        """The completion and its chunks. `others` are for the further choices; where there are too few, the last is said again."""
        terms = reading.terms(ask.body)
        said = [say, *others][: terms.choices]
        said += [said[-1]] * (terms.choices - len(said))
        taken = reading.call_ids(ask.body)
        choices = [writing.speak(one, terms, self._ids, taken, self._profile.shows_reasoning) for one in said]
        about = writing.Completion(
            id=self._ids.word("chatcmpl-", 29),
            created=int(ask.now),
            model=self._model(ask).answers_as,
            tier=terms.tier,
            prompt_tokens=_tokens(ask),
            azure=ask.azure,
        )
        return Answer(writing.completion(about, choices), tuple(writing.chunks(about, choices, terms, self._ids)))

    def keep(self, ask: Ask, answer: Answer) -> None:
        """Store the completion if the request says so."""
        if ask.body.get("store") is True:
            self._shelf.put(ask.account, STORED, answer.body["id"], answer.body)

    def stored(self, ask: Ask, id: str, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """`GET /v1/chat/completions/{id}`. The words of the refusal are inferred from those of other stored things."""
        row = self._shelf.get(ask.account, STORED, id)
        return (200, row) if row else not_found("Chat completion", id)

    def end(self, ask: Ask) -> None:
        """Nothing was locked."""

    def fail_stream(self, ask: Ask, answer: Answer, failure: Failure, after: int, flat: bool) -> tuple[Event, ...]:
        """So many chunks, then a frame with the error, and no `[DONE]`. No document has another form, so `flat` is the same."""
        frame = failures.streamed(ask, failure, self._model(ask).window, _tokens(ask))
        return (*answer.events[: min(after, len(answer.events) - 1)], Event(frame))

    def headers(self, ask: Ask, *, streams: bool, status: int = 200) -> dict[str, str]:
        """The headers of an answer."""
        return headers_of(ask, self._ids, streams=streams, status=status)

    def _model(self, ask: Ask) -> Model:
        name = string(_request(ask).get("model"))
        return self._models.find("openai", name, deployment=ask.azure) or Model(name)

    def _info(self, ask: Ask) -> Models:
        def info(name: str) -> ModelInfo | None:
            if not name:  # which the law book let pass only if no model need be named
                return ModelInfo("")
            return self._models.chat(name, deployment=ask.azure)

        return info


def _request(ask: Ask) -> dict[str, Any]:
    """The body; on Azure the path names the model."""
    return {**ask.body, "model": ask.deployment} if ask.deployment else ask.body


def _tokens(ask: Ask) -> int:
    return count_request(reading.prompt_strings(ask.body))
