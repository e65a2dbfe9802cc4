"""The Responses API as the server needs it. May know: everything in this folder. Decides: what is stored, and when.

What is stored: a response and its items, unless the request said `store: false` or the account keeps nothing. A request that names a
conversation adds its input and output to that conversation even with `store: false`: the conversation is the caller's own record, and
only the response object is not kept (inferred, grade D). A failed response is not kept.

Background mode: the answer is complete at once. Whole, it says `completed`; streamed, it passes through `queued` first. It can be
asked for afterwards like any stored response.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.emulator.asks import Answer, Ask, Event, Failure, Refusal
from legato.emulator.ids import Ids
from legato.emulator.loose import listing, string
from legato.emulator.minds.base import Prompt, Say
from legato.emulator.models import Catalogue
from legato.emulator.responses.bodies import failed, response_object
from legato.emulator.responses.conversations import ConversationEndpoints
from legato.emulator.responses.events import failing_stream, opening_events, stream_of
from legato.emulator.responses.failures import body_of, error_of, retry_headers, wait_of
from legato.emulator.responses.headers import headers_of
from legato.emulator.responses.held import ShelfHeld, Store
from legato.emulator.responses.output import write_output
from legato.emulator.responses.prompting import prompt_of
from legato.emulator.responses.stored import ResponseEndpoints
from legato.emulator.responses.work import Work, begin_work, conversation_of, request_of, tokens_to_judge, turn_of
from legato.emulator.seal import Seal
from legato.emulator.shelf import Shelf
from legato.providers.rules.responses.laws import Profile, envelope, judge
from legato.providers.rules.rule_set import Complaint


class ResponsesDialect:
    """`POST /v1/responses`. The endpoints for what it stores are `self.responses` and `self.conversations`."""

    api = "responses"

    def __init__(self, shelf: Shelf, ids: Ids, seal: Seal, profile: Profile, models: Catalogue | None = None) -> None:
        self._ids = fresh_ids(shelf, ids)
        self._profile = profile
        self._works: dict[int, Work] = {}  # by the ask that they belong to, until its end
        self.store = Store(shelf, seal, models or Catalogue())
        self.responses = ResponseEndpoints(self.store)
        self.conversations = ConversationEndpoints(self.store, self._ids, profile)

    # -- judging -------------------------------------------------------------------------------------------------------

    def judge(self, ask: Ask) -> Sequence[Complaint]:
        """The law book's complaints. A stream that is too long for the model is not refused: it fails on its way (F2)."""
        held = ShelfHeld(self.store, ask.account, ask.now, deployment=ask.azure)
        tokens = 0 if ask.streams else tokens_to_judge(ask, self.store)
        complaints = judge(request_of(ask) if ask.stray is None else ask.stray, held, self._profile, tokens)
        self.store.locked_once.clear()
        return complaints

    def refuse(self, ask: Ask, complaints: Sequence[Complaint]) -> Refusal:
        """The first complaint, in the API's envelope."""
        first = complaints[0]
        headers = headers_of(ask, self._ids, status=first.status)
        return Refusal(first.status, envelope(first, self._profile), headers, tuple(complaints))

    def fail(self, ask: Ask, failure: Failure) -> Refusal:
        """A failure of the provider, in the API's envelope, with the headers that belong to it."""
        wait = wait_of(failure) if failure.kind == "rate_limit" else 0.0
        headers = headers_of(ask, self._ids, status=failure.status, wait=wait)
        return Refusal(failure.status, body_of(ask, failure), headers | retry_headers(failure))

    def strike(self, ask: Ask, kind: str) -> bool:
        """Make what the request names unusable: "expired" its previous response, for good; "locked" its conversation, this once."""
        request = request_of(ask)
        if kind == "expired" and (previous := string(request.get("previous_response_id"))):
            return self.store.expire_response(ask.account, previous)
        if kind == "locked" and (conversation := conversation_of(request)):
            self.store.locked_once.add((ask.account, conversation))
            return True
        return False

    # -- answering -----------------------------------------------------------------------------------------------------

    def begin(self, ask: Ask) -> None:
        """Take the lock of the conversation."""
        if self._work(ask).conversation:
            self.store.locks.add((ask.account, self._work(ask).conversation))

    def prompt(self, ask: Ask) -> Prompt:
        """What the model is given: the effective input."""
        return prompt_of(self._work(ask))

    def answer(self, ask: Ask, say: Say) -> Answer:
        """What the model says, as a response and its events."""
        work = self._work(ask)
        model = work.model.answers_as
        seals = self._profile.encrypted_by_default or "reasoning.encrypted_content" in listing(work.request.get("include"))

        def seal(item: str, following: str) -> str:
            return self.store.seal.seal(ask.account, item, model, following) if seals else ""

        output = write_output(say, work, seal)
        body = response_object(work, output)
        answer = Answer(body, stream_of(work, body, output))
        if not work.overflows:
            return answer
        events = self.fail_stream(ask, answer, Failure("context_length", 400), 0, flat=False)
        assert isinstance(events[-1].data, dict)
        return Answer(events[-1].data["response"], events)

    def keep(self, ask: Ask, answer: Answer) -> None:
        """Store the response and its items, and add both sides to the conversation."""
        work, body = self._work(ask), answer.body
        row = self.store.conversation(ask.account, work.conversation) if work.conversation else None
        stores = body["store"] is not False
        if body["status"] == "failed" or not (stores or row):
            return
        parent = row["tail"] if row else body["previous_response_id"] or ""
        self.store.turns.add(ask.account, turn_of(work, body["output"], parent))
        if row:
            self.store.shelf.put(ask.account, "conversation", work.conversation, {**row, "tail": work.response})
        if stores:
            self.store.keep_response(ask.account, body)

    def end(self, ask: Ask) -> None:
        """Give up the lock of the conversation."""
        work = self._works.pop(id(ask), None)
        if work and work.conversation:
            self.store.locks.discard((ask.account, work.conversation))

    def fail_stream(self, ask: Ask, answer: Answer, failure: Failure, after: int, flat: bool) -> tuple[Event, ...]:
        """The answer's first events, then the error and the failed response. Every stream opens before it fails."""
        work = self._work(ask)
        opened = opening_events(work, answer.body)
        sent = answer.events[: max(len(opened), min(after, len(answer.events) - 1))]
        error = error_of(ask, failure, streamed=True)
        response = failed(answer.body, error["code"] or "server_error", error["message"])
        return failing_stream(sent, response, error, flat=flat)

    def headers(self, ask: Ask, *, streams: bool, status: int = 200) -> dict[str, str]:
        """The headers of an answer."""
        return headers_of(ask, self._ids, streams=streams, status=status)

    # -- what it looks things up with ----------------------------------------------------------------------------------

    def _work(self, ask: Ask) -> Work:
        work = self._works.get(id(ask))
        if work is None or work.ask is not ask:
            keeps = not self._profile.zero_data_retention
            work = self._works[id(ask)] = begin_work(ask, self.store, self._ids, keeps=keeps)
        return work


def fresh_ids(shelf: Shelf, ids: Ids) -> Ids:
    """The ids, or, on a shelf that was used before, others: an emulator that is started anew repeats no id of an earlier life."""
    row = shelf.get("", "emulator", "responses") or {"lives": 0}
    shelf.put("", "emulator", "responses", {"lives": row["lives"] + 1})
    return Ids(f"{ids.hex('', 32)}/{row['lives']}") if row["lives"] else ids
