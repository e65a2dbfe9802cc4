"""Turn contexts: everything that a model request contains besides the conversation.

A turn context is evaluated once, when control or a user's message arrives, and stays the same for the whole tool loop. It is stored once
by digest in the store's contents, and every reply names that digest. The ledger and the turn contexts are all that is needed to rebuild
any request.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.history_policies import Everything, HistoryPolicy
from legato.errors import BadInput, CodecError

_encoder = msgspec.json.Encoder(order="deterministic")


class ToolSpec(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool definition as it is sent to a model. `parameters` is the JSON schema as text, byte-identical every time."""

    name: str
    description: str = ""
    parameters: str = "{}"


class TurnContext(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The instructions, added messages, tools, history policy, output schema and model options (JSON text) of one agent's turn."""

    agent: str
    instructions: str = ""
    messages: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    history: HistoryPolicy = Everything()
    output: str = ""
    options: str = ""


_decoder = msgspec.json.Decoder(TurnContext)


def encode_turn_context(turn_context: TurnContext) -> tuple[str, bytes]:
    """Return the digest and the bytes of a turn context."""
    try:
        data = _encoder.encode(turn_context)
    except UnicodeEncodeError as error:
        raise BadInput(
            f"the instructions or messages of agent {turn_context.agent!r} are not valid Unicode: {error.reason}",
            do="remove lone surrogates",
        ) from None
    return digest_bytes(data), data


def decode_turn_context(data: bytes) -> TurnContext:
    """Decode a turn context; `CodecError` if the bytes are none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"these bytes are not a turn context: {error}", do="restore the store from a copy") from error
