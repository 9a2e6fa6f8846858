"""What a sender may is the sender's own, also in a chat that the owner is in."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.door.principal import person_principal
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call

pytestmark = pytest.mark.spec("B3", "N8")

OWNED: dict[str, Any] = {"commands": {"ownerAllowFrom": ["memory:ana"]}}


def config(**commands: Any) -> Config:
    return msgspec.convert({"commands": {**OWNED["commands"], **commands}}, Config)


async def test_the_words_of_the_owner_and_of_others_are_not_answered_with_one_right(
    tmp_path: Path,
) -> None:
    """They wait together in one group, and each run has its own sender's authority."""
    chat, model = (
        MemoryChannel(settings=OPEN_TO_ALL),
        ScriptedProvider(lambda _request: "ok", delay_s=5),
    )
    async with open_gateway(tmp_path, model, config=config(), channels=[chat]) as gateway:
        runs = [
            await chat.say(who, f"{who} speaks", group="g1") for who in ("bob", "ana", "bob", "ana")
        ]
        ended = [await gateway.run_store.wait(each) for each in runs]

    assert [run.authority.owner for run in ended if run] == [False, True, False, True]
    assert [run.merged_into for run in ended if run] == [None] * 4


@pytest.mark.parametrize(
    ("allow_from", "who", "obeyed"),
    [
        ({}, "bob", True),
        ({"memory": ["bob"]}, "bob", True),
        ({"*": ["bob"]}, "bob", True),
        ({"memory": ["carol"]}, "bob", False),
        ({"telegram": ["bob"]}, "bob", False),
        ({"memory": ["carol"]}, "ana", True),
    ],
)
async def test_who_may_use_commands_is_decided_by_the_sender(
    tmp_path: Path, allow_from: dict[str, Any], who: str, obeyed: bool
) -> None:
    chat, model = (
        MemoryChannel(settings=OPEN_TO_ALL),
        ScriptedProvider(lambda _request: "plain words"),
    )
    named = config(allowFrom=allow_from)
    async with open_gateway(tmp_path, model, config=named, channels=[chat]) as gateway:
        run = await gateway.run_store.wait(await chat.say(who, "/status", group="g1"))

    assert run is not None
    assert (run.kind == "command") is obeyed
    assert len(model.seen) == (0 if obeyed else 1)


@pytest.mark.parametrize(
    ("method", "asked", "owner"),
    [
        ("chat.send", {"sessionKey": "main", "idempotencyKey": "r1"}, True),
        ("hooks.agent", {"idempotencyKey": "r1"}, False),
    ],
)
async def test_words_of_others_have_no_owners_rights_whoever_passes_them_on(
    tmp_path: Path, method: str, asked: dict[str, Any], owner: bool
) -> None:
    """What a device says is tried in tests/wire/test_nodes.py: a node is a connection."""
    all_in_one = person_principal("owner", {"operator.admin", "hook"})
    async with open_gateway(tmp_path, ScriptedProvider(lambda _request: "ok")) as gateway:
        answer = await call(gateway, method, all_in_one, message="hi", **asked)
        run = await gateway.run_store.wait(answer["runId"])

    assert run is not None
    assert run.authority.owner is owner
