"""The config of gateways that share a ledger: changed on one it holds on all, and a file that differs is named."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest

from crossclaw import app
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.sharing_check import sharing
from crossclaw.client import connect_async
from crossclaw.client.asynchronous import AsyncGatewayClient
from crossclaw.client.errors import CallRefused, GatewayDown
from crossclaw.config import Paths, load
from crossclaw.config.agreeing import digest_of, shared_keys
from crossclaw.config.ledger_key import KEY_VARIABLE
from tests.cluster.test_gateways import ask
from tests.databases import databases
from tests.ending import SOON_S
from tests.wire.served_gateway import TOKEN

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
KEY = "k" * 44
SCOPES = ("operator.admin", "operator.read")
DENY = {"tools": {"exec": {"security": "deny"}}}


class Machine:
    """A folder with a config file, and the gateway that is started there."""

    def __init__(self, folder: Path, url: str, name: str, more: str = "", key: str = "") -> None:
        self.place = folder / name
        self.place.mkdir(mode=0o700)
        self.file = self.place / "openclaw.json"
        self.name = name
        self.write(more)
        self.environ = {"OPENCLAW_GATEWAY_TOKEN": TOKEN, "CROSSCLAW_LEDGER_URL": url}
        if key:
            self.environ[KEY_VARIABLE] = key
        self.address = ""

    def write(self, more: str = "", epoch: int = 0) -> None:
        ledger = f'ledger: {{ shared: true, gateway: "{self.name}", configEpoch: {epoch} }}'
        self.file.write_text(f"{{\n  // machine {self.name}\n  {ledger},\n  {more}\n}}\n")
        self.file.chmod(0o600)

    @property
    def raw(self) -> dict[str, Any]:
        return load(self.file, self.environ).raw

    @property
    def location(self) -> StateLocation:
        """As the command line finds it."""
        folders = {
            "OPENCLAW_STATE_DIR": str(self.place / "state"),
            "OPENCLAW_CONFIG_PATH": str(self.file),
            "HOME": str(self.place),
        }
        return find_place(self.environ | folders)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        paths = Paths(home=self.place, state_dir=self.place / "state", config_path=self.file)
        ready = anyio.Event()

        def on_ready(address: str, _token: str) -> None:
            self.address = address
            ready.set()

        async def serve() -> None:
            loaded = load(self.file, self.environ)
            await app.run_gateway(loaded, paths, self.environ, port=0, on_ready=on_ready)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await ready.wait()
            yield
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[AsyncGatewayClient]:
        async with connect_async(self.address, token=TOKEN, environ={}, scopes=SCOPES) as client:
            yield client

    async def call(self, method: str, **params: Any) -> Any:
        async with self.client() as client:
            return await client.call(method, params)

    async def ask(self, method: str, **params: Any) -> None:
        """A change, of a gateway that may just be opening anew with the one before; then it is asked again."""
        lost = False

        async def is_done() -> bool:
            nonlocal lost
            try:
                await self.call(method, **params)
            except CallRefused:
                return lost  # it was done, and only the answer was lost
            except GatewayDown:
                lost = True
                raise
            return True

        await until(is_done)

    async def patch(self, change: dict[str, Any]) -> Any:
        """As a client does that has just read the config, and asks again when the gateway has opened anew meanwhile."""
        with anyio.fail_after(SOON_S):
            while True:
                try:
                    async with self.client() as client:
                        base = (await client.call("config.get"))["hash"]
                        params = {"raw": json.dumps(change), "baseHash": base}
                        return await client.call("config.patch", params)
                except GatewayDown:
                    await anyio.sleep(0.05)

    async def config(self) -> Any:
        return (await self.call("config.get"))["config"]

    async def row(self) -> dict[str, Any]:
        listed = await self.call("gateways.list")
        return next(each for each in listed["gateways"] if each["id"] == self.name)

    async def why_no_runs(self) -> str:
        return (await self.row()).get("whyNoRuns") or ""


Make = Callable[..., Machine]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    url = databases().url(tmp_path / "ledger")
    return lambda name, more="", key="": Machine(tmp_path, url, name, more, key)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            try:
                if await holds():
                    return
            except (CallRefused, GatewayDown, OSError):
                pass  # it opens anew
            await anyio.sleep(0.05)


async def health(machine: Machine, what: str) -> tuple[int, Any]:
    """As a load balancer asks, without a token."""
    async with httpx2.AsyncClient(timeout=SOON_S) as client:
        answer = await client.get(f"{machine.address}/health/{what}")
    return answer.status_code, answer.json()


async def agree(*machines: Machine) -> None:
    """Until they take runs, by one config."""

    async def holds() -> bool:
        rows = [await each.row() for each in machines]
        same = {(row["configHash"], row["configEpoch"]) for row in rows}
        return len(same) == 1 and not any(row.get("whyNoRuns") for row in rows)

    await until(holds)


async def test_what_is_changed_over_the_wire_holds_on_the_other_gateway_and_stands_in_its_file(
    make: Make,
) -> None:
    a, b = (
        make("a", 'agents: { list: [{ id: "main", workspace: "wa" }] }'),
        make("b", 'agents: { list: [{ id: "main", workspace: "wb" }] }'),
    )
    async with a.serving(), b.serving():
        await agree(a, b)
        await a.patch(DENY)
        await until(lambda: _says(b, "deny"))
        assert b.raw["agents"]["list"][0]["workspace"] == "wb"
        assert "// machine b" in b.file.read_text()
        await agree(a, b)
        assert (await b.row())["configEpoch"] == 2
        # back, and something that only an opening takes over: a new agent
        await b.ask("agents.create", name="Librarian")

        async def is_there() -> bool:
            listed = await a.call("agents.list")
            return "librarian" in [each["id"] for each in listed["agents"]]

        await until(is_there)
        await agree(a, b)
        assert [each["id"] for each in a.raw["agents"]["list"]] == ["main", "librarian"]
        await b.ask("agents.delete", agentId="librarian", deleteFiles=False)
        await until(lambda: _is(len(a.raw["agents"]["list"]) == 1))
        assert a.raw["agents"]["list"][0]["workspace"] == "wa"


async def _is(what: bool) -> bool:
    return what


async def _says(machine: Machine, security: str) -> bool:
    config = await machine.config()
    return bool(config["tools"]["exec"]["security"] == security)


async def test_of_two_changes_at_once_one_is_refused_and_nothing_is_lost(make: Make) -> None:
    a, b = make("a"), make("b")
    async with a.serving(), b.serving():
        await agree(a, b)
        changes: dict[Machine, dict[str, Any]] = {a: DENY, b: {"session": {"scope": "global"}}}
        refused: list[tuple[Machine, str]] = []

        async def change(machine: Machine) -> None:
            try:
                await machine.patch(changes[machine])
            except CallRefused as error:
                refused.append((machine, str(error)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change, a)
            tasks.start_soon(change, b)
        assert len(refused) <= 1
        for machine, why in refused:
            assert "another gateway" in why
            assert "retry" in why
            await agree(a, b)
            await machine.patch(changes[machine])

        async def both() -> bool:
            return all("tools" in each.raw and "session" in each.raw for each in (a, b))

        await until(both)
        await agree(a, b)


async def test_a_gateway_that_was_away_takes_over_at_its_start_what_was_changed(make: Make) -> None:
    a, b = make("a"), make("b")
    async with a.serving():
        async with b.serving():
            await agree(a, b)
        await a.patch(DENY)
        await a.patch({"session": {"scope": "global"}})
        assert "tools" not in b.raw
        async with b.serving():
            config = await b.config()
            assert config["tools"]["exec"]["security"] == "deny"
            assert config["session"]["scope"] == "global"
            await agree(a, b)
    assert b.raw["tools"] == DENY["tools"]


async def test_a_file_that_differs_takes_no_runs_is_named_everywhere_and_follows_no_more(
    make: Make,
) -> None:
    a, b = make("a"), make("b", "tools: { exec: { security: 'deny' } }")
    async with a.serving(), b.serving():

        async def is_named() -> bool:
            rows = (await a.call("gateways.list"))["gateways"]
            return "tools.exec.security" in (rows[1].get("whyNoRuns") or "")

        await until(is_named)
        assert await health(b, "ready") == (503, {"ok": False}), "nobody is sent there"
        assert await health(b, "live") == (200, {"ok": True}), "nor is it restarted"
        assert await health(a, "ready") == (200, {"ok": True})
        named = await anyio.to_thread.run_sync(lambda: list(sharing(b.location)))
        assert [(each.subject, each.grade) for each in named] == [("gateway b", "error")]
        assert "tools.exec.security" in named[0].text, "so says crossclaw doctor"
        assert "above 1" in await b.why_no_runs(), "what would make it count"
        assert "the one in force (number 1, by gateway a)" in await b.why_no_runs()
        with pytest.raises(CallRefused, match=r"tools\.exec\.security"):
            await b.patch({"session": {"scope": "global"}})
        assert "session" not in b.raw
        await a.patch({"session": {"scope": "global"}})
        await anyio.sleep(1.5)  # longer than a look
        assert "session" not in b.raw, "what a person has written is not written over"
        await until(lambda: _names(b, "tools.exec.security"))  # the other one may be opening anew


async def test_files_are_changed_one_after_the_other_and_one_gateway_always_takes_runs(
    make: Make,
) -> None:
    a, b = make("a"), make("b")
    more = "tools: { exec: { security: 'deny' } }"
    async with b.serving():
        async with a.serving():
            await agree(a, b)
        a.write(more)
        async with a.serving():
            await until(lambda: _names(a, "tools.exec.security"))
            assert await b.why_no_runs() == "", "the one that was not changed goes on"
            b.write(more)  # it is read while the gateway runs
            await agree(a, b)
            assert await _says(a, "deny")
            await until(lambda: _says(b, "deny"))


async def _names(machine: Machine, key: str) -> bool:
    return key in await machine.why_no_runs()


async def test_a_file_with_a_higher_epoch_counts_and_the_others_follow(make: Make) -> None:
    a, b = make("a"), make("b")
    async with b.serving():
        async with a.serving():
            await agree(a, b)
            await b.patch({"session": {"scope": "global"}})
            await until(lambda: _is("session" in a.raw))
        a.write("tools: { exec: { security: 'deny' } }", epoch=9)
        async with a.serving():
            await until(lambda: _says(b, "deny"))
            await agree(a, b)
            assert (await a.row())["configEpoch"] == 9
        assert "session" not in b.raw, "the newer file says so"


async def test_a_secret_that_is_set_over_the_wire_travels_encrypted(make: Make) -> None:
    a, b = make("a", key=KEY), make("b", key=KEY)
    async with AsyncExitStack() as running:
        await running.enter_async_context(a.serving())
        await running.enter_async_context(b.serving())
        await agree(a, b)
        url = a.environ["CROSSCLAW_LEDGER_URL"]
        await a.patch({"hooks": {"enabled": True, "token": "h00k-s3cret"}})
        doors = "SELECT epoch FROM credentials WHERE credential_id = 'hooks'"
        kept = ask(url, doors)
        await until(lambda: _is(b.raw.get("hooks", {}).get("token") == "h00k-s3cret"))
        await agree(a, b)
        assert ask(url, doors) == kept, "who comes by the new one to one gateway stays"
        stored = ask(url, "SELECT text || keys || secrets FROM configs")
        assert stored
        assert "h00k-s3cret" not in str(stored)


async def test_without_a_ledger_key_a_secret_is_refused_and_nothing_is_changed(make: Make) -> None:
    a = make("a")
    async with a.serving():
        await agree(a)
        with pytest.raises(CallRefused, match=KEY_VARIABLE):
            await a.patch({"hooks": {"enabled": True, "token": "h00k-s3cret"}})
        assert "hooks" not in a.raw
        await a.patch(DENY)
        assert a.raw["tools"] == DENY["tools"], "what is no secret needs no key"


async def test_a_gateway_without_the_key_takes_no_runs_and_says_what_to_do(make: Make) -> None:
    a, b = make("a", key=KEY), make("b")
    async with a.serving(), b.serving():
        await agree(a, b)
        await a.patch({"hooks": {"enabled": True, "token": "h00k-s3cret"}})
        await until(lambda: _names(b, KEY_VARIABLE))
        assert "hooks.token" in await b.why_no_runs()
        assert "hooks" not in b.raw


async def test_whoever_can_only_write_to_the_database_changes_no_gateways_config(
    make: Make,
) -> None:
    a, b = make("a"), make("b")
    async with a.serving(), b.serving():
        await agree(a, b)
        await a.patch(DENY)
        await until(lambda: _says(b, "deny"))
        await agree(a, b)
        url = a.environ["CROSSCLAW_LEDGER_URL"]
        loose = digest_of(shared_keys({**a.raw, "tools": {"exec": {"security": "full"}}}))
        ask(
            url,
            "INSERT INTO configs (epoch, digest, keys, text, secrets, by, seal) SELECT epoch + 1, $1, keys, "
            "replace(text, 'deny', 'full'), secrets, by, seal FROM configs ORDER BY epoch DESC LIMIT 1",
            loose,
        )

        async def is_put_right() -> bool:
            newest = ask(url, "SELECT epoch, digest FROM configs ORDER BY epoch DESC LIMIT 1")
            return bool(newest[0][0] > 3 and newest[0][1] != loose)

        await until(is_put_right)
        await agree(a, b)
        for each in (a, b):
            assert each.raw["tools"] == DENY["tools"]
            assert await _says(each, "deny")
