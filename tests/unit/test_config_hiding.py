"""Secrets that a person edits beside."""

import json
from pathlib import Path

import pytest

from crossclaw.config.amending import amend
from crossclaw.config.file import ConfigFile
from crossclaw.config.hiding import without_secrets
from crossclaw.config.load import load


def edited(tmp_path: Path, before: object, sent: object) -> object:
    path = tmp_path / "openclaw.json"
    path.write_text(json.dumps(before))
    done = amend(ConfigFile(path, {}), json.dumps(sent), save=True)
    if done.faults:
        return done.faults
    return json.loads(path.read_text())


def test_of_two_items_that_look_alike_none_is_guessed(tmp_path: Path) -> None:
    before = {"channels": {"x": {"accounts": [{"token": "A"}, {"token": "B"}]}}}
    shown = without_secrets(before)
    shown["channels"]["x"]["accounts"].pop(0)
    after = edited(tmp_path, before, shown)
    assert after != {"channels": {"x": {"accounts": [{"token": "A"}]}}}, (
        "the one that was taken out stays"
    )


@pytest.mark.parametrize(
    "value",
    [
        # Keys of OpenClaw's own config.
        {"channels": {"feishu": {"encryptKey": "hush-hush"}}},
        {"channels": {"googlechat": {"serviceAccount": '{"private_key": "hush-hush"}'}}},
        {"diagnostics": {"otel": {"headers": {"Authorization": "Bearer hush-hush"}}}},
        {"agents": {"defaults": {"sandbox": {"docker": {"env": {"DB_PASS": "hush-hush"}}}}}},
        # What people and plugins write.
        {"channels": {"x": {"token": {"value": "hush-hush"}}}},
        {"channels": {"x": {"headers": {"Cookie": "hush-hush"}}}},
        {"channels": {"x": {"headers": {"X-Tenant": "hush-hush"}}}},
        {"channels": {"x": {"env": {"PLAIN": "hush-hush"}}}},
        {"channels": {"x": {"tokens": ["hush-hush"]}}},
        {"channels": {"x": {"signingKey": "hush-hush"}}},
        {"channels": {"x": {"credentials": "hush-hush"}}},
    ],
)
def test_no_secret_of_a_section_without_a_type_is_shown(tmp_path: Path, value: object) -> None:
    assert "hush-hush" not in json.dumps(without_secrets(value))
    path = tmp_path / "openclaw.json"
    path.write_text(json.dumps(value))
    assert "hush-hush" not in json.dumps(load(path, {}).config.redacted())


def test_a_model_is_no_secret_in_either_of_its_spellings() -> None:
    agents = {"list": [{"id": "a", "model": "x/y"}, {"id": "b", "model": {"primary": "x/y"}}]}
    assert without_secrets({"agents": agents}) == {"agents": agents}


def test_a_number_is_a_secret_as_well() -> None:
    assert "12345678" not in json.dumps(without_secrets({"channels": {"x": {"token": 12345678}}}))


def test_what_includes_itself_is_not_written(tmp_path: Path) -> None:
    after = edited(tmp_path, {}, {"logging": {"$include": "./openclaw.json"}})
    load(tmp_path / "openclaw.json", {})
    assert after != {"logging": {"$include": "./openclaw.json"}}
