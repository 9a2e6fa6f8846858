"""The ledger's place: a file, or a database that several gateways may share."""

from collections.abc import Mapping

from crossclaw.config.section import Count, Section, names
from crossclaw.domain.secret import Secret

URL_VARIABLE = "CROSSCLAW_LEDGER_URL"


class LedgerConfig(Section, frozen=True):
    url: Secret | None = None
    """A PostgreSQL database that holds the ledger (`postgresql://user:password@host:5432/crossclaw`), instead of a file
    in the state folder; see [PostgreSQL](postgres.md). The variable `CROSSCLAW_LEDGER_URL` goes before it."""
    shared: bool = False
    """Whether several gateways use this database together; see [Several gateways](cluster.md). Each sets it,
    and has a name of its own."""
    gateway: str | None = None
    """The name of this gateway among those that share the ledger; by default the machine's and the state folder's."""
    address: str | None = None
    """The address by which the other gateways reach this one (`http://10.0.0.5:18789`); by default the
    address it listens at."""
    config_epoch: Count = 0
    """The config's number among several gateways with different config files: the one with the higher number
    counts. Raise it above the number that `crossclaw gateways list` shows, together with a change, and the
    others follow."""
    agents: tuple[str, ...] | None = None
    """The agents whose runs are taken here. By default those whose workspace is a folder on this machine, and
    those whose workspace is on no gateway's."""
    key_file: str | None = None
    """A file with the key that encrypts secrets which gateways keep for each other in the ledger; `CROSSCLAW_LEDGER_KEY` goes before it."""
    local = names("url shared gateway address agents keyFile")

    @property
    def reached_at(self) -> str:
        """The address for the other gateways, over HTTP: one that was written as for clients is the same place."""
        written = (self.address or "").strip()
        for clients, gateways in (("ws://", "http://"), ("wss://", "https://")):
            if written.lower().startswith(clients):
                return gateways + written[len(clients) :]
        return written

    def url_in(self, environ: Mapping[str, str]) -> str | None:
        """The database's address; None: the ledger is a file."""
        written = self.url.reveal() if self.url is not None else ""
        return environ.get(URL_VARIABLE, "").strip() or written.strip() or None
