"""A config edited by a person who never saw its secrets: what changes, what stays, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from crossclaw.config.amending import Amended, amend
from crossclaw.config.file import ConfigFile
from crossclaw.config.hiding import HIDDEN, without_secrets

FILE = """{
  // the people of the gateway
  agents: { list: [{ id: "main" }, { id: "ana", name: "Ana" }] }, // two
  gateway: { auth: { token: "a-secret-of-the-gateway" }, port: 18999 },
  models: {
    providers: {
      one: {
        baseUrl: "https://me:pass@one.example/v1?key=of-one",
        apiKey: "key-of-one",
        headers: { "X-Team": "team-of-one" },
        models: [
          { id: "a", headers: { h: "header-of-a" } },
          { id: "b", headers: { h: "header-of-b" } },
        ],
      },
      two: { apiKey: "${TWO}", models: [] }, /* by its variable */
    },
  },
  channels: { telegram: { botToken: "token-of-bot", mode: "poll" } },
  env: { LOOSE: "value-of-loose", vars: { TWO: "value-of-two" } },
  wizard: { lastRunMode: "kept-but-unknown" },
}
"""
SECRETS = [
    "a-secret-of-the-gateway",
    "key-of-one",
    "team-of-one",
    "header-of-a",
    "header-of-b",
    "token-of-bot",
    "value-of-loose",
    "value-of-two",
    "kept-but-unknown",
    "pass",
    "of-one",
]


@pytest.fixture
def file(tmp_path: Path) -> ConfigFile:
    path = tmp_path / "openclaw.json"
    path.write_text(FILE)
    return ConfigFile(path, {})


def shown(file: ConfigFile) -> Any:
    return without_secrets(file.value)


def edited(file: ConfigFile, value: Any) -> Amended:
    return amend(file, json.dumps(value, indent=2), save=True)


def test_nothing_secret_is_shown_and_all_else_is(file: ConfigFile) -> None:
    value = shown(file)

    assert [secret for secret in SECRETS if secret in json.dumps(value)] == []
    assert value["gateway"] == {"auth": {"token": HIDDEN}, "port": 18999}
    assert value["models"]["providers"]["two"]["apiKey"] == "${TWO}"
    assert value["models"]["providers"]["one"]["baseUrl"] == "https://one.example/v1?"
    assert value["channels"]["telegram"] == {"botToken": HIDDEN, "mode": "poll"}
    assert value["env"] == {"LOOSE": HIDDEN, "vars": {"TWO": HIDDEN}}


@pytest.mark.parametrize(
    "broken",
    ['{ gateway: "s3cret" }', '{ agents: ["s3cret"] }', '{ session: { scope: {a: "s3cret"} } }'],
)
def test_a_value_in_the_wrong_place_is_not_shown_either(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(broken)

    assert "s3cret" not in json.dumps(shown(ConfigFile(path, {})))


def test_what_comes_back_untouched_changes_nothing(file: ConfigFile) -> None:
    assert edited(file, shown(file))[:2] == ((), ())
    assert file.path.read_text() == FILE


def test_one_value_changes_and_every_comment_and_secret_stays(file: ConfigFile) -> None:
    value = shown(file)
    value["gateway"]["port"] = 19000

    assert edited(file, value).keys == ("gateway.port",)
    assert file.path.read_text() == FILE.replace("18999", "19000")


def test_a_secret_is_replaced_when_a_new_one_is_written(file: ConfigFile) -> None:
    value = shown(file)
    value["models"]["providers"]["one"]["apiKey"] = "another-key"

    edited(file, value)

    assert file.path.read_text() == FILE.replace("key-of-one", "another-key")


def test_things_with_an_id_keep_their_secrets_when_others_leave_and_when_they_move(
    file: ConfigFile,
) -> None:
    value = shown(file)
    models = value["models"]["providers"]["one"]["models"]
    value["models"]["providers"]["one"]["models"] = [models[1] | {"name": "B"}, {"id": "c"}]

    assert edited(file, value).keys == ("models.providers.one.models",)

    kept = ConfigFile(file.path, {}).value["models"]["providers"]["one"]["models"]
    assert kept == [{"id": "b", "headers": {"h": "header-of-b"}, "name": "B"}, {"id": "c"}]


def test_what_is_added_at_the_end_leaves_the_rest_as_it_stands(file: ConfigFile) -> None:
    value = shown(file)
    value["agents"]["list"].append({"id": "bo"})

    assert edited(file, value).keys == ("agents.list",)
    text = file.path.read_text()
    assert ConfigFile(file.path, {}).value["agents"]["list"][2] == {"id": "bo"}
    assert "// the people of the gateway" in text
    assert '[{ id: "main" }, { id: "ana", name: "Ana" },' in text


def test_what_is_taken_out_leaves_the_file(file: ConfigFile) -> None:
    value = shown(file)
    del value["channels"], value["gateway"]["auth"]

    assert edited(file, value).keys == ("channels", "gateway.auth")
    text = file.path.read_text()
    assert "token-of-bot" not in text
    assert "a-secret-of-the-gateway" not in text
    assert "key-of-one" in text


def test_a_hidden_secret_that_was_never_there_is_refused_at_its_line(file: ConfigFile) -> None:
    value = shown(file)
    value["hooks"] = {"token": HIDDEN}

    done = edited(file, value)

    (fault,) = done.faults
    text = json.dumps(value, indent=2).splitlines()
    assert (fault.key, text[fault.line - 1].strip()) == ("hooks.token", f'"token": "{HIDDEN}"')
    assert "${NAME}" in fault.message
    assert file.path.read_text() == FILE


def test_secrets_in_a_list_without_ids_are_never_given_to_another(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    accounts = [{"name": n, "botToken": f"token-{n}"} for n in "abc"]
    path.write_text(json.dumps({"channels": {"googlechat": {"accounts": accounts}}}))
    file = ConfigFile(path, {})
    value = shown(file)
    listed = value["channels"]["googlechat"]["accounts"]

    value["channels"]["googlechat"]["accounts"] = [listed[2], listed[0] | {"name": "d"}]
    done = edited(file, value)
    assert done.faults[0].key == "channels.googlechat.accounts[1].botToken"

    value["channels"]["googlechat"]["accounts"] = [listed[2], listed[0]]
    assert edited(file, value).faults == ()
    kept = ConfigFile(path, {}).value["channels"]["googlechat"]["accounts"]
    assert kept == [accounts[2], accounts[0]]


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ('{\n  "session": {\n    "scope": 7\n  }\n}', 3, "session.scope", '"global"'),
        ('{\n  "sesion": {}\n}', 2, "sesion", 'did you mean "session"'),
        ('{\n  "session": {\n    "scope": }\n}', 3, "", "not JSON5"),
        ("[]", 1, "", "one object"),
        ('{\n "gateway": {\n  "bind": "custom" }\n}', 3, "gateway.bind", "customBindHost"),
        ("", 1, "", "empty"),
    ],
)
def test_what_is_wrong_is_told_at_its_line_with_what_would_work(
    file: ConfigFile, text: str, line: int, key: str, says: str
) -> None:
    fault = amend(file, text, save=True).faults[0]

    assert (fault.line, fault.key) == (line, key)
    assert says in fault.message
    assert file.path.read_text() == FILE


def test_a_check_tells_what_would_change_and_writes_nothing(file: ConfigFile) -> None:
    value = shown(file)
    value["session"] = {"scope": "global"}

    assert amend(file, json.dumps(value), save=False).keys == ("session",)
    assert file.path.read_text() == FILE
    assert [each.name for each in file.path.parent.iterdir()] == ["openclaw.json"]
