"""Compares what the provider said of a request with what our rules say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from legato.emulator.model_catalogue import ModelCatalogue
from legato.providers.rules.anthropic import betas
from legato.providers.rules.anthropic import provider_state as anthropic_held
from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.chat import model_info as chat_held
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import provider_state as responses_held
from legato.providers.rules.responses import rules as responses
from legato.providers.rules.rule_set import RuleViolation
from tests.traffic.corpus import Api, Exchange
from tests.traffic.recorded_state import RecordedResponses, RecordedSignatures

Models: TypeAlias = Literal["any model", "the emulator's models"]
MODELS: tuple[Models, ...] = ("any model", "the emulator's models")

Outcome: TypeAlias = Literal["accepted", "refused", "no such model", "not judged"]

NOT_THE_REQUEST = {
    "Test error": "made up by the suite",
    "Error while downloading": "what an address holds cannot be seen in the request",
    "has been deprecated": "the model has gone since",
    "The API deployment for this resource does not exist": "a deployment that is not there",
    "Resource not found": "a route that is not there",
    "credit balance": "about the account",
    "exceeded your current quota": "about the account",
}
"""Words of refusals that say nothing about a rule for requests, with the reason."""

_NO_MODEL = re.compile(r"The (?:requested )?model [`'].*[`'] does not exist|^model: |^The model .* does not exist")
_DEPLOYMENT = re.compile(r"/deployments/([^/?]+)/")
_CATALOGUE = ModelCatalogue()


def error_of(exchange: Exchange) -> dict[str, Any]:
    """The error that a refusal carries; empty if it is not in the provider's form."""
    body = exchange.response
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("message"), str) else {}


def outcome_of(exchange: Exchange) -> tuple[Outcome, str]:
    """What became of a request, as far as rules are concerned; and why it is not judged."""
    if not exchange.of_provider:
        return "not judged", "another server"
    if not isinstance(exchange.request, dict):
        return "not judged", "no request is recorded"
    if exchange.accepted:
        return "accepted", ""
    if exchange.status not in (400, 404, 413, 422):
        return "not judged", f"status {exchange.status}"
    message = error_of(exchange).get("message", "")
    if not message:
        return "not judged", "the refusal is in no known form"
    for words, reason in NOT_THE_REQUEST.items():
        if words in message:
            return "not judged", reason
    return ("no such model" if _NO_MODEL.search(message) else "refused"), ""


def headers_of(exchange: Exchange) -> dict[str, str]:
    """The headers that a request to Anthropic had. Many suites leave them out of their recordings: then it may have had any beta."""
    recorded = {name: value for name, value in exchange.headers.items() if isinstance(value, str)}
    if "anthropic-version" in recorded or "anthropic-beta" in recorded:
        return {"anthropic-version": "2023-06-01", **recorded}
    return {"anthropic-version": "2023-06-01", "anthropic-beta": betas.ALL_BETAS}


class Judge:
    """Judges the requests of one recording in order, with what the exchanges before them show of the provider's state."""

    def __init__(self, models: Models) -> None:
        self._known = models == "the emulator's models"
        self._azure = False
        self._responses = RecordedResponses(self._model(_CATALOGUE.find_responses_info, responses_held.ResponsesModelInfo))
        self._signatures = RecordedSignatures(_CATALOGUE.find_anthropic_info if self._known else anthropic_held.read_model_name)

    def _model(self, find: Callable[..., Any], any_model: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda name: find(name, is_deployment=self._azure) if self._known else any_model(name)

    def complaints(self, exchange: Exchange) -> Sequence[RuleViolation]:
        """What our rules say of a request."""
        self._azure = exchange.host == "azure"
        request = exchange.request
        match exchange.api:
            case "responses":
                return responses.check_request(request, self._responses)
            case "chat":
                if self._azure and (named := _DEPLOYMENT.search(exchange.url)):
                    request = {**request, "model": named[1]}
                models = self._model(_CATALOGUE.find_chat_info, chat_held.ChatModelInfo)
                return chat.check_request(request, find_model=models, switches=chat.AZURE if self._azure else chat.OPENAI)
            case "anthropic":
                return anthropic.check_request(request, headers_of(exchange), self._signatures)

    def learn(self, exchange: Exchange, body: dict[str, Any]) -> None:
        """Take in the answer to a request that was accepted."""
        if isinstance(exchange.request, dict):
            if exchange.api == "responses":
                self._responses.learn(exchange.request, body)
            elif exchange.api == "anthropic":
                self._signatures.learn(exchange.request, body)


def request_identity(exchange: Exchange) -> tuple[Api, str, str]:
    """What makes a request the same as another one."""
    headers = {name: exchange.headers.get(name) for name in ("anthropic-version", "anthropic-beta")}
    return exchange.api, json.dumps(exchange.request, sort_keys=True), json.dumps([headers, exchange.host == "azure"])
