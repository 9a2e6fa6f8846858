"""Where the ledger is kept."""

from collections.abc import Mapping

from crossclaw.config.section import Section, names
from crossclaw.domain.secret import Secret

URL_VARIABLE = "CROSSCLAW_LEDGER_URL"


class LedgerConfig(Section, frozen=True):
    url: Secret | None = None
    """A PostgreSQL database that holds the ledger (`postgresql://user:password@host:5432/crossclaw`), instead of a file
    in the state folder; see [PostgreSQL](postgres.md). The variable `CROSSCLAW_LEDGER_URL` goes before it."""
    local = names("url")

    def url_in(self, environ: Mapping[str, str]) -> str | None:
        """The database's address; None: the ledger is a file."""
        written = self.url.reveal() if self.url is not None else ""
        return environ.get(URL_VARIABLE, "").strip() or written.strip() or None
