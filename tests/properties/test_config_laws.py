"""Laws of the config: how files merge, and that loading answers in one of two ways."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyjson5
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.config import Config, load
from crossclaw.config.check import near_miss
from crossclaw.config.positions import lines_of
from crossclaw.config.source import deep_merge
from crossclaw.domain.errors import ConfigInvalid

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KNOWN = (
    "agents list id defaults model primary session agentToAgent gateway auth token env vars port"
)
NAMES = st.sampled_from([*KNOWN.split(), "models", "providers", "$include"]) | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5)
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6)
KEYS = st.text("abc", max_size=1)
TREES = st.recursive(
    st.integers(0, 9), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner)
)
MAPS = st.dictionaries(KEYS, TREES)


@given(MAPS)
def test_merging_with_nothing_changes_nothing(tree: dict[str, Any]) -> None:
    assert deep_merge(tree, {}) == deep_merge({}, tree) == tree


@given(MAPS, MAPS)
def test_of_two_files_the_later_wins_and_no_key_is_lost(
    base: dict[str, Any], over: dict[str, Any]
) -> None:
    merged = deep_merge(base, over)
    assert merged.keys() == base.keys() | over.keys()
    for key, value in over.items():
        if not isinstance(value, dict | list):
            assert merged[key] == value
        if isinstance(value, list) and isinstance(base.get(key), list):
            assert merged[key] == base[key] + value


@given(MAPS, MAPS)
def test_merging_leaves_both_files_as_they_were(base: dict[str, Any], over: dict[str, Any]) -> None:
    before = json.dumps([base, over])
    deep_merge(base, over)
    assert json.dumps([base, over]) == before


@given(OBJECTS)
def test_any_json_is_loaded_or_refused_in_words(raw: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "openclaw.json"
        path.write_text(json.dumps(raw), encoding="utf-8")
        assert _loaded_or_refused(path)


@given(st.binary(max_size=60) | st.text("{}[]:,\"'/*\\ \na1$-.", max_size=40).map(str.encode))
def test_any_bytes_are_loaded_or_refused_in_words(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "openclaw.json"
        path.write_bytes(content)
        assert _loaded_or_refused(path)


@given(OBJECTS)
def test_every_place_of_a_text_has_a_line(raw: dict[str, Any]) -> None:
    text = json.dumps(raw, indent=1)
    lines = lines_of(text)
    assert set(lines) == set(_places(pyjson5.decode(text, 64), ()))
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


def _loaded_or_refused(path: Path) -> bool:
    try:
        return isinstance(load(path, {}).config, Config)
    except ConfigInvalid as refused:
        return str(path) in str(refused)


def _places(value: Any, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for step, child in steps for place in _places(child, (*path, step)))]


@given(st.data())
def test_one_changed_letter_of_a_known_key_is_a_near_miss(data: st.DataObject) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(Config)}
    word = data.draw(st.sampled_from(sorted(name for name in known if len(name) > 5)))
    at = data.draw(st.integers(0, len(word) - 1))
    assert near_miss(word[:at] + "x" + word[at + 1 :], known) is not None
    assert near_miss(word[:at] + word[at + 1 :], known) is not None
