"""Somebody else's fake of the Bot API: npm telegram-api-mock-server 0.1.10, started as a library by node. (Its own command
changes the machine's hosts file, and can pass requests on to Telegram: never started.)"""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from dev.npm import node

from tests.ending import bury

PACKAGE = Path(sys.prefix) / "channels-npm/node_modules/telegram-api-mock-server/dist/index.js"
SCRIPT = """
const { TelegramApiMockServer } = await import(process.argv[1]);
const server = new TelegramApiMockServer({ host: "127.0.0.1", port: 0 });
await server.start();
console.log(JSON.stringify(server.getAddress()));
"""


class ForeignMock:
    def __init__(self, url: str, token: str) -> None:
        self.url, self._token = url, token

    def say(self, chat: int, text: str, message_id: int) -> None:
        """A person writes."""
        message = {
            "message_id": message_id,
            "date": 1_900_000_000,
            "chat": {"id": chat, "type": "private", "first_name": "Ann"},
            "from": {"id": chat, "is_bot": False, "first_name": "Ann"},
            "text": text,
        }
        body = {"token": self._token, "update": {"message": message}}
        httpx2.post(f"{self.url}/_mock/injectUpdate", json=body).raise_for_status()

    def outbound(self, method: str) -> list[dict[str, Any]]:
        """Calls of one method so far."""
        found = httpx2.get(f"{self.url}/_mock/outbound", params={"token": self._token}).json()
        return [each["payload"] for each in found["events"] if each["method"] == method]


@contextmanager
def open_foreign_mock(token: str) -> Generator[ForeignMock]:
    command = [str(node()), "--input-type=module", "-e", SCRIPT, PACKAGE.as_uri()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, "telegram-api-mock-server did not start"
            yield ForeignMock(_url(json.loads(line)), token)
        finally:
            process.terminate()
            bury(process)


def _url(address: Any) -> str:
    if isinstance(address, str):
        return address.rstrip("/")
    return f"http://127.0.0.1:{address['port']}"
