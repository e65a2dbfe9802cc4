"""Encrypted content: only its maker's key decrypts it, and only unchanged."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from legato.emulator.encrypted_content import ContentCipher
from legato.providers.rules.responses.provider_state import DecryptedContent

CIPHER = ContentCipher(b"a key")


def test_encrypted_content_looks_like_the_providers() -> None:
    assert re.fullmatch(r"gAAAA[A-Za-z0-9_-]+={0,2}", CIPHER.encrypt_reasoning("org-1", "rs_1", "gpt-5"))


def test_decryption_returns_account_and_item() -> None:
    assert CIPHER.decrypt_reasoning(CIPHER.encrypt_reasoning("org-1", "rs_1", "gpt-5", "msg_1")) == DecryptedContent(
        "org-1", "rs_1", "gpt-5", "msg_1"
    )


def test_encrypted_content_needs_the_key() -> None:
    assert "secret" not in CIPHER.encrypt_json({"thought": "secret"})
    assert ContentCipher(b"another key").decrypt_json(CIPHER.encrypt_json({"thought": "secret"})) is None


def test_same_content_encrypts_to_different_texts() -> None:
    texts = {CIPHER.encrypt_reasoning("org-1", "rs_1", "gpt-5") for _ in range(20)}
    assert len(texts) == 20
    assert {CIPHER.decrypt_reasoning(text) for text in texts} == {DecryptedContent("org-1", "rs_1", "gpt-5")}


def test_same_key_decrypts_in_another_process() -> None:
    assert ContentCipher(b"a key").decrypt_reasoning(CIPHER.encrypt_reasoning("org-1", "rs_1", "gpt-5")) is not None


@given(st.data())
@settings(max_examples=200)
def test_changed_character_prevents_decryption(data: st.DataObject) -> None:
    text = CIPHER.encrypt_reasoning("org-1", "rs_1", "gpt-5", "fc_1")
    position = data.draw(st.integers(0, len(text) - 1))
    another = data.draw(st.characters().filter(lambda character: character != text[position]))
    assert CIPHER.decrypt_reasoning(text[:position] + another + text[position + 1 :]) is None


@given(st.data())
def test_changed_length_prevents_decryption(data: st.DataObject) -> None:
    text = CIPHER.encrypt_reasoning("org-1", "rs_1", "gpt-5")
    assert CIPHER.decrypt_reasoning(text[: data.draw(st.integers(0, len(text) - 1))]) is None
    assert CIPHER.decrypt_reasoning(text + data.draw(st.text(min_size=1))) is None


@given(st.text())
def test_any_other_text_is_none(text: str) -> None:
    assert CIPHER.decrypt_reasoning(text) is None


@given(st.dictionaries(st.text(max_size=8), st.none() | st.integers(-(2**63), 2**63) | st.lists(st.text(max_size=8)), max_size=5))
def test_any_json_object_is_decrypted(content: dict[str, object]) -> None:
    assert CIPHER.decrypt_json(CIPHER.encrypt_json(content)) == content


def test_other_encrypted_json_is_no_reasoning() -> None:
    assert CIPHER.decrypt_reasoning(CIPHER.encrypt_json({"organisation": 7})) is None
