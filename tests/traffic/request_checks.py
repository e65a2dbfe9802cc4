"""The comparison of a provider's answer to a request with the violations that our rules find in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from legato.emulator.model_catalogue import ModelCatalogue
from legato.providers.rules.anthropic import betas
from legato.providers.rules.anthropic import provider_state as anthropic_state
from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.chat import model_info as chat_models
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import provider_state as responses_state
from legato.providers.rules.responses import rules as responses
from legato.providers.rules.rule_set import RuleViolation
from tests.traffic.corpus import Api, Exchange
from tests.traffic.recorded_provider_state import RecordedAnthropicState, RecordedResponsesState

ModelSet: TypeAlias = Literal["any model", "the emulator's models"]
MODEL_SETS: tuple[ModelSet, ...] = ("any model", "the emulator's models")

Outcome: TypeAlias = Literal["accepted", "refused", "no such model", "not judged"]

UNRELATED_REFUSALS = {
    "Test error": "made up by the suite",
    "Error while downloading": "what an address holds cannot be seen in the request",
    "has been deprecated": "the model has gone since",
    "The API deployment for this resource does not exist": "a deployment that is not there",
    "Resource not found": "a route that is not there",
    "credit balance": "about the account",
    "exceeded your current quota": "about the account",
}
"""Parts of messages of refusals that do not come from a rule for requests, with the reason."""

_UNKNOWN_MODEL_MESSAGE = re.compile(r"The (?:requested )?model [`'].*[`'] does not exist|^model: |^The model .* does not exist")
_DEPLOYMENT_PATH = re.compile(r"/deployments/([^/?]+)/")
_CATALOGUE = ModelCatalogue()


def read_error(exchange: Exchange) -> dict[str, Any]:
    """Return the error of a refusal; empty if it is not in the provider's format."""
    body = exchange.response
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("message"), str) else {}


def classify_outcome(exchange: Exchange) -> tuple[Outcome, str]:
    """Return the outcome of a request as far as rules are concerned, and the reason if it is not checked."""
    if not exchange.is_from_provider:
        return "not judged", "another server"
    if not isinstance(exchange.request, dict):
        return "not judged", "no request is recorded"
    if exchange.is_accepted:
        return "accepted", ""
    if exchange.status not in (400, 404, 413, 422):
        return "not judged", f"status {exchange.status}"
    message = read_error(exchange).get("message", "")
    if not message:
        return "not judged", "the refusal is in no known form"
    for part, reason in UNRELATED_REFUSALS.items():
        if part in message:
            return "not judged", reason
    return ("no such model" if _UNKNOWN_MODEL_MESSAGE.search(message) else "refused"), ""


def list_anthropic_headers(exchange: Exchange) -> dict[str, str]:
    """Return the headers of a request to Anthropic. Many recordings have none: then the request may have had any beta."""
    recorded = {name: value for name, value in exchange.headers.items() if isinstance(value, str)}
    if "anthropic-version" in recorded or "anthropic-beta" in recorded:
        return {"anthropic-version": "2023-06-01", **recorded}
    return {"anthropic-version": "2023-06-01", "anthropic-beta": betas.ALL_BETAS}


class RequestChecker:
    """Checks the requests of one recording in order, with the provider state that the earlier exchanges show."""

    def __init__(self, models: ModelSet) -> None:
        self._knows_models = models == "the emulator's models"
        self._is_azure = False
        self._responses_state = RecordedResponsesState(
            self._find_model_with(_CATALOGUE.find_responses_info, responses_state.ResponsesModelInfo)
        )
        self._anthropic_state = RecordedAnthropicState(
            _CATALOGUE.find_anthropic_info if self._knows_models else anthropic_state.read_model_name
        )

    def _find_model_with(self, find: Callable[..., Any], any_model: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda name: find(name, is_deployment=self._is_azure) if self._knows_models else any_model(name)

    def find_violations(self, exchange: Exchange) -> Sequence[RuleViolation]:
        """Return the violations of our rules in a request."""
        self._is_azure = exchange.host == "azure"
        request = exchange.request
        match exchange.api:
            case "responses":
                return responses.check_request(request, self._responses_state)
            case "chat":
                if self._is_azure and (named := _DEPLOYMENT_PATH.search(exchange.url)):
                    request = {**request, "model": named[1]}
                models = self._find_model_with(_CATALOGUE.find_chat_info, chat_models.ChatModelInfo)
                return chat.check_request(request, find_model=models, switches=chat.AZURE if self._is_azure else chat.OPENAI)
            case "anthropic":
                return anthropic.check_request(request, list_anthropic_headers(exchange), self._anthropic_state)

    def add_answer(self, exchange: Exchange, body: dict[str, Any]) -> None:
        """Add the answer to an accepted request."""
        if isinstance(exchange.request, dict):
            if exchange.api == "responses":
                self._responses_state.add_exchange(exchange.request, body)
            elif exchange.api == "anthropic":
                self._anthropic_state.add_exchange(exchange.request, body)


def identify_request(exchange: Exchange) -> tuple[Api, str, str]:
    """Return a key that equal requests share."""
    headers = {name: exchange.headers.get(name) for name in ("anthropic-version", "anthropic-beta")}
    return exchange.api, json.dumps(exchange.request, sort_keys=True), json.dumps([headers, exchange.host == "azure"])
