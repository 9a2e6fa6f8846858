"""These need the server that `make cluster` starts, and are no part of `make test`."""

import os
from pathlib import Path

import pytest

from tests.databases import databases

collect_ignore_glob = [] if "CROSSCLAW_CLUSTER" in os.environ else ["test_*.py"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a database of this test's own."""
    return databases().url(tmp_path / "ledger")
