"""A voice note is written down after its message was accepted, and the model reads its words."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.agent.transcribing import Transcribing
from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.attachments import sound_type
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, UserMessage, words_of
from crossclaw.domain.secret import Secret
from crossclaw.providers.contract import ModelRequest, TellPiece, UserTurn
from crossclaw.providers.speech import SpeechEndpoint
from crossclaw.sessions import channel_media
from crossclaw.testing import MemoryChannel, open_gateway
from crossclaw.testing.fake_transcriptions import FakeTranscriptions

OGG = b"OggS\x00\x02" + b"\x01" * 64
VOICE = Attachment(kind="audio", id="voice", voice=True, mime="audio/ogg; codecs=opus")
BY_FAKE = {"provider": "mine", "model": "whisper-1"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # in real time: sockets and programs


def nobody(name: str) -> SpeechEndpoint:
    raise AssertionError(f"{name} is asked once more")


class Reading:
    """A model that notes what it is shown."""

    name = "reading"

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.asked = anyio.Event()

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        turns = [turn for turn in request.turns if isinstance(turn, UserTurn)]
        blocks = [block for turn in turns for block in turn.content]
        self.shown = [block.text if isinstance(block, Text) else "?" for block in blocks]
        self.asked.set()
        return AssistantMessage([Text("done")], stop_reason="end_turn")

    async def close(self) -> None:
        pass


class WithVoice(MemoryChannel):
    fetched = 0

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        self.fetched += 1
        return OGG


def spoken(number: int, **more: Any) -> Inbound:
    return Inbound(
        address=Address("memory", "7"),
        sender="7",
        text="",
        message_id=str(number),
        attachments=(VOICE,),
        **more,
    )


@asynccontextmanager
async def listening(
    folder: Path, model: Reading, audio: dict[str, Any], base_url: str = "http://127.0.0.1:9/v1"
) -> AsyncGenerator[tuple[Gateway, WithVoice]]:
    raw = {
        "tools": {"media": {"audio": audio}},
        "models": {"providers": {"mine": {"baseUrl": base_url, "apiKey": Secret("sk-test")}}},
    }
    config = msgspec.convert(raw, Config)
    memory = WithVoice(settings=ChannelSettings(dm_policy="allowlist", allow_from=("7",)))
    async with open_gateway(
        folder, model, config=config, channels=[memory], clock=SystemClock(), inline=False
    ) as gateway:
        yield gateway, memory


async def heard(folder: Path, audio: dict[str, Any], base_url: str = "http://127.0.0.1:9/v1") -> str:  # fmt: skip
    """What the model reads of a voice note."""
    model = Reading()
    async with listening(folder, model, audio, base_url) as (_gateway, memory):
        await memory.bring(spoken(1))
        with anyio.fail_after(20):
            await model.asked.wait()
    return "\n".join(model.shown)


async def test_a_service_writes_a_voice_note_down_once_and_its_words_stay_in_the_session(
    tmp_path: Path,
) -> None:
    model = Reading()
    with FakeTranscriptions("buy milk") as service:
        audio = {"models": [BY_FAKE], "language": "en", "prompt": "Milka"}
        async with listening(tmp_path, model, audio, service.base_url) as (gateway, memory):
            for number in (1, 2):
                model.asked = anyio.Event()
                await memory.bring(
                    spoken(1)
                    if number == 1
                    else msgspec.structs.replace(spoken(2), text="and?", attachments=())
                )
                with anyio.fail_after(20):
                    await model.asked.wait()
            session = await gateway.ledger.find_session(SessionKey.main("main"))
            assert session is not None
            entries = await gateway.ledger.list_entries(session.session_id, limit=9)
            # A run that was cut off behind the transcript finds it there.
            run = await gateway.ledger.find_run(entries[0].run_id or "")
            assert run is not None
            again = Transcribing(
                gateway.config, nobody, gateway.run_store, gateway.ledger, SystemClock()
            )
            await again.transcribe(run, entries[:2])

    said = [words_of(e.message) for e in entries if isinstance(e.message, UserMessage)]
    assert service.requests == [
        {"model": "whisper-1", "response_format": "json", "language": "en", "prompt": "Milka", "file": "recording.ogg"}
    ]  # fmt: skip
    assert service.files == [OGG]
    assert said[1].startswith("[Transcript of the voice note, by mine/whisper-1")
    assert "buy milk" in said[1]
    assert "buy milk" in "\n".join(model.shown)


async def test_a_message_is_accepted_while_its_voice_note_is_not_written_down_yet(
    tmp_path: Path,
) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    slow = {"type": "cli", "command": program[0], "args": program[1:], "timeoutSeconds": 500}
    async with listening(tmp_path, Reading(), {"models": [slow]}) as (gateway, memory):
        with anyio.fail_after(20):
            received = await memory.bring(spoken(1))
            assert received.run_id is not None
            run = await gateway.ledger.find_run(received.run_id)

    assert run is not None


async def test_a_program_writes_a_voice_note_down_by_what_it_prints_or_by_a_file(
    tmp_path: Path,
) -> None:
    code = "import sys, pathlib; print('progress', file=sys.stderr); d = pathlib.Path(sys.argv[1]).read_bytes(); print(f'heard {len(d)}')"
    prints = {"type": "cli", "command": sys.executable, "args": ["-c", code, "{{MediaPath}}"]}
    code = "import sys, pathlib; print('noise'); pathlib.Path(sys.argv[1] + '.txt').write_text('from a file')"
    writes = {"type": "cli", "command": sys.executable, "args": ["-c", code, "{{OutputBase}}"]}

    printed = await heard(tmp_path / "a", {"models": [prints]})
    written = await heard(tmp_path / "b", {"models": [writes]})

    assert f"heard {len(OGG)}" in printed
    assert "progress" not in printed
    assert "from a file" in written
    assert "noise" not in written


async def test_the_next_model_is_asked_when_one_fails_and_the_model_is_told_when_all_do(
    tmp_path: Path,
) -> None:
    missing = {"type": "cli", "command": "/nowhere/whisper"}
    with FakeTranscriptions("by the second") as service:
        second = await heard(tmp_path / "a", {"models": [missing, BY_FAKE]}, service.base_url)
        service.status = 500
        failed = await heard(tmp_path / "b", {"models": [missing, BY_FAKE]}, service.base_url)
        small = await heard(tmp_path / "c", {"models": [{**BY_FAKE, "maxBytes": 9}, missing]}, service.base_url)  # fmt: skip

    assert "by the second" in second
    assert "There is no transcript of the voice note: whisper failed" in failed
    assert "sk-test" not in failed
    assert "9 are allowed" in small


@pytest.mark.parametrize(
    "audio",
    [
        {},
        {"enabled": False, "models": [BY_FAKE]},
        {"models": [BY_FAKE], "scope": {"default": "deny"}},
    ],
)
async def test_nothing_is_fetched_where_nobody_writes_it_down(
    tmp_path: Path, audio: dict[str, Any]
) -> None:
    model = Reading()
    async with listening(tmp_path, model, audio) as (_gateway, memory):
        await memory.bring(spoken(1))
        with anyio.fail_after(20):
            await model.asked.wait()

    assert memory.fetched == 0
    assert "A voice note came along; you cannot listen to it" in "\n".join(model.shown)


def test_a_recording_is_known_by_its_bytes_and_not_by_what_it_is_called() -> None:
    assert sound_type(OGG, "text/html") == "audio/ogg"
    assert sound_type(b"#!AMR\n", "audio/amr; rate=8000") == "audio/amr"
    assert sound_type(b"\x7fELF", "audio/ogg") is None
    assert sound_type(b"words", "audio/x\r\n: y") is None


@pytest.mark.parametrize(
    ("data", "why"), [(b"\x7fELF", "no recording that is known"), (OGG * 2, "too long")]
)
def test_what_is_no_recording_and_what_is_too_long_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, data: bytes, why: str
) -> None:
    monkeypatch.setattr(channel_media, "BYTES_MAX", len(OGG))
    what = Attachment(kind="audio", id="1", voice=True)

    assert channel_media._recording(OGG, what).title == "the voice note"
    with pytest.raises(Invalid, match=why):
        channel_media._recording(data, what)
