"""A config file is changed as another gateway's was: comments, paths, secrets and included files stay."""

from pathlib import Path
from typing import Any

import pytest

from crossclaw.config.agreeing import digest_of, shared_keys, shared_value
from crossclaw.config.file import NotChanged
from crossclaw.config.following import follow_shared
from crossclaw.config.load import load

OURS = """{
  // the other machine has another folder
  agents: { list: [
    { id: "main", workspace: "/srv/b/main" }, // ours
    { id: "old", workspace: "/srv/b/old" },
  ] },
  gateway: { bind: "lan", auth: { token: "b" } },
  channels: { telegram: { botToken: "2:bb" } },
}
"""
THEIRS: dict[str, Any] = {
    "agents": {"list": [{"id": "main", "name": "Ana", "workspace": "/home/a"}]},
    "gateway": {"auth": {"token": "a"}},
    "channels": {"telegram": {"botToken": "1:aa"}},
    "tools": {"exec": {"security": "deny"}},
}


def test_a_file_follows_another_gateways_and_keeps_its_comments_paths_and_secrets(
    tmp_path: Path,
) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(OURS)
    loaded = follow_shared(path, {}, shared_value(THEIRS), {})
    assert digest_of(shared_keys(loaded.raw)) == digest_of(shared_keys(THEIRS))
    text = path.read_text()
    for kept in ("// the other machine", "/srv/b/main", '"2:bb"', '"lan"', 'token: "b"'):
        assert kept in text, kept
    assert '"old"' not in text
    assert loaded.config.tools.exec.security == "deny"
    stamp = path.stat().st_mtime_ns
    follow_shared(path, {}, shared_value(THEIRS), {})
    assert path.stat().st_mtime_ns == stamp, "once more changes nothing"


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ({"channels": {"discord": {"token": "x"}}}, "channels.discord.token"),
        ({"agents": {"list": [{"id": "main", "name": "${SECRET}"}]}}, "name"),
        ({"tools": {"profile": "no such"}}, "tools.profile"),
        ({"session": {"scope": "global"}}, "session.scope"),
    ],
    ids=["a secret that is not here", "a variable", "does not load", "in an included file"],
)
def test_what_cannot_be_followed_is_named_and_nothing_is_written(
    tmp_path: Path, theirs: dict[str, Any], named: str
) -> None:
    path = tmp_path / "openclaw.json"
    (tmp_path / "session.json").write_text('{ scope: "per-sender" }')
    path.write_text('{ agents: { list: [{ id: "main" }] }, session: { $include: "session.json" } }')
    before = path.read_text()
    wanted = shared_value(load(path, {}).raw | theirs)
    with pytest.raises(NotChanged, match=named):
        follow_shared(path, {"SECRET": "s"}, wanted, {})
    assert path.read_text() == before
