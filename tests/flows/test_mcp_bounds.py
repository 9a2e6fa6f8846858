"""What MCP servers say is bounded before it is parsed, and before it goes into every request."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.authority import Authority
from crossclaw.domain.messages import ToolUse
from crossclaw.tools.contract import RESULT_CHARS_MAX
from crossclaw.tools.mcp_filter import MESSAGE_BYTES_MAX, PARTS_MAX, MessageFilter
from crossclaw.tools.mcp_http import Bounded, TooLarge
from crossclaw.tools.mcp_tool import DESCRIPTION_CHARS_MAX
from tests.flows.talking import results_of, say
from tests.flows.test_mcp_servers import MAIN, in_a_gateway

SERVER = Path(__file__).parent / "hostile_mcp_server.py"


def hostile(folder: Path, **told: Any) -> dict[str, Any]:
    state = folder / "told.json"
    state.write_text(json.dumps({"description": "Say something.", **told}), "utf-8")
    return {"hostile": {"command": sys.executable, "args": [str(SERVER), str(state)]}}


def spoken(folder: Path, **told: Any) -> Any:
    """What the model hears of one call, and the gateway afterwards."""
    heard: list[Any] = []

    async def story(gateway: Gateway) -> None:
        run = await say(gateway, MAIN.text, "go", "r1")
        heard.extend(await results_of(gateway, run))

    script = [[ToolUse("c1", "hostile__speak", {})], "done"]
    in_a_gateway(folder, hostile(folder, **told), story, script)
    return heard[0]


def test_a_description_of_megabytes_is_cut_and_a_schema_of_megabytes_left_out(
    tmp_path: Path,
) -> None:
    async def story(gateway: Gateway) -> None:
        found = await gateway.toolsets.of(MAIN, Authority(), "test/test")
        assert len(found["hostile__speak"].description) < DESCRIPTION_CHARS_MAX + 100
        assert "hostile__large" not in found

    in_a_gateway(tmp_path, hostile(tmp_path, chars=5_000_000, properties=9_000), story)


def test_a_result_of_too_many_parts_is_refused_in_words_and_the_server_goes_on(
    tmp_path: Path,
) -> None:
    heard = spoken(tmp_path, blocks=300_000)

    assert "too large" in str(heard)
    assert str(PARTS_MAX) in str(heard)


def test_a_result_of_too_many_bytes_is_refused_in_words(tmp_path: Path) -> None:
    assert "too large" in str(spoken(tmp_path, blocks=20, block=1_000_000))


def test_a_long_result_is_cut_and_says_so(tmp_path: Path) -> None:
    heard = str(spoken(tmp_path, blocks=2, block=RESULT_CHARS_MAX))

    assert len(heard) < RESULT_CHARS_MAX + 1_000


@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_the_filter_passes_messages_on_as_they_are_however_they_are_cut(size: int) -> None:
    lines = b'{"id":1,"result":"a {} b"}\n\n{"id":2}\n'
    sieve = MessageFilter()

    passed = b"".join(sieve.take(lines[n : n + size]) for n in range(0, len(lines), size))

    assert passed == lines


def test_the_filter_holds_no_more_than_its_limit() -> None:
    sieve, chunk = MessageFilter(), b"x" * 1_000_000
    sieve.take(b'{"jsonrpc":"2.0","id":"q7","result":"')
    for _ in range(3 * MESSAGE_BYTES_MAX // len(chunk)):
        assert sieve.take(chunk) == b""
        assert len(sieve._line) <= MESSAGE_BYTES_MAX
    (answer,) = sieve.take(b'"}\n').splitlines()

    assert json.loads(answer)["id"] == "q7"
    assert "too large" in json.loads(answer)["error"]["message"]


BODIES = {
    "too many bytes": b"x" * (MESSAGE_BYTES_MAX + 1),
    "too many parts": b'{"a":[' + b'{"b":1},' * (PARTS_MAX + 1) + b"{}]}",
}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("what", BODIES)
async def test_an_answer_over_http_has_the_same_limits(what: str, kind: str) -> None:
    body = httpx2.ByteStream(BODIES[what])
    answer = httpx2.Response(200, stream=body, headers={"content-type": kind})
    transport = Bounded(httpx2.MockTransport(lambda _request: answer))
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(TooLarge):
            await client.get("http://server.example/mcp")


async def test_a_packed_answer_is_not_unpacked() -> None:
    packed = gzip.compress(b"x" * 50_000_000)
    headers = {"content-encoding": "gzip"}
    answer = httpx2.Response(200, stream=httpx2.ByteStream(packed), headers=headers)
    transport = Bounded(httpx2.MockTransport(lambda _request: answer))
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(TooLarge):
            await client.get("http://server.example/mcp")
