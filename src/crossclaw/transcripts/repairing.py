"""Repairing: makes a changed or damaged file agree with the ledger again.

A file that merely stops too early, in a line or between two, is cut to its last whole line and then
goes on as usual. Any other file is written anew, and the damaged one is kept beside it: it may
contain something that a person put there.
"""

import logging

import anyio

from crossclaw.disk.threads import Disk
from crossclaw.domain.clock import Clock
from crossclaw.transcripts.copies import Copies, Copy
from crossclaw.transcripts.files import Draft, Files
from crossclaw.transcripts.jsonl import iso_time

log = logging.getLogger(__name__)


class Repairing:
    def __init__(self, copies: Copies, files: Files, disk: Disk, clock: Clock) -> None:
        self._copies = copies
        self._files = files
        self._disk = disk
        self._clock = clock

    async def repair(self, session_id: str, *, whole: bool = False) -> Copy | None:
        """Repairs the file of a session. `whole`: compare from the first byte on, also if the mark
        says that all is well."""
        copy = await self._copies.load(session_id)
        if copy is None:
            return None
        if whole or not await self._ends_as_recorded(copy):
            copy = Copy(copy.export)
        if not await self._follow(copy):
            copy = Copy(copy.export)
            await self._replace(copy)
        self._copies.note(copy)
        return copy

    async def _ends_as_recorded(self, copy: Copy) -> bool:
        start = copy.size - len(copy.ending)
        return copy.ending == await self._disk.run(
            self._files.read, copy.name, start, len(copy.ending)
        )

    async def _follow(self, copy: Copy) -> bool:
        """Compares the file with the ledger as far as they agree; False if they differ."""
        while True:
            chunk = await self._copies.read(copy)
            # One byte more than expected, to see whether the file goes on where the ledger ends.
            found = await self._disk.run(
                self._files.read, copy.name, copy.size, len(chunk.data) + 1
            )
            if not found:
                return True
            if chunk.data and found.startswith(chunk.data):
                copy.take(chunk)
                continue
            if not chunk.data.startswith(found):
                return False
            copy.take(chunk.first(len(found)))
            await self._disk.run(self._files.cut, copy.name, copy.size)
            log.info(
                "the transcript of session %s had a torn end; it goes on", copy.name.session_id
            )
            return True

    async def _replace(self, copy: Copy) -> None:
        damage = await self._disk.run(self._files.find_damage, copy.name)
        draft = await self._disk.run(self._files.draft, copy.name)
        try:
            kept = await self._fill(draft, copy)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._disk.run(draft.drop)
            raise
        log.warning(
            "the transcript of session %s was damaged (%s) and is written anew; the old file is %s",
            copy.name.session_id,
            damage or "its content differs from the ledger's",
            kept,
        )

    async def _fill(self, draft: Draft, copy: Copy) -> str:
        while (chunk := await self._copies.read(copy)).data:
            await self._disk.run(draft.write, chunk.data)
            copy.take(chunk)
        stamp = iso_time(self._clock.now_ms())[:19].replace("-", "").replace(":", "")
        return await self._disk.run(draft.put, f"{stamp}Z")
