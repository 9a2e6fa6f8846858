"""Media: who writes down what people say in voice notes."""

from typing import Literal

import msgspec

from crossclaw.config.section import Loose, Positive, Section, names
from crossclaw.config.session import SendPolicy

Understood = Literal["image", "audio", "video"]


class MediaModel(Section, frozen=True):
    """A service, or a program of this machine."""

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
    """Its arguments; `{{MediaPath}}` is the recording, `{{MediaDir}}` its folder, `{{OutputDir}}` a folder to write
    to, `{{OutputBase}}` a file in it without its ending."""
    capabilities: tuple[Understood, ...] | None = None
    """What it is for; unset: the list in which it stands."""
    prompt: str | None = None
    """Words that the service is given beside the recording, such as names."""
    language: str | None = None
    """What is spoken, as `de` or `en`."""
    max_chars: Positive | None = None
    """The longest transcript."""
    max_bytes: Positive | None = None
    """The largest recording."""
    timeout_seconds: Positive | None = None
    """How long it may take."""
    local = names("command args")
    unused = names("profile preferredProfile baseUrl headers providerOptions deepgram request")


class AudioMedia(Section, frozen=True):
    """What is set here holds for each model that does not say otherwise."""

    enabled: bool | None = None
    """`false`: recordings are not written down. Unset: they are, where a model is listed."""
    models: tuple[MediaModel, ...] = ()
    """Who writes them down: the first that can; the next when it fails."""
    scope: SendPolicy = SendPolicy()
    """In which chats."""
    prompt: str | None = None
    """Words that the service is given beside the recording, such as names."""
    language: str | None = None
    """What is spoken, as `de` or `en`; unset: found out by the model."""
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
        """Empty: nothing is written down."""
        if self.audio.enabled is False:
            return ()
        own = [each for each in self.audio.models if "audio" in (each.capabilities or ("audio",))]
        shared = [each for each in self.models if "audio" in (each.capabilities or ())]
        return (*own, *shared)
