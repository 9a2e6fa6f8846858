"""The check of a ledger that is kept in PostgreSQL."""

from collections.abc import Iterator

from crossclaw.cli.checks import Finding
from crossclaw.cli.place import StateLocation
from crossclaw.domain.errors import StoreError


def database(place: StateLocation) -> Iterator[Finding]:
    url = place.config.ledger.url_in(place.environ)
    if url is None:
        return
    from crossclaw.ledger.opening import inspect_database  # noqa: PLC0415  only here

    try:
        for each in inspect_database(url):
            yield Finding("ledger", each.grade, each.text, each.todo)
    except StoreError as error:
        yield Finding("ledger", "error", str(error), "See docs/postgres.md.")
