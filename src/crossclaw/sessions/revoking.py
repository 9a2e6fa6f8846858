"""Revoking: when a credential ends, the runs that it began end too."""

import anyio

from crossclaw.domain.runs import Run
from crossclaw.ledger.contract import Ledger
from crossclaw.policy.credentials import ENDED, Credentials
from crossclaw.runs.lanes import Lanes


class Revoking:
    def __init__(self, ledger: Ledger, lanes: Lanes, credentials: Credentials) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._credentials = credentials

    async def end_runs(self) -> list[str]:
        """Ends all open runs whose credentials no longer count, under way and queued. Those under way were
        stopped when the credential ended; here their end is waited for."""
        fallen = [run for run in await self._ledger.list_made_runs() if self._has_fallen(run)]
        ended: list[str] = []

        async def end(run: Run) -> None:
            if await self._lanes.abort(run.run_id, ENDED):
                ended.append(run.run_id)

        async with anyio.create_task_group() as tasks:
            for run in reversed(fallen):  # the queued ones first, so that none begins meanwhile
                if run.merged_into is None:
                    tasks.start_soon(end, run)
        return ended

    def _has_fallen(self, run: Run) -> bool:
        return not self._credentials.stands(run.authority.made_by)
