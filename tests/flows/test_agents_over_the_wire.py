"""Agents and model services, made and changed by a client: by the rules of every change over the wire."""

import json
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crossclaw import app
from crossclaw.config import Paths, load
from crossclaw.domain.errors import CrossclawError, ProviderRefused
from crossclaw.testing import ScriptedProvider, VirtualClock
from tests.flows.talking import call


@asynccontextmanager
async def opened(
    folder: Path, raw: dict[str, Any], model: ScriptedProvider
) -> AsyncGenerator[app.Gateway]:
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    paths.config_path.write_text(json.dumps(raw), "utf-8")
    paths.config_path.chmod(0o600)
    outside = app.GatewayInputs(
        environ={},
        clock=VirtualClock(),
        providers={model.name: model},
        loaded=load(paths.config_path, {}),
        inline=True,
    )
    async with app.open_gateway(outside.loaded.config, paths, outside) as gateway:  # type: ignore[union-attr]
        yield gateway


def written(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = load(folder / "openclaw.json", {}).raw
    return value


def text_of(path: str) -> str:
    return Path(path).read_text("utf-8")


RAW: dict[str, Any] = {
    "agents": {"defaults": {"model": "scripted/test"}, "list": [{"id": "main"}, {"id": "ops"}]},
    "bindings": [{"agentId": "ops", "match": {"channel": "telegram"}}],
}


@pytest.mark.spec("G1", "C1")
async def test_an_agent_is_made_changed_and_removed_in_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path, RAW, ScriptedProvider([])) as gateway:
        made = await call(
            gateway,
            "agents.create",
            name="The Librarian",
            description="knows the shelves",
            emoji="📚",
        )
        listed = written(tmp_path)["agents"]["list"]
        await call(
            gateway,
            "agents.update",
            agentId="ops",
            name="Operations",
            tools={"deny": ["exec"]},
            budget={"tokens": 1000},
        )
        changed = written(tmp_path)["agents"]["list"][1]
        await call(gateway, "agents.update", agentId="ops", budget=None)
        without = written(tmp_path)["agents"]["list"][1]
        gone = await call(gateway, "agents.delete", agentId="ops")

    assert made["agentId"] == listed[-1]["id"]
    assert listed[-1] == {
        "id": made["agentId"],
        "name": "The Librarian",
        "description": "knows the shelves",
        "identity": {"emoji": "📚"},
    }
    assert made["workspace"].startswith(str(tmp_path / "state"))
    assert changed == {
        "id": "ops",
        "name": "Operations",
        "tools": {"deny": ["exec"]},
        "budget": {"tokens": 1000},
    }
    assert "budget" not in without
    assert gone["removedBindings"] == 1
    assert [each["id"] for each in written(tmp_path)["agents"]["list"]] == ["main", made["agentId"]]


@pytest.mark.spec("B3")
async def test_no_folder_or_variable_comes_in_with_an_agent(tmp_path: Path) -> None:
    async with opened(tmp_path, RAW, ScriptedProvider([])) as gateway:
        for method, params in (
            ("agents.create", {"name": "x", "workspace": "/etc"}),
            ("agents.update", {"agentId": "ops", "workspace": "/etc"}),
            ("agents.update", {"agentId": "ops", "tools": {"exec": {"passEnv": ["SECRET"]}}}),
            ("agents.update", {"agentId": "nobody", "name": "x"}),
            ("agents.create", {"name": "Ops"}),
            ("agents.create", {"name": "…"}),
            ("agents.delete", {"agentId": "main"}),
            ("agents.delete", {"agentId": "ops", "deleteFiles": True}),
            ("agents.files.get", {"agentId": "ops", "name": "../../openclaw.json"}),
            ("agents.files.set", {"agentId": "ops", "name": "x.sh", "content": ""}),
        ):
            try:
                await call(gateway, method, **params)
            except CrossclawError:
                continue
            raise AssertionError(f"{method} {params} was done")

    assert written(tmp_path)["agents"]["list"] == RAW["agents"]["list"]


@pytest.mark.spec("G1")
async def test_the_owners_words_to_an_agent_are_listed_read_and_written(tmp_path: Path) -> None:
    async with opened(tmp_path, RAW, ScriptedProvider([])) as gateway:
        before = await call(gateway, "agents.files.list", agentId="main")
        soul: dict[str, Any] = {"agentId": "main", "name": "SOUL.md"}
        empty = await call(gateway, "agents.files.get", **soul, withHash=True)
        one = await call(gateway, "agents.files.set", **soul, content="Be kind. ☺", withHash=True)
        with pytest.raises(CrossclawError, match="has changed since you looked"):
            await call(
                gateway,
                "agents.files.set",
                agentId="main",
                name="SOUL.md",
                content="Be rude.",
                expectedHash=empty["file"]["hash"],
            )
        read = await call(gateway, "agents.files.get", **soul, withHash=True)
        closed = await call(gateway, "agents.files.get", **soul)

    assert "hash" not in closed["file"]  # OpenClaw's answer has none
    assert {each["name"]: each["missing"] for each in before["files"]}["SOUL.md"] is True
    assert one["ok"] is True
    assert read["file"]["content"] == "Be kind. ☺"
    assert read["file"]["hash"] == one["file"]["hash"]
    assert text_of(read["file"]["path"]) == "Be kind. ☺"


async def test_a_link_or_a_pipe_of_an_agent_is_neither_read_nor_written_and_hides_no_other_file(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush", "utf-8")
    async with opened(tmp_path, RAW, ScriptedProvider([])) as gateway:
        await call(gateway, "agents.files.set", agentId="main", name="SOUL.md", content="Be kind.")
        listed = await call(gateway, "agents.files.list", agentId="main")
        workspace = Path(listed["workspace"])
        (workspace / "MEMORY.md").symlink_to(secret)
        os.mkfifo(workspace / "AGENTS.md")
        listed = await call(gateway, "agents.files.list", agentId="main")
        for name in ("MEMORY.md", "AGENTS.md"):
            with pytest.raises(CrossclawError):
                await call(gateway, "agents.files.get", agentId="main", name=name)
            with pytest.raises(CrossclawError):
                await call(gateway, "agents.files.set", agentId="main", name=name, content="x")
        with pytest.raises(CrossclawError):
            await call(gateway, "agents.files.get", agentId="main", name="../secret")

    missing = {each["name"]: each["missing"] for each in listed["files"]}
    assert (missing["SOUL.md"], missing["MEMORY.md"], missing["AGENTS.md"]) == (False, True, True)
    assert text_of(str(secret)) == "hush"


@pytest.mark.spec("B3")
async def test_a_model_is_tried_by_one_call_and_its_key_never_comes_back(tmp_path: Path) -> None:
    model = ScriptedProvider(["Yes, I am here.", ProviderRefused("the key is not valid")])

    async with opened(tmp_path, RAW, model) as gateway:
        good = await call(gateway, "models.test", model="scripted/test")
        bad = await call(gateway, "models.test", model="scripted/test")
        unknown = await call(gateway, "models.test", model="nowhere/at-all")
        kept = await call(gateway, "models.key.set", provider="openai", key="sk-very-secret-1")
        shown = json.dumps([kept, await call(gateway, "config.get")])

    path = tmp_path / "state" / "credentials" / "auth-profiles.json"
    assert (good["ok"], good["text"]) == (True, "Yes, I am here.")
    assert (bad["ok"], bad["text"]) == (False, "the key is not valid")
    assert unknown["ok"] is False
    assert "sk-very-secret-1" not in shown
    assert "sk-very-secret-1" in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "sk-very-secret-1" not in (tmp_path / "openclaw.json").read_text("utf-8")
