"""TLS: the same gateway behind a certificate, and strangers who have their place and deadline before it."""

import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import msgspec
import pytest
from anyio.abc import SocketStream
from websockets.asyncio.client import connect as connect_socket

from crossclaw.client import GatewayDown, connect_async
from crossclaw.client.trust import unchecked_context
from crossclaw.config.fingerprints import fingerprint_of
from crossclaw.config.gateway import Tls
from crossclaw.config.paths import Paths
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.gateway.certificate import ServedCertificate, open_certificate
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.sockets import ClientSocket
from tests.wire.served_gateway import TOKEN, ServedGateway, serve_gateway
from tests.wire.serving import Peer, Served, connect_params, open_server

NEVER_S = 3600.0
PATIENT = GatewayLimits(
    stranger_time_s=0.2, header_time_s=NEVER_S, handshake_time_s=NEVER_S, close_s=NEVER_S
)
LARGE_BYTES = 30_000_000  # more than the kernel takes
ON = {"tls": {"enabled": True}}


def paths_of(folder: Path) -> Paths:
    return Paths(home=folder, state_dir=folder, config_path=folder / "openclaw.json")


def certificate(folder: Path) -> ServedCertificate:
    made = open_certificate(Tls(enabled=True), paths_of(folder), "127.0.0.1")
    assert made is not None
    return made


@asynccontextmanager
async def encrypted(served: Served) -> AsyncGenerator[Peer]:
    url = f"wss://127.0.0.1:{served.port}"
    async with connect_socket(url, ssl=unchecked_context(), proxy=None, compression=None) as socket:
        peer = Peer(socket)
        await peer.event("connect.challenge")
        answer = await peer.ask("connect", connect_params())
        assert answer["ok"], answer
        yield peer


async def rest_of(stream: SocketStream) -> bytes:
    said = b""
    with anyio.fail_after(10):
        try:
            while True:
                said += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return said


# ── the certificate ────────────────────────────────────────────────────────────────────────────


def test_a_certificate_is_made_once_for_its_owner_only_and_names_where_it_is_asked(
    tmp_path: Path,
) -> None:
    first = open_certificate(Tls(enabled=True), paths_of(tmp_path), "192.0.2.7")
    second = open_certificate(Tls(enabled=True), paths_of(tmp_path), "192.0.2.7")
    assert first is not None
    assert second is not None
    folder = tmp_path / "gateway" / "tls"
    shown = (folder / "gateway-cert.pem").read_text()
    trusting = ssl.create_default_context(cadata=shown)

    assert (
        first.fingerprint == second.fingerprint == fingerprint_of(ssl.PEM_cert_to_DER_cert(shown))
    )
    assert {(path.name, path.stat().st_mode & 0o777) for path in (folder, *folder.iterdir())} == {
        ("tls", 0o700),
        ("gateway-cert.pem", 0o600),
        ("gateway-key.pem", 0o600),
    }
    for name in ("localhost", "127.0.0.1", "::1", "192.0.2.7"):
        assert shake_hands(first.context, trusting, name)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(first.context, trusting, "192.0.2.8")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    """In memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname=name)
    done = 0
    while done < 2:
        done = 0
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
    return True


def test_a_start_that_was_cut_off_between_key_and_certificate_is_gone_on_with(
    tmp_path: Path,
) -> None:
    certificate(tmp_path)
    folder = tmp_path / "gateway" / "tls"
    key = (folder / "gateway-key.pem").read_text()
    (folder / "gateway-cert.pem").unlink()

    certificate(tmp_path)

    assert (folder / "gateway-key.pem").read_text() == key


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Tls(enabled=True, auto_generate=False), "set gateway.tls.autoGenerate to true"),
        (Tls(enabled=True, cert_path="a.pem", key_path="no.pem"), "the key .*no.pem is missing"),
        (Tls(enabled=True, cert_path="no.pem", key_path="a.key"), "no.pem is missing.*leave out"),
        (Tls(enabled=True, cert_path="a.pem", key_path="b.key"), "b.key is not the key of .*a.pem"),
        (Tls(enabled=True, cert_path="openclaw.json", key_path="a.key"), "cannot be used"),
        (Tls(enabled=True, cert_path="a.pem", key_path="a.key", ca_path="no"), "no cannot be used"),
    ],
)
def test_a_missing_or_mismatched_certificate_is_refused_with_what_to_do(
    tmp_path: Path, settings: Tls, says: str
) -> None:
    for name in "ab":
        certificate(tmp_path / name)
        made = tmp_path / name / "gateway" / "tls"
        (made / "gateway-cert.pem").rename(tmp_path / f"{name}.pem")
        (made / "gateway-key.pem").rename(tmp_path / f"{name}.key")
    (tmp_path / "openclaw.json").write_text("{}")

    good = Tls(enabled=True, cert_path="a.pem", key_path="a.key", ca_path="a.pem")
    assert open_certificate(good, paths_of(tmp_path), "127.0.0.1") is not None
    with pytest.raises(ConfigInvalid, match=says):
        open_certificate(settings, paths_of(tmp_path), "127.0.0.1")


# ── the whole gateway ──────────────────────────────────────────────────────────────────────────


def environ(served_gateway: ServedGateway) -> dict[str, str]:
    """As somebody of the same state folder: nothing is named."""
    return {
        "HOME": str(served_gateway.folder),
        "OPENCLAW_STATE_DIR": str(served_gateway.folder / "state"),
    }


async def test_the_client_trusts_the_gateway_of_its_folder_and_nobody_else(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path, gateway=ON) as served_gateway:
        assert served_gateway.url == f"https://127.0.0.1:{served_gateway.port}"
        state = tmp_path / "state"
        named = {**environ(served_gateway), "OPENCLAW_GATEWAY_TOKEN": TOKEN}
        async with connect_async(environ=named) as client:
            assert (await client.send("say: hidden")).text == "hidden"

        kept = (state / "gateway.fingerprint").read_text()
        (state / "gateway.fingerprint").write_text("0" * 64)
        with pytest.raises(GatewayDown, match=r"shows another certificate .* nothing was sent"):
            async with connect_async(environ=named, away_s=0):
                pass
        (state / "gateway.fingerprint").unlink()
        with pytest.raises(GatewayDown, match="speaks TLS"):
            async with connect_async(environ=named, away_s=0):
                pass
        with pytest.raises(GatewayDown, match="is not trusted here"):
            async with connect_async(served_gateway.ws, token=TOKEN, environ=named, away_s=0):
                pass
        (state / "gateway.fingerprint").write_text(kept)
    assert not (state / "gateway.fingerprint").exists()


async def test_a_gateway_elsewhere_is_trusted_by_the_fingerprint_in_the_config(
    tmp_path: Path,
) -> None:
    async with serve_gateway(tmp_path, gateway=ON) as served_gateway:
        digits = (tmp_path / "state" / "gateway.fingerprint").read_text().strip()
        there = tmp_path / "elsewhere"
        there.mkdir(mode=0o700)
        mine = {"HOME": str(there), "OPENCLAW_STATE_DIR": str(there)}
        colons = ":".join(digits[at : at + 2] for at in range(0, 64, 2)).upper()
        for fingerprint, good in ((colons, True), (digits[::-1], False)):
            remote = {
                "url": served_gateway.url,
                "token": TOKEN,
                "tlsFingerprint": f"SHA256:{fingerprint}",
            }
            config = {"gateway": {"mode": "remote", "remote": remote}}
            (there / "openclaw.json").write_bytes(msgspec.json.encode(config))
            if good:
                async with connect_async(environ=mine) as client:
                    assert (await client.send("say: from afar")).text == "from afar"
                continue
            with pytest.raises(GatewayDown, match=f"nothing was sent.*{digits}"):
                async with connect_async(environ=mine, away_s=0):
                    pass


async def test_the_page_is_served_encrypted_and_a_page_that_came_in_the_open_may_not_connect(
    tmp_path: Path,
) -> None:
    async with (
        serve_gateway(tmp_path, gateway=ON) as served_gateway,
        httpx2.AsyncClient(base_url=served_gateway.url, verify=unchecked_context()) as http,
    ):
        page = await http.get("/")
        own = await http.get("/health", headers={"origin": served_gateway.url})
        open_page = served_gateway.url.replace("https", "http")
        foreign = await http.get("/health", headers={"origin": open_page})

    assert (page.status_code, own.status_code, foreign.status_code) == (200, 200, 403)
    assert "connect-src 'self'" in page.headers["content-security-policy"]
    assert not {"set-cookie", "strict-transport-security"} & set(page.headers)


# ── strangers ──────────────────────────────────────────────────────────────────────────────────


async def test_who_asks_without_tls_is_told_so_and_let_go(tmp_path: Path) -> None:
    shown = certificate(tmp_path)
    async with open_server(tls=shown.context) as served:
        async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = await rest_of(stream)
        async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
            await stream.send(b"\x00\x01")
            silence = await rest_of(stream)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"https://" in answer
    assert silence == b""


@pytest.mark.parametrize("says", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_handshake_counts_against_the_deadline_of_strangers_and_known_clients_go_on(
    tmp_path: Path, says: bytes
) -> None:
    shown = certificate(tmp_path)
    async with (
        open_server(limits=PATIENT, tls=shown.context) as served,
        encrypted(served) as known,
    ):
        async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
            if says:
                await stream.send(says)
            assert (await known.ask("echo", {"text": "meanwhile"}))["payload"][
                "text"
            ] == "meanwhile"
            await rest_of(stream)
        answer = await known.ask("echo", {"text": "afterwards"})

    assert answer["payload"]["text"] == "afterwards"


async def test_handshakes_have_the_places_of_strangers_and_the_oldest_goes_for_the_next(
    tmp_path: Path,
) -> None:
    shown = certificate(tmp_path)
    limits = GatewayLimits(strangers_per_address_max=2, stranger_time_s=NEVER_S)
    async with open_server(limits=limits, tls=shown.context) as served:
        streams = [await anyio.connect_tcp("127.0.0.1", served.port) for _ in range(2)]
        for stream in streams:
            await stream.send(b"\x16\x03\x01")
        async with encrypted(served) as known:
            assert (await known.ask("echo", {"text": "in"}))["ok"]
            assert await rest_of(streams[0]) == b""
        for stream in streams:
            await stream.aclose()


async def test_a_gateway_that_stops_does_not_wait_for_handshakes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown = certificate(tmp_path)
    limits = GatewayLimits(stranger_time_s=NEVER_S)
    with caplog.at_level(logging.WARNING):
        async with open_server(limits=limits, tls=shown.context) as served:
            stream = await anyio.connect_tcp("127.0.0.1", served.port)
            await stream.send(b"\x16\x03\x01")
            async with encrypted(served):
                pass
            served.stop()
            with anyio.fail_after(10):
                await served.stopped.wait()
            assert await rest_of(stream) == b""
            await stream.aclose()
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_what_a_slow_client_has_not_read_is_counted_where_it_waits(tmp_path: Path) -> None:
    """Encrypted bytes wait below TLS: of one large frame, nothing is left above."""
    shown = certificate(tmp_path)
    async with open_server(tls=shown.context) as served, encrypted(served) as peer:
        peer.socket.transport.pause_reading()
        ours = served.server.clients()[0]._socket
        assert isinstance(ours, ClientSocket)
        ours.write(b"x" * LARGE_BYTES)
        await anyio.lowlevel.checkpoint()
        waiting = ours.buffered_bytes
        peer.socket.transport.abort()

    assert waiting > LARGE_BYTES // 2
