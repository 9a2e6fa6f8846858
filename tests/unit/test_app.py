"""What the house refuses to open with."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.supported import not_yet
from crossclaw.domain.errors import ConfigInvalid, SandboxMissing
from crossclaw.testing import ScriptedProvider, open_house


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"tools": {"exec": {"security": "allowlist"}}}, r"tools\.exec\.security of agent main"),
        ({"tools": {"exec": {"ask": "on-miss"}}}, r"tools\.exec\.ask"),
        ({"tools": {"exec": {"mode": "auto"}}}, r"tools\.exec\.mode"),
        ({"agents": {"list": [{"id": "ops", "tools": {"exec": {"host": "node"}}}]}}, "agent ops"),
    ],
)
async def test_a_lock_that_is_not_built_yet_is_refused_rather_than_ignored(
    tmp_path: Path, raw: dict[str, object], names: str
) -> None:
    with pytest.raises(ConfigInvalid, match=names):
        async with open_house(tmp_path, ScriptedProvider([]), config=msgspec.convert(raw, Config)):
            pass


@pytest.mark.spec("V4")
@pytest.mark.parametrize("mode", ["all", "non-main"])
async def test_a_sandbox_that_is_wanted_and_missing_stops_the_start(
    tmp_path: Path, mode: str
) -> None:
    raw = {"agents": {"list": [{"id": "ops", "sandbox": {"mode": mode}}]}}
    config = msgspec.convert(raw, Config)
    with pytest.raises(SandboxMissing, match="apt install bubblewrap"):
        async with open_house(
            tmp_path, ScriptedProvider([]), config=config, environ={"PATH": str(tmp_path)}
        ):
            pass


def test_settings_without_effect_are_named() -> None:
    raw = {
        "agents": {"defaults": {"subagents": {"maxConcurrent": 2}}},
    }

    assert len(not_yet(msgspec.convert(raw, Config))) == 1
    assert not_yet(Config()) == []
