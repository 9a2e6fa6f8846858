"""Old transcripts: their files are compressed and stay readable; the ledger has the entries anyway.

`<session id>.jsonl` becomes `<session id>.jsonl.zst`. The compressed file is in place before the ledger
says so, and the plain one leaves after: at every moment there is a whole one. A session that is
spoken to again gets its plain file back, written from the ledger.
"""

from crossclaw.disk.threads import Disk
from crossclaw.disk.zstd import zstd
from crossclaw.domain.clock import Clock
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Export, MarkCompressed
from crossclaw.transcripts.copies import Copies, Copy
from crossclaw.transcripts.files import Files, Name

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
        """False when the file is not what the ledger says, or somebody has written meanwhile: then
        nothing has changed."""
        name = Name(export.agent_id, export.session_id)
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
        """The session goes on: its plain file will be written anew."""
        await self._disk.run(self._files.remove, copy.name.compressed)
        copy.note_plain()

    async def tidy(self, export: Export) -> bool:
        """Of a compressed transcript: a plain file that a crash has left goes. False when the
        compressed one is gone, so that the plain one must come back."""
        name = Name(export.agent_id, export.session_id)
        plain, compressed = await self._disk.run(self._files.sizes, [name, name.compressed])
        for size in (plain, compressed):
            if isinstance(size, Exception):
                raise size
        if compressed is None:
            return False
        if plain is not None:
            await self._disk.run(self._files.remove, name)
        return True


def _compress(files: Files, name: Name, size: int) -> bool:
    """As the ledger knows the file, or not at all: what somebody has changed is repaired first."""
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
