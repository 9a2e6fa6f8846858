"""RunsHeard: what runs of a gateway are open, and which have ended, as its feed tells."""

import anyio

from crossclaw.app import Gateway
from crossclaw.domain.events import FeedEvent, RunAccepted, RunEnded
from crossclaw.domain.runs import Run

LOOKS_MAX = 10_000  # one each ten seconds of virtual time


class RunsHeard:
    def __init__(self, gateway: Gateway) -> None:
        self.open: set[str] = set()
        self.ended: list[Run] = []
        gateway.feed.subscribe(self._hear)

    def _hear(self, event: FeedEvent) -> None:
        match event:
            case RunAccepted(run_id=run_id):
                self.open.add(run_id)
            case RunEnded(run=run):
                self.open.discard(run.run_id)
                self.ended.append(run)
            case _:
                pass

    async def quiet(self) -> list[Run]:
        """Those that have ended, as soon as none is open."""
        for _ in range(LOOKS_MAX):
            await anyio.sleep(10)
            if not self.open:
                return self.ended
        raise AssertionError("it does not end")
