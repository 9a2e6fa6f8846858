"""What a run may do, by the road on which it came: one and the same person's word is not the owner's on all of them."""

from pathlib import Path

import pytest

from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.events import FeedEvent, RunEnded
from crossclaw.domain.runs import Run
from crossclaw.door.principal import person_principal
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B3")]

MADE_BY = frozenset({CredentialRef("gateway", 1)})
OWNER = person_principal("token", {"operator.admin", "hook"}, MADE_BY)


async def test_the_road_says_whether_it_is_the_owners_word(tmp_path: Path) -> None:
    ended: list[Run] = []

    def hear(event: FeedEvent) -> None:
        if isinstance(event, RunEnded):
            ended.append(event.run)

    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "done")) as gateway:
        hops = gateway.config.session.agent_to_agent.max_hops
        gateway.credentials.put("gateway", 1)
        gateway.feed.subscribe(hear)
        await call(gateway, "wake", OWNER, text="the door opened", mode="next-heartbeat")
        await call(gateway, "hooks.wake", OWNER, text="ding", mode="next-heartbeat")
        hook = await call(gateway, "hooks.agent", OWNER, message="news", deliver=False)
        await gateway.run_store.wait(hook["runId"], timeout_s=60)
        job = await call(
            gateway,
            "cron.add",
            OWNER,
            name="news",
            schedule={"kind": "every", "everyMs": 3_600_000},
            payload={"kind": "agentTurn", "message": "tell"},
        )
        tick = await call(gateway, "cron.run", OWNER, id=job["id"], mode="force")
        await gateway.run_store.wait(tick["runId"], timeout_s=60)

    owners = Authority(owner=True, hops_left=hops, made_by=MADE_BY)
    others = Authority(hops_left=hops, made_by=MADE_BY)
    lasting = Authority(owner=True, hops_left=hops, made_by=frozenset({CredentialRef("gateway")}))
    assert [(run.kind, run.authority) for run in ended] == [
        ("agent", owners),
        ("hook", others),
        ("hook", others),
        ("cron", lasting),
    ]


async def test_in_a_child_nobodys_word_is_the_owners(tmp_path: Path) -> None:
    """Not the owner's own either: whoever writes into a child does not make it more than a child."""
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "done")) as gateway:
        gateway.credentials.put("gateway", 1)
        await call(
            gateway, "chat.send", OWNER, sessionKey="main", message="hi", idempotencyKey="r0"
        )
        await gateway.run_store.wait("r0", timeout_s=60)
        asked = await call(gateway, "sessions.spawn", OWNER, task="work", sessionKey="main")
        own = await gateway.run_store.wait(asked["runId"], timeout_s=60)
        key = asked["childSessionKey"]
        await call(gateway, "chat.send", OWNER, sessionKey=key, message="go", idempotencyKey="r1")
        later = await gateway.run_store.wait("r1", timeout_s=60)

    assert own is not None
    assert later is not None
    assert (own.authority.owner, later.authority.owner) == (False, False)
    assert not later.authority.may_spawn
