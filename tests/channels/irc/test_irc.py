"""The example of a channel in a package of its own: it passes the contract, is found by its entry point, and talks on
Debian's real ngircd (`make channels`)."""

import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from crossclaw.channels.registry import find_manifest
from crossclaw.config import manifests
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.channels.contract import (
    ChannelContract,
    ChannelDriver,
    Failure,
    HandedOver,
)
from tests.channels.irc.driver import EXAMPLE, IrcDriver
from tests.ending import bury

from crossclaw_irc.account import IrcAccount  # isort: skip
from crossclaw_irc.lines import Line, lines_of, read_line  # isort: skip
from crossclaw_irc.manifest import MANIFEST, normalize_sender, read_target  # isort: skip
from crossclaw_irc.settings import IrcSettings  # isort: skip


class TestIrc(ChannelContract):
    @pytest.fixture
    async def driver(self) -> IrcDriver:
        return IrcDriver()

    @pytest.mark.parametrize(
        ("how", "state", "shown"),
        [
            ("never", "failed", 0),
            ("gone", "failed", 0),
            ("lost before", "uncertain", 0),
            ("lost after", "uncertain", 1),
        ],
    )
    async def test_a_failed_send_is_settled_by_what_the_failure_means(
        self, folder: Path, driver: ChannelDriver, how: Failure, state: str, shown: int
    ) -> None:
        """Nothing of IRC's says "later", and what is not sent needs a connection that is not there."""
        whole = ChannelContract.test_a_failed_send_is_settled_by_what_the_failure_means
        await whole(self, folder, driver, how, state, shown)


def test_a_package_of_somebody_else_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip leaves it: a folder of metadata on the path."""
    project = (EXAMPLE / "pyproject.toml").read_text("utf-8")
    [entry] = [line for line in project.splitlines() if line.startswith("irc = ")]
    metadata = tmp_path / "crossclaw_irc-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: crossclaw-irc\nVersion: 0.1.0\n", "utf-8")
    entry = entry.replace('"', "")
    (metadata / "entry_points.txt").write_text(f"[crossclaw.channels]\n{entry}\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    manifests.foreign.cache_clear()
    try:
        assert find_manifest("IRC") is MANIFEST
        assert "irc" in manifests.known_names()
    finally:
        manifests.foreign.cache_clear()


def test_lines_are_read_and_words_never_become_commands() -> None:
    assert read_line(":ann!~a@h PRIVMSG #x :hello: world") == Line(
        "ann!~a@h", "PRIVMSG", ("#x", "hello: world")
    )
    assert read_line("@time=1 PING :abc") == Line("", "PING", ("abc",))
    assert read_line(" ") is None
    assert lines_of("one\r\nQUIT\n\ntwo\0") == ["one", "QUIT", "two"]
    family = "👩‍👩‍👧‍👦" * 60
    assert "".join(lines_of(family)) == family
    assert all(len(line.encode()) <= 400 for line in lines_of(family))


def test_a_nick_is_an_address_and_no_identity() -> None:
    channel, person = read_target("irc:#workshop"), read_target("ann")
    assert channel is not None
    assert person is not None
    assert (channel.to, person.to, person.types) == ("#workshop", "ann", ("direct",))
    assert read_target("two words") is None
    assert normalize_sender("irc:ann!~ann@host.example") == "ann!~ann@host.example"
    assert normalize_sender("ann") is None


# ── against Debian's ngircd ────────────────────────────────────────────────────────────────────

CONFIG = """[Global]
Name = irc.test
Info = a test
Listen = 127.0.0.1
Ports = {port}
[Options]
Ident = no
PAM = no
DNS = no
"""


@pytest.fixture
def ngircd(tmp_path: Path, free_tcp_port: int) -> Generator[int]:
    program = shutil.which("ngircd", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    assert program, "install it: apt-get install ngircd"
    (tmp_path / "ngircd.conf").write_text(CONFIG.format(port=free_tcp_port), "utf-8")
    server = subprocess.Popen(
        [program, "-n", "-f", str(tmp_path / "ngircd.conf")], stdout=subprocess.DEVNULL
    )
    yield free_tcp_port
    server.terminate()
    bury(server)


class Visitor:
    """A person with an IRC client."""

    def __init__(self, stream: anyio.abc.ByteStream, nick: str) -> None:
        self._stream, self._lines = stream, BufferedByteReceiveStream(stream)
        self.nick = nick

    async def say(self, *lines: str) -> None:
        await self._stream.send("".join(f"{line}\r\n" for line in lines).encode())

    async def leave(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    async def until(self, command: str, word: str = "") -> str:
        while True:
            text = (await self._lines.receive_until(b"\n", 9000)).decode().rstrip("\r")
            line = read_line(text)
            if line and line.command == "PING":
                await self.say(f"PONG :{line.params[-1]}")
            if line and line.command == command and word in text:
                return line.params[-1]


async def visit(port: int, nick: str) -> Visitor:
    while True:
        try:
            stream = await anyio.connect_tcp("127.0.0.1", port)
            break
        except OSError:
            await anyio.sleep(0.05)  # the server is starting
    visitor = Visitor(stream, nick)
    await visitor.say(f"NICK {nick}", f"USER {nick} 0 * :A person")
    await visitor.until("001")
    return visitor


@pytest.mark.real
async def test_people_talk_with_an_agent_on_a_real_irc_server(tmp_path: Path, ngircd: int) -> None:
    driver = IrcDriver()
    settings = {"server": "127.0.0.1", "port": ngircd, "tls": False}
    fields = {name: getattr(driver.settings, name) for name in IrcSettings.__struct_fields__}
    driver.settings = IrcSettings(**{**fields, **settings})

    async def open_it(host: object) -> IrcAccount:
        return IrcAccount(driver.settings, host)  # type: ignore[arg-type]

    long = "ä" * 900
    model = ScriptedProvider(["Hello ann.", "Hello all.", long])
    with anyio.fail_after(60):
        ann = await visit(ngircd, "ann")
        await ann.say("JOIN #workshop")
        await ann.until("JOIN", "#workshop")
        channel = HandedOver(driver, open_it)
        async with open_gateway(tmp_path / "gateway", model, channels=[channel]):
            await ann.until("JOIN", "claw")
            await ann.say("PRIVMSG claw :hi")
            assert await ann.until("PRIVMSG", " ann ") == "Hello ann."
            await ann.say("PRIVMSG #workshop :claw: hi all")
            assert await ann.until("PRIVMSG", "#workshop") == "Hello all."
            await ann.say("PRIVMSG claw :tell me more")
            parts = ""
            while len(parts) < len(long):
                parts += await ann.until("PRIVMSG", " ann ")
            assert parts == long
        await ann.leave()
