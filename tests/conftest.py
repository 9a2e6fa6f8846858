"""Every async test runs on trio and on asyncio, both with a clock that jumps: on asyncio, which is what serves, by
`make test`, and on trio, which is stricter about order, by `make trio`. No example of Hypothesis has a deadline,
because a busy machine makes any of them late."""

import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings
from trio.testing import MockClock

from crossclaw.testing import VirtualLoop
from tests.ending import give_an_end
from tests.proof.size import examples
from tests.yielding import let_reads_yield

settings.register_profile("crossclaw", deadline=None, max_examples=examples(40, 100))
settings.load_profile("crossclaw")


BACKENDS = os.environ.get("CROSSCLAW_BACKENDS", "trio asyncio").split()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    give_an_end(pyfuncitem)


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    if request.param == "trio":
        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture
def reads_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read of the ledger gives way to others, as it does on a server."""
    let_reads_yield(monkeypatch)


@pytest.fixture(autouse=os.environ.get("CROSSCLAW_READS") == "yield")
def all_reads_yield(reads_yield: None) -> None:
    """The whole run of tests with reads that give way."""


@pytest.fixture(autouse="CROSSCLAW_CLUSTER" in os.environ)
def ledgers_in_databases(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The whole run of tests on PostgreSQL: `make cluster`."""
    from tests.databases import databases, keep_ledgers_in_databases  # noqa: PLC0415  an extra

    keep_ledgers_in_databases(monkeypatch)
    yield
    databases().empty()
