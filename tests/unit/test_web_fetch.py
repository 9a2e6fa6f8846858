"""`web_fetch`: pages of the public internet become text; nothing else can be reached by it."""

import gzip
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config.tools import WebFetchTool
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, ToolFailed
from crossclaw.domain.keys import SessionKey
from crossclaw.tools import page_reader, readers, web_fetch
from crossclaw.tools.contract import ToolContext
from crossclaw.tools.egress import Egress, is_public
from crossclaw.tools.web_fetch import WebFetch
from tests.ending import beside
from tests.unit.test_pdf import document

PAGE = """<html><head><title>Bread</title><style>p {}</style></head><body>
<script>alert("x")</script><h1>How to bake</h1><p>Take <b>flour</b> and <a href="/w">water</a>.</p>
<ul><li>mix</li><li>wait</li></ul><table><tr><th>g</th></tr><tr><td>500</td></tr></table></body></html>"""

SLOW = b"<!--" * 500_000  # an hour of work for the parser


CODED = {
    "/japanese": ("日本".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', 200, ""),
    "/marked": ("\ufeffé".encode("utf-16-le"), "text/plain; charset=iso-8859-1", 200, ""),
    "/punycode": (b"-" + b"a9" * 500_000, "text/plain; charset=punycode", 200, ""),
    "/pdf": (document("Flour and water"), "application/pdf", 200, ""),
    "/scan": (document(""), "application/pdf", 200, ""),
    "/zip": (b"PK", "application/zip", 200, ""),
    "/packed": (gzip.compress(b"x" * 10_000_000), "text/plain", 200, "gzip"),
}
"""Bytes, their type, a status, and how they are packed."""


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Host"]))  # type: ignore[attr-defined]
        port = self.server.server_port  # type: ignore[attr-defined]
        match self.path:
            case "/page":
                self._answer(PAGE.encode(), "text/html; charset=utf-8")
            case "/json":
                self._answer(b'{"a": 1}', "application/json")
            case "/big":
                self._answer(b"x" * 5_000, "text/plain")
            case "/deep":
                self._answer(b"<div>" * 20_000, "text/html")
            case "/slow":
                self._answer(SLOW, "text/html")
            case "/hang":
                self.server.released.wait()  # type: ignore[attr-defined]
            case "/there":
                self._redirect("/page")
            case "/round":
                self._redirect("/round")
            case "/inside":
                self._redirect(f"http://inner.test:{port}/page")
            case "/file":
                self._redirect("file:///etc/passwd")
            case _:
                missing = (b"nothing", "text/plain", 404, "")
                self._answer(*CODED.get(self.path, missing))

    def _answer(self, body: bytes, kind: str, status: int = 200, packed: str = "") -> None:
        self.send_response(status)
        if packed:
            self.send_header("Content-Encoding", packed)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def resources() -> Generator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.2", 0), Site)
    server.asked, server.released = [], threading.Event()  # type: ignore[attr-defined]
    with beside(server.serve_forever):
        yield server
        server.released.set()  # type: ignore[attr-defined]
        server.shutdown()
    server.server_close()


class Names:
    """A name server: `site.test` is where the site is, which counts as public here; later answers
    name this machine."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        first = self.asked.count(host) == 1 or host != "rebind.test"
        known = {"site.test": "127.0.0.2", "rebind.test": "127.0.0.2" if first else "127.0.0.1"}
        return [known.get(host, "127.0.0.1")] + (["127.0.0.1"] if host == "both.test" else [])

    @staticmethod
    def is_public(address: str) -> bool:
        return address == "127.0.0.2"


def fetch(url: str, egress: Egress | None = None, names: Names | None = None, **more: Any) -> str:
    settings = msgspec.convert(more.pop("settings", {}), WebFetchTool)
    names = names or Names()
    tool = WebFetch(egress or Egress(names.resolve, names.is_public), settings)

    async def call() -> str:
        context = ToolContext(SessionKey.main("main"), Authority())
        return await tool.call(context, tool.read({"url": url, **more}))

    return anyio.run(call)


def at(resources: ThreadingHTTPServer, path: str, host: str = "site.test") -> str:
    return f"http://{host}:{resources.server_address[1]}{path}"


def test_a_page_becomes_text_that_a_model_can_use(resources: ThreadingHTTPServer) -> None:
    text = fetch(at(resources, "/page"))

    assert text.startswith(
        f"{at(resources, '/page')} answered 200. What follows is its text: information"
    )
    for part in ("Bread", "# How to bake", "Take **flour** and [water](/w).", "* mix", "| 500 |"):
        assert part in text
    for part in ("alert", "p {}"):
        assert part not in text
    assert fetch(at(resources, "/json")).endswith('{"a": 1}')
    assert "answered 404" in fetch(at(resources, "/missing"))


def test_a_pdf_becomes_text_page_by_page(
    resources: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pypdf", reason="comes with the extra `pdf`")
    assert fetch(at(resources, "/pdf")).endswith("[page 1 of 1]\nFlour and water")
    assert "[13 more characters]" in fetch(at(resources, "/pdf"), maxChars=16)
    with pytest.raises(Invalid, match=r"/scan cannot be read: it has no text"):
        fetch(at(resources, "/scan"))
    monkeypatch.setattr(web_fetch, "PDF_BYTES_MAX", 100)
    with pytest.raises(Invalid, match=r"is a PDF of more than 100 bytes"):
        fetch(at(resources, "/pdf"))


def test_pages_are_read_in_the_charset_that_they_name(resources: ThreadingHTTPServer) -> None:
    assert fetch(at(resources, "/japanese")).endswith("日本")
    assert fetch(at(resources, "/marked")).endswith("é")


def test_a_charset_that_no_page_has_is_read_as_utf_8(resources: ThreadingHTTPServer) -> None:
    text = fetch(at(resources, "/punycode"), maxChars=20)
    assert "-a9a9a9" in text
    assert "more characters" in text


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "zlib", "bz2", "unicode_escape", "utf-7", "rot13", "undefined"]
)
def test_codecs_that_are_programs_are_no_charsets(charset: str) -> None:
    assert charset not in page_reader.CHARSETS
    assert page_reader.decoded(b"a+AGE-\\x41", charset) == "a+AGE-\\x41"


def test_every_charset_that_is_taken_reads_any_bytes_and_makes_no_more_of_them() -> None:
    raw = b"a" * 1000 + bytes(range(256))
    lengths = {name: len(page_reader.decoded(raw, name)) for name in page_reader.CHARSETS}

    assert len(lengths) > 10
    assert {name for name, length in lengths.items() if not 0 < length <= len(raw)} == set()


def test_nothing_is_decoded_or_unpacked_in_the_loop(resources: ThreadingHTTPServer) -> None:
    with pytest.raises(ToolFailed, match="sent a compressed answer"):
        fetch(at(resources, "/packed"))
    source = Path(web_fetch.__file__).read_text("utf-8")
    assert re.findall(r"\.(decode|text|json|aiter_\w+)\(", source) == ["decode", "aiter_raw"]


def test_a_server_hears_its_own_name_and_a_redirect_is_relative_to_it(
    resources: ThreadingHTTPServer,
) -> None:
    assert at(resources, "/page") in fetch(at(resources, "/there"))
    host = at(resources, "").removeprefix("http://")
    assert resources.asked == [("/there", host), ("/page", host)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0.0.0.0/"),
        *("http://2130706433/", "http://0x7f000001/", "http://127.1/", "http://[::ffff:127.0.0.1]/"),
        *("http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://192.168.1.1/"),
        *("http://[fe80::1]/", "http://[fd00::1]/", "http://100.64.0.1/", "http://[64:ff9b::7f00:1]/"),
        "http://[2002:7f00:1::]/",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(url: str) -> None:
    with pytest.raises(Forbidden, match="not on the public internet"):
        fetch(url, Egress())


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *(("93.184.216.34", True), ("2606:2800:220:1::1", True), ("::ffff:8.8.8.8", True)),
        *(("224.0.0.1", False), ("ff02::1", False), ("::", False), ("255.255.255.255", False)),
        *(("64:ff9b::808:808", True), ("192.0.0.1", False)),
        *(("fe80::1%eth0", False), ("168.63.129.16", False), ("::ffff:168.63.129.16", False)),
        *(("3fff::1", False), ("4000::1", False), ("5f00::1", False), ("fec0::1", False)),
        *(
            ("::127.0.0.1", False),
            ("::8.8.8.8", True),
            ("::1", False),
            ("64:ff9b:1::808:808", False),
        ),
        *(("::ffff:0:10.0.0.1", False), ("::ffff:0:8.8.8.8", True), ("64:ff9b::a9fe:a9fe", False)),
        *(("2002:808:808::", True), ("2002:a00:1::", False), ("100.100.100.200", False)),
    ],
)
def test_what_counts_as_public(address: str, public: bool) -> None:
    assert is_public(address) == public


def test_a_redirect_to_the_inside_is_refused(resources: ThreadingHTTPServer) -> None:
    with pytest.raises(Forbidden, match=r"inner\.test is not on the public internet"):
        fetch(at(resources, "/inside"))
    with pytest.raises(CrossclawError):
        fetch(at(resources, "/file"))
    assert [path for path, _ in resources.asked] == ["/inside", "/file"]  # type: ignore[attr-defined]


def test_a_name_with_one_address_inside_is_refused(resources: ThreadingHTTPServer) -> None:
    with pytest.raises(Forbidden):
        fetch(at(resources, "/page", "both.test"))


def test_a_name_that_changes_its_address_gains_nothing(resources: ThreadingHTTPServer) -> None:
    """The same port on this machine belongs to somebody who must not be asked."""
    names = Names()
    with socket.create_server(("127.0.0.1", resources.server_address[1])) as inner:
        inner.setblocking(False)
        assert "How to bake" in fetch(at(resources, "/page", "rebind.test"), names=names)
        with pytest.raises(BlockingIOError):
            inner.accept()
    assert names.asked == ["rebind.test"]


@pytest.mark.parametrize(
    "url", ["ftp://site.test/", "file:///etc/passwd", "site.test", "", "http://", "javascript:1"]
)
def test_only_http_and_https(url: str) -> None:
    with pytest.raises(CrossclawError):
        fetch(url)


def test_secrets_in_an_address_are_refused(resources: ThreadingHTTPServer) -> None:
    with pytest.raises(Invalid, match="password"):
        fetch(at(resources, "/page", "user:secret@site.test"))


def test_limits_of_size_time_and_redirects(
    resources: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch(at(resources, "/big"), maxChars=10).endswith(
        "xxxxxxxxxx\n\n[4990 more characters]"
    )
    assert "[4900 more" in fetch(at(resources, "/big"), maxChars=9_000, settings={"maxChars": 100})
    monkeypatch.setattr(web_fetch, "BODY_BYTES_MAX", 1_000)
    assert fetch(at(resources, "/big")).endswith("[the page goes on after 1000 bytes]")
    with pytest.raises(ToolFailed, match="redirects more than 3 times"):
        fetch(at(resources, "/round"), settings={"maxRedirects": 3})
    with pytest.raises(ToolFailed, match="took longer than 1 s"):
        fetch(at(resources, "/hang"), settings={"timeoutSeconds": 1})
    with pytest.raises(Invalid, match="application/zip"):
        fetch(at(resources, "/zip"))
    with pytest.raises(Invalid, match="maxChars"):
        fetch(at(resources, "/big"), maxChars=0)


def test_a_page_that_is_nested_too_deeply_is_an_error_and_no_crash(
    resources: ThreadingHTTPServer,
) -> None:
    with pytest.raises(ToolFailed, match="nested too deeply"):
        fetch(at(resources, "/deep"))


def test_a_page_that_is_built_to_be_slow_ends_with_its_call_and_leaves_nobody_at_work(
    resources: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "READING_S", 1.0)
    before = set(threading.enumerate())
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with pytest.raises(ToolFailed, match="no text can be made of it in time"):
        fetch(at(resources, "/slow"))

    begun = [each for each in threading.enumerate() if "AnyIO" in each.name and each not in before]
    for worker in begun:
        worker.join(10)  # one that has nothing to do ends with its loop
    assert not any(worker.is_alive() for worker in begun)
    # Only children that were waited for count: the reader is gone, not left to itself.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > ended


def test_the_reader_ends_by_itself_when_nobody_ends_it() -> None:
    program = f"import {page_reader.__name__} as reader; reader.READING_S = 1.0; reader.main()"
    asked = [sys.executable, "-c", program, "html", "utf-8", "1000"]
    ended = subprocess.run(asked, input=SLOW, check=False)

    assert ended.returncode < 0
