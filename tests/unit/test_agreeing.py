"""What configs of gateways that share a ledger must have in common, and whose counts."""

from crossclaw.config.agreeing import differing, digest_of, shared_keys
from crossclaw.ledger.gateways import SharingGateway
from crossclaw.runs.claiming import model_of

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
    assert model_of([a, b], "a") is None, "its own"
    assert model_of([a, b], "b") == a
    assert model_of([a, b, c], "a") == c
    assert model_of([gateway("a", 1, left_ms=0), b], "b") is None, "one that is gone counts no more"
