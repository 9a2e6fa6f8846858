"""A state folder of OpenClaw's newest release, made by the program itself, and what it says of its own sessions.

python -m tests.conformance.store tests/data/openclaw-2026.9.tar.xz     makes the one that `make test` has
"""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from crossclaw.domain.messages import ToolUse
from crossclaw.testing.fake_models import FakeModelServer, FakeRequest, ServerAnswer
from tests.conformance.installing import install, node, package
from tests.ending import bury

TOKEN, KEY = "a-token-of-the-real-program", "sk-ant-a-key-that-opens-nothing"
START_S, ANSWER_S = 400, 120  # the program takes half a minute to start, on a busy machine several
PROGRAM = Path(sys.executable).with_name("crossclaw")
SHARED, AGENT = "state/openclaw.sqlite", "agents/{}/agent/openclaw-agent.sqlite"
PRIVATE = (
    "device_identities",
    "config_revision_keys",
    "audit_identity_keys",
    "config_health_entries",
)
"""Tables whose rows are this machine's, and nobody's business."""

SAID = (
    ("agent:main:main", "Good morning"),
    ("agent:main:main", "Please use a tool, and count to three 😀"),
    ("agent:librarian:main", "Which atlas do we have?"),
    ("agent:main:atlas", "Before the reset"),
)
JOBS: tuple[dict[str, Any], ...] = (
    {
        "name": "morning",
        "schedule": {"kind": "cron", "expr": "0 8 * * *", "tz": "Europe/Vienna"},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "Say good morning"},
        "delivery": {"mode": "none"},
    },
    {
        "name": "hourly",
        "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "main",
        "wakeMode": "next-heartbeat",
        "payload": {"kind": "systemEvent", "text": "An hour has passed"},
    },
    {
        "name": "once",
        "agentId": "librarian",
        "enabled": False,
        "schedule": {"kind": "at", "at": "2036-01-01T08:00:00Z"},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "Happy new year"},
        "delivery": {"mode": "announce", "channel": "telegram", "to": "123"},
    },
)
PAIRING = """
const sdk = await import(process.argv[1]);
for (const id of ["111", "222"]) {
  const made = await sdk.upsertChannelPairingRequest({ channel: "telegram", id, accountId: "default", meta: {} });
  console.log(made.code);
}
"""


class RealProgram:
    """OpenClaw in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / ".openclaw"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.environ = {
            "HOME": str(home),
            "PATH": f"{node().parent}:/usr/bin:/bin",
            "NO_COLOR": "1",
            "OPENCLAW_DISABLE_BONJOUR": "1",
        }

    def run(self, *words: str, stdin: str = "") -> str:
        return self._node(str(package("new", "openclaw") / "openclaw.mjs"), *words, stdin=stdin)

    def _node(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [str(node()), *words], env=self.environ, input=stdin, capture_output=True, text=True,
            timeout=START_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def configure(self, models: str) -> None:
        self.state.mkdir(parents=True)
        model = {"id": "fake-1", "name": "Fake", "contextWindow": 200_000, "maxTokens": 8_000}
        fake = {"baseUrl": models, "apiKey": "sk-fake", "api": "openai-completions"}
        config = {
            "gateway": {"mode": "local", "port": self.port, "auth": {"token": TOKEN}},
            "agents": {
                "defaults": {
                    "model": {"primary": "fake/fake-1"},
                    "workspace": str(self.home / "ws"),
                },
                "list": [{"id": "main", "default": True}, {"id": "librarian"}],
            },
            "models": {"providers": {"fake": fake | {"models": [model]}}},
        }
        (self.state / "openclaw.json").write_text(json.dumps(config), "utf-8")

    @contextmanager
    def gateway(self) -> Generator[None]:
        script = str(package("new", "openclaw") / "openclaw.mjs")
        log = self.home / "gateway.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(node()), script, "gateway", "run", "--port", str(self.port)],
                env=self.environ, stdout=file, stderr=file,
            )  # fmt: skip
        try:
            until = time.monotonic() + START_S
            while "[gateway] ready" not in log.read_text("utf-8", errors="replace"):
                assert process.poll() is None, log.read_text("utf-8")
                assert time.monotonic() < until, log.read_text("utf-8")
                time.sleep(0.5)
            yield
        finally:
            process.terminate()
            bury(process)

    def call(self, method: str, params: dict[str, Any]) -> Any:
        words = [method, "--params", json.dumps(params), "--timeout", str(ANSWER_S * 1000)]
        where = ["--url", f"ws://127.0.0.1:{self.port}", "--token", TOKEN]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home / "asking")}
        done = subprocess.run(
            [str(PROGRAM), "gateway", "call", *words, *where], env=environ, capture_output=True,
            text=True, timeout=ANSWER_S * 2, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{method}: {done.stderr}"
        return json.loads(done.stdout)

    def say(self, key: str, text: str, name: str) -> None:
        """Until it is answered."""
        before = len(self.history(key))
        self.call("chat.send", {"sessionKey": key, "message": text, "idempotencyKey": name})
        until = time.monotonic() + ANSWER_S
        while not any(role == "assistant" and words for role, words in self.history(key)[before:]):
            assert time.monotonic() < until, f"no answer to {text!r}"
            time.sleep(1)

    def history(self, key: str) -> list[tuple[str, str]]:
        """Who said what, as the program itself shows it."""
        messages = self.call("chat.history", {"sessionKey": key, "limit": 1000})["messages"]
        return [(each["role"], _text(each.get("content"))) for each in messages]

    def pair(self) -> None:
        sdk = package("new", "openclaw") / "dist" / "plugin-sdk" / "conversation-runtime.js"
        script = self.home / "pairing.mjs"
        script.write_text(PAIRING.replace("process.argv[1]", json.dumps(str(sdk))), "utf-8")
        first = self._node(str(script)).split()[-2]
        self.run("pairing", "approve", "telegram", first)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [] if part.get("type") == "text")


def _answer(request: FakeRequest) -> ServerAnswer:
    if "use a tool" in request.last_text:
        return [ToolUse("call_1", "session_status", {})]
    return "Noted, and answered."


def make_store(home: Path) -> dict[str, list[tuple[str, str]]]:
    """The state in `home/.openclaw`; answers what the program shows of each session."""
    real = RealProgram(home)
    with FakeModelServer(_answer) as models:
        real.configure(models.openai_url)
        with real.gateway():
            for number, (key, text) in enumerate(SAID):
                real.say(key, text, f"said-{number}")
            real.call("sessions.patch", {"key": "agent:main:main", "label": "The first one"})
            real.call("sessions.patch", {"key": "agent:main:atlas", "label": "Atlas"})
            real.call("sessions.reset", {"key": "agent:main:atlas", "reason": "new"})
            real.say("agent:main:atlas", "After the reset", "said-last")
            for job in JOBS:
                real.call("cron.add", job)
            keys = dict.fromkeys(key for key, _text in SAID)
            shown = {key: real.history(key) for key in keys}
        real.pair()
        real.run(
            *("models", "auth", "--agent", "main", "paste-api-key", "--provider", "anthropic"),
            *("--profile-id", "anthropic:work"),
            stdin=KEY + "\n",
        )
    return shown


def pack(home: Path, shown: dict[str, Any], file: Path) -> None:
    """What an import reads, without what is this machine's."""
    stores = [SHARED, *(AGENT.format(name) for name in ("main", "librarian"))]
    with tempfile.TemporaryDirectory() as name, tarfile.open(file, "w:xz") as archive:
        for number, store in enumerate(stores):
            copy = Path(name) / f"{number}.sqlite"
            _copied(home / ".openclaw" / store, copy)
            archive.add(copy, f".openclaw/{store}", filter=_plain)
        archive.add(home / ".openclaw" / "openclaw.json", ".openclaw/openclaw.json", filter=_plain)
        told = json.dumps(shown, indent=1).encode()
        info = tarfile.TarInfo("shown.json")
        info.size = len(told)
        archive.addfile(info, io.BytesIO(told))


def _copied(store: Path, copy: Path) -> None:
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        db.execute("VACUUM INTO ?", (str(copy),))
    with closing(apsw.Connection(str(copy))) as db:
        for table in PRIVATE:
            if db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
                db.execute(f"DELETE FROM {table}")
        db.execute("VACUUM")


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o600
    return info


def main() -> int:
    install()
    home = Path(tempfile.gettempdir()) / "openclaw-made"
    shutil.rmtree(home, ignore_errors=True)
    shown = make_store(home)
    pack(home, shown, Path(sys.argv[1]))
    print(json.dumps(shown, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
