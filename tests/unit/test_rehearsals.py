"""Rehearsals: readable files; a click begins one only for an administrator on the gateway's own machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.rehearsals import (
    SHIPPED,
    Staged,
    StagedAct,
    config_for,
    parse_rehearsal,
    read_shipped,
    staged_path,
)
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, NotFound
from crossclaw.door.dispatch import MissingScope
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.providers.rehearsal import RehearsalProvider, parse_script
from crossclaw.testing import open_gateway
from tests.flows.talking import OWNER, call

MINE = {
    "agents": {
        "defaults": {"model": "anthropic/x", "workspace": "/home/me/w", "budget": {"tokens": 9}},
        "list": [{"id": "ana", "model": "openai/y", "workspace": "/home/me/a", "tools": {"deny": ["exec"]}}],
    },
    "models": {"providers": {}},
    "channels": {"telegram": {"botToken": "1:a"}},
    "gateway": {"port": 1},
    "session": {"agentToAgent": {"maxPingPongTurns": 2}},
}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_what_comes_along_can_be_read_and_loads(name: str) -> None:
    found = read_shipped(name)

    msgspec.convert(config_for(found, {}), Config)
    scripts = [act.say for act in found.acts if act.say is not None]
    assert scripts
    assert all(parse_script(text) for text in scripts)
    assert any(act.expect or act.ends for act in found.acts)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{title: 'a', about: 'b', acts: [{tell: 'c', sya: 'd'}]}", "sya"),
        ("{title: 'a', about: 'b'}", "acts"),
        ("{title: ", "not JSON5"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        parse_rehearsal(text, "mine.json5")

    assert "mine.json5" in str(refused.value)


def test_of_one_s_own_config_only_who_there_is_and_who_may_do_what_is_taken() -> None:
    own = parse_rehearsal("{title: 'a', about: 'b', acts: [], config: 'mine'}", "x")

    config = config_for(own, MINE)

    assert config == {
        "agents": {
            "defaults": {"budget": {"tokens": 9}},
            "list": [{"id": "ana", "tools": {"deny": ["exec"]}}],
        },
        "session": {"agentToAgent": {"maxPingPongTurns": 2}},
    }


async def _play(gateway: Gateway, name: str, **who: Any) -> Any:
    caller = Caller(**{"principal": OWNER, "local": True, **who})
    return await gateway.door.dispatch(caller, "rehearsals.play", {"name": name})


async def test_only_an_administrator_on_the_machine_itself_begins_one_and_only_what_comes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*words: Any, **more: Any) -> None:
        raise AssertionError(f"a program was started: {words}")

    monkeypatch.setattr("anyio.open_process", never)
    writer = person_principal("writer", {"operator.write"})
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        refusals: list[tuple[type[CrossclawError], dict[str, Any], str]] = [
            (Forbidden, {"local": False}, "team"),
            (MissingScope, {"principal": writer}, "team"),
            (NotFound, {}, "../../../etc/passwd"),
        ]
        for error, who, name in refusals:
            with pytest.raises(error):
                await _play(gateway, name, **who)


async def test_how_far_it_is_is_told_from_the_folder_of_its_gateway(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        before = await call(gateway, "rehearsals.list")
        staged = Staged("team", "A team", "of three", [StagedAct("They meet", "ok")], over=True)
        path = staged_path(tmp_path / "state")
        path.write_bytes(msgspec.json.encode(staged))
        after = await call(gateway, "rehearsals.list")
        path.write_bytes(b"{half")
        torn = await call(gateway, "rehearsals.list")

    assert [each["name"] for each in before["rehearsals"]] == list(SHIPPED)
    assert "playing" not in before
    assert after["playing"]["acts"] == [{"tell": "They meet", "state": "ok", "why": None}]
    assert "playing" not in torn
