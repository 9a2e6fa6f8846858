"""Media: which models transcribe voice notes."""

from typing import Literal

import msgspec

from crossclaw.config.section import Loose, Section, names
from crossclaw.config.session import SendPolicy
from crossclaw.domain.aliases import Positive

Understood = Literal["image", "audio", "video"]


class MediaModel(Section, frozen=True):
    """A model that transcribes: a service, or a program of this machine."""

    type: Literal["provider", "cli"] = "provider"
    """A service of `models.providers`, or a program."""
    provider: str | None = None
    """The service, which must know OpenAI's `/audio/transcriptions`; its address and key are those of
    `models.providers`."""
    model: str | None = None
    """The model; unset: `gpt-4o-mini-transcribe` at OpenAI, `whisper-large-v3-turbo` at Groq, else `whisper-1`."""
    command: str | None = None
    """The program. It ends with 0 and prints the words, or writes them into a `.txt` file in `{{OutputDir}}`."""
    args: tuple[str, ...] = ()
    """The program's arguments; `{{MediaPath}}` is the recording, `{{MediaDir}}` its folder, `{{OutputDir}}` a
    folder to write to, `{{OutputBase}}` a file in it without its ending."""
    capabilities: tuple[Understood, ...] | None = None
    """The kinds of media it is for; unset: that of the list in which it stands."""
    prompt: str | None = None
    """Words that the service is given beside the recording, such as names."""
    language: str | None = None
    """The spoken language, as `de` or `en`."""
    max_chars: Positive | None = None
    """The longest transcript."""
    max_bytes: Positive | None = None
    """The largest recording."""
    timeout_seconds: Positive | None = None
    """How long it may take."""
    local = names("command args")
    unused = names("profile preferredProfile baseUrl headers providerOptions deepgram request")


class AudioMedia(Section, frozen=True):
    """Transcription of recordings. These settings hold for each model that does not override them."""

    enabled: bool | None = None
    """Whether recordings are transcribed; unset: they are, if a model is listed."""
    models: tuple[MediaModel, ...] = ()
    """The models that transcribe: the first that can; the next when it fails."""
    scope: SendPolicy = SendPolicy()
    """The chats whose recordings are transcribed."""
    prompt: str | None = None
    """Words that the service is given beside the recording, such as names."""
    language: str | None = None
    """The spoken language, as `de` or `en`; unset: found out by the model."""
    max_chars: Positive | None = None
    """The longest transcript; unset: 100,000 characters."""
    max_bytes: Positive = 20 * 1024 * 1024
    """The largest recording; a channel's `mediaMaxMb`, and 16 MB, hold beside it."""
    timeout_seconds: Positive = 60
    """How long one model may take."""
    unused = names(
        "attachments echoTranscript echoFormat baseUrl headers providerOptions deepgram request"
    )


class MediaTools(Section, frozen=True):
    models: tuple[MediaModel, ...] = ()
    """Shared models; those whose `capabilities` name `audio` come after the models of `audio`."""
    audio: AudioMedia = AudioMedia()
    """Voice notes and sound files."""
    image: Loose = msgspec.field(default_factory=Loose)
    """No effect: models look at pictures themselves, or `agents.defaults.imageModel` does."""
    video: Loose = msgspec.field(default_factory=Loose)
    """No effect."""
    idle = names("image video")
    unused = names("concurrency")

    @property
    def transcribers(self) -> tuple[MediaModel, ...]:
        """The models that transcribe, in order; empty: nothing is transcribed."""
        if self.audio.enabled is False:
            return ()
        own = [each for each in self.audio.models if "audio" in (each.capabilities or ("audio",))]
        shared = [each for each in self.models if "audio" in (each.capabilities or ())]
        return (*own, *shared)
