"""OpenClaw's exec-approvals.json: rules stay as strict as they were, and nothing becomes looser by the import."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crossclaw.domain.approvals import ExecRule
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.ids import RandomIds
from crossclaw.ledger.approvals import RevokeGrant
from crossclaw.ledger.opening import open_ledger
from crossclaw.sessions.foreign_approvals import find_approvals, read_approvals
from crossclaw.sessions.importing import Import

# As docs/tools/exec-approvals.md of openclaw 2026.9.6 shows it, and with the odd entries that its doctor knows.
WRITTEN: dict[str, Any] = {
    "version": 1,
    "socket": {"path": "~/.openclaw/exec-approvals.sock", "token": "t"},
    "defaults": {"security": "allowlist", "ask": "on-miss", "askFallback": "full"},
    "agents": {
        "main": {
            "ask": "always",
            "allowlist": [
                {"id": "B0C8", "pattern": "~/bin/**/rg", "lastUsedAt": None},
                {"pattern": "/usr/bin/jq"},
                "/usr/bin/wc",
                {"pattern": "/usr/bin/python3"},
                {"pattern": "/usr/bin/cut", "argPattern": "sha256:argv:abc"},
                {"pattern": "rg"},
                {"pattern": 7},
            ],
        },
        "Ops Team": {"security": "something new"},
        "*": {"allowlist": [{"pattern": "/usr/bin/uname"}]},
        "default": {"allowlist": [{"pattern": "/usr/bin/head"}]},
        "broken": [],
    },
}


@pytest.mark.spec("B9", "C2")
def test_rules_and_programs_come_in_and_what_would_be_looser_is_told() -> None:
    told: list[str] = []
    found = read_approvals(
        json.dumps(WRITTEN).encode(), Path("/home/ana"), 5, RandomIds(), told.append
    )

    rules = {each.agent_id: each.rule for each in found if each.rule}
    programs = [(each.agent_id, each.program) for each in found if not each.rule]
    assert rules == {
        "*": ExecRule("allowlist", "on-miss"),
        "main": ExecRule("full", "always"),
        "ops-team": ExecRule("deny", "off"),
    }
    assert programs == [
        ("main", "/home/ana/bin/**/rg"),
        ("main", "/usr/bin/jq"),
        ("main", "/usr/bin/wc"),
        ("main", "/usr/bin/head"),
    ]
    assert all(each.pattern and each.arguments is None for each in found if not each.rule)
    for left_out in ("/usr/bin/python3", "/usr/bin/cut", "rg of agent main", "every agent"):
        assert any(left_out in text for text in told), left_out


@pytest.mark.parametrize("raw", [b"{", b"[]", b"7"])
def test_what_is_no_such_file_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"exec-approvals\.json"):
        read_approvals(raw, Path("/"), 1, RandomIds(), lambda text: None)


@pytest.mark.spec("B9", "C2")
async def test_an_import_takes_both_places_and_repeated_changes_nothing_and_gives_nothing_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "openclaw"
    sessions = folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "sessions.json").write_text(
        json.dumps({"agent:main:main": {"sessionId": "s1", "updatedAt": 1}}), "utf-8"
    )
    (folder / "exec-approvals.json").write_text(json.dumps(WRITTEN), "utf-8")
    (folder / "state").mkdir()
    newer = {"agents": {"main": {"allowlist": [{"pattern": "/usr/bin/tail"}]}}}
    with closing(sqlite3.connect(folder / "state" / "openclaw.sqlite")) as db:
        db.execute("CREATE TABLE exec_approvals_config (config_key TEXT, raw_json TEXT)")
        db.execute("INSERT INTO exec_approvals_config VALUES ('main', ?)", (json.dumps(newer),))
        db.commit()

    assert len(list(find_approvals(folder))) == 2
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    try:
        importing = Import(ledger, SystemClock(), lambda *_: None)
        first = await importing.run(folder)
        before = await ledger.list_grants(limit=99)
        again = await Import(ledger, SystemClock(), lambda *_: None).run(folder)
        after = await ledger.list_grants(limit=99)
        (tail,) = [each for each in after if each.program == "/usr/bin/tail"]
        await ledger.do(RevokeGrant(grant_id=tail.grant_id))
        known = importing.grants
        await Import(ledger, SystemClock(), lambda *_: None, known_grants=known).run(folder)
        left = await ledger.list_grants(limit=99)
    finally:
        await ledger.close()

    assert (first.approvals, again.approvals) == (8, 0)
    assert before == after
    assert left == [
        each for each in before if each != tail
    ]  # what was taken back does not come again

    elsewhere = tmp_path / "elsewhere.sqlite"
    (folder / "state" / "openclaw.sqlite").rename(elsewhere)
    (folder / "state" / "openclaw.sqlite").symlink_to(elsewhere)
    assert len(list(find_approvals(folder))) == 1
