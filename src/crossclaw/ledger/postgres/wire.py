"""The wire: one connection in libpq's pipeline mode. Many statements share one round trip."""

import logging
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_attempts, conninfo_to_dict, make_conninfo

from crossclaw.ledger.postgres.dialect import PgStatement
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble

log = logging.getLogger(__name__)

CONNECT_S = 5.0  # where the address says nothing else
PREPARED_MAX = 1_000  # the rules have some hundreds; beyond, a text is sent whole each time

# PostgreSQL stores every text but one with a NUL in it. U+FFFF is no character, and so stands for the mark.
_MARK, _MARK_BYTES = "\uffff", "\uffff".encode()


class BoundStatement(NamedTuple):
    """A statement with its values, ready to be sent."""

    statement: PgStatement
    data: list[bytes | None] | None = None
    formats: list[int] | None = None


class StatementResult(NamedTuple):
    rows: list[tuple[Any, ...]]
    changes: int


StatementGroup = Sequence[BoundStatement]
Fate = list[StatementResult] | ServerTrouble


class PgWire:
    """A connection. It blocks its caller, so it belongs to a thread."""

    def __init__(self, conninfo: str) -> None:
        connection = self._connection = _connect(conninfo)
        self._names: dict[bytes, bytes] = {}
        connection.notice_handler = _log_notice
        connection.nonblocking = 1
        self._watched = select.poll()  # `select` takes no descriptor beyond 1,023
        self._watched.register(connection.socket, select.POLLIN)

    @property
    def server_version(self) -> int:
        return self._connection.server_version

    @property
    def backend_pid(self) -> int:
        """The id of the server process for this connection, as reported when it was accepted."""
        return self._connection.backend_pid

    @property
    def is_encrypted(self) -> bool:
        return self._connection.ssl_in_use

    @property
    def host(self) -> str:
        """The host as it was configured; of several, the one that answered."""
        return _text(self._connection.host)

    @property
    def is_open(self) -> bool:
        return self._connection.status == pq.ConnStatus.OK

    @property
    def descriptor(self) -> int:
        return self._connection.socket

    def close(self) -> None:
        self._connection.finish()

    def script(self, sql: str) -> None:
        """Executes several statements in one text, without values, as opening and migrating need
        it."""
        try:
            if self._connection.pipeline_status:
                self._connection.exit_pipeline_mode()
            self._connection.send_query(sql.encode())
            self._send()
            _, trouble = self._collect()
        except psycopg.Error as error:
            raise ConnectionLost(str(error)) from error
        if trouble is not None:
            raise trouble

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Executes a single statement, in PostgreSQL's own SQL; returns its rows."""
        (fate,) = self.run_pipelined([[bound(PgStatement(sql.encode(), writes=True), values)]])
        if isinstance(fate, ServerTrouble):
            raise fate
        return fate[0].rows

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        """All of it in one round trip. A group that fails takes no other with it, unless they share a transaction."""
        connection = self._connection
        try:
            if not connection.pipeline_status:
                connection.enter_pipeline_mode()
            expected = [self._send_group(group) for group in groups]
            self._send()
            return [
                self._receive(group, said) for group, said in zip(groups, expected, strict=True)
            ]
        except psycopg.Error as error:  # libpq itself: only a broken connection brings it about
            raise ConnectionLost(_text(self._connection.error_message) or str(error)) from error

    def _send_group(self, group: StatementGroup) -> list[bool]:
        """What will be answered: whether each answer is one of a statement, or of its preparation."""
        connection, expected = self._connection, []
        for statement, data, formats in group:
            name = self._names.get(statement.sql)
            if name is None and len(self._names) >= PREPARED_MAX:
                connection.send_query_params(statement.sql, data, None, formats, 0)
                expected.append(True)
                continue
            if name is None:
                name = self._names[statement.sql] = b"s%d" % len(self._names)
                connection.send_prepare(name, statement.sql)
                expected.append(False)
            connection.send_query_prepared(name, data, formats, 0)
            expected.append(True)
        connection.pipeline_sync()
        return expected

    def _send(self) -> None:
        """Sends what is buffered, and reads meanwhile: both sides may have megabytes to send."""
        connection = self._connection
        while connection.flush():
            self._watched.modify(connection.socket, select.POLLIN | select.POLLOUT)
            if any(event & ~select.POLLOUT for _, event in self._watched.poll()):
                connection.consume_input()
            self._watched.modify(connection.socket, select.POLLIN)

    def _result(self) -> Any:
        """The next result. It polls the socket, since libpq would wait with Python's lock held, and
        the whole process with it."""
        connection = self._connection
        while connection.is_busy():
            self._watched.poll()
            connection.consume_input()
        return connection.get_result()

    def _receive(self, group: StatementGroup, expected: list[bool]) -> Fate:
        answers: list[StatementResult] = []
        trouble: ServerTrouble | None = None
        for is_statement in expected:
            at = len(answers)
            answer, error = self._collect()
            if error is not None and trouble is None:
                trouble = ServerTrouble(error.state, str(error), group[at].statement.sql.decode())
            if trouble is not None and not is_statement:
                self._names.pop(group[at].statement.sql, None)  # it was not prepared
            if is_statement:
                answers.append(answer)
        sync = self._result()
        if sync is None or sync.status != pq.ExecStatus.PIPELINE_SYNC:
            raise ConnectionLost(_text(self._connection.error_message) or "the pipeline broke")
        return answers if trouble is None else trouble

    def _collect(self) -> tuple[StatementResult, ServerTrouble | None]:
        """Reads all results up to the mark that ends a statement."""
        answer, trouble = StatementResult([], 0), None
        while (result := self._result()) is not None:
            status = result.status
            if status == pq.ExecStatus.TUPLES_OK:
                answer = StatementResult(_rows(result), result.ntuples)
            elif status == pq.ExecStatus.COMMAND_OK:
                answer = StatementResult([], result.command_tuples or 0)
            elif status == pq.ExecStatus.FATAL_ERROR and trouble is None:
                trouble = self._trouble(result)
        return answer, trouble

    def _trouble(self, result: Any) -> ServerTrouble:
        state = _text(result.error_field(pq.DiagnosticField.SQLSTATE))
        if not self.is_open or not state or (state[:2] in ("08", "57") and state != "57014"):
            raise ConnectionLost(_text(result.error_message))
        said = _text(result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY))
        return ServerTrouble(state, said)

    def notifications(self) -> list[str]:
        """The notifications on this connection since the last call."""
        heard = []
        try:
            self._connection.consume_input()
            while (said := self._connection.notifies()) is not None:
                heard.append(said.extra.decode())
        except psycopg.Error as error:
            raise ConnectionLost(str(error)) from error
        return heard


def _connect(conninfo: str) -> pq.abc.PGconn:
    """Connects to the first of the servers that accepts. Names are looked up, and each address is
    tried, without Python's lock: in one go libpq would hold it all that time."""
    given = conninfo_to_dict(conninfo)
    patience_s = float(given.get("connect_timeout") or CONNECT_S)
    refused: dict[str, None] = {}
    for attempt in _attempts(given):
        connection = pq.PGconn.connect_start(make_conninfo("", **attempt).encode())
        why_not = _finish_connecting(connection, patience_s)
        if why_not is None:
            return connection
        connection.finish()
        refused[why_not] = None
    raise ConnectionLost("; ".join(refused))


def _attempts(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of one attempt for each address of each server, in order."""
    if str(given.get("host", "")).startswith("@"):  # a socket without a file: not a name either
        return [given]
    try:
        return conninfo_attempts(given)
    except psycopg.Error as error:
        raise ConnectionLost(str(error)) from error


def _finish_connecting(connection: pq.abc.PGconn, patience_s: float) -> str | None:
    """Completes a connection; returns why it cannot be used, or None."""
    until = time.monotonic() + patience_s
    wanted = select.POLLOUT
    while connection.status != pq.ConnStatus.BAD:
        watched = select.poll()
        watched.register(connection.socket, wanted)
        if not watched.poll(max(0.0, until - time.monotonic()) * 1000):
            return "the server does not answer"
        status = connection.connect_poll()
        if status in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            break
        wanted = select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT
    return (
        None
        if connection.status == pq.ConnStatus.OK
        else _text(connection.error_message) or "it was refused"
    )


def _rows(result: Any) -> list[tuple[Any, ...]]:
    get, columns = result.get_value, range(result.nfields)
    made = [_DECODERS.get(result.ftype(column), _decode_text) for column in columns]
    return [
        tuple(
            None if (value := get(row, column)) is None else made[column](value)
            for column in columns
        )
        for row in range(result.ntuples)
    ]


def _decode_text(value: bytes) -> str:
    text = value.decode()
    if _MARK_BYTES in value:
        return text.replace(_MARK + "0", "\0").replace(_MARK + "1", _MARK)
    return text


def _decode_bytes(value: bytes) -> bytes:
    return bytes.fromhex(value[2:].decode())


def _decode_numeric(value: bytes) -> int | float:
    return float(value) if b"." in value else int(value)


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda value: value == b"t",
    17: _decode_bytes,
    20: int,
    21: int,
    23: int,
    700: float,
    701: float,
    1700: _decode_numeric,
}


def bound(statement: PgStatement, values: Sequence[Any]) -> BoundStatement:
    """A statement with its encoded values. A wrong value raises here, and not in a round trip with
    others' statements."""
    if not values:
        return BoundStatement(statement)
    data = [_encode(value) for value in values]
    return BoundStatement(
        statement, data, [1 if isinstance(value, bytes) else 0 for value in values]
    )


def _encode(value: Any) -> bytes | None:
    if isinstance(value, str):
        if "\0" in value or _MARK in value:
            value = value.replace(_MARK, _MARK + "1").replace("\0", _MARK + "0")
        data: bytes = value.encode()
        return data
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, int | float):
        return repr(value).encode()
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def _text(value: bytes | None) -> str:
    return " ".join(value.decode("utf-8", "replace").split()) if value else ""


def _log_notice(result: Any) -> None:
    log.debug("postgresql: %s", _text(result.error_message))
