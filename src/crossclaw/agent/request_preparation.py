"""What a run stores before it asks the model: changed files of the workspace, and the words of
recordings."""

from collections.abc import Sequence

from crossclaw.agent.session_files import SessionFiles
from crossclaw.agent.transcribing import Transcribing
from crossclaw.domain.ids import Ids
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry
from crossclaw.runs.run_store import RunStore


class RequestPreparation:
    def __init__(
        self, files: SessionFiles, transcribing: Transcribing, run_store: RunStore, ids: Ids
    ) -> None:
        self._files, self._transcribing = files, transcribing
        self._run_store, self._ids = run_store, ids

    async def write_down(self, run: Run, entries: Sequence[Entry]) -> None:
        """Transcribes the recordings that came since the model's last answer."""
        await self._transcribing.transcribe(run, entries)

    async def tell_changes(self, run: Run) -> None:
        """Stores a note about the workspace files that changed since the model last learned of
        them."""
        if changed := await self._files.changed(run):
            await self._run_store.append(run, self._files.entry(run, changed, self._ids.short()))
            self._files.note_reported(run)
