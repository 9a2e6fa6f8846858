"""Speech: transcribes a recording by a service with OpenAI's `/audio/transcriptions`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from crossclaw.domain.errors import KeyRefused, ProviderError, RateLimited
from crossclaw.domain.media import Media
from crossclaw.providers.failures import Failures
from crossclaw.providers.service import CallLimits, ModelService, clean_key, host_of

_ENDINGS = {
    "audio/mpeg": "mp3", "audio/wav": "wav", "audio/flac": "flac", "audio/mp4": "m4a", "audio/webm": "webm",
}  # fmt: skip


class SpeechEndpoint(NamedTuple):
    name: str
    base_url: str
    keys: Sequence[str]
    headers: dict[str, str]


class SpeechRequest(NamedTuple):
    recording: Media
    model: str
    language: str | None = None
    prompt: str | None = None
    timeout_s: float = 60.0


async def transcribe(endpoint: SpeechEndpoint, request: SpeechRequest) -> str:
    """The text of a recording. If a key is refused or limited, the next is used."""
    *others, last = endpoint.keys
    for key in others:
        try:
            return await _transcribe(endpoint, key, request)
        except (KeyRefused, RateLimited):
            continue
    return await _transcribe(endpoint, last, request)


def file_name(recording: Media) -> str:
    """A file name for a recording: services recognise its kind by the ending."""
    ending = _ENDINGS.get(recording.media_type) or recording.media_type.rpartition("/")[2]
    return f"recording.{ending}"


async def _transcribe(endpoint: SpeechEndpoint, key: str, request: SpeechRequest) -> str:
    key = clean_key(endpoint.name, key)
    host = host_of(endpoint.name, endpoint.base_url)
    failures = Failures(endpoint.name, host, "OpenAI's transcriptions", key)
    url = f"{endpoint.base_url.rstrip('/')}/audio/transcriptions"
    headers = {"Authorization": f"Bearer {key}", **endpoint.headers}
    limits = CallLimits(retries=0, silence_s=request.timeout_s, timeout_s=request.timeout_s)
    service = ModelService(failures, url, headers, limits)
    fields = {"model": request.model, "response_format": "json"}
    fields |= {"language": request.language} if request.language else {}
    fields |= {"prompt": request.prompt} if request.prompt else {}
    file = (file_name(request.recording), request.recording.data, request.recording.media_type)
    try:
        words = await service.post_form(url, {"data": fields, "files": {"file": file}}, _words)
    finally:
        await service.close()
    if not words:
        raise ProviderError(f"{endpoint.name} heard no words")
    return words


def _words(answer: Any) -> str:
    words = answer["text"]
    if not isinstance(words, str):
        raise TypeError("the text of a transcription is no text")
    return words.strip()
