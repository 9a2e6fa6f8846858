"""A broken config file says where it is broken and what the likely cause is."""

from pathlib import Path

import pyjson5
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crossclaw.config.source import parse
from crossclaw.config.syntax_errors import excerpt, find_fault, place_of
from crossclaw.domain.errors import ConfigInvalid

GOOD = """// the gateway
{
  "agents": {
    list: [{ id: "main", default: true }, { id: 'li\\'brarian', tools: { allow: ["read"] } }],
  },
  /* where */ gateway: { port: 18789, ratio: +.5, hex: 0x1F, none: null, $x_1: Infinity, },
}
"""


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("{\n  a: 1\n  b: 2\n}", (2, 7), "a comma is missing here"),
        ('{\n  a: "one" "two"\n}', (2, 11), "a comma is missing here"),
        ('{ a: "say "hi" now" }', (1, 12), r"is written \""),
        ('{\n  a: "open,\n  b: 2\n}', (2, 6), 'not closed on its line: a " is missing'),
        ("{ a: 'it's' }", (1, 10), r"is written \'"),
        ("{\n  a: {\n    b: 1\n", (3, 9), "the { of line 2 is still open: a } is missing"),
        ("{\n  a: [1, 2\n}", (3, 1), "this } cannot close the [ of line 2: a ] is missing"),
        ("{\n  a: 1\n]", (3, 1), "this ] cannot close the { of line 1"),
        ("{\n  a: 1 }\n}", (3, 1), "one } too many"),
        ("{ a: 1 },\n{ b: 2 }", (1, 9), "is a } above it too many?"),
        ("{ a:, b: 1 }", (1, 5), "a has no value"),
        ("{ a: }", (1, 6), "a has no value"),
        ("{ a 1 }", (1, 4), "a colon is missing after this key"),
        ("{ a = 1 }", (1, 5), "a colon, not ="),
        ("{ port=1 }", (1, 3), "a colon, not ="),
        ("{ a: 1,, b: 2 }", (1, 8), "one comma too many"),
        ("{ a: [1,,2] }", (1, 9), "one comma too many"),
        ("{ a: [b: 1] }", (1, 7), "a text needs quotation marks"),
        ('{ a: ["b": 1] }', (1, 10), "a list has no keys"),
        ("{ : 1 }", (1, 3), "a key is missing"),
        ("{ { a: 1 } }", (1, 3), "a key is missing"),
        ("{ my-key: 1 }", (1, 3), "this key needs quotation marks"),
        ("{ a: True }", (1, 6), "this is written true"),
        ("{ a: yes }", (1, 6), "this is written true"),
        ("{ a: None }", (1, 6), "this is written null"),
        ("{ a: 10s }", (1, 6), "this is no number"),
        ("{ a: anthropic }", (1, 6), "a text needs quotation marks"),
        ("{ a: “x” }", (1, 6), "typographic"),
        ("# mine\n{}", (1, 1), "a comment begins with //"),
        ("{ a: 1 } /* end", (1, 10), "a */ is missing"),
        ("{ a: 1 / 2 }", (1, 8), "a lone /"),
        ('{ a: "C:\\new\\x" }', (1, 6), "begins an escape that JSON5 does not have"),
        ("{\n<<<<<<< HEAD\n  a: 1,\n}", (2, 1), "a merge has left this mark"),
        ("{ a: 1: 2 }", (1, 7), "is a comma missing before it?"),
        ("// only words\n", (2, 1), "nothing in it but comments"),
    ],
)
def test_the_place_and_the_likely_cause(text: str, where: tuple[int, int], why: str) -> None:
    fault = find_fault(text)

    assert fault is not None
    assert why in fault.why
    assert place_of(text, fault.at) == where


def test_the_error_names_file_line_and_column_and_has_the_line_with_a_mark() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse("{\n  agents: {}\n  gateway: { port: 1 },\n}", Path("/x/openclaw.json"))

    assert str(caught.value) == "/x/openclaw.json:2:13: this is not JSON5: a comma is missing here"
    assert caught.value.excerpt == "  2 │   agents: {}\n    │             ^"


def test_a_secret_on_the_line_is_not_shown_and_never_part_of_the_cause() -> None:
    text = '{ gateway: { auth: { token: "s3cret-word" } "x": 1, apiKey: s3cret-word } }'
    fault = find_fault(text)
    assert fault
    shown = excerpt(text, fault.at)

    assert "s3cret" not in fault.why + shown
    line, mark = shown.splitlines()
    assert line[mark.index("^") - 1] == "}", "the mark still stands where it belongs"


def test_a_very_long_line_is_shown_around_its_mark() -> None:
    text = "{ a: [" + "1, " * 400 + "2 3] }"
    fault = find_fault(text)
    assert fault
    line, mark = excerpt(text, fault.at).splitlines()

    assert len(line) < 100
    assert line[mark.index("^") - 1] == "2"


def _refused(text: str) -> bool:
    try:
        pyjson5.decode(text)
    except pyjson5.Json5DecoderException:
        return True
    return False


@given(
    st.integers(0, len(GOOD) - 1), st.integers(0, 6), st.text("{}[]:,\"'/*\\\n ax1-#", max_size=3)
)
def test_a_cause_is_found_for_whatever_the_parser_refuses_and_only_then(
    at: int, cut: int, put: str
) -> None:
    text = GOOD[:at] + put + GOOD[at + cut :]

    assert (find_fault(text) is not None) == _refused(text)


SECRETS = """{
  gateway: { auth: { mode: "token", token: "5ecret-word-of-the-gateway" } },
  models: { providers: { x: { apiKey: '5ecret-word-of-a-service', baseUrl: "http://x/" } } },
  channels: { x: { allowRequestSessionKeyAndMore: 1, words: ["5ecret-word-in-a-list", "b"] } },
}
"""


@given(
    st.integers(0, len(SECRETS) - 1),
    st.integers(0, 2),
    st.text("{}[]:,\"'/*\\\n ax1-#", max_size=2),
)
@example(SECRETS.index("token: "), len("token: "), "")  # a value where a key belongs
@example(SECRETS.index("oken: "), 0, ",")  # a key that no longer sounds like a secret
def test_no_slip_of_the_pen_brings_a_secret_into_the_words_or_the_line(
    at: int, cut: int, put: str
) -> None:
    text = SECRETS[:at] + put + SECRETS[at + cut :]
    fault = find_fault(text)

    if fault is not None:
        assert "ecret-word-of" not in fault.why + excerpt(text, fault.at)


def test_a_long_key_is_shown() -> None:
    text = "{ a: 1 allowRequestSessionKeyAndMore: 1 }"
    fault = find_fault(text)
    assert fault
    assert "allowRequestSessionKeyAndMore:" in excerpt(text, fault.at)
