"""Opening a store on PostgreSQL: the address, the server's version, and the writers' lock.

One gateway holds the lock alone, or several share it; whoever makes or moves tables holds it alone.
Each writer also has a lock of its own: while it is held, the connection that sent its last commit
still lives.
"""

import logging
import re
import time
from ipaddress import ip_address
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from crossclaw.domain.errors import StoreError, StoreLocked
from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.migrate import SCHEMA, migrate, refuse_newer, version_of
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.sqlite.migrate import VERSION
from crossclaw.ledger.sqlite.store import HALF_MOVED

log = logging.getLogger(__name__)

SERVER_VERSION_MIN = 14  # pipelines, and the fate of a transaction by its number
LOCK_PATIENCE_S = 2.0  # until the server has noticed that a gateway was killed
SHARED_PATIENCE_S = 20.0  # until another gateway has made the tables
LOCK = 0x63726F7373636C61  # "crosscla", for pg_advisory_lock
WRITER_LOCKS = 0x63726F73  # "cros": the first number of the locks that writers have of their own

# A server that is gone without a word is noticed within some fifteen seconds.
DEFAULTS = {
    "application_name": "crossclaw",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "client_encoding": "UTF8",
}
# Whatever the role or the database has for those who connect. By "repeatable read" a step that had to wait for another
# one's lock would not see what that one has stored. The timeouts are there or not, as the server's release is.
_SETTINGS = (
    f"SET search_path TO {SCHEMA}; SET jit TO off; SET statement_timeout TO 0; SET bytea_output TO hex; "
    "SET default_transaction_isolation TO 'read committed'; "
    "SELECT set_config(name, '0', false) FROM pg_settings "
    "WHERE name IN ('lock_timeout', 'idle_session_timeout', 'transaction_timeout')"
)
# A gateway that is cut off in the middle of a transaction must not hold its rows for ever; and one whose machine is gone
# must not hold the lock for two hours, which is how long a system believes in a silent connection.
_WRITES = (
    "SET idle_in_transaction_session_timeout TO 10000; SET tcp_user_timeout TO 15000; "
    "SET tcp_keepalives_idle TO 5; SET tcp_keepalives_interval TO 3; SET tcp_keepalives_count TO 3"
)
# Where several write, one that was cut off holds up the others: they wait for it less long than for a lease.
_SHARED_WRITES = (
    "SET idle_in_transaction_session_timeout TO 2000; SET tcp_user_timeout TO 3000; "
    "SET tcp_keepalives_idle TO 1; SET tcp_keepalives_interval TO 1; SET tcp_keepalives_count TO 2"
)
SHARED_DEFAULTS = {
    "connect_timeout": "3",
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "3000",
}
# Of several servers the one that can be written to, whichever that is after a failover.
SEVERAL_DEFAULTS = {"target_session_attrs": "read-write"}
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)

_PID = "SELECT pg_backend_pid()"
DUPLICATE_STATEMENT = "42P05"

_HOW = "write it as postgresql://user:password@host:5432/crossclaw"
_TLS = "add ?sslmode=verify-full&sslrootcert=… to ledger.url, or use a network that only the two are on"
_ESCAPES = "in a password, / is %2F, @ is %40, : is %3A and % is %25"


class DatabaseAddress:
    """The address of a database, and its name without the password."""

    def __init__(self, url: str, *, shared: bool = False) -> None:
        self.shown, self.shared = shown(url), shared
        if not url.startswith(("postgresql://", "postgres://")):
            raise StoreError(f"ledger.url is not understood: {_HOW}")
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:  # what it says can have the password in it, or half of it
            raise StoreError(f"ledger.url is not understood: {_HOW}; {_ESCAPES}") from None
        if not re.fullmatch("[0-9,]*", str(given.get("port") or "")):
            raise StoreError(f"ledger.url has a port that is no number: {_HOW}; {_ESCAPES}")
        if not given.get("dbname"):
            raise StoreError(f"ledger.url names no database: {_HOW}")
        defaults = DEFAULTS | SHARED_DEFAULTS if shared else DEFAULTS
        if "," in str(given.get("host", "")) + str(given.get("hostaddr", "")):
            defaults = defaults | SEVERAL_DEFAULTS
        self.conninfo = make_conninfo("", **{**defaults, **given})

    def connect(self) -> PgWire:
        wire = PgWire(self.conninfo)
        wire.script(_SETTINGS)
        return wire

    def connect_reader(self) -> PgWire:
        wire = self.connect()
        wire.script("SET default_transaction_read_only TO on")
        return wire

    def connect_writer(self) -> PgWire:
        """A connection with the lock: while it is held, nobody else writes who does not share
        it."""
        wire = self.connect()
        try:
            wire.script(_SHARED_WRITES if self.shared else _WRITES)
            wire.ask(_DURABLE)
            if self.shared:
                self._lock(wire, "pg_try_advisory_lock_shared", SHARED_PATIENCE_S)
            else:
                self._lock(wire, "pg_try_advisory_lock", LOCK_PATIENCE_S)
        except BaseException:
            wire.close()
            raise
        return wire

    def _lock(self, wire: PgWire, how: str, patience_s: float) -> None:
        """Takes the lock, or raises. The server releases it however the process ends."""
        until = time.monotonic() + patience_s
        while wire.ask(f"SELECT {how}($1::bigint)", LOCK) != [(True,)]:
            if time.monotonic() > until:
                together = (
                    ""
                    if self.shared
                    else ", or set ledger.shared: true on all (docs/cluster.md). If its machine has just died, try "
                    "again in 15 seconds: by then the server has noticed it"
                )
                raise StoreLocked(
                    f"another gateway is using the database {self.shown}; stop it first, or name "
                    f"another database{together}"
                )
            time.sleep(0.05)

    def _migrate(self, wire: PgWire) -> None:
        """Migrates the store with the lock held alone: nobody else writes while tables change."""
        if not self.shared:
            migrate(wire)
            return
        found = version_of(wire)
        refuse_newer(found)
        if found == VERSION:
            return
        wire.ask("SELECT pg_advisory_unlock_shared($1::bigint)", LOCK)
        try:
            self._lock(wire, "pg_try_advisory_lock", LOCK_PATIENCE_S)
        except StoreLocked:
            self._lock(wire, "pg_try_advisory_lock_shared", SHARED_PATIENCE_S)
            if version_of(wire) == VERSION:  # who had the lock has made them
                return
            raise StoreLocked(
                f"the tables in {self.shown} have to be brought up to date, and other gateways are using "
                "them; stop those first"
            ) from None
        migrate(wire)
        wire.ask("SELECT pg_advisory_lock_shared($1::bigint)", LOCK)
        wire.ask("SELECT pg_advisory_unlock($1::bigint)", LOCK)

    def _refuse_pooled(self) -> None:
        """Refuses a connection pooler that works by transaction: it gives several connections the
        same server process, so that neither locks nor prepared statements last, and no hint
        arrives."""
        first, second = self.connect(), None
        try:
            ((pid,),) = first.ask(_PID)
            if pid == first.backend_pid:
                return  # there is none: whoever accepted the connection serves it
            second = self.connect()
            is_shared = second.ask(_PID) == [(pid,)]
        except (
            ServerTrouble
        ) as trouble:  # it has prepared the same statement, in the first one's name
            is_shared = trouble.state == DUPLICATE_STATEMENT
        finally:
            first.close()
            if second is not None:
                second.close()
        if is_shared:
            raise StoreError(
                f"between the gateway and {self.shown} stands a pooler that works by transaction, as PgBouncer with "
                "pool_mode = transaction: name the server itself in ledger.url, or set pool_mode = session"
            )

    def prepare(self, *, half_moved: bool = False) -> PgWire:
        """A connection that may write, to a server that can hold a store and has its tables.
        `half_moved`: also to a store that a move has not filled yet."""
        try:
            self._refuse_pooled()
            wire = self.connect_writer()
        except ConnectionLost as lost:
            raise StoreError(
                f"the database {self.shown} cannot be reached: {lost}. Is the server running, and are "
                "the user and the password in ledger.url right?"
            ) from lost
        try:
            refuse_unfit(wire, self.shown)
            _refuse_foreign(wire, self.shown)
            if travels_in_clear(wire.host, encrypted=wire.is_encrypted):
                log.warning(
                    "the connection to the database %s is not encrypted: %s", self.shown, _TLS
                )
            self._migrate(wire)
            moving = wire.ask("SELECT to_regclass($1::text) IS NOT NULL", f"{SCHEMA}.move_progress")
            if moving == [(True,)] and not half_moved:
                raise StoreError(HALF_MOVED.format(self.shown))
        except ServerTrouble as trouble:
            wire.close()
            raise StoreError(
                f"the store in {self.shown} cannot be opened: {trouble}. The user needs the right to "
                f"create the schema {SCHEMA} in this database, or to own it"
            ) from trouble
        except BaseException:
            wire.close()
            raise
        return wire


def refuse_unfit(wire: PgWire, name: str) -> None:
    version = wire.server_version // 10_000
    if version < SERVER_VERSION_MIN:
        raise StoreError(
            f"the server of {name} is PostgreSQL {version}; Crossclaw needs {SERVER_VERSION_MIN} or newer"
        )
    ((standby, read_only, encoding),) = wire.ask(
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'), "
        "current_setting('server_encoding')"
    )
    if standby or read_only == "on":
        why = "it is a standby" if standby else "default_transaction_read_only is on"
        raise StoreError(f"the database {name} can only be read ({why}); name the primary server")
    if encoding != "UTF8":
        raise StoreError(f"the database {name} is encoded as {encoding}; create it with UTF8")


def _refuse_foreign(wire: PgWire, name: str) -> None:
    """Refuses a schema that belongs to another user, who could add triggers that run with the
    gateway's rights."""
    rows = wire.ask(
        "SELECT pg_get_userbyid(nspowner), pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = $1",
        SCHEMA,
    )
    for owner, is_ours in rows:
        if not is_ours:
            raise StoreError(
                f"the schema {SCHEMA} in {name} belongs to {owner}, who could change what the gateway reads and "
                f"does there; its owner must be the gateway's user: ALTER SCHEMA {SCHEMA} OWNER TO …"
            )


def travels_in_clear(host: str, *, encrypted: bool) -> bool:
    """Whether others on the network could read the data, and the password if the server asks for
    it."""
    if encrypted or not host or host.startswith(("/", "@")) or host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def shown(url: str) -> str:
    """The address without its password, for people and logs."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "of ledger.url"
    hosts = parts.netloc.rpartition("@")[2]
    ports = [host.rpartition(":")[2] for host in hosts.split(",") if re.search(r":[^\]]*$", host)]
    if "@" in parts.path or not all(port.isdigit() or not port for port in ports):
        return "of ledger.url"  # it may be a piece of a password that was not escaped
    return f"{hosts or 'localhost'}{parts.path}"
