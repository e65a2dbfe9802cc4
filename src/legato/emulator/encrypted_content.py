"""Encrypted content that only its maker can read, such as the provider's `encrypted_content`.

An encrypted text looks like the provider's (a version byte, a salt, hidden content, a tag) and behaves like it: the same content
encrypted twice gives two texts that both decrypt, and a text with one character changed does not decrypt. It keeps honest clients
honest; it is no strong cryptography.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import itertools
from typing import Any

import msgspec

from legato.providers.rules.responses.provider_state import DecryptedContent

_HEADER = b"\x80\x00\x00\x00\x00"  # in base64: gAAAAA, as the provider's blobs begin
_SALT_BYTES = 16
_TAG_BYTES = 32


class ContentCipher:
    """Encrypts and decrypts content with one key.

    >>> cipher = ContentCipher(b"key")
    >>> text = cipher.encrypt_reasoning("org-1", "rs_1", "gpt-5", "msg_1")
    >>> text[:5], cipher.decrypt_reasoning(text).item_id, ContentCipher(b"another").decrypt_reasoning(text)
    ('gAAAA', 'rs_1', None)
    """

    def __init__(self, key: bytes) -> None:
        self._salt_key = hmac.digest(key, b"salt", "sha256")
        self._mask_key = hmac.digest(key, b"hide", "sha256")
        self._tag_key = hmac.digest(key, b"tag", "sha256")
        self._counter = itertools.count()

    def encrypt_reasoning(self, organisation: str, item_id: str, model: str, next_item_id: str = "") -> str:
        """Return the `encrypted_content` of a reasoning item."""
        return self.encrypt_json({"organisation": organisation, "item": item_id, "model": model, "following": next_item_id})

    def decrypt_reasoning(self, text: str) -> DecryptedContent | None:
        """Return the content of an `encrypted_content`. None: it could not be decrypted or parsed."""
        try:
            return msgspec.convert(self.decrypt_json(text), DecryptedContent)
        except msgspec.ValidationError:
            return None

    def encrypt_json(self, content: dict[str, Any]) -> str:
        """Encrypt a JSON object."""
        plaintext = msgspec.json.encode(content)
        salt = hmac.digest(self._salt_key, next(self._counter).to_bytes(8, "big") + plaintext, "sha256")[:_SALT_BYTES]
        signed_part = _HEADER + salt + self._apply_mask(plaintext, salt)
        return base64.urlsafe_b64encode(signed_part + hmac.digest(self._tag_key, signed_part, "sha256")).decode()

    def decrypt_json(self, text: str) -> dict[str, Any] | None:
        """Decrypt a JSON object. None: the text was not made with this key, or was changed."""
        try:
            sealed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            return None
        if base64.urlsafe_b64encode(sealed).decode() != text:  # base64 has several texts for the same bytes
            return None
        signed_part, tag = sealed[:-_TAG_BYTES], sealed[-_TAG_BYTES:]
        if not signed_part.startswith(_HEADER) or not hmac.compare_digest(tag, hmac.digest(self._tag_key, signed_part, "sha256")):
            return None
        salt, masked = signed_part[len(_HEADER) : len(_HEADER) + _SALT_BYTES], signed_part[len(_HEADER) + _SALT_BYTES :]
        content: dict[str, Any] = msgspec.json.decode(self._apply_mask(masked, salt))
        return content

    def _apply_mask(self, text: bytes, salt: bytes) -> bytes:
        """Return the text XORed with a mask from the key and the salt. A second call removes the mask."""
        mask = hashlib.shake_256(self._mask_key + salt).digest(len(text))
        return (int.from_bytes(text, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(text), "big")
