"""Tests marked `real` speak with real servers and other people's programs: `make channels` installs those and runs all; a
test that it skips is one that failed. `make test` leaves them out, and asks the contract of a sample of channels only:
one in memory, one that is polled and one with a socket. The tests of each channel's own are in both. Whoever names a
channel's folder or file to pytest asks its contract."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.contract import ChannelContract
from tests.channels.synapse import Synapse, open_synapse

REAL = os.environ.get("CROSSCLAW_CHANNELS") == "real"
SAMPLE = {"TestMemory", "TestMemoryThatKnowsKeys", "TestTelegram", "TestDiscord"}


def _is_named(config: pytest.Config) -> bool:
    """Whether nothing but single channels was asked for."""
    folder, given = Path(__file__).parent, [Path(each.partition("::")[0]) for each in config.args]
    return bool(given) and all(folder in each.resolve().parents for each in given)


def _waits_for_make_channels(item: pytest.Item) -> bool:
    asked = getattr(item, "cls", None)
    if isinstance(asked, type) and issubclass(asked, ChannelContract):
        return asked.__name__ not in SAMPLE and not _is_named(item.config)
    return item.get_closest_marker("real") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if REAL:
        return
    later = {item for item in items if _waits_for_make_channels(item)}
    if later:
        config.hook.pytest_deselected(items=list(later))
        items[:] = [item for item in items if item not in later]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    real = REAL and item.get_closest_marker("real") is not None
    if real and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"make channels skips nothing: {report.longrepr}"
    return report


@pytest.fixture
def anyio_backend(
    request: pytest.FixtureRequest, anyio_backend: tuple[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Other people's servers do not know of a clock that jumps."""
    name, _ = anyio_backend
    return (name, {}) if request.node.get_closest_marker("real") else anyio_backend


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Generator[Synapse]:
    with open_synapse(tmp_path_factory.mktemp("synapse")) as server:
        yield server
