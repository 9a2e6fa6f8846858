"""The contract as a list: what an engine has to do, and that this folder asks for all of it."""

import ast
import inspect
import re
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import StoreError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import Media
from crossclaw.domain.messages import Image, UserMessage
from crossclaw.domain.sessions import Entry
from crossclaw.domain.sight import EVERYTHING, Sight
from crossclaw.ledger import (
    agreed,
    approvals,
    attention,
    channels,
    forking,
    imports,
    jobs,
    media,
    operations,
    pieces,
)
from crossclaw.ledger.contract import BOUNDED_BY, Ledger, Reads
from crossclaw.ledger.figures import FigureQuery
from crossclaw.ledger.monitoring import MonitoringReads
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.sqlite.ledger import HANDLERS
from tests.ledger.making import ANA, session

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src" / "crossclaw"
OPERATIONS = {
    each
    for module in (
        operations,
        jobs,
        imports,
        agreed,
        approvals,
        media,
        channels,
        attention,
        forking,
        pieces,
    )
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, operations.Op) and each is not operations.Op
}


def methods_of(protocol: type) -> dict[str, Any]:
    return {
        name: each
        for name, each in vars(protocol).items()
        if inspect.isfunction(each) and name[0] != "_"
    }


READS = methods_of(Reads)
SAMPLES: dict[Any, Any] = {
    str: "x",
    int: 1,
    bool: True,
    float: 0.5,
    SessionKey: ANA,
    Address: Address("memory", "x"),
    operations.Dedupe: operations.Dedupe("s", "k", "d"),
    Sight: EVERYTHING,
    FigureQuery: FigureQuery(since=0, until=1, step_ms=1),
    Sequence[str]: ["x"],
    Sequence[SessionKey]: [ANA],
    Collection[str]: ["x"],
    Sequence[Entry]: [
        Entry(
            session_id="s",
            seq=1,
            entry_id="e",
            at=1,
            type="message",
            message=UserMessage([Image(Media("image/png", b"x").source)]),
        )
    ],
}


def arguments_for(read: Any) -> tuple[list[Any], dict[str, Any]]:
    """Something of the right type for all that it must be given."""
    types = typing.get_type_hints(read)
    given, named = list[Any](), dict[str, Any]()
    for each in list(inspect.signature(read).parameters.values())[1:]:
        if each.default is not inspect.Parameter.empty:
            continue
        kind = types[each.name]
        sample = SAMPLES[str if kind == str | None else kind]
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            named[each.name] = sample
        else:
            given.append(sample)
    return given, named


def answers_many(read: Any) -> bool:
    kind = typing.get_origin(typing.get_type_hints(read)["return"])
    return kind in (list, dict, set, frozenset)


def test_every_read_takes_a_limit_or_says_what_bounds_it() -> None:
    unlimited = {
        name
        for name, read in READS.items()
        if answers_many(read)
        and (name in BOUNDED_BY or inspect.signature(read).parameters.get("limit") is None)
    }

    assert unlimited == set(BOUNDED_BY)


def test_an_engine_has_every_operation_and_no_other() -> None:
    assert set(HANDLERS) == OPERATIONS


async def test_what_cannot_be_read_is_told_as_the_stores_by_every_read(tmp_path: Path) -> None:
    """Whoever uses the ledger knows one kind of trouble, and the event loop lives."""
    path = tmp_path / "ledger.sqlite"
    ledger = open_ledger(path, inline=True)
    await ledger.commit(session(ANA))
    asked = {
        **READS,
        **{f"monitoring.{name}": read for name, read in methods_of(MonitoringReads).items()},
    }
    del asked["monitoring.caused_by"]  # takes a run that was read before
    for name, read in asked.items():
        given, named = arguments_for(read)
        await called(ledger, name)(*given, **named)  # it works before
    take_the_tables_away(path)
    silent = list[str]()
    for name, read in asked.items():
        given, named = arguments_for(read)
        try:
            await called(ledger, name)(*given, **named)
            silent.append(name)
        except StoreError:
            pass
    await ledger.close()

    assert silent == []


def called(ledger: Ledger, name: str) -> Any:
    room, _, method = name.rpartition(".")
    return getattr(getattr(ledger, room) if room else ledger, method)


def take_the_tables_away(path: Path) -> None:
    with apsw.Connection(str(path)) as other:
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        plain = [
            name
            for (name,) in other.execute(names)
            if not re.search("_(data|idx|content|docsize|config)$", str(name))
        ]
        for name in plain:
            other.execute(f"ALTER TABLE {name} RENAME TO gone_{name}")


def test_this_folder_asks_for_every_read_and_every_operation() -> None:
    """It is what a second engine is held to: what is not asked here could be missing there."""
    texts = [
        path.read_text("utf-8") for path in HERE.glob("*.py") if path.name != Path(__file__).name
    ]
    trees = [ast.parse(text) for text in texts]
    used = {
        node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }
    named = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}

    assert sorted(set(READS) - used) == []
    assert sorted({op.__name__ for op in OPERATIONS} - named - used) == []


@pytest.mark.parametrize("word", ["SqliteLedger", "ledger.sqlite"])
def test_nobody_outside_of_the_ledger_names_its_engine(word: str) -> None:
    named = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if SRC / "ledger" not in path.parents and word in path.read_text("utf-8")
    }

    # Copying a store and looking into a damaged one are done to its file.
    assert named == ({"cli/backup.py", "cli/checks.py"} if word == "ledger.sqlite" else set())
