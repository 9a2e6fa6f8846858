"""A process that ends between a deleted parent and the stop of its children."""

from pathlib import Path

import anyio
import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.operations import DeleteSession
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call

PARENT = "agent:main:desk"


@pytest.mark.spec("P8")
async def test_children_of_a_deleted_parent_are_stopped_also_when_the_process_ended_meanwhile(
    tmp_path: Path,
) -> None:
    slow = ScriptedProvider(lambda request: "late", delay_s=100)
    async with open_gateway(tmp_path, slow) as gateway:
        await call(gateway, "sessions.create", key=PARENT)
        child = await call(gateway, "sessions.spawn", sessionKey=PARENT, task="work")
        await anyio.sleep(1)
        # What `sessions.delete` has committed when the process ends before its next line.
        await gateway.ledger.do(DeleteSession(key=SessionKey.parse(PARENT), at=1))
    async with open_gateway(tmp_path, slow) as gateway:
        run = await gateway.run_store.wait(child["runId"], timeout_s=3600)
    assert run is not None
    assert run.status == "aborted", run.status


@pytest.mark.spec("P8")
async def test_children_of_a_session_that_began_again_under_that_name_are_left_alone(
    tmp_path: Path,
) -> None:
    slow = ScriptedProvider(lambda request: "late", delay_s=100)
    async with open_gateway(tmp_path, slow) as gateway:
        await call(gateway, "sessions.create", key=PARENT)
        await gateway.ledger.do(DeleteSession(key=SessionKey.parse(PARENT), at=1))
        await call(gateway, "sessions.create", key=PARENT)
        child = await call(gateway, "sessions.spawn", sessionKey=PARENT, task="work")
        run = await gateway.run_store.wait(child["runId"], timeout_s=3600)
    assert run is not None
    assert run.status == "ok", run.status
