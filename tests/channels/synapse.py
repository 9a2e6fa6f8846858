"""A real Matrix server for tests: Synapse from PyPI, in a folder and on a port of its own.

`make channels` installs it into `.venv/synapse`. People of the tests are real accounts of it that speak the
client-server API; nothing of the channel under test is used for them.
"""

import base64
import hashlib
import hmac
import itertools
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from tests.ending import bury

PROGRAM = Path(sys.prefix) / "synapse" / "bin" / "python"
SECRET = "only for tests"
START_S_MAX = 60.0
LOOK_AGAIN_S = 0.1

CONFIG = """
server_name: "localhost"
pid_file: {folder}/homeserver.pid
listeners:
  - {{port: {port}, bind_addresses: ["127.0.0.1"], type: http, tls: false, resources: [{{names: [client]}}]}}
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
log_config: "{folder}/log.yaml"
media_store_path: {folder}/media
registration_shared_secret: "{secret}"
report_stats: false
bcrypt_rounds: 4
macaroon_secret_key: "tests"
form_secret: "tests"
signing_key_path: "{folder}/signing.key"
trusted_key_servers: []
encryption_enabled_by_default_for_room_type: "off"
rc_message: {{per_second: {rate}, burst_count: {burst}}}
rc_registration: {{per_second: 1000, burst_count: 1000}}
rc_joins: {{local: {{per_second: 1000, burst_count: 1000}}}}
rc_joins_per_room: {{per_second: 1000, burst_count: 1000}}
rc_room_creation: {{per_second: 1000, burst_count: 1000}}
rc_presence: {{per_user: {{per_second: 1000, burst_count: 1000}}}}
rc_invites: {{per_room: {{per_second: 1000, burst_count: 1000}}, per_user: {{per_second: 1000, burst_count: 1000}}, per_issuer: {{per_second: 1000, burst_count: 1000}}}}
rc_login: {{address: {{per_second: 1000, burst_count: 1000}}, account: {{per_second: 1000, burst_count: 1000}}, failed_attempts: {{per_second: 1000, burst_count: 1000}}}}
"""
LOG = """
version: 1
handlers: {{file: {{class: logging.FileHandler, filename: "{folder}/homeserver.log"}}}}
root: {{level: WARNING, handlers: [file]}}
"""


class Synapse:
    """The server's folder outlives its process, so that it can be stopped and started again."""

    def __init__(self, folder: Path, *, rate: float = 10_000, burst: int = 10_000) -> None:
        self._folder = folder
        self._config = folder / "homeserver.yaml"
        self._rate, self._burst = rate, burst
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        self._people: list[Person] = []
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log.yaml").write_text(LOG.format(folder=folder))
        self._config.write_text(
            CONFIG.format(
                folder=folder, port=self.port, secret=SECRET, rate=self._rate, burst=self._burst
            )
        )
        command = [str(PROGRAM), "-m", "synapse.app.homeserver", "--config-path", str(self._config)]
        if not (folder / "signing.key").exists():  # as `--generate-keys` would, without its start
            seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
            (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        self._wait_ready()

    def _wait_ready(self) -> None:
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                if httpx2.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(LOOK_AGAIN_S)
        raise RuntimeError(f"Synapse did not start; {self._folder}/homeserver.log says why")

    def close(self) -> None:
        for person in self._people:
            person.close()
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            bury(self._process)
            self._process = None

    def register(self, name: str, *, device_id: str | None = None) -> "Person":
        """A new account; the same name asked for twice gives two accounts."""
        local = f"{name}{next(self._names)}"
        url = f"{self.url}/_synapse/admin/v1/register"
        nonce = httpx2.get(url).json()["nonce"]
        words = "\0".join((nonce, local, f"secret of {local}", "notadmin"))
        mac = hmac.new(SECRET.encode(), words.encode(), hashlib.sha1).hexdigest()
        body = {
            "nonce": nonce,
            "username": local,
            "password": f"secret of {local}",
            "admin": False,
            "mac": mac,
        }
        made = httpx2.post(url, json=body)
        made.raise_for_status()
        person = Person(self.url, f"@{local}:localhost", f"secret of {local}", device_id=device_id)
        self._people.append(person)
        return person


class Person:
    """Somebody with an account, who types and reads."""

    def __init__(
        self, url: str, user_id: str, password: str, *, device_id: str | None = None
    ) -> None:
        self.url, self.user_id, self.password = url, user_id, password
        self._http = httpx2.Client(base_url=url, timeout=30)
        self._numbers = itertools.count(1)
        self.device_id, self.token = self.login(device_id)

    def close(self) -> None:
        self._http.close()

    def login(self, device_id: str | None = None) -> tuple[str, str]:
        body: dict[str, Any] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self.user_id},
            "password": self.password,
        }
        answer = self.call(
            "POST", "/v3/login", body | ({"device_id": device_id} if device_id else {})
        )
        self._http.headers["Authorization"] = f"Bearer {answer['access_token']}"
        return answer["device_id"], answer["access_token"]

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        answer = self._http.request(method, f"/_matrix/client{path}", json=body, params=query)
        if answer.status_code >= 400:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
        made: dict[str, Any] = answer.json()
        return made

    # ── rooms ──────────────────────────────────────────────────────────────────────────────────

    def make_room(self, *invited: str, direct: bool = False, **more: Any) -> str:
        body = {"invite": list(invited), "is_direct": direct, "preset": "private_chat", **more}
        room: str = self.call("POST", "/v3/createRoom", body)["room_id"]
        return room

    def invite(self, room: str, user_id: str) -> None:
        self.call("POST", f"/v3/rooms/{quote(room)}/invite", {"user_id": user_id})

    def join(self, room: str) -> None:
        self.call("POST", f"/v3/join/{quote(room)}", {})

    def leave(self, room: str) -> None:
        self.call("POST", f"/v3/rooms/{quote(room)}/leave", {})

    def kick(self, room: str, user_id: str) -> None:
        self.call("POST", f"/v3/rooms/{quote(room)}/kick", {"user_id": user_id})

    def set_state(self, room: str, kind: str, content: dict[str, Any]) -> None:
        self.call("PUT", f"/v3/rooms/{quote(room)}/state/{kind}/", content)

    def members(self, room: str) -> set[str]:
        return set(self.call("GET", f"/v3/rooms/{quote(room)}/joined_members")["joined"])

    # ── words ──────────────────────────────────────────────────────────────────────────────────

    def say(self, room: str, text: str, **content: Any) -> str:
        return self.send(room, "m.room.message", {"msgtype": "m.text", "body": text, **content})

    def send(self, room: str, kind: str, content: dict[str, Any]) -> str:
        number = next(self._numbers)
        path = f"/v3/rooms/{quote(room)}/send/{kind}/{self.device_id}-{number}"
        event_id: str = self.call("PUT", path, content)["event_id"]
        return event_id

    def upload(self, data: bytes, mime: str, name: str) -> str:
        answer = self._http.post(
            "/_matrix/media/v3/upload",
            content=data,
            params={"filename": name},
            headers={"Content-Type": mime},
        )
        answer.raise_for_status()
        uri: str = answer.json()["content_uri"]
        return uri

    def download(self, uri: str) -> bytes:
        where = uri.removeprefix("mxc://")
        answer = self._http.get(f"/_matrix/client/v1/media/download/{where}")
        answer.raise_for_status()
        return answer.content

    def events(self, room: str) -> list[dict[str, Any]]:
        """All that the room has, in its order, as the server tells it."""
        found: list[dict[str, Any]] = []
        where: dict[str, Any] = {}
        while True:
            page = self.call(
                "GET", f"/v3/rooms/{quote(room)}/messages", dir="f", limit=500, **where
            )
            found += page["chunk"]
            if "end" not in page:
                return found
            where = {"from": page["end"]}

    def heard_from(self, room: str, user_id: str) -> list[dict[str, Any]]:
        return [
            event
            for event in self.events(room)
            if event["sender"] == user_id and event["type"] == "m.room.message"
        ]

    def wait_for(self, room: str, user_id: str, count: int = 1, within_s: float = 30) -> list[str]:
        """What somebody has said there, once it is so many messages."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            heard = self.heard_from(room, user_id)
            if len(heard) >= count:
                return [event["content"]["body"] for event in heard]
            time.sleep(LOOK_AGAIN_S)
        raise AssertionError(f"{user_id} said {len(heard)} of {count} messages in {within_s} s")

    def typing(self, room: str) -> list[str]:
        found = json.dumps({"room": {"rooms": [room], "timeline": {"limit": 0}}})
        joined = self.call("GET", "/v3/sync", filter=found, timeout=0)["rooms"]["join"]
        events = joined.get(room, {}).get("ephemeral", {}).get("events", [])
        return [user for event in events for user in event["content"].get("user_ids", [])]


@contextmanager
def open_synapse(folder: Path, **settings: Any) -> Generator[Synapse]:
    server = Synapse(folder, **settings)
    server.start()
    try:
        yield server
    finally:
        server.close()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
