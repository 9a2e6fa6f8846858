"""What configs of gateways that share a ledger must have in common, and whose counts."""

from typing import Any

import msgspec

from crossclaw.app.shared_config import EVERYTHING, OurConfig, decide_config
from crossclaw.config.agreeing import (
    OwnParts,
    differing,
    digest_of,
    secret_places,
    shared_keys,
    shared_value,
)
from crossclaw.ledger.gateways import SharingGateway
from crossclaw.ledger.shared_settings import AgreedConfig
from crossclaw.runs.claiming import config_leader

HERE = {
    "ledger": {"url": "postgresql://a@db/x", "shared": True, "gateway": "a", "configEpoch": 1},
    "agents": {"list": [{"id": "main", "workspace": "/home/a/main", "model": "${MODEL}"}]},
    "gateway": {"bind": "lan", "port": 18789, "auth": {"token": "one"}},
    "channels": {"telegram": {"botToken": "1:aa", "allowFrom": ["ana"]}},
}
THERE = {
    "ledger": {"url": "postgresql://b@db/x", "shared": True, "gateway": "b", "configEpoch": 1},
    "agents": {"list": [{"id": "main", "workspace": "/srv/b/main", "model": "${MODEL}"}]},
    "gateway": {"bind": "loopback", "port": 18789, "auth": {"token": "two"}},
    "channels": {"telegram": {"botToken": "2:bb", "allowFrom": ["ana"]}},
}


def test_what_is_each_machines_own_and_secrets_may_differ() -> None:
    here, there = shared_keys(HERE), shared_keys(THERE)
    assert differing(here, there) == []
    assert digest_of(here) == digest_of(there)
    assert "one" not in repr(here)
    assert here["gateway.auth.token"] == "secret", "only that there is one"


def test_what_differs_is_named() -> None:
    changed = {**THERE, "tools": {"exec": {"security": "deny"}}, "channels": {}}
    assert differing(shared_keys(HERE), shared_keys(changed)) == [
        "channels.telegram.allowFrom.0",
        "channels.telegram.botToken",
        "tools.exec.security",
    ]


def gateway(name: str, joined_at: int, epoch: int = 0, left_ms: int = 3000) -> SharingGateway:
    return SharingGateway(
        gateway_id=name,
        incarnation=name,
        joined_at=joined_at,
        left_ms=left_ms,
        config_epoch=epoch,
    )


def test_the_newest_config_counts_and_of_equals_that_of_the_gateway_which_is_there_longest() -> (
    None
):
    a, b, c = gateway("a", 1), gateway("b", 2), gateway("c", 3, epoch=1)
    assert config_leader([a, b], "a") is None, "its own"
    assert config_leader([a, b], "b") == a
    assert config_leader([a, b, c], "a") == c
    assert config_leader([gateway("a", 1, left_ms=0), b], "b") is None, (
        "one that is gone counts no more"
    )


def taken(shared: Any, own: Any, secrets: Any = None) -> tuple[Any, list[Any]]:
    parts = OwnParts(own, secrets or {})
    return parts.with_own(shared), parts.missing


def test_the_common_part_has_no_secret_no_path_and_nothing_that_nobody_reads() -> None:
    written = {
        **HERE,
        "meta": {"lastTouchedAt": "today"},
        "models": {
            "providers": {
                "mine": {"baseUrl": "https://me:pw@mine.example", "headers": {"x-key": "h3ader"}}
            }
        },
        "tools": {"allow": []},
    }
    shared = shared_value(written)
    said = repr(shared)
    for word in ("one", "1:aa", "/home/a", "h3ader", "pw@", "lastTouchedAt", "18789", "'lan'"):
        assert word not in said, word
    assert shared["tools"] == {"allow": []}, "a list that allows nothing is not the same as none"
    assert sorted(secret_places(shared)) == [
        ("channels", "telegram", "botToken"),
        ("gateway", "auth", "token"),
        ("models", "providers", "mine", "baseUrl"),
        ("models", "providers", "mine", "headers", "x-key"),
    ]


def test_another_gateways_common_part_keeps_what_is_this_machines_own() -> None:
    changed = {
        **HERE,
        "agents": {
            "list": [
                {"id": "new", "workspace": "/home/a/new"},
                {"id": "main", "workspace": "/home/a/main", "name": "Ana"},
            ]
        },
        "channels": {"telegram": {"botToken": "1:aa", "apiUrl": "http://a", "allowFrom": ["bob"]}},
    }
    own = {
        **THERE,
        "channels": {"telegram": {"botToken": "2:bb", "apiUrl": "http://b", "name": "old"}},
        "env": {"vars": {"X": "y"}},
        "session": {"store": "/srv/b", "scope": "global"},
    }
    whole, missing = taken(shared_value(changed), own)
    assert missing == []
    assert digest_of(shared_keys(whole)) == digest_of(shared_keys(changed))
    assert whole["agents"]["list"] == [
        {"id": "new"},
        {"id": "main", "name": "Ana", "workspace": "/srv/b/main"},
    ]
    assert whole["gateway"] == THERE["gateway"]
    assert whole["channels"]["telegram"] == {
        "botToken": "2:bb",
        "apiUrl": "http://b",
        "allowFrom": ["bob"],
    }
    assert whole["env"] == own["env"]
    assert whole["session"] == {"store": "/srv/b"}, "what only the others lack is gone"
    assert whole["ledger"] == THERE["ledger"]


def test_a_secret_that_travels_takes_the_place_of_ours_and_one_that_is_nowhere_is_named() -> None:
    place = ("channels", "telegram", "botToken")
    whole, missing = taken(shared_value(HERE), THERE, {place: "3:cc"})
    assert (whole["channels"]["telegram"]["botToken"], missing) == ("3:cc", [])
    _whole, missing = taken(shared_value(HERE), {**THERE, "channels": {}})
    assert missing == [place]


def config(epoch: int, digest: str) -> AgreedConfig:
    return AgreedConfig(epoch=epoch, digest=digest, keys={}, text="{}")


def standing(
    digest: str,
    newest: AgreedConfig | None,
    *others: str,
    epoch: int = 0,
    taken: int = 7,
    before: bool = False,
    proven: bool = True,
    lease_ms: int = 3000,
) -> str:
    """Of gateway "us", which has come last, among others that have these configs."""
    found = [
        msgspec.structs.replace(gateway(name, number, left_ms=lease_ms), config_hash=name)
        for number, name in enumerate(others)
    ]
    us = msgspec.structs.replace(gateway("us", 99), config_hash=digest)
    ours = OurConfig({}, digest, epoch, taken)
    return decide_config(ours, newest, before, [*found, us], "us", is_proven=proven).step


def test_whose_file_counts() -> None:
    new = config(7, "new")
    assert standing("new", new, "new") == "agrees"
    assert standing("new", new, "new", taken=6) == "follow", "a secret may have been set"
    assert standing("old", new, "new", before=True) == "follow", "it was away"
    assert standing("old", new, "old", before=True) == "follow", "also when nobody has it yet"
    assert standing("own", new, "new") == "differs", "a person has changed it"
    assert standing("own", new, "new", epoch=7) == "differs", "not above the number in force"
    assert standing("own", new, "new", epoch=8) == "publish", "it shall count"
    assert standing("own", new) == "publish", "nobody else is there"
    assert standing("own", new, "new", lease_ms=0) == "publish", "nor anybody who lives"
    assert standing("own", new, "own") == "agrees", "all files were changed one after the other"
    assert standing("own", new, "other") == "differs", "and not to the same"
    assert standing("own", None) == "publish", "the first of all"
    assert standing("own", None, "other") == "differs"


def test_what_no_gateway_has_stored_is_not_followed_and_neither_is_an_old_config_put_there_again() -> (
    None
):
    new = config(7, "new")
    assert standing("old", new, "old", before=True, proven=False) == "agrees", "with the others"
    assert standing("old", new, before=True, proven=False) == "publish", "it is put right"
    assert standing("old", new, "new", before=True, proven=False) == "differs"
    assert standing("new", new, "new", taken=6, proven=False) == "agrees", "and takes no secret"
    assert standing("old", new, "old", before=True, taken=8) == "agrees", "it goes back"
    nothing_taken = standing("old", new, "new", before=True, taken=EVERYTHING)
    assert nothing_taken == "follow", "without a file nobody knows"
