"""The client on the protocol page, run as printed against a gateway."""

import re
import sys
from pathlib import Path

import anyio
import pytest

from tests.wire.served_gateway import TOKEN, serve_gateway

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what the server runs on


@pytest.mark.anyio
@pytest.mark.spec("G1")
async def test_the_client_of_the_page_gets_its_reply(tmp_path: Path) -> None:
    (code,) = re.findall(r"```py\n(.*?)```", PAGE, re.S)
    async with serve_gateway(tmp_path) as served_gateway:
        environ = {"GATEWAY": served_gateway.ws, "TOKEN": TOKEN}
        done = await anyio.run_process([sys.executable, "-c", code], env=environ)

    assert done.stdout.decode() == "final Good day!\n"


def test_everything_that_a_client_needs_to_begin_is_on_the_page() -> None:
    for words in (
        "**connect**: `{minProtocol",
        "**hello-ok**: `{type",
        "crossclaw protocol schema",
    ):
        assert words in PAGE
