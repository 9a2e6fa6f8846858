"""The request on the page of hooks, sent as printed to a gateway with the config printed above it."""

import json
import re
from pathlib import Path

import anyio
import pyjson5
import pytest

from crossclaw.domain.secret import Secret
from tests.wire.served_gateway import serve_gateway

PAGE = (Path(__file__).parents[2] / "docs" / "cron-and-hooks.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("## Hooks") :]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what the server runs on


@pytest.mark.anyio
@pytest.mark.spec("G3")
async def test_the_request_of_the_page_begins_a_run(tmp_path: Path) -> None:
    (written,) = re.findall(r"```json5\n(.*?)```", SECTION, re.S)
    (request,) = re.findall(r"```sh\n(.*?)```", SECTION, re.S)
    hooks = pyjson5.decode(written)["hooks"]
    opened = hooks | {"token": Secret(hooks["token"])}
    async with serve_gateway(tmp_path, hooks=opened) as served_gateway:
        sent = request.replace("http://127.0.0.1:18789", served_gateway.url)
        environ = {"HOOK_TOKEN": hooks["token"], "PATH": "/usr/bin:/bin"}
        done = await anyio.run_process(["sh", "-c", sent], env=environ)

    assert sent != request
    assert json.loads(done.stdout)["ok"] is True
