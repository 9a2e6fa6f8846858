"""gateway/sockets.py, server.py and watchdog.py work on the insides of uvicorn and asyncio. When those change, somebody must
look: the pin in pyproject.toml lets no other uvicorn in, and this says what is different in a new one."""

import asyncio  # noqa: TID251  its insides are what is looked at
import hashlib
import inspect
import re
import selectors
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]  # noqa: TID251
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import Server
from websockets.server import ServerProtocol

SEEN = {
    HttpToolsProtocol: "18fdf324b11bf160",
    RequestResponseCycle: "e67d470d435dcc1c",
    WebSocketsSansIOProtocol: "0bbcec98938432f7",
    Server: "06e799f7c58f8be6",
}
"""The insides that were read, by the digest of their source. After a look at what changed (do our overrides still get
called, do the timers and the pausing of reads still hold?) put the new digest here and move the pin."""
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_insides_of_uvicorn_are_those_that_our_sockets_were_written_for() -> None:
    found = {kind.__name__: _digest(kind) for kind in SEEN}
    assert found == {kind.__name__: seen for kind, seen in SEEN.items()}, uvicorn.__version__


def test_no_other_uvicorn_is_let_in() -> None:
    pin = re.search(r'"uvicorn>=([\d.]+),<([\d.]+)"', PYPROJECT.read_text("utf-8"))
    assert pin is not None
    (first, end), here = map(_minor, pin.groups()), _minor(uvicorn.__version__)
    assert first <= here < end
    assert (end[0], end[1] - 1) == first  # one minor release: it promises nothing more


def test_asyncio_has_what_the_sockets_and_the_watchdog_reach_for() -> None:
    assert isinstance(_SelectorSocketTransport.max_size, int)
    loop = asyncio.new_event_loop()
    try:
        assert isinstance(loop._selector, selectors.BaseSelector)  # type: ignore[attr-defined]
    finally:
        loop.close()


def test_websockets_takes_a_new_limit_while_it_is_connected() -> None:
    protocol = ServerProtocol(max_size=1000)
    assert protocol.max_message_size == 1000
    protocol.max_message_size = 2000


def _minor(version: str) -> tuple[int, int]:
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def _digest(kind: type) -> str:
    return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:16]
