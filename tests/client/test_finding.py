"""Which gateway is called, and which credential is sent there."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from crossclaw.client.errors import BadAddress, NobodyListens
from crossclaw.client.finding import (
    ConnectOptions,
    GatewayAddress,
    find_gateway,
    find_serving,
    served_port,
)
from crossclaw.client.location import StateLocation, find_place
from crossclaw.disk.held import HeldFile


def a_place(folder: Path, config: str = "{}", **environ: str) -> StateLocation:
    folder.joinpath("openclaw.json").write_text(config)
    return find_place({"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)} | environ)


def sent(address: GatewayAddress) -> tuple[str, str | None]:
    return address.url, address.token.reveal() if address.token else None


def test_the_local_gateway_with_the_token_it_keeps(tmp_path: Path) -> None:
    assert sent(find_gateway(ConnectOptions(), a_place(tmp_path))) == ("ws://127.0.0.1:18789", None)
    (tmp_path / "credentials").mkdir(mode=0o700)
    (tmp_path / "credentials" / "gateway-token").write_text("kept\n")

    found = find_gateway(ConnectOptions(), a_place(tmp_path))

    assert sent(found) == ("ws://127.0.0.1:18789", "kept")
    assert found.is_local


def test_looking_for_it_makes_no_token(tmp_path: Path) -> None:
    find_gateway(ConnectOptions(), a_place(tmp_path))

    assert not (tmp_path / "credentials").exists()


def test_config_and_environment_say_where_and_with_what(tmp_path: Path) -> None:
    config = '{ gateway: { port: 1234, auth: { token: "configured" } } }'

    plain = find_gateway(ConnectOptions(), a_place(tmp_path, config))
    environ = {"OPENCLAW_GATEWAY_PORT": "4321", "OPENCLAW_GATEWAY_TOKEN": "env"}
    over = find_gateway(ConnectOptions(), a_place(tmp_path, config, **environ))
    option = find_gateway(ConnectOptions(token="option"), a_place(tmp_path, config, **environ))

    assert sent(plain) == ("ws://127.0.0.1:1234", "configured")
    assert sent(over) == ("ws://127.0.0.1:4321", "env")
    assert sent(option) == ("ws://127.0.0.1:4321", "option")


def test_a_remote_gateway_gets_its_own_token_and_never_the_local_one(tmp_path: Path) -> None:
    config = """{ gateway: { mode: "remote", auth: { token: "local" },
        remote: { url: "wss://far.example", token: "theirs" } } }"""

    found = find_gateway(ConnectOptions(), a_place(tmp_path, config, OPENCLAW_GATEWAY_TOKEN="env"))

    assert sent(found) == ("wss://far.example", "theirs")
    assert not found.is_local


@pytest.mark.parametrize(
    "url", ["ws://far.example:18789", "ws://127.0.0.1:9", "wss://localhost.evil.example:18789"]
)
def test_an_address_of_its_own_needs_a_token_of_its_own(tmp_path: Path, url: str) -> None:
    place = a_place(tmp_path, OPENCLAW_GATEWAY_TOKEN="local")

    with pytest.raises(BadAddress, match="is not sent to"):
        find_gateway(ConnectOptions(url), place)
    assert sent(find_gateway(ConnectOptions(url, "its own"), place)) == (url, "its own")


def test_the_local_gateway_may_be_spelled_out(tmp_path: Path) -> None:
    place = a_place(tmp_path, OPENCLAW_GATEWAY_TOKEN="local")

    for url in ("ws://127.0.0.1:18789", "http://localhost:18789", "127.0.0.1:18789"):
        found = find_gateway(ConnectOptions(url), place)
        assert sent(found) == ("ws://127.0.0.1:18789", "local")


def test_the_variable_for_the_address_goes_with_the_one_for_the_token(tmp_path: Path) -> None:
    far = {"OPENCLAW_GATEWAY_URL": "wss://far.example"}
    config = '{ gateway: { auth: { token: "local" } } }'

    with_token = a_place(tmp_path, config, **far, OPENCLAW_GATEWAY_TOKEN="theirs")
    assert sent(find_gateway(ConnectOptions(), with_token)) == ("wss://far.example", "theirs")
    with pytest.raises(BadAddress):
        find_gateway(ConnectOptions(), a_place(tmp_path, config, **far))


@pytest.mark.parametrize("url", ["ftp://x", "ws://", "://", "wss://?x"])
def test_what_is_no_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadAddress, match="no gateway address"):
        find_gateway(ConnectOptions(url, "t"), a_place(tmp_path))


def test_an_open_line_is_noticed() -> None:
    assert GatewayAddress("ws://far.example").is_open_line
    assert not GatewayAddress("wss://far.example").is_open_line
    assert not GatewayAddress("ws://127.0.0.1:1").is_open_line


def test_the_token_is_not_sent_to_the_port_that_a_killed_gateway_has_left_behind(
    tmp_path: Path,
) -> None:
    place = a_place(tmp_path, '{ gateway: { auth: { token: "ours" } } }')
    served = HeldFile(place.paths.port_path)

    served.write("4567\n")
    assert sent(find_serving(ConnectOptions(), place)) == ("ws://127.0.0.1:4567", "ours")
    served.write("5678\n")  # after another config
    assert served_port(place) == 5678
    left_behind = place.paths.port_path.read_text()
    served.remove()
    assert not place.paths.port_path.exists()
    place.paths.port_path.write_text(left_behind)

    assert served_port(place) is None
    with pytest.raises(NobodyListens):
        find_serving(ConnectOptions(), place)


@pytest.mark.parametrize("there", ["pipe", "link", "folder"])
def test_what_is_no_file_says_no_port_and_keeps_nobody_waiting(tmp_path: Path, there: str) -> None:
    place = a_place(tmp_path)
    elsewhere = HeldFile(tmp_path / "elsewhere")
    elsewhere.write("4567\n")
    make: dict[str, Callable[[Path], None]] = {
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "link": partial(os.symlink, tmp_path / "elsewhere"),
    }
    make[there](place.paths.port_path)

    assert served_port(place) is None
