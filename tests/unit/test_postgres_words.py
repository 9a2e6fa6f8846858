"""PostgreSQL without a server: what the rules and migrations say in its words, and what is refused before it is asked."""

import re
import socket
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from crossclaw.config.ledger import LedgerConfig
from crossclaw.disk.extras import how_to_install
from crossclaw.domain.errors import StoreError
from crossclaw.domain.secret import Secret
from crossclaw.ledger.opening import open_ledger, open_movable
from crossclaw.ledger.postgres.dialect import translate
from crossclaw.ledger.postgres.errors import ConnectionLost
from crossclaw.ledger.postgres.migrate import sql_of
from crossclaw.ledger.postgres.store import DatabaseAddress, travels_in_clear
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.postgres.words import query_of, vector_of, words_in
from crossclaw.ledger.sqlite.migrate import MIGRATIONS, Migration
from crossclaw.ledger.sqlite.words import match_expression
from tests.ending import beside

SQLITE_ONLY = re.compile(
    r"\b(VIRTUAL|AUTOINCREMENT|ROWID|PRAGMA|BLOB|REAL|fts5|unixepoch|STRICT|GLOB|iif)\b|"
    r"json_(valid|each|extract)\(|OR (REPLACE|IGNORE)\b|'\$\.|INDEXED BY",
    re.IGNORECASE,
)
FIRST_SERVED = 16
"""The version of the store with which PostgreSQL began: whoever has a store there has all before."""


@pytest.mark.parametrize("migration", MIGRATIONS, ids=lambda each: each.name)
def test_every_migration_has_its_words_in_postgresql(migration: Migration) -> None:
    """Else write `ledger/postgres/migrations/` and its name, with the same tables and columns."""
    assert [found[0] for found in SQLITE_ONLY.finditer(sql_of(migration))] == []


def test_what_a_migration_fills_on_sqlite_is_filled_on_postgresql() -> None:
    """A store there is never older than this, so what those before had to fill is not needed."""
    filling = [each.name for each in MIGRATIONS if each.fill and each.number > FIRST_SERVED]

    assert filling == []


@pytest.mark.parametrize(
    ("sqlite", "postgresql"),
    [
        ("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a FROM t WHERE b = $1 AND c = $2"),
        ("x > ? AND y < ?2 AND z = ?2 LIMIT ?3", "x > $1 AND y < $2 AND z = $2 LIMIT $3"),
        ("(?1 IS NULL OR a = ?1)", "($1::text IS NULL OR a = $1)"),
        ("SELECT a FROM t INDEXED BY i WHERE pinned", "SELECT a FROM t WHERE pinned <> 0"),
        ("WHERE enabled AND next_at > ?", "WHERE enabled <> 0 AND next_at > $1"),
        ("UPDATE jobs SET enabled = 0", "UPDATE jobs SET enabled = 0"),
        ("iif(?3, a, ?4)", "CASE WHEN $3 THEN a ELSE $4 END"),
        (
            "cause ->> '$.chain[0]'",
            r"(replace(cause, '\u0000', '\ufffd')::jsonb -> 'chain' ->> 0)",
        ),
        (
            "k IN (SELECT value FROM json_each(?))",
            r"k IN (SELECT value FROM jsonb_array_elements_text(replace($1, '\u0000', '\ufffd')::jsonb))",
        ),
        (
            "SELECT id FROM runs INDEXED BY runs_open WHERE key = ? AND ended_at IS NULL LIMIT 2",
            "SELECT id FROM runs WHERE key = $1 AND ended_at IS NULL ORDER BY id LIMIT 2",
        ),
    ],
)
def test_what_sqlite_says_otherwise(sqlite: str, postgresql: str) -> None:
    assert translate(sqlite).sql.decode() == postgresql


def test_words_are_cut_and_folded_as_sqlites_index_does() -> None:
    assert words_in("Résumé of foo_bar-7, ПРИВЕТ; 日本語!") == [
        "resume",
        "of",
        "foo",
        "bar",
        "7",
        "привет",
        "日本語",
    ]
    assert vector_of("To be or not to be") == "to:1 be:2 or:3 not:4 to:5 be:6"


@pytest.mark.parametrize(
    ("typed", "query"),
    [
        ("heron", "(heron:*)"),
        ("grey heron", "(grey) & (heron:*)"),
        ("foo-bar baz", "(foo <-> bar) & (baz:*)"),
        ('say "hello', "(say) & (hello:*)"),
        ("a & b | !c:*", "(a) & (b) & (c:*)"),
        ("!!! ...", ""),
    ],
)
def test_what_a_person_types_is_never_read_as_a_query(typed: str, query: str) -> None:
    assert query_of(match_expression(typed)) == query


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me@here/db", "is not understood"),
        ("postgresql://me:hush@here:port/db", "port that is no number"),
        ("postgresql://me:hush/hush@here/db", "port that is no number"),
        ("postgresql://me:hush%zz@here/db", "is not understood"),
        ("postgresql://me:1/hush@127.0.0.1:1/db", "database of ledger.url cannot be reached"),
        (
            "postgresql://me:hush@127.0.0.1:1,[::1]:1/db",
            r"127\.0\.0\.1:1,\[::1\]:1/db cannot be reached",
        ),
        ("postgresql://me:hush@[::1/db", "is not understood"),
        ("postgresql://me:hush@here", "names no database"),
        ("postgresql://me:hush@127.0.0.1:1/db", "cannot be reached: .*refused"),
    ],
)
async def test_an_address_that_does_not_work_is_told_without_its_password(
    tmp_path: Path, url: str, words: str
) -> None:
    with pytest.raises(StoreError, match=words) as told:
        open_ledger(tmp_path / "l.sqlite", url=url, inline=True)

    assert "hush" not in str(told.value)
    await open_ledger(tmp_path / "l.sqlite", inline=True).close()  # the folder is free again


def test_several_servers_are_tried_one_after_the_other_and_others_in_this_process_work_meanwhile() -> (
    None
):
    """The servers here are threads of this process: none could say anything while libpq held Python's lock."""
    with hanging_up() as first, hanging_up() as second:
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        with pytest.raises(ConnectionLost, match="closed the connection"):
            PgWire(f"postgresql://me@{hosts}/db?connect_timeout=30&gssencmode=disable")

    assert (first.callers, second.callers) == (1, 1)


def test_of_several_servers_the_one_that_can_be_written_to_is_meant_unless_said_otherwise() -> None:
    def wanted(url: str) -> object:
        return conninfo_to_dict(DatabaseAddress(url).conninfo).get("target_session_attrs")

    assert wanted("postgresql://a,b/db") == "read-write"
    assert wanted("postgresql://a,b/db?target_session_attrs=primary") == "primary"
    assert wanted("postgresql://a/db") is None


class _HangingUp:
    """A server that ends each connection as soon as something is said on it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.callers = 0

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                if connection.recv(1):  # nothing: it was only woken up to end
                    self.callers += 1

    def close(self) -> None:
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextmanager
def hanging_up() -> Generator[_HangingUp]:
    server = _HangingUp()
    with beside(server.serve), closing(server):
        yield server


def test_the_variable_goes_before_the_config_and_neither_is_a_file() -> None:
    written = LedgerConfig(url=Secret("postgresql://a/b"))

    assert written.url_in({}) == "postgresql://a/b"
    assert written.url_in({"CROSSCLAW_LEDGER_URL": "postgresql://c/d"}) == "postgresql://c/d"
    assert LedgerConfig().url_in({"CROSSCLAW_LEDGER_URL": " "}) is None


def test_a_ledger_that_is_not_there_is_not_moved(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        open_movable(str(tmp_path / "l.sqlite"), is_source=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "encrypted", "expected"),
    [
        ("db.example", False, True),
        ("10.0.0.7", False, True),
        ("db.example", True, False),
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("localhost", False, False),
        ("/run/postgresql", False, False),
        ("", False, False),
    ],
)
def test_a_connection_that_others_could_read_is_noticed(
    host: str, encrypted: bool, expected: bool
) -> None:
    assert travels_in_clear(host, encrypted=encrypted) is expected


def test_without_the_driver_it_says_what_installs_it_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone by a target of its Makefile; where it was installed, by pip."""
    for name in [each for each in sys.modules if each.startswith("crossclaw.ledger.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"psycopg is missing.*make -C .* postgres-driver") as said:
        open_ledger(tmp_path / "x.sqlite", url="postgresql://x@127.0.0.1:1/x")
    folder = Path(re.findall(r"-C (\S+)", str(said.value))[0])
    assert "\npostgres-driver:" in (folder / "Makefile").read_text("utf-8")
    assert how_to_install("postgres", tmp_path) == "pip install 'crossclaw[postgres]'"
