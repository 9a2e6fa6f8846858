"""The gateway's token."""

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from crossclaw.config import Config, Paths, find_paths
from crossclaw.config.gateway import GatewayAuth, GatewayConfig
from crossclaw.config.token import gateway_token, random_token
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret

START = """
import sys
from pathlib import Path
from crossclaw.config import Config, find_paths
from crossclaw.config.token import gateway_token
sys.stdin.readline()
print(gateway_token(Config(), find_paths({}, Path(sys.argv[1])), {}).reveal())
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return find_paths({}, tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_nothing() -> str:
    raise AssertionError("no token is needed")


def test_the_environment_comes_before_the_config_and_neither_makes_a_file(paths: Paths) -> None:
    config = Config(gateway=GatewayConfig(auth=GatewayAuth(token=Secret("from config"))))
    environ = {"OPENCLAW_GATEWAY_TOKEN": " from environ "}
    assert gateway_token(config, paths, environ, make_nothing).reveal() == "from environ"
    assert gateway_token(config, paths, {}, make_nothing).reveal() == "from config"
    assert not paths.state_dir.exists()


def test_a_token_is_made_once_and_kept_closed(paths: Paths) -> None:
    first = gateway_token(Config(), paths, {}, lambda: "made")
    again = gateway_token(Config(), paths, {}, make_nothing)
    assert first.reveal() == again.reveal() == "made"
    assert mode(paths.token_path) == 0o600
    assert mode(paths.token_path.parent) == 0o700
    assert os.listdir(paths.token_path.parent) == ["gateway-token"]


def test_a_made_token_has_256_random_bits_and_fits_into_urls() -> None:
    tokens = {random_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(
        len(token) == 43 and token.replace("-", "").replace("_", "").isalnum() for token in tokens
    )


def test_gateways_that_start_together_use_one_token(tmp_path: Path) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for starter in starters:
        assert starter.stdin
        starter.stdin.write("go\n")
        starter.stdin.flush()
    answers = {starter.communicate()[0].strip() for starter in starters}
    assert len(answers) == 1
    assert len(answers.pop()) == 43
    assert os.listdir(tmp_path / ".openclaw/credentials") == ["gateway-token"]


def test_the_slower_of_two_takes_the_token_of_the_faster(paths: Paths) -> None:
    def overtaken() -> str:
        gateway_token(Config(), paths, {}, lambda: "faster")
        return "slower"

    assert gateway_token(Config(), paths, {}, overtaken).reveal() == "faster"


def test_an_open_file_is_closed_with_a_warning_that_does_not_tell_the_token(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    gateway_token(Config(), paths, {}, lambda: "hunter2")
    paths.token_path.chmod(0o644)
    paths.token_path.parent.chmod(0o755)
    with caplog.at_level(logging.DEBUG):
        gateway_token(Config(), paths, {}, make_nothing)
    assert mode(paths.token_path) == 0o600
    assert mode(paths.token_path.parent) == 0o700
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert str(paths.token_path) in caplog.text
    assert "hunter2" not in caplog.text


def test_an_empty_file_is_refused_with_the_way_out(paths: Paths) -> None:
    paths.token_path.parent.mkdir(parents=True, mode=0o700)
    paths.token_path.touch(mode=0o600)
    with pytest.raises(ConfigInvalid, match="is empty; remove it"):
        gateway_token(Config(), paths, {}, make_nothing)


def test_a_link_is_not_followed(paths: Paths, tmp_path: Path) -> None:
    paths.token_path.parent.mkdir(parents=True, mode=0o700)
    (tmp_path / "elsewhere").write_text("planted")
    paths.token_path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigInvalid, match="OPENCLAW_GATEWAY_TOKEN"):
        gateway_token(Config(), paths, {}, make_nothing)


def test_a_folder_that_cannot_be_made_is_told_with_the_other_ways(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").write_text("a file")
    blocked = msgspec.structs.replace(find_paths({}, tmp_path), state_dir=tmp_path / ".openclaw")
    with pytest.raises(ConfigInvalid, match=r"cannot be kept in .*gateway\.auth\.token"):
        gateway_token(Config(), blocked, {})
