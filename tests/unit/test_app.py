"""What the gateway refuses to open with."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.supported import refuse_unsupported, unsupported
from crossclaw.domain.errors import SandboxMissing
from crossclaw.policy.tools import tool_layers
from crossclaw.testing import ScriptedProvider, open_gateway


def test_commands_for_another_machine_are_denied_and_the_owner_reads_why() -> None:
    raw = {"agents": {"list": [{"id": "ops", "tools": {"exec": {"host": "node"}}}]}}
    config = msgspec.convert(raw, Config)

    denying = [
        layer.setting for layer in tool_layers(config, "ops") if "group:runtime" in layer.deny
    ]

    assert "tools.exec.host" in denying
    assert [finding.path[-1] for finding in unsupported(config)][:1] == ["host"]
    refuse_unsupported(config)  # it starts


@pytest.mark.spec("V4")
@pytest.mark.parametrize("mode", ["all", "non-main"])
async def test_a_sandbox_that_is_wanted_and_missing_stops_the_start(
    tmp_path: Path, mode: str
) -> None:
    raw = {"agents": {"list": [{"id": "ops", "sandbox": {"mode": mode}}]}}
    config = msgspec.convert(raw, Config)
    with pytest.raises(SandboxMissing, match="apt install bubblewrap"):
        async with open_gateway(
            tmp_path, ScriptedProvider([]), config=config, environ={"PATH": str(tmp_path)}
        ):
            pass
