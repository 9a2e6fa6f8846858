"""Compressing old transcripts: their files stay readable, and the ledger has the entries anyway.

`<session id>.jsonl` becomes `<session id>.jsonl.zst`. The compressed file is in place before the
ledger says so, and the plain one is removed after: at every moment there is a whole one. When a
session continues, its plain file is written again from the ledger.
"""

from crossclaw.disk.threads import Disk
from crossclaw.disk.zstd import zstd
from crossclaw.domain.clock import Clock
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Export, MarkCompressed
from crossclaw.transcripts.copies import Copies, Copy
from crossclaw.transcripts.files import CopyName, Files

CHUNK_BYTES = 1024 * 1024  # in memory at once, whatever the size of the file
LEVEL = 6  # a tenth of the text in most transcripts; higher levels take long for little


class Compressing:
    def __init__(
        self, ledger: Ledger, copies: Copies, files: Files, disk: Disk, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._copies = copies
        self._files = files
        self._disk = disk
        self._clock = clock

    async def compress(self, export: Export) -> bool:
        """Compresses a copy. False, and nothing has changed, if the file is not what the ledger
        says, or somebody has written meanwhile."""
        name = CopyName(export.agent_id, export.session_id)
        if not await self._disk.run(_compress, self._files, name, export.exported_bytes):
            return False
        mark = MarkCompressed(
            session_id=export.session_id, seq=export.exported_seq, at=self._clock.now_ms()
        )
        marked = await self._ledger.do(mark)
        await self._disk.run(self._files.remove, name if marked else name.compressed)
        if marked:
            self._copies.forget(export.session_id)
        return marked

    async def make_plain(self, copy: Copy) -> None:
        """Removes the compressed file of a session that continues; its plain file will be written
        again."""
        await self._disk.run(self._files.remove, copy.name.compressed)
        copy.note_plain()

    async def tidy(self, export: Export) -> bool:
        """Removes a plain file that a crash has left beside the compressed one. False if the
        compressed one is gone, so that the plain one must be written again."""
        name = CopyName(export.agent_id, export.session_id)
        plain, compressed = await self._disk.run(self._files.sizes, [name, name.compressed])
        for size in (plain, compressed):
            if isinstance(size, Exception):
                raise size
        if compressed is None:
            return False
        if plain is not None:
            await self._disk.run(self._files.remove, name)
        return True


def _compress(files: Files, name: CopyName, size: int) -> bool:
    """Compresses a file only if it is as the ledger knows it: one that somebody has changed is
    repaired first."""
    if files.sizes([name]) != [size]:
        return False
    packer = zstd().ZstdCompressor(level=LEVEL)
    draft = files.draft(name.compressed)
    try:
        for at in range(0, size, CHUNK_BYTES):
            draft.write(packer.compress(files.read(name, at, min(CHUNK_BYTES, size - at))))
        draft.write(packer.flush())
        draft.replace()
    except BaseException:
        draft.drop()
        raise
    return True
