"""What each client does, and how it shows that it worked. All go through the recording proxy."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from tests.conformance.asking import knocked
from tests.conformance.everything import everything
from tests.conformance.installing import NEW, OLD, node, package
from tests.conformance.store import make_store
from tests.conformance.terminal import terminal
from tests.flows.test_import_newer import check_imported
from tests.wire.serving import SignedDevice

PATIENCE_S = (
    400  # OpenClaw's command line takes seconds to start, the first time on a busy machine minutes
)
FIVE_WORDS = "word4"  # the rehearsal's answer to `long: 5` ends so; what was typed does not
PROGRAM = Path(sys.executable).with_name("crossclaw")


@dataclass(frozen=True)
class Gateway:
    """What a client is told of the gateway."""

    folder: Path
    port: int
    """Of the recording proxy, for WebSockets."""
    http_port: int
    token: str

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def environ(self, age: str) -> dict[str, str]:
        """A home for an OpenClaw client that has this gateway as its remote one."""
        home = self.folder / f"client-{age}"
        state = home / ".openclaw"
        if not state.exists():
            state.mkdir(parents=True)
            remote = {"url": self.url, "token": self.token}
            config = {"gateway": {"mode": "remote", "remote": remote}}
            (state / "openclaw.json").write_text(json.dumps(config), "utf-8")
        return {"HOME": str(home), "PATH": f"{node().parent}:/usr/bin:/bin", "NO_COLOR": "1"}


Check = Callable[[Gateway], None]


def run(gateway: Gateway, age: str, *words: str) -> str:
    script = package(age, "openclaw") / "openclaw.mjs"
    done = subprocess.run(
        [str(node()), str(script), *words],
        env=gateway.environ(age),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
    return done.stdout


def call(age: str, gateway: Gateway) -> None:
    for method, field in (("health", "ok"), ("status", "sessions"), ("sessions.list", "sessions")):
        # The old one loses --token to the word `gateway`, which has an option of that name.
        where = ("--url", gateway.url, "--token", gateway.token) if age == "new" else ()
        answer = run(gateway, age, "gateway", "call", method, *where, "--json")
        assert field in json.loads(answer[answer.index("{") :]), method


def health(age: str, gateway: Gateway) -> None:
    answer = run(gateway, age, "health", "--json")
    assert json.loads(answer[answer.index("{") :])["ok"] is True


def agent(age: str, gateway: Gateway) -> None:
    words = f"hello from {age}"
    assert words in run(gateway, age, "agent", "--agent", "main", "--message", f"say: {words}")


def jobs(age: str, gateway: Gateway) -> None:
    """A job from its making to its end, by `cron`."""
    name = f"job of {age}"
    asked = ("--every", "1h", "--session", "isolated", "--message", "say: ticked")
    made = run(gateway, age, "cron", "add", "--name", name, *asked, "--json")
    job_id = json.loads(made[made.index("{") :])["id"]
    assert name in run(gateway, age, "cron", "list")
    assert '"ran": true' in run(gateway, age, "cron", "run", job_id)
    told = run(gateway, age, "cron", "runs", "--id", job_id)
    assert '"sessionKey"' in told, told
    assert '"enabled": true' in run(gateway, age, "cron", "status")
    assert '"removed": true' in run(gateway, age, "cron", "rm", job_id)
    assert name not in run(gateway, age, "cron", "list")


# What else is asked every day, and a word of the answer.
DAILY: dict[str, str] = {
    "status": "reachable",
    "channels status": "Gateway reachable",
    "logs --limit 200": "the gateway listens",
    "system presence": "Gateway: crossclaw",
    "system heartbeat last": "",
    "devices list": "",
    "nodes status": "Paired: 0",
}


def daily(age: str, gateway: Gateway) -> None:
    for words, wanted in DAILY.items():
        assert wanted in run(gateway, age, *words.split()), words


def devices(age: str, gateway: Gateway) -> None:
    """One that knocks is seen and let in by `devices`."""
    device = SignedDevice()
    with knocked(gateway, device) as (_, refused):
        assert not refused["ok"]
    listed = run(gateway, age, "devices", "list", "--json")
    (waiting,) = json.loads(listed[listed.index("{") :])["pending"]
    run(gateway, age, "devices", "approve", waiting["requestId"])
    listed = run(gateway, age, "devices", "list", "--json")
    told = json.loads(listed[listed.index("{") :])
    assert device.id in [each["deviceId"] for each in told["paired"]]


def models(gateway: Gateway) -> None:
    """The old command line reads its own config; the new one asks the gateway."""
    assert "rehearsal/" in run(gateway, "new", "models", "list")


def tui(age: str, gateway: Gateway) -> None:
    script = package(age, "openclaw") / "openclaw.mjs"
    command = [str(node()), str(script), "tui", "--url", gateway.url, "--token", gateway.token]
    with terminal(command, gateway.environ(age)) as screen:
        screen.until("connected", PATIENCE_S)
        before = len(screen.shown)
        screen.press("long: 5")
        screen.until("long: 5", 30, before)
        screen.press("\r")
        screen.until(FIVE_WORDS, 60, before)


def library(gateway: Gateway) -> None:
    script = Path(__file__).with_name("gateway_client.mjs")
    environ = {
        **gateway.environ("new"),
        "CLIENT": str(package("new", "@openclaw/gateway-client")),
        "URL_OF_GATEWAY": gateway.url,
        "TOKEN": gateway.token,
    }
    done = subprocess.run(
        [str(node()), str(script)],
        env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-600:]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    told = {line["what"]: line["value"] for line in said}
    assert told["protocol"] == 4
    assert told["subscribed"] == {"subscribed": True}
    assert (told["reply"], told["sent"]) == ("from the library", "started")
    assert "unknown method: no.such.method" in told["unknown"]
    assert "gap" not in told


def openai_sdk(gateway: Gateway) -> None:
    import openai  # noqa: PLC0415  half a second

    base = f"http://127.0.0.1:{gateway.http_port}/v1"
    with openai.OpenAI(base_url=base, api_key=gateway.token) as client:
        chunks = client.chat.completions.create(
            model="openclaw/main",
            messages=[{"role": "user", "content": "say: one two"}],
            stream=True,
        )
        words = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        answer = client.responses.create(model="openclaw/main", input="say: good day", user="ana")
    assert words == "one two"
    assert (answer.status, answer.output_text) == ("completed", "good day")


def mcp_sdk(gateway: Gateway) -> None:
    import anyio  # noqa: PLC0415
    from mcp import Client, StdioServerParameters  # noqa: PLC0415
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    environ = {
        "HOME": str(gateway.folder),
        "OPENCLAW_GATEWAY_URL": f"ws://127.0.0.1:{gateway.http_port}",
        "OPENCLAW_GATEWAY_TOKEN": gateway.token,
    }
    server = StdioServerParameters(command=str(PROGRAM), args=["mcp"], env=environ)

    async def talk() -> None:
        async with Client(stdio_client(server)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"sessions_list", "sessions_history", "sessions_send"} <= names
            sent = await client.call_tool(
                "sessions_send", {"agentId": "main", "message": "say: to the guest"}
            )
            assert "to the guest" in str(sent.content)

    anyio.run(talk)


def state_is_imported(gateway: Gateway) -> None:
    home = gateway.folder / "made"
    shown = make_store(home)
    anyio.run(check_imported, home / ".openclaw", shown, gateway.folder / "imported.sqlite")


def checks() -> dict[str, Check]:
    from tests.conformance.control_ui import control_ui  # noqa: PLC0415  needs a browser's library

    found: dict[str, Check] = {}
    for age, version in (("new", NEW), ("old", OLD)):
        for name, check in {
            "gateway call": call,
            "health": health,
            "agent": agent,
            "cron add, list, run, runs, status, rm": jobs,
            "status, channels, logs, system, devices, nodes": daily,
            "devices list, approve": devices,
            "tui": tui,
        }.items():
            found[f"openclaw {version} {name}"] = partial(check, age)
    return found | {
        f"openclaw {NEW} models list": models,
        f"openclaw {NEW} makes a state folder, and it is imported": state_is_imported,
        f"Control UI of {OLD} in Chromium": control_ui,
        "@openclaw/gateway-client 2026.9.1": library,
        "every method of protocol 4, for the record": everything,
        "openai, the Python library": openai_sdk,
        "mcp, the Python library": mcp_sdk,
    }
