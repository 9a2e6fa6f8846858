"""Making requests: what a type allows, what it nearly allows, and what nobody should ever send.

Everything is made from the types that the registry itself has, so a new method is tried without a line
here. Names that mean something (keys, agents, jobs) are mostly those of the gateway that is tried.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

Strategy = st.SearchStrategy[Any]
Pool = Mapping[str, Sequence[Any]]

WORDS = [
    "", " ", "\t\n", "x", "0", "-1", "null", "hello", "true", "*", "%", "_", "?", "main", "MAIN", "Main ",
    "global", "unknown", "agent:main:main", "agent:helper:main", "agent:", "agent::", "agent:main:", ":::",
    "agent:nobody:main", "agent:main:subagent:1", "cron:x", "hook:x", "node-x", "ｍａｉｎ", "main\x00",
    "a\x00b", "\x00", "\x1b[31m", "\u202e", "\ud800", "a\udfffb", "e\u0301", "é", "\U0001f9e8", "\ufeff",
    "../../../etc/passwd", "/etc/passwd", "a/b", "C:\\x", "'; DROP TABLE runs;--", '"', "`", "${HOME}",
    "__proto__", "<script>", "/stop", "/new", "/send on",
    "/compact", "/nope", "/model x", "/budget 1", "/pin", "REPLY_SKIP", "ANNOUNCE_SKIP", "fail: no luck",
    "00000000-0000-0000-0000-000000000000", "2026-02-30T25:61:00Z", "9999-12-31T23:59:60Z", "* * * * *",
    "NEAR(", "a OR", '"a', "-", "AND", "a*", "(", "^", "(a+)+$", "[", "\\", "1e999", "NaN", "٣",
    "data:;base64,", "data:image/png;base64,AAAA", "AAAA", "http://[", "rehearsal/rehearsal", "a/b/c",
]  # fmt: skip
NUMBERS: list[Any] = [
    0, 1, -1, 2, 5, 100, 1000, 1001, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400,
    0.5, -0.5, 1e18, 1e308, -1e308, 5e-324, 253402300800000, 8.64e15 + 1,
]  # fmt: skip
ODD: list[Any] = [
    None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": [1]}}, float("nan"), float("inf"),
]  # fmt: skip
DEEP: Any = json.loads("[" * 60 + "]" * 60)

long = st.sampled_from([100, 257, 5_000, 140_000]).map("é".__mul__)
words = st.sampled_from(WORDS) | st.text(max_size=12) | long
numbers = st.sampled_from(NUMBERS) | st.integers(-5, 5000)
anything = st.sampled_from([*ODD, DEEP, *WORDS, *NUMBERS]) | st.text(max_size=5)


class Maker:
    """`pool` has values for fields by their names on the wire: a field of one of those names gets one of
    them, most of the time. Of those in `only` it gets no other, unless it is spoilt."""

    def __init__(self, pool: Pool, only: Pool) -> None:
        self._pool = pool
        self._only = only

    def valid(self, kind: Any) -> Strategy:
        """What the type itself would take, as far as types tell."""
        return self._of(inspect.type_info(kind), "", 3)

    def nearly(self, kind: Any) -> Strategy:
        return st.builds(spoilt, self.valid(kind), st.lists(changes, max_size=2))

    def _of(self, info: inspect.Type, name: str, depth: int) -> Strategy:
        if name in self._only:
            return st.sampled_from(self._only[name])
        shape = self._shape(info, name, depth)
        if name in self._pool and not isinstance(info, inspect.StructType | inspect.ListType):
            return st.one_of(
                st.sampled_from(self._pool[name]), st.sampled_from(self._pool[name]), shape
            )
        return shape

    def _shape(self, info: inspect.Type, name: str, depth: int) -> Strategy:
        match info:
            case inspect.StrType():
                return words.filter(lambda text: _fits(info, text))
            case inspect.IntType() | inspect.FloatType():
                whole = isinstance(info, inspect.IntType)
                return _number(info, whole)
            case inspect.BoolType():
                return st.booleans()
            case inspect.NoneType():
                return st.none()
            case inspect.LiteralType():
                return st.sampled_from(info.values)
            case inspect.UnionType():
                return st.one_of([self._of(each, name, depth) for each in info.types])
            case inspect.ListType() | inspect.VarTupleType():
                return st.lists(self._of(info.item_type, name, depth - 1), max_size=3)
            case inspect.DictType():
                return st.dictionaries(
                    self._of(info.key_type, "", depth - 1).filter(lambda k: isinstance(k, str)),
                    self._of(info.value_type, "", depth - 1),
                    max_size=2,
                )
            case inspect.StructType():
                return self._struct(info, depth)
            case _:
                return anything

    def _struct(self, info: inspect.StructType, depth: int) -> Strategy:
        must: dict[str, Strategy] = {}
        may: dict[str, Strategy] = {}
        if info.tag_field is not None:
            must[info.tag_field] = st.just(info.tag)
        for field in info.fields:
            made = self._of(field.type, field.encode_name, depth - 1)
            (must if field.required else may)[field.encode_name] = made
        # All optional fields at once are seldom a request that anybody would take.
        some = (
            st.lists(st.sampled_from(sorted(may)), max_size=3, unique=True) if may else st.just([])
        )
        return some.flatmap(
            lambda chosen: st.fixed_dictionaries({**must, **{name: may[name] for name in chosen}})
        )


def _fits(info: inspect.StrType, text: str) -> bool:
    return (
        (info.min_length is None or len(text) >= info.min_length)
        and (info.max_length is None or len(text) <= info.max_length)
        and (info.pattern is None or re.search(info.pattern, text) is not None)
    )


def _number(info: inspect.IntType | inspect.FloatType, whole: bool) -> Strategy:
    low = info.ge if info.ge is not None else info.gt
    high = info.le if info.le is not None else info.lt
    edges = [each for each in (low, high) if each is not None]
    good = [
        each
        for each in [*NUMBERS, *edges]
        if (not whole or isinstance(each, int))
        and (low is None or each >= low)
        and (high is None or each <= high)
    ]
    return st.sampled_from(good or [0])


# ── spoiling ───────────────────────────────────────────────────────────────────────────────────

changes = st.tuples(st.integers(0, 30), st.sampled_from(["replace", "drop", "add"]), anything)


def spoilt(value: Any, todo: list[tuple[int, str, Any]]) -> Any:
    """The value with a few places changed, wherever in it they are."""
    value = deepcopy(value)
    for where, how, instead in todo:
        places = list(_places(value))
        if not places:
            return deepcopy(instead)
        holder, step = places[where % len(places)]
        if how == "drop":
            del holder[step]
        elif how == "add" and isinstance(holder, dict):
            holder["extra"] = deepcopy(instead)
        else:
            holder[step] = deepcopy(instead)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    steps: Any = value.keys() if isinstance(value, dict) else ()
    if isinstance(value, list):
        steps = range(len(value))
    for step in list(steps):
        yield value, step
        yield from _places(value[step])
