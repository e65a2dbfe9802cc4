"""What surrounds the conversation in one agent's turn. May know: data. Decides: what a frame is and how it is named.

A frame is evaluated once when control or a user's message arrives, fixed for the whole tool loop, kept once by digest in the
store's contents, and named by every reply made in it. With the ledger it is all that is needed to show any request again.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.history_policies import Everything, HistorySpec
from legato.errors import BadInput, CodecError

_encoder = msgspec.json.Encoder(order="deterministic")


class ToolSpec(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool as a model is told of it. `parameters` is the JSON schema as text, byte-identical every time."""

    name: str
    description: str = ""
    parameters: str = "{}"


class Frame(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Instructions, added messages, tools, the history policy in force, the schema of a typed output, options (JSON text)."""

    agent: str
    instructions: str = ""
    messages: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    history: HistorySpec = Everything()
    output: str = ""
    options: str = ""


_decoder = msgspec.json.Decoder(Frame)


def encode_frame(frame: Frame) -> tuple[str, bytes]:
    """The frame's digest and its bytes."""
    try:
        data = _encoder.encode(frame)
    except UnicodeEncodeError as error:
        raise BadInput(
            f"the instructions or messages of agent {frame.agent!r} are not valid Unicode: {error.reason}", do="remove lone surrogates"
        ) from None
    return digest_bytes(data), data


def decode_frame(data: bytes) -> Frame:
    """The frame that these bytes are, or a `CodecError`."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"these bytes are not a frame: {error}", do="restore the store from a copy") from error
