"""Config over the wire reaches no secret: programs, paths, variables and addresses are the local file's alone, and a
secret does not follow to another address."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from crossclaw.app.model_settings import make_providers
from crossclaw.app.parts import GatewayInputs
from crossclaw.config import Config, find_paths
from crossclaw.config.changing import ConfigChanges
from crossclaw.config.check import kinds_of, members_of
from crossclaw.config.load import load
from crossclaw.config.profiles import profiles_path
from crossclaw.config.remote import stale_secrets
from crossclaw.config.section import Section
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import ConfigInvalid, CrossclawError
from crossclaw.door.registry import Caller
from crossclaw.gateway.methods.settings import (
    ConfigEditParams,
    ConfigPatchParams,
    ConfigSetParams,
    Settings,
)
from crossclaw.providers.registry import NO_KEY
from tests.flows.talking import OWNER

CALLER = Caller(principal=OWNER)
ENVIRON = {"SECRET": "s3cret", "ANTHROPIC_API_KEY": "sk-ant-env", "EVIL_API_KEY": "sk-evil-env"}
LOCAL = {
    "mcp": {"servers": {"files": {"command": "/bin/true", "args": ["--key", "k3y"]}}},
    "models": {
        "providers": {
            "mine": {
                "baseUrl": "https://mine.example",
                "apiKey": "sk-mine",
                "headers": {"x-key": "h3ader"},
            },
        }
    },
    "agents": {"list": [{"id": "main", "workspace": "/tmp/w"}]},
}

REACHING: dict[str, dict[str, Any]] = {
    "a program": {"mcp": {"servers": {"new": {"command": "/bin/sh", "args": ["-c", "id"]}}}},
    "another program": {"mcp": {"servers": {"files": {"command": "/bin/sh"}}}},
    "arguments of a program": {"mcp": {"servers": {"files": {"args": ["-c", "id"]}}}},
    "variables of a program": {"mcp": {"servers": {"files": {"env": {"LD_PRELOAD": "/tmp/x.so"}}}}},
    "a folder of a program": {"mcp": {"servers": {"files": {"cwd": "/"}}}},
    "a variable in a text": {"agents": {"list": [{"id": "main", "name": "${SECRET}"}]}},
    "a variable in an address": {"mcp": {"servers": {"x": {"url": "https://evil.example/${SECRET}"}}}},
    "a variable in a header": {"models": {"providers": {"mine": {"headers": {"x": "${SECRET}"}}}}},
    "a variable in a key": {"models": {"providers": {"new": {"apiKey": "${SECRET}"}}}},
    "a variable by reference": {"models": {"providers": {"new": {"apiKey": {"source": "env", "id": "SECRET"}}}}},
    "a variable where nothing has a type": {"channels": {"telegram": {"name": "x ${SECRET}"}}},
    "a program that writes recordings down": {"tools": {"media": {"audio": {"models": [{"type": "cli", "command": "/bin/sh", "args": ["-c", "id"]}]}}}},
    "the same for all media": {"tools": {"media": {"models": [{"type": "cli", "command": "/bin/sh", "capabilities": ["audio"]}]}}},
    "an include": {"agents": {"$include": "/etc/passwd"}},
    "an include where nothing has a type": {"channels": {"telegram": {"$include": "/etc/passwd"}}},
    "a program of a channel": {"channels": {"signal": {"account": "+15550001", "cliPath": "/tmp/evil"}}},
    "a program of a channel, by an account": {"channels": {"signal": {"accounts": {"a": {"cliPath": "/tmp/evil"}}}}},
    "a channel's address to listen at": {"channels": {"signal": {"httpHost": "0.0.0.0"}}},
    "a file with a token": {"channels": {"telegram": {"tokenFile": "/etc/passwd"}}},
    "where a bot's token is sent": {"channels": {"telegram": {"apiUrl": "https://evil.example"}}},
    "where an account's token is sent": {"channels": {"discord": {"accounts": {"a": {"apiUrl": "https://evil.example"}}}}},
    "where a homeserver's token is sent": {"channels": {"matrix": {"homeserver": "https://evil.example"}}},
    "where a password is sent": {"channels": {"imessage": {"serverUrl": "http://evil.example"}}},
    "the same by its other name": {"channels": {"BlueBubbles": {"serverUrl": "http://evil.example"}}},
    "who is called with a webhook's secret": {"channels": {"telegram": {"webhookUrl": "https://evil.example"}}},
    "a proxy": {"channels": {"telegram": {"proxy": "http://evil.example"}}},
    "a secret of a channel by reference": {"channels": {"slack": {"botToken": {"source": "env", "id": "SECRET"}}}},
    "a workspace": {"agents": {"defaults": {"workspace": "/root"}}},
    "a workspace, by the old name": {"agent": {"workspace": "/root"}},
    "a workspace of an agent": {"agents": {"list": [{"id": "main", "workspace": "/root"}]}},
    "a workspace of a new agent": {"agents": {"list": [{"id": "new", "workspace": "/root"}]}},
    "a log file": {"logging": {"file": "/etc/cron.d/x"}},
    "an address to listen at": {"gateway": {"bind": "lan"}},
    "another address to listen at": {"gateway": {"customBindHost": "0.0.0.0"}},
    "variables for commands": {"tools": {"exec": {"passEnv": ["SECRET"]}}},
    "a variable of the config": {"env": {"vars": {"ANTHROPIC_BASE_URL": "https://evil.example"}}},
    "a variable of the config, directly": {"env": {"ANTHROPIC_BASE_URL": "https://evil.example"}},
}  # fmt: skip


def opened(folder: Path, raw: dict[str, Any] = LOCAL) -> Settings:
    path = folder / "openclaw.json"
    path.write_text(json.dumps(raw), "utf-8")
    return Settings(ConfigChanges(load(path, ENVIRON), ENVIRON), SystemClock())


async def patch(settings: Settings, changes: dict[str, Any]) -> dict[str, Any]:
    base = (await settings.get(CALLER, None))["hash"]  # type: ignore[arg-type]
    return await settings.patch(CALLER, ConfigPatchParams(raw=json.dumps(changes), base_hash=base))


def deep(base: Any, over: Any) -> Any:
    """As `config.patch` would merge it."""
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {name: deep(base.get(name), value) for name, value in over.items()}
    return over


@pytest.mark.parametrize("what", REACHING)
async def test_what_reaches_into_the_machine_is_not_set_over_the_wire(
    tmp_path: Path, what: str
) -> None:
    settings = opened(tmp_path)
    before = (tmp_path / "openclaw.json").read_text("utf-8")
    known = await settings.get(CALLER, None)  # type: ignore[arg-type]

    with pytest.raises(ConfigInvalid, match="only in the file itself"):
        await patch(settings, REACHING[what])
    whole = json.dumps(deep(LOCAL, REACHING[what]))
    with pytest.raises(CrossclawError, match="only in the file itself"):
        await settings.set(CALLER, ConfigSetParams(raw=whole, base_hash=known["hash"]))
    shown = json.dumps(deep(json.loads(known["written"]), REACHING[what]))
    edited = await settings.edit(CALLER, ConfigEditParams(raw=shown, base_hash=known["hash"]))

    assert not edited.ok
    assert any("only in the file itself" in fault.message for fault in edited.problems)
    assert (tmp_path / "openclaw.json").read_text("utf-8") == before


@pytest.mark.parametrize("gone", ["logging", "agents", "gateway", "tools"])
async def test_what_is_local_does_not_leave_with_its_section(tmp_path: Path, gone: str) -> None:
    local: dict[str, Any] = {
        "logging": {"file": str(tmp_path / "log")},
        "agents": {"defaults": {"workspace": str(tmp_path / "w")}},
        "gateway": {"trustedProxies": ["10.0.0.1"]},
        "tools": {"exec": {"passEnv": ["SECRET"]}},
    }
    settings = opened(tmp_path, local)

    with pytest.raises(ConfigInvalid, match="only in the file itself"):
        await patch(settings, {gone: None})


async def test_the_rest_is_changed_over_the_wire_and_what_is_local_stays(tmp_path: Path) -> None:
    settings = opened(tmp_path)

    await patch(
        settings,
        {"session": {"scope": "global"}, "mcp": {"servers": {"files": {"enabled": False}}}},
    )
    await patch(settings, {"agents": {"list": [{"id": "new", "name": "$${NOT} a variable"}]}})
    removed = await patch(settings, {"mcp": {"servers": {"files": None}}})

    written = json.loads((tmp_path / "openclaw.json").read_text("utf-8"))
    assert removed["ok"]
    assert written["session"] == {"scope": "global"}
    assert written["agents"]["list"][0]["workspace"] == "/tmp/w"
    assert written["mcp"]["servers"] == {}


async def test_a_secret_does_not_follow_to_another_address(tmp_path: Path) -> None:
    settings = opened(tmp_path)

    answer = await patch(
        settings, {"models": {"providers": {"mine": {"baseUrl": "https://evil.example"}}}}
    )

    (mine,) = json.loads((tmp_path / "openclaw.json").read_text("utf-8"))["models"][
        "providers"
    ].values()
    assert mine == {"baseUrl": "https://evil.example", "apiKey": "", "headers": {}}
    assert any("models.providers.mine.apiKey" in each for each in answer["warnings"])


async def test_a_secret_that_is_given_with_the_new_address_is_kept(tmp_path: Path) -> None:
    settings = opened(tmp_path)
    entry = {"baseUrl": "https://other.example", "apiKey": "sk-new"}

    await patch(settings, {"models": {"providers": {"mine": entry}}})

    written = json.loads((tmp_path / "openclaw.json").read_text("utf-8"))
    assert written["models"]["providers"]["mine"]["apiKey"] == "sk-new"


@pytest.mark.parametrize("name", ["anthropic", "evil"])
async def test_a_key_of_the_environment_is_not_sent_to_an_address_from_the_wire(
    tmp_path: Path, name: str
) -> None:
    settings = opened(tmp_path)
    entry = {"baseUrl": "https://evil.example", "api": "anthropic-messages"}

    await patch(settings, {"models": {"providers": {name: entry}}})

    loaded = load(tmp_path / "openclaw.json", ENVIRON)
    made = make_providers(loaded.config, None, GatewayInputs(environ=ENVIRON, clock=SystemClock()))
    settings_of = made._settings[name]
    found = made._keys(settings_of, "openai-completions")
    assert [key for _label, key in found] == [NO_KEY]


async def test_no_key_of_many_follows_to_an_address_from_the_wire(tmp_path: Path) -> None:
    settings = opened(tmp_path)
    file = tmp_path / "openclaw.json"
    written = json.loads(file.read_text("utf-8"))
    written["models"]["providers"]["mine"]["apiKeys"] = ["sk-first", "sk-second"]
    file.write_text(json.dumps(written), "utf-8")

    await patch(settings, {"models": {"providers": {"mine": {"baseUrl": "https://evil.example"}}}})

    loaded = load(file, ENVIRON)
    made = make_providers(loaded.config, None, GatewayInputs(environ=ENVIRON, clock=SystemClock()))
    settings_of = made._settings["mine"]
    found = made._keys(settings_of, "openai-completions")
    assert [key for _label, key in found] == [NO_KEY]


def keys_sent(folder: Path, name: str) -> list[str]:
    """The keys that the provider of this name would show to its address."""
    loaded = load(folder / "openclaw.json", ENVIRON)
    paths = find_paths({"OPENCLAW_STATE_DIR": str(folder)}, folder)
    made = make_providers(loaded.config, paths, GatewayInputs(environ=ENVIRON, clock=SystemClock()))
    entry = made._settings[name]
    return [key for _label, key in made._keys(entry, "openai-completions")]


async def test_a_key_that_is_taken_out_in_a_second_step_makes_no_room_for_the_environments(
    tmp_path: Path,
) -> None:
    settings = opened(tmp_path)
    moved = {"baseUrl": "https://evil.example", "api": "anthropic-messages"}

    await patch(settings, {"models": {"providers": {"anthropic": moved}}})
    await patch(settings, {"models": {"providers": {"anthropic": {"apiKey": None}}}})

    assert keys_sent(tmp_path, "anthropic") == [NO_KEY]


async def test_all_of_many_keys_are_taken_out_so_that_a_new_one_brings_none_of_them_back(
    tmp_path: Path,
) -> None:
    entry = {"baseUrl": "https://mine.example", "apiKeys": ["sk-1", "sk-2", "sk-3"]}
    settings = opened(tmp_path, {"models": {"providers": {"mine": entry}}})

    await patch(settings, {"models": {"providers": {"mine": {"baseUrl": "https://evil.example"}}}})
    await patch(settings, {"models": {"providers": {"mine": {"apiKey": "theirs"}}}})

    assert keys_sent(tmp_path, "mine") == ["theirs"]


def test_a_key_does_not_follow_by_another_place_in_its_list() -> None:
    mine = {"baseUrl": "https://mine.example", "apiKey": "sk-0", "apiKeys": ["sk-1"]}
    theirs = {"baseUrl": "https://evil.example", "apiKey": "x", "apiKeys": ["y", "sk-1", "sk-0"]}

    stale = stale_secrets(
        Config, {"models": {"providers": {"m": mine}}}, {"models": {"providers": {"m": theirs}}}
    )

    assert [path[2:] for path in stale] == [("m", "apiKeys", 1), ("m", "apiKeys", 2)]


async def test_a_key_among_the_fields_of_a_request_does_not_follow(tmp_path: Path) -> None:
    params = {"api_key": "sk-1", "max_tokens": 9, "deep": [{"token": "sk-2"}]}
    model = {"id": "m", "params": {"password": "sk-3"}}
    entry = {"baseUrl": "https://mine.example", "params": params, "models": [model]}
    settings = opened(tmp_path, {"models": {"providers": {"mine": entry}}})

    await patch(settings, {"models": {"providers": {"mine": {"baseUrl": "https://evil.example"}}}})

    text = (tmp_path / "openclaw.json").read_text("utf-8")
    assert "sk-" not in text
    assert json.loads(text)["models"]["providers"]["mine"]["params"]["max_tokens"] == 9


async def test_a_key_of_a_profile_does_not_go_where_another_key_is_written_for(
    tmp_path: Path,
) -> None:
    settings = opened(tmp_path)
    file = profiles_path(tmp_path, "main")
    file.parent.mkdir(parents=True)
    kept = {"type": "api_key", "provider": "anthropic", "key": "sk-profile"}
    file.write_text(json.dumps({"profiles": {"anthropic:default": kept}}))
    entry = {"baseUrl": "https://evil.example", "apiKey": "theirs"}
    assert keys_sent(tmp_path, "anthropic") == ["sk-profile", "sk-ant-env"]

    await patch(settings, {"models": {"providers": {"anthropic": entry}}})

    assert keys_sent(tmp_path, "anthropic") == ["theirs"]


@pytest.mark.parametrize("secret", [{"headers": {"x-key": "sk-1"}}, {"apiKeys": ["sk-1"]}])
async def test_a_secret_of_an_included_file_does_not_follow_to_another_address(
    tmp_path: Path, secret: dict[str, Any]
) -> None:
    provider = {"baseUrl": "https://mine.example", **secret}
    included = {"models": {"providers": {"mine": provider}}}
    (tmp_path / "keys.json5").write_text(json.dumps(included), "utf-8")
    main = {"$include": "./keys.json5", "models": {}, "session": {}}
    settings = opened(tmp_path, main)
    base = (await settings.get(CALLER, None))["hash"]  # type: ignore[arg-type]
    moved = {"models": {"providers": {"mine": {"baseUrl": "https://evil.example"}}}}

    with pytest.raises(ConfigInvalid, match="included file"):
        await patch(settings, moved)
    with pytest.raises(ConfigInvalid, match="included file"):
        await settings.set(
            CALLER, ConfigSetParams(raw=json.dumps({**main, **moved}), base_hash=base)
        )
    await patch(settings, {"session": {"scope": "global"}})

    assert "evil" not in (tmp_path / "openclaw.json").read_text("utf-8")
    assert load(tmp_path / "openclaw.json", ENVIRON).config.session.scope == "global"


async def test_arguments_of_a_program_are_not_shown(tmp_path: Path) -> None:
    shown = await opened(tmp_path).get(CALLER, None)  # type: ignore[arg-type]

    assert "k3y" not in json.dumps(shown)
    assert "/bin/true" in json.dumps(shown)


# ── every field ────────────────────────────────────────────────────────────────────────────────

_SOUNDS_LOCAL = re.compile(
    r"(path|(?<!pro)file|dir|folder|workspace|command|args|cwd|store|root|bind|host|module|program|env|vars)s?$",
    re.IGNORECASE,
)
HARMLESS = {
    "gateway.controlUi.basePath",  # a part of an address
    "hooks.path", "hooks.mappings.match.path",
    "tools.exec.host", "agents.list.tools.exec.host", "agents.entries.tools.exec.host",  # where, out of a fixed list
    "agents.defaults.sandbox.limits.workspaceFiles", "agents.list.sandbox.limits.workspaceFiles",
    "agents.entries.sandbox.limits.workspaceFiles",  # a number
    "commands", "gateway.nodes.denyCommands",
    "logging.maxFiles",  # a number
    "env.vars",  # `env` as a whole is local
}  # fmt: skip


def fields(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, type[Section], str]]:
    for member in members_of(kind):
        if isinstance(member, type) and issubclass(member, Section):
            for name, part in kinds_of(member).items():
                yield ".".join((*path, name)), member, name
                yield from fields(part, (*path, name))
        else:
            for part in get_args(member):
                yield from fields(part, path)


def test_every_setting_that_sounds_like_a_program_or_a_path_is_local_or_known_to_be_harmless() -> (
    None
):
    found = {
        path
        for path, section, name in fields(Config)
        if _SOUNDS_LOCAL.search(name) and name not in section.local
    }

    assert found <= HARMLESS
