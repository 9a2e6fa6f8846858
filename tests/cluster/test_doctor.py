"""`crossclaw doctor` on a database: what is wrong with it is said before a gateway meets it."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from crossclaw.ledger.postgres.inspecting import DatabaseNote, look_at_database
from crossclaw.ledger.postgres.migrate import SCHEMA
from crossclaw.ledger.sqlite.migrate import VERSION
from tests.cluster.server import free_port
from tests.cluster.test_server import ask


def told(url: str) -> list[tuple[str, str]]:
    return [(each.grade, each.text) for each in look_at_database(url)]


def test_a_database_that_is_well_is_told_with_its_version(url: str) -> None:
    ((grade, text),) = told(url)
    assert grade == "ok"
    assert "answers (PostgreSQL 1" in text


def test_each_fault_has_a_line_and_something_to_do(url: str) -> None:
    nobody = f"postgresql://crossclaw:secret@127.0.0.1:{free_port()}/none"
    found: list[DatabaseNote] = [*look_at_database(nobody), *look_at_database("mysql://x")]
    found += look_at_database(f"{url}?options=-cdefault_transaction_read_only%3Don")
    ask(url, f"UPDATE {SCHEMA}.store SET version = {VERSION + 1}")
    found += look_at_database(url)
    ask(url, f"UPDATE {SCHEMA}.store SET version = {VERSION}")

    assert [each.grade for each in found] == ["error"] * 4
    assert all(each.todo for each in found)
    assert "secret" not in repr(found)
    for note, words in zip(
        found, ("cannot be reached", "not understood", "can only be read", "this Crossclaw knows"), strict=True
    ):  # fmt: skip
        assert words in note.text


def test_a_pooler_in_between_is_noticed(url: str) -> None:
    with pooled(url) as through:
        found = told(through)
    pooler, well = found
    assert pooler[0] == "warning"
    assert "PgBouncer" in pooler[1]
    assert well[0] == "ok"


@contextmanager
def pooled(url: str) -> Generator[str]:
    """What PgBouncer does as far as it is seen here: it answers with a process number of its own
    (BackendKeyData, https://www.postgresql.org/docs/17/protocol-message-formats.html, 2026-11-16)."""
    parts = urlsplit(url)
    assert parts.port
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=_serve, args=(door, parts.port), daemon=True).start()
        yield url.replace(f":{parts.port}/", f":{door.getsockname()[1]}/")


def _serve(door: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = door.accept()
            server = socket.create_connection(("127.0.0.1", port))
            for way in ((server, client, True), (client, server, False)):
                threading.Thread(target=_pass_on, args=way, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, renames: bool) -> None:
    key_data = b"K\0\0\0\x0c"
    with suppress(OSError):
        while chunk := source.recv(65_536):
            if renames and (at := chunk.find(key_data)) >= 0:
                chunk = chunk[: at + 5] + b"\0\0\0\x07" + chunk[at + 9 :]
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
