"""Scripts in YAML. Errors name the file, the line and the key, and no other error is ever raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from legato.emulator.fake_models import ReplyRefusal, ReplyText, ReplyThought, Script, ScriptedCall, ScriptRule, make_fake_model
from legato.emulator.fake_models.script_rules import RULE_KEYS
from legato.errors import BadInput

SCRIPT = """\
# a support desk
rules:
  - instructions: triage
    turn: 1
    say:
      - think: The customer wants their money back.
      - One moment, please.
      - call: handoff_to_refunds
  - after_tool: lookup_order
    output: /delivered|lost/
    say:
      - call:
          tool: refund
          arguments: {order_id: "A-17", on: 2026-11-03, amount: 49.9, fast: true, why: null, parts: [1, "{output}"]}
          id: call_1
  - said: secret
    model: gpt-5
    api: chat
    tool: refund
    times: 1
    say:
      - refuse: I cannot tell you that.
    finish: content_filter
    fault: cut event=5
  - turn: [4, 5]
    say: Good bye!
"""


def test_yaml_script_equals_python_rules() -> None:
    arguments = {"order_id": "A-17", "on": "2026-11-03", "amount": 49.9, "fast": True, "why": None, "parts": [1, "{output}"]}
    assert Script.from_yaml(SCRIPT).rules == (
        ScriptRule(
            instructions="triage",
            turn=1,
            say=[
                ReplyThought("The customer wants their money back."),
                ReplyText("One moment, please."),
                ScriptedCall("handoff_to_refunds"),
            ],
        ),
        ScriptRule(after_tool="lookup_order", output="/delivered|lost/", say=[ScriptedCall("refund", arguments, "call_1")]),
        ScriptRule(
            said="secret",
            model="gpt-5",
            api="chat",
            tool="refund",
            times=1,
            say=[ReplyRefusal("I cannot tell you that.")],
            finish="content_filter",
            fault="cut event=5",
        ),
        ScriptRule(turn=(4, 5), say=[ReplyText("Good bye!")]),
    )


def test_script_may_be_a_plain_list() -> None:
    assert Script.from_yaml("- say: Hello\n").rules == (ScriptRule(say="Hello"),)
    assert Script.from_yaml("rules: []").rules == ()


def test_script_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text(SCRIPT, encoding="utf-8")
    assert Script.from_yaml(path).rules == Script.from_yaml(str(path)).rules == Script.from_yaml(SCRIPT).rules
    script = make_fake_model(str(path))
    assert isinstance(script, Script)
    assert len(script.rules) == 4


INVALID_SCRIPTS: dict[str, tuple[str, int, str, str]] = {
    # case: (script, line, a part of the first line, a part of the whole message)
    "no YAML": ("rules:\n  - say: [\n", 3, "this is not YAML", "the node content"),
    "a tabulator": ("rules:\n\t- say: x\n", 2, "this is not YAML", "cannot start any token"),
    "a character that YAML forbids": ("- say: \x07\n", 1, "this is not YAML", "not allowed"),
    "two documents": ("- say: x\n---\n- say: y\n", 2, "this is not YAML", "another document"),
    "nothing": ("# only a remark\n", 1, "a script is a list of rules", "found     nothing"),
    "text": ("hello", 1, "a script is a list of rules", "'hello'"),
    "no rules": ("{}", 1, "a script is a list of rules", "rules:"),
    "rules that are no list": ("rules:\n  say: x\n", 1, "a script is a list of rules", "rules:"),
    "another key beside the rules": ("rules: []\nrulez: []\n", 2, "a script has no key 'rulez'", "did you mean 'rules'?"),
    "a rule that is text": ("rules:\n  - say: x\n  - hello\n", 3, "a rule is a mapping", "instructions, said"),
    "an unknown key": ("rules:\n  - said: x\n    sya: y\n", 3, "a rule has no key 'sya'", "did you mean 'say'?"),
    "a key twice": ("- say: x\n  say: y\n", 2, "the key 'say' occurs a second time", ""),
    "a key that is a list": ("- [1]: x\n", 1, "a key is text", ""),
    "a merge key": ("- &a {say: x}\n- <<: *a\n", 2, "a rule has no key '<<'", "say"),
    "a tag": ("- say: !!python/object/apply:os.system [ls]\n", 1, "only plain data is read", "python/object"),
    "a tag on text": ("- say: !thing x\n", 1, "only plain data is read", "!thing"),
    "a set": ("- say:\n    - call: {tool: x, arguments: !!set {a}}\n", 2, "only plain data is read", "set"),
    "a number that is none": ("- turn: !!int x\n", 1, "a value cannot be read", "'x'"),
    "no value": ("- said:\n  say: x\n", 1, "'said' has no value", "leave the key out"),
    "a turn that is text": ("- turn: first\n", 1, "'turn' cannot be used", "a number from 1 on"),
    "a truth for words": ("- say: yes\n", 1, "'say' has something that cannot be said", "text, or one of text: ..., think: ..."),
    "an unknown API": ("- say: x\n  api: gemini\n", 2, "'api' cannot be used", "responses or chat or anthropic"),
    "an unknown finish": ("- finish: tired\n", 1, "'finish' cannot be used", "stop or length or content_filter"),
    "a broken regular expression": ("- said: /(/\n", 1, "'said' cannot be used", "a regular expression"),
    "an unknown value in a text": ("- say: Hello {nmae}\n", 1, "'say' cannot be used", "{said}, {output}"),
    "an item with two keys": ("- say:\n    - {text: x, think: y}\n", 2, "something that cannot be said", "call: ..."),
    "an unknown item": ("- say:\n    - sing: la\n", 2, "an item of 'say' has no key 'sing'", "text, think, refuse, call"),
    "a thought that is a number": ("- say:\n    - think: 5\n", 2, "'think' cannot be used", "text"),
    "a call without a tool": ("- say:\n    - call: {arguments: auto}\n", 2, "a call names its tool", "call: NAME"),
    "a call with an unknown key": ("- say:\n    - call:\n        tool: x\n        args: {}\n", 4, "a call has no key 'args'", "arguments"),
    "arguments that are text": ("- say:\n    - call: {tool: x, arguments: all}\n", 2, "'arguments' cannot be used", "auto"),
    "a tool that is a number": ("- say:\n    - call: {tool: 5}\n", 2, "'tool' of a call cannot be used", "text"),
    "an argument that JSON does not have": ("- say:\n    - call: {tool: x, arguments: {a: .nan}}\n", 2, "a value cannot be read", "JSON"),
    "an alias within itself": ("- &a [*a]\n", 1, "the script is too large", "deep"),
    "a fault that is a list": ("- fault: [cut]\n", 1, "'fault' cannot be used", "text"),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID_SCRIPTS.values(), ids=INVALID_SCRIPTS)
def test_invalid_script_error_names_the_line(case: tuple[str, int, str, str], tmp_path: Path) -> None:
    """The error names the file, the line, the key, and the allowed values."""
    text, line, summary, detail = case
    path = tmp_path / "desk.yaml"
    path.write_bytes(text.encode())
    with pytest.raises(BadInput) as caught:
        Script.from_yaml(path)
    message = str(caught.value)
    assert message.startswith(f"desk.yaml, line {line}: ")
    assert summary in message.splitlines()[0]
    assert detail in message


@pytest.mark.parametrize("make_path", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"- say: \xff\xfe")])
def test_unreadable_file_raises_bad_input(make_path: Any, tmp_path: Path) -> None:
    path = tmp_path / "desk.yaml"
    make_path(path)
    with pytest.raises(BadInput, match="the script cannot be read"):
        Script.from_yaml(path)


def test_alias_bomb_is_rejected_early() -> None:
    lines = ["- &a0 x"] + [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(BadInput, match="the script is too large"):
        Script.from_yaml("\n".join(lines) + "\n")


def test_deep_nesting_is_rejected() -> None:
    for text in ("[" * 5_000, "- " * 600 + "x\n", "{a: " * 2_000):
        with pytest.raises(BadInput):
            Script.from_yaml(text)


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 9), st.floats(), st.dates(), st.binary(max_size=3), st.text(max_size=8),
        st.sampled_from(["/(/", "{said}", "{nmae}", "auto", "chat", "stop", "refund", "/a|b/"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*RULE_KEYS, "rules", "text", "think", "call", "refuse", "arguments", "id"]), inner, max_size=4),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2),
    ),
    max_leaves=8,
)  # fmt: skip
DOCUMENTS = st.one_of(
    VALUES,
    st.builds(lambda rules: {"rules": rules}, st.lists(st.dictionaries(st.sampled_from(RULE_KEYS), VALUES, max_size=4), max_size=3)),
    st.lists(st.builds(lambda say: {"say": say}, st.lists(st.dictionaries(st.sampled_from(["text", "call"]), VALUES, max_size=1)))),
).map(lambda value: yaml.dump(value, allow_unicode=True))


def describe_outcome(source: str | Path) -> str:
    """Return "a script", or the beginning of the error."""
    try:
        Script.from_yaml(source)
    except BadInput as error:
        return str(error).splitlines()[0].partition(",")[0].removesuffix(" cannot be read")
    return "a script"


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(DOCUMENTS, st.text(max_size=60), st.text(alphabet="-:[]{}&*!|>'\"%@`#,? \n\tab0", max_size=40)))
@example("- say: !!float ''\n")
@example("- say: !!bool maybe\n")
@example("- turn: " + "9" * 5000 + "\n")
@example("- fault: 2001-99-99\n")
@example("? {a: b}\n: c\n")
@example("- say: '\ud800'\n")
@example("%YAML 9.9\n---\n- say: x\n")
@example("!!map [a]")
@example("- !!str {say: x}")
def test_any_document_loads_or_raises_bad_input(text: str) -> None:
    assert describe_outcome(text) in ("a script", "the script")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60), length=st.integers(0, len(SCRIPT)), position=st.integers(0, len(SCRIPT)))
def test_damaged_file_loads_or_raises_bad_input(data: bytes, length: int, position: int, tmp_path: Path) -> None:
    path = tmp_path / "damaged.yaml"
    original = SCRIPT.encode()
    path.write_bytes(original[:position] + data + original[position : position + length])
    assert describe_outcome(path) in ("a script", "damaged.yaml", "the script")
