"""Where the ledger is kept."""

from collections.abc import Mapping

from crossclaw.config.section import Count, Section, names
from crossclaw.domain.secret import Secret

URL_VARIABLE = "CROSSCLAW_LEDGER_URL"


class LedgerConfig(Section, frozen=True):
    url: Secret | None = None
    """A PostgreSQL database that holds the ledger (`postgresql://user:password@host:5432/crossclaw`), instead of a file
    in the state folder; see [PostgreSQL](postgres.md). The variable `CROSSCLAW_LEDGER_URL` goes before it."""
    shared: bool = False
    """Several gateways use this database together; see [Several gateways](cluster.md). Each says so, and has a name of its own."""
    gateway: str | None = None
    """The name of this gateway among those that share the ledger; by itself the machine's and the state folder's."""
    address: str | None = None
    """Where the other gateways reach this one (`http://10.0.0.5:18789`); by itself the address it listens at."""
    config_epoch: Count = 0
    """Of several gateways with different config files, the one with the higher number counts: raise it above the number that
    `crossclaw gateways list` shows, together with a change, and the others follow."""
    agents: tuple[str, ...] | None = None
    """The agents whose runs are taken here. By itself those whose workspace is a folder on this machine, and those whose workspace
    is on no gateway's."""
    key_file: str | None = None
    """A file with the key that encrypts secrets which gateways keep for each other in the ledger; `CROSSCLAW_LEDGER_KEY` goes before it."""
    local = names("url shared gateway address agents keyFile")

    @property
    def reached_at(self) -> str:
        """The address as the other gateways use it, over HTTP: one that was written as for clients is the same place."""
        written = (self.address or "").strip()
        for clients, gateways in (("ws://", "http://"), ("wss://", "https://")):
            if written.lower().startswith(clients):
                return gateways + written[len(clients) :]
        return written

    def url_in(self, environ: Mapping[str, str]) -> str | None:
        """The database's address; None: the ledger is a file."""
        written = self.url.reveal() if self.url is not None else ""
        return environ.get(URL_VARIABLE, "").strip() or written.strip() or None
