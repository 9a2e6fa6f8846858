"""`crossclaw` as it is, except that it gets no hints from other gateways: it finds everything by looking."""

import sys

import crossclaw.ledger.postgres.writer  # noqa: F401  it has the channel's name by now, and tells as ever
from crossclaw.cli.main import main
from crossclaw.ledger.postgres import listener

if __name__ == "__main__":
    listener.CHANNEL = "nobody"
    sys.exit(main())
