"""The config file over the wire: read without secrets, changed as a whole or not at all."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.merging import kept
from crossclaw.domain.errors import Invalid
from tests.wire.served_gateway import serve_gateway
from tests.wire.serving import Peer, connect_params, dial

pytestmark = pytest.mark.spec("G2")

FILE = """{
  // who answers
  agents: {
    list: [{ id: "main" }, { id: "ana", name: "Ana" }], // two
  },
  gateway: { auth: { token: "sixty-four-letters-of-secret-that-nobody-may-see-in-an-answer" } },
  hooks: { enabled: false },
  session: {
    scope: "per-sender", /* kept */
    maintenance: { mode: "warn" },
  },
}
"""
SECRET = "sixty-four-letters-of-secret-that-nobody-may-see-in-an-answer"


async def come_in(peer: Peer) -> Peer:
    await peer.next()
    assert (await peer.ask("connect", connect_params()))["ok"]
    return peer


async def base(peer: Peer) -> str:
    return str((await peer.ask("config.get", {}))["payload"]["hash"])


async def asked(tmp_path: Path, method: str, raw: str, text: str = FILE, **more: Any) -> Any:
    """What is answered, and what the file holds then."""
    file = tmp_path / "openclaw.json"
    file.write_text(text)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        params = {"raw": raw, "baseHash": await base(peer), **more}
        answer = await peer.ask(method, params)
    return answer, file.read_text()


async def test_the_file_is_shown_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text(FILE)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        shown = (await peer.ask("config.get", {}))["payload"]

    assert (shown["exists"], shown["valid"]) == (True, True)
    assert shown["config"]["agents"]["list"][1]["name"] == "Ana"
    assert SECRET not in json.dumps(shown)


async def test_a_patch_changes_its_keys_and_leaves_all_else_as_it_stands(tmp_path: Path) -> None:
    patch = '{ session: { scope: "global", maintenance: null }, hooks: { path: "/h" } }'
    answer, text = await asked(tmp_path, "config.patch", patch)

    assert answer["payload"]["restart"]["required"] is True, "reloading is off here"
    assert answer["payload"]["config"]["session"]["scope"] == "global"
    assert SECRET not in json.dumps(answer)
    assert text == FILE.replace('"per-sender"', '"global"').replace(
        "{ enabled: false }", '{ enabled: false, "path": "/h"}'
    ).replace('    maintenance: { mode: "warn" },\n', "")


async def test_things_with_an_id_are_changed_by_their_id(tmp_path: Path) -> None:
    patch = '{ agents: { list: [{ id: "ana", name: "Anna" }, { id: "bo" }] } }'
    answer, _text = await asked(tmp_path, "config.patch", patch)
    agents = answer["payload"]["config"]["agents"]["list"]
    assert [(each["id"], each["name"]) for each in agents][1:] == [("ana", "Anna"), ("bo", None)]

    answer, _text = await asked(tmp_path, "config.patch", patch, replacePaths=["agents.list"])
    agents = answer["payload"]["config"]["agents"]["list"]
    assert [each["id"] for each in agents] == ["ana", "bo"]


async def test_a_patch_that_changes_nothing_says_so(tmp_path: Path) -> None:
    answer, text = await asked(tmp_path, "config.patch", '{ session: { scope: "per-sender" } }')

    assert answer["payload"]["noop"] is True
    assert text == FILE


@pytest.mark.parametrize(
    ("method", "raw", "says"),
    [
        ("config.patch", "{ session: { scope: 7 } }", "session.scope"),
        ("config.patch", '{ sesion: { scope: "global" } }', "session"),
        ("config.patch", '{ gateway: { auth: { token: "(hidden)" } } }', "(hidden)"),
        ("config.patch", "[1]", "must be an object"),
        ("config.patch", "{", "not JSON5"),
        ("config.set", "{ session: 1 }", "session"),
        ("config.set", "[]", "must be an object"),
        ("config.set", '{ hooks: { token: "(hidden)" } }', "(hidden)"),
    ],
)
async def test_what_would_not_load_is_not_written(
    tmp_path: Path, method: str, raw: str, says: str
) -> None:
    answer, text = await asked(tmp_path, method, raw)

    assert answer["error"]["code"] == "INVALID_REQUEST"
    assert says in answer["error"]["message"]
    assert SECRET not in json.dumps(answer)
    assert text == FILE


async def test_who_has_not_seen_the_newest_text_does_not_undo_it(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(FILE)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        old = await base(peer)
        file.write_text(FILE.replace("Ana", "Anna"))
        for method in ("config.set", "config.patch"):
            for seen in ({"baseHash": old}, {}):
                answer = await peer.ask(method, {"raw": "{}", **seen})
                assert "re-run config.get and retry" in answer["error"]["message"]
    assert "Anna" in file.read_text()


async def test_a_form_sends_back_what_it_was_shown_and_no_secret_is_lost(tmp_path: Path) -> None:
    """The Control UI saves the whole config as it got it, with one field changed."""
    file = tmp_path / "openclaw.json"
    file.write_text(FILE)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        shown = (await peer.ask("config.get", {}))["payload"]
        config = {name: shown["config"][name] for name in ("gateway", "agents")}
        config["agents"]["list"][1]["name"] = "Anna"
        params = {"raw": json.dumps(config), "baseHash": shown["hash"]}
        assert (await peer.ask("config.set", params))["ok"]
        fresh = (await peer.ask("config.get", {}))["payload"]

    assert fresh["config"]["agents"]["list"][1]["name"] == "Anna"
    assert fresh["hash"] != shown["hash"]
    assert json.loads(file.read_text())["gateway"]["auth"]["token"] == SECRET
    assert file.stat().st_mode & 0o077 == 0


async def test_a_missing_file_is_made(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        answer = await peer.ask("config.patch", {"raw": '{ session: { scope: "global" } }'})
        assert answer["ok"], answer
        schema = (await peer.ask("config.schema", {}))["payload"]

    assert "global" in (tmp_path / "openclaw.json").read_text()
    assert schema["schema"]["properties"]["session"]["properties"]["scope"]
    assert "$ref" not in json.dumps(schema)


async def test_the_file_edited_by_a_person_keeps_its_comments_and_secrets(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(FILE)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        seen = (await peer.ask("config.get", {}))["payload"]
        assert SECRET not in seen["written"]
        raw = seen["written"].replace('"Ana"', '"Anna"')
        tried = {"raw": raw, "baseHash": seen["hash"], "dryRun": True}
        assert (await peer.ask("config.edit", tried))["payload"]["changed"] == [
            "agents.list[1].name"
        ]
        assert file.read_text() == FILE
        done = (await peer.ask("config.edit", {"raw": raw, "baseHash": seen["hash"]}))["payload"]
        fresh = (await peer.ask("config.get", {}))["payload"]

    assert file.read_text() == FILE.replace('"Ana"', '"Anna"')
    assert done["hash"] == fresh["hash"] != seen["hash"]
    assert fresh["restart"]["required"] is True, "what is in force is what was read at the start"


async def test_an_edit_of_an_older_text_writes_nothing_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(FILE)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        seen = (await peer.ask("config.get", {}))["payload"]
        file.write_text(other := FILE.replace("Ana", "Anna"))
        params = {"raw": seen["written"], "baseHash": seen["hash"]}
        answer = (await peer.ask("config.edit", params))["payload"]

    assert (answer["ok"], answer["stale"]) == (False, True)
    assert file.read_text() == other


async def test_an_edit_that_would_not_load_names_every_line(tmp_path: Path) -> None:
    raw = '{\n  "session": { "scope": 7 },\n  "hooks": { "enabled": "perhaps" }\n}'
    answer, text = await asked(tmp_path, "config.edit", raw)

    problems = answer["payload"]["problems"]
    assert [(each["line"], each["key"]) for each in problems] == [
        (2, "session.scope"),
        (3, "hooks.enabled"),
    ]
    assert text == FILE


async def test_a_file_that_cannot_be_read_is_not_offered_for_editing(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(FILE)
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await come_in(peer)
        file.write_text("{ session: ")
        seen = (await peer.ask("config.get", {}))["payload"]
        params = {"raw": "{}", "baseHash": seen["hash"]}
        answer = await peer.ask("config.edit", params)

    assert seen["written"] is None
    assert "not JSON5" in seen["issues"][0]["message"]
    assert "not JSON5" in answer["error"]["message"]


A, B = {"name": "a", "token": "(hidden)"}, {"name": "b", "token": "(hidden)"}
ANA, BO = {"id": "ana", "token": "(hidden)"}, {"id": "bo", "token": "(hidden)"}


@pytest.mark.parametrize(
    ("shown", "sent", "tokens"),
    [
        pytest.param([A, B], [A, B], ["1", "2"], id="as they were"),
        pytest.param([A, B], [B, A], ["2", "1"], id="in another order"),
        pytest.param([A, B], [B], ["2"], id="one left out"),
        pytest.param([ANA, BO], [{**BO, "x": 1}], ["2"], id="known by its id"),
        pytest.param([A, B], [{**A, "x": 1}, B], ["1", "2"], id="one changed in its place"),
    ],
)
def test_a_secret_goes_back_to_the_item_that_it_is_of(
    shown: list[Any], sent: list[Any], tokens: list[str]
) -> None:
    written = [{**each, "token": str(n)} for n, each in enumerate(shown, 1)]
    stays = dict(kept(sent, shown, written))
    assert stays == {(index, "token"): token for index, token in enumerate(tokens)}


def test_a_list_of_secrets_that_comes_back_as_it_was_shown_is_kept() -> None:
    keys = {"x": {"apiKeys": ["one", "two"], "baseUrl": "https://x.test"}}
    written = {"models": {"providers": keys}}
    shown = msgspec.convert(written, Config, dec_hook=lambda kind, value: kind(value)).redacted()

    sent = json.loads(json.dumps(shown))
    stays = dict(kept(sent, shown, written))
    assert stays == {
        ("models", "providers", "x", "apiKeys", n): k for n, k in ((0, "one"), (1, "two"))
    }

    sent["models"]["providers"]["x"]["apiKeys"].pop()
    with pytest.raises(Invalid, match="it is not clear which"):
        list(kept(sent, shown, written))


def test_a_secret_is_not_given_to_an_item_that_nobody_knows() -> None:
    written = [{"name": "a", "token": "1"}, {"name": "b", "token": "2"}]
    with pytest.raises(Invalid, match=r"\[0\]\.token: \(hidden\) stands for a secret"):
        list(kept([{"name": "c", "token": "(hidden)"}], [A, B], written))
