"""What the house refuses to open with."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.supported import not_yet
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.testing import ScriptedProvider, open_house


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"agents": {"defaults": {"sandbox": {"mode": "all"}}}}, "no sandbox yet"),
        ({"agents": {"list": [{"id": "ops", "sandbox": {"mode": "non-main"}}]}}, "set for ops"),
    ],
)
async def test_a_lock_that_is_not_built_yet_is_refused_rather_than_ignored(
    tmp_path: Path, raw: dict[str, object], names: str
) -> None:
    with pytest.raises(ConfigInvalid, match=names):
        async with open_house(tmp_path, ScriptedProvider([]), config=msgspec.convert(raw, Config)):
            pass


def test_settings_without_effect_are_named() -> None:
    raw = {
        "agents": {"defaults": {"subagents": {"maxConcurrent": 2}}},
    }

    assert len(not_yet(msgspec.convert(raw, Config))) == 1
    assert not_yet(Config()) == []
