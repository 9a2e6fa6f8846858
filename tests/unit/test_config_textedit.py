"""Editing a JSON5 text: one thing changes, everything else stays as it stands."""

import json
from typing import Any

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.config.positions import spans_of
from crossclaw.config.textedit import insert_last, remove_member, replace_value
from crossclaw.domain.aliases import KeyPath

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab/*\"'{}[],:\\ \n", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab.$", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc:", min_size=1, max_size=3), VALUES, max_size=4)
INDENTS = st.sampled_from([None, 2, 4])


@given(OBJECTS, VALUES, INDENTS)
def test_what_is_put_in_is_there_and_nothing_else_changed(
    value: dict[str, Any], new: Any, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)

    assert pyjson5.decode(insert_last(text, (), new, key="zz")) == value | {"zz": new}
    for key in value:
        assert pyjson5.decode(replace_value(text, (key,), new)) == value | {key: new}


@given(st.lists(VALUES, max_size=3), VALUES, INDENTS)
def test_an_item_goes_to_the_end_of_a_list(items: list[Any], new: Any, indent: int | None) -> None:
    text = json.dumps({"list": items}, indent=indent)

    assert pyjson5.decode(insert_last(text, ("list",), new)) == {"list": [*items, new]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{"b": 2}'),
        ("{ a: 1 }", '{ a: 1, "b": 2}'),
        ("{ a: 1, }", '{ a: 1, "b": 2}'),
        ("{\n  a: 1 // one\n}\n", '{\n  a: 1, // one\n  "b": 2\n}\n'),
        ("{\n  a: 1,\n  /* end */\n}\n", '{\n  a: 1,\n  /* end */\n  "b": 2\n}\n'),
        ("{\n}\n", '{\n  "b": 2\n}\n'),
        ("// head\n{ a: '}' }", "// head\n{ a: '}', \"b\": 2}"),
        ("{ a: 1 /* one */ }", '{ a: 1, /* one */\n  "b": 2\n}'),
    ],
)
def test_comments_and_spacing_stay(before: str, after: str) -> None:
    assert insert_last(before, (), 2, key="b") == after
    assert pyjson5.decode(after)["b"] == 2


def test_every_value_is_found() -> None:
    text = "{ a: [1, {b: 'x'}], 'c': null }"
    spans = spans_of(text)

    assert text[slice(*spans["a", 1, "b"])] == "'x'"
    assert text[slice(*spans[("a",)])] == "[1, {b: 'x'}]"
    assert text[slice(*spans[()])] == text


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ("{a: 1, b: 2}", ("a",), "{ b: 2}"),
        ("{a: 1, b: 2}", ("b",), "{a: 1}"),
        ("{a: 1}", ("a",), "{}"),
        ("{\n  a: 1, // one\n  b: 2,\n}", ("b",), "{\n  a: 1, // one\n}"),
        ("{\n  a: {x: 1},\n  // two\n  b: 2\n}", ("b",), "{\n  a: {x: 1}\n  // two\n}"),
        ("{a: [1, 2, 3]}", ("a", 1), "{a: [1, 3]}"),
        ("{a: [1, 2, 3]}", ("a", 2), "{a: [1, 2]}"),
        ("{a: [\n  {b: 1}, // one\n  {b: 2},\n]}", ("a", 0), "{a: [\n  // one\n  {b: 2},\n]}"),
        ("{\n  a: 1, /* one */ b: 2\n}", ("b",), "{\n  a: 1 /* one */\n}"),
        ("{\n  a: {\n    x: [1],\n  },\n}", ("a", "x"), "{\n  a: {\n  },\n}"),
        ("[1, 2, 3]", (1,), "[1, 3]"),
        ("[1, 2]", (1,), "[1]"),
        ("[{a: 1}]", (0,), "[]"),
        ("[\n  {a: 1}, // one\n  {\n    b: 2,\n  },\n]", (1,), "[\n  {a: 1}, // one\n]"),
    ],
)
def test_a_member_is_taken_out_and_the_rest_stands(text: str, path: KeyPath, left: str) -> None:
    assert remove_member(text, path) == left
    assert len(spans_of(left)) < len(spans_of(text))
