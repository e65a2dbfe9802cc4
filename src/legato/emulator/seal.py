"""Blobs that only their maker can read. May know: a key. Decides: what is genuine.

A sealed text has the looks of the provider's `encrypted_content` (a version byte, a salt, hidden content, a tag) and its manners: the
same content sealed twice gives two texts, both of which open, and a text with one character changed does not open at all. It keeps
honest clients honest; it is no vault.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import itertools
from typing import Any

import msgspec

from legato.providers.rules.responses.held import Blob

_HEAD = b"\x80\x00\x00\x00\x00"  # in base64: gAAAAA, as the provider's blobs begin
_SALT = 16
_TAG = 32


class Seal:
    """Seals and opens with one key.

    >>> seal = Seal(b"key")
    >>> text = seal.seal("org-1", "rs_1", "gpt-5", "msg_1")
    >>> text[:5], seal.open(text).item, Seal(b"another").open(text)
    ('gAAAA', 'rs_1', None)
    """

    def __init__(self, key: bytes) -> None:
        self._salting = hmac.digest(key, b"salt", "sha256")
        self._hiding = hmac.digest(key, b"hide", "sha256")
        self._tagging = hmac.digest(key, b"tag", "sha256")
        self._sealed = itertools.count()

    def seal(self, organisation: str, item: str, model: str, following: str = "") -> str:
        """The `encrypted_content` of a reasoning item."""
        return self.seal_json({"organisation": organisation, "item": item, "model": model, "following": following})

    def open(self, text: str) -> Blob | None:
        """What an `encrypted_content` says. None: it could not be decrypted or parsed."""
        try:
            return msgspec.convert(self.open_json(text), Blob)
        except msgspec.ValidationError:
            return None

    def seal_json(self, content: dict[str, Any]) -> str:
        """Any JSON object as a blob."""
        plain = msgspec.json.encode(content)
        salt = hmac.digest(self._salting, next(self._sealed).to_bytes(8, "big") + plain, "sha256")[:_SALT]
        body = _HEAD + salt + self._hidden(plain, salt)
        return base64.urlsafe_b64encode(body + hmac.digest(self._tagging, body, "sha256")).decode()

    def open_json(self, text: str) -> dict[str, Any] | None:
        """What a blob holds. None: it is none of ours, or not as we made it."""
        try:
            whole = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            return None
        if base64.urlsafe_b64encode(whole).decode() != text:  # base64 has more than one spelling for the same bytes
            return None
        body, tag = whole[:-_TAG], whole[-_TAG:]
        if not body.startswith(_HEAD) or not hmac.compare_digest(tag, hmac.digest(self._tagging, body, "sha256")):
            return None
        salt, hidden = body[len(_HEAD) : len(_HEAD) + _SALT], body[len(_HEAD) + _SALT :]
        content: dict[str, Any] = msgspec.json.decode(self._hidden(hidden, salt))
        return content

    def _hidden(self, text: bytes, salt: bytes) -> bytes:
        """The text under a mask that only the key gives; the same again takes the mask off."""
        mask = hashlib.shake_256(self._hiding + salt).digest(len(text))
        return (int.from_bytes(text, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(text), "big")
