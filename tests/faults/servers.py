"""The servers of a life: one PostgreSQL in a namespace of its own, or two of which one takes over."""

import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crossclaw.ledger.postgres.errors import ConnectionLost, ServerTrouble
from crossclaw.ledger.postgres.wire import PgWire
from tests.cluster.server import PORT_WITHIN, NoServer, Server
from tests.faults.network import Link, Network

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "listen_addresses": "*",
    "wal_writer_delay": "2s",  # whoever does not wait for the disk is found out
    "deadlock_timeout": "300ms",
}
STANDBY_S = 30.0
UNSEEN_S = 1.0


def ask(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    wire = PgWire(f"{url}?connect_timeout=5")
    try:
        return wire.ask(sql, *values)
    finally:
        wire.close()


class Servers:
    """`how`: "one" server; a `standby` whose address gateways know; or one that gets the `address` of the first.
    `synchronous` off: what the control does."""

    def __init__(
        self, folder: Path, net: Network, database: str, how: str, *, synchronous: bool
    ) -> None:
        self._folder, self._net, self._how, self._synchronous = folder, net, how, synchronous
        self._database, self._made = database, 0
        self.logs: list[Path] = []
        self._link, self._standby_link = net.servers[0], net.servers[-1]
        self.primary = self._make(self._link)
        self.primary.make_database(database)
        self._standby: Server | None = None
        if how == "address":
            self._link.add_address(net.shared_address)
        if how != "one":
            self._add_standby()

    @property
    def url(self) -> str:
        """For gateways."""
        name = self._database
        if self._how == "standby":
            hosts = ",".join(f"{link.address}:{PORT_WITHIN}" for link in self._net.servers)
            return f"postgresql://crossclaw@{hosts}/{name}?target_session_attrs=read-write"
        host = self._net.shared_address if self._how == "address" else self._link.address
        return f"postgresql://crossclaw@{host}:{PORT_WITHIN}/{name}"

    @property
    def own_url(self) -> str:
        """For the rig: of the primary itself."""
        return f"{self.primary.url}/{self._database}"

    def connect(self) -> PgWire:
        return PgWire(self.own_url)

    def _make(self, link: Link, copied_from: str | None = None) -> Server:
        self._made += 1
        folder = self._folder / f"server{self._made}"
        folder.mkdir(mode=0o755)
        server = Server(
            folder,
            SETTINGS,
            trusted=self._net.addresses,
            host=link.address,
            within=link.command(),
            copied_from=copied_from,
        )
        self.logs.append(server.log_file)
        return server

    def restart(self, how: signal.Signals) -> None:
        self.primary.stop(how)
        self.primary.start()

    # ── a standby takes over ───────────────────────────────────────────────────────────────────

    def _add_standby(self) -> None:
        self._standby = self._make(self._standby_link, f"{self.primary.url}/postgres")
        self._wait(
            f"{self.primary.url}/postgres",
            "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'",
        )
        if self._synchronous:
            self._set_synchronous(self.primary, "*")
            self._wait(
                f"{self.primary.url}/postgres",
                "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')",
            )

    def _set_synchronous(self, server: Server, names: str) -> None:
        ask(f"{server.url}/postgres", f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        ask(f"{server.url}/postgres", "SELECT pg_reload_conf()")

    def _wait(self, url: str, sql: str) -> None:
        until = time.monotonic() + STANDBY_S
        while True:
            try:
                if ask(url, sql):
                    return
            except (ConnectionLost, ServerTrouble):
                pass
            if time.monotonic() > until:
                raise NoServer(f"the standby is not there: {sql}")
            time.sleep(0.05)

    def fail_over(self, how: str) -> None:
        """`kill`: the primary dies. `apart`: it lives on, and nobody reaches it. `unseen`: it dies, and before that
        its standby has heard nothing for a while."""
        assert self._standby is not None
        old, old_link = self.primary, self._link
        if how == "unseen":
            self._standby_link.cut("cut")
            time.sleep(UNSEEN_S)
        if how == "apart":
            old_link.cut("cut")
        else:
            old.stop(signal.SIGKILL)
        self._standby_link.heal()
        self._promote(self._standby)
        if self._how == "address":
            old_link.drop_address(self._net.shared_address)
            self._standby_link.add_address(self._net.shared_address)
            for link in self._net.gateways:
                link.forget_neighbours()
        self.primary, self._standby = self._standby, None
        self._link, self._standby_link = self._standby_link, old_link
        time.sleep(1.0)
        if how == "apart":
            old.stop(signal.SIGKILL)
            old_link.heal()

    def _promote(self, standby: Server) -> None:
        """What it had from the primary named a standby, and now it has none."""
        self._set_synchronous(standby, "")
        ask(f"{standby.url}/postgres", "SELECT pg_promote(true, 30)")

    def add_standby_again(self) -> None:
        self._add_standby()

    def close(self) -> None:
        for server in (self._standby, self.primary):
            if server is not None:
                server.close()


@contextmanager
def servers(net: Network, database: str, how: str, *, synchronous: bool) -> Generator[Servers]:
    folder = Path(tempfile.mkdtemp(prefix="crossclaw-faults-server-"))
    folder.chmod(0o755)
    try:
        made = Servers(folder, net, database, how, synchronous=synchronous)
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
