"""Stopping: a session's runs, and those of the children that it has at work."""

from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.lanes import Lanes

BY_CLIENT = "stopped by the client"


class Stopping:
    def __init__(self, ledger: Ledger, lanes: Lanes) -> None:
        self._ledger = ledger
        self._lanes = lanes

    async def stop(self, key: SessionKey, reason: str) -> list[str]:
        """Stops a session's runs, then its children's: in that order, so that it begins no further child
        meanwhile."""
        return await self.stop_alone(key, reason) + await self.stop_children(key, reason)

    async def stop_children(self, key: SessionKey, reason: str) -> list[str]:
        stopped: list[str] = []
        for spawn in await self._ledger.list_spawns(key, open_only=True):
            child = SessionKey.stored(spawn.child_key)
            stopped += await self._lanes.abort_session(child, f"its parent: {reason}")
        return stopped

    async def stop_running(self, key: SessionKey, reason: str) -> list[str]:
        """Stops only what is running now; what is queued behind it comes next."""
        begun = [run for run in await self._ledger.list_open_runs(key) if run.status != "queued"]
        return [run.run_id for run in begun if await self._lanes.abort(run.run_id, reason)]

    async def stop_run(self, key: SessionKey, run_id: str, reason: str) -> list[str]:
        """Stops one run of a session, and names it if it was under way."""
        run = await self._ledger.find_run(run_id)
        if run is not None and run.key != key:
            raise Invalid("runId does not match sessionKey: it is a run of another session")
        is_stopped = run is not None and await self._lanes.abort(run_id, reason)
        return [run_id] if is_stopped else []

    async def stop_alone(self, key: SessionKey, reason: str) -> list[str]:
        return await self._lanes.abort_session(key, reason)
