"""A plugin of pytest for `make cluster`: of all tests those that open a ledger, without those that are left out."""

import re
from pathlib import Path

import pytest

from tests.cluster.left_out import LEFT_OUT

FOLDERS = (
    "tests/cluster",
    "tests/ledger",
    "tests/flows",
    "tests/properties",
    "tests/unit",
    "tests/wire",
)
OPENS = re.compile(
    r"open_gateway|open_ledger|\bledger\b.*Ledger|serving|served_gateway|as gateway:|gateway: Gateway"
    r"|gateway\.(ledger|door|run_store)|tests\.properties\.\w+ import|CROSSCLAW_CLUSTER|databases\(\)"
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen, others = list[pytest.Item](), list[pytest.Item]()
    opens: dict[Path, bool] = {}
    for item in items:
        if item.path not in opens:
            opens[item.path] = OPENS.search(item.path.read_text("utf-8")) is not None
        left_out = any(item.nodeid.startswith(place) for place in LEFT_OUT)
        (chosen if opens[item.path] and not left_out else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen
