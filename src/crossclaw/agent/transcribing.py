"""Transcribing: voice notes as text for the model (`tools.media.audio`).

It is done by the run, after the message was accepted: no other chat waits for it. The text is an
entry of the session, behind the message with the recording, so it is paid for once and stays
through restarts and compactions. If transcribing failed, the entry says so.
"""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread

from crossclaw.config.current import CurrentConfig
from crossclaw.config.media import MediaModel
from crossclaw.disk.private import make_folder, new_binary_file
from crossclaw.domain.attachments import is_recording
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.domain.media import Media
from crossclaw.domain.messages import AssistantMessage, Document, UserMessage
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.ledger.contract import Ledger
from crossclaw.providers.speech import SpeechEndpoint, SpeechRequest, file_name, transcribe
from crossclaw.runs.run_store import RunStore
from crossclaw.sandbox.contract import Wrapped
from crossclaw.sandbox.environment import host_environment
from crossclaw.sandbox.programs import run_program

log = logging.getLogger(__name__)

WORDS_CHARS_MAX = 100_000
NOBODY = "tools.media.audio names nobody who writes it down"
USUAL = {"openai": "gpt-4o-mini-transcribe", "groq": "whisper-large-v3-turbo"}

FindEndpoint = Callable[[str], SpeechEndpoint]
"""The speech endpoint of a provider by its name; raises ProviderError if it has none."""


class Transcribing:
    def __init__(
        self,
        config: CurrentConfig,
        find_endpoint: FindEndpoint,
        run_store: RunStore,
        ledger: Ledger,
        clock: Clock,
    ) -> None:
        self._config, self._find_endpoint = config, find_endpoint
        self._run_store, self._ledger, self._clock = run_store, ledger, clock

    async def transcribe(self, run: Run, entries: Sequence[Entry]) -> None:
        """Transcribes the recordings that came since the model's last answer."""
        fresh = _since_last_answer(entries)
        done = {entry.entry_id for entry in fresh}
        for entry in fresh:
            said = entry.message
            if not isinstance(said, UserMessage) or isinstance(said.content, str):
                continue
            sounds = [block for block in said.content if is_recording(block)]
            for number, block in enumerate(sounds):
                entry_id = sha256(f"{entry.entry_id}:{number}".encode()).hexdigest()[:8] + "t"
                if entry_id not in done and isinstance(block, Document):
                    words = await self._words(block)
                    message = UserMessage(words, self._clock.now_ms(), said.provenance)
                    await self._run_store.append(run, NewEntry(entry_id=entry_id, message=message))

    async def _words(self, block: Document) -> str:
        name = block.title or "the recording"
        media = await self._ledger.find_media(block.source.sha256 or "")
        if media is None:
            return f"[There is no transcript of {name}: its bytes are not there any more.]"
        failed = list[str]()
        for model in self._config.tools.media.transcribers:
            try:
                by, words = await self._by(model, media)
            except CrossclawError as error:
                by = model.provider or Path(model.command or "").name
                log.warning("a recording was not transcribed by %s: %s", by, error)
                failed.append(str(error))
                continue
            return f"[Transcript of {name}, by {by}; words can be misheard:]\n{words}"
        return f"[There is no transcript of {name}: {'; '.join(failed) or NOBODY}.]"

    async def _by(self, model: MediaModel, media: Media) -> tuple[str, str]:
        audio = self._config.tools.media.audio
        limit = model.max_bytes or audio.max_bytes
        if len(media.data) > limit:
            raise Invalid(f"it has {len(media.data):,} bytes; {limit:,} are allowed")
        timeout_s = model.timeout_seconds or audio.timeout_seconds
        if model.type == "cli":
            by = Path(model.command or "").name
            words = await _by_program(model, media, timeout_s)
        else:
            endpoint = self._find_endpoint(model.provider or "")
            named = model.model or USUAL.get(endpoint.name, "whisper-1")
            by = f"{endpoint.name}/{named}"
            language, prompt = model.language or audio.language, model.prompt or audio.prompt
            asked = SpeechRequest(media, named, language, prompt, timeout_s)
            words = await transcribe(endpoint, asked)
        most = min(model.max_chars or audio.max_chars or WORDS_CHARS_MAX, WORDS_CHARS_MAX)
        return by, words if len(words) <= most else f"{words[:most]} …"


def _since_last_answer(entries: Sequence[Entry]) -> list[Entry]:
    fresh = list[Entry]()
    for entry in reversed(entries):
        if isinstance(entry.message, AssistantMessage):
            break
        fresh.append(entry)
    return fresh[::-1]


async def _by_program(model: MediaModel, media: Media, timeout_s: float) -> str:
    if not model.command:
        raise Invalid("tools.media.audio.models: a model of type cli needs a command")
    folder = await anyio.to_thread.run_sync(_folder_with, media)
    try:
        path = Path(folder.name) / file_name(media)
        filled = [_filled(each, path) for each in (model.command, *model.args)]
        # What it prints beside the words is for a terminal.
        argv = ["/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh", *filled]
        wrapped = Wrapped(argv, host_environment(os.environ, ()), path.parent)
        finished = await run_program(wrapped, timeout_s, lambda _words: None)
        name = Path(model.command).name
        if finished.exit_code != 0:
            raise Invalid(f"{name} failed: {finished.ended_because or f'exit code {finished.exit_code}'}")  # fmt: skip
        words = await anyio.to_thread.run_sync(_written, path.parent / "out")
        found = (words or finished.output).strip()
        if not found:
            raise Invalid(f"{name} wrote no words")
        return found
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(folder.cleanup)


def _folder_with(media: Media) -> "TemporaryDirectory[str]":
    folder = TemporaryDirectory(prefix="crossclaw-recording-", ignore_cleanup_errors=True)
    with new_binary_file(Path(folder.name) / file_name(media)) as file:
        file.write(media.data)
    make_folder(Path(folder.name) / "out")
    return folder


def _filled(argument: str, path: Path) -> str:
    out = path.parent / "out"
    known = {"MediaPath": path, "MediaDir": path.parent, "OutputDir": out, "OutputBase": out / path.stem}  # fmt: skip
    argument = os.path.expanduser(argument) if argument.startswith("~/") else argument
    for name, value in known.items():
        argument = argument.replace("{{" + name + "}}", str(value))
    return argument


def _written(folder: Path) -> str:
    with suppress(OSError):
        for file in sorted(folder.glob("*.txt")):
            with file.open("rb") as opened:
                return opened.read(4 * WORDS_CHARS_MAX).decode("utf-8", "replace")
    return ""
