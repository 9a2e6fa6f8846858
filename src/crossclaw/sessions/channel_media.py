"""Attachments of a chat message: fetched within limits, recognised by their content, and given to the model
as a picture, as a file, or as a note that says what it was."""

from collections.abc import Sequence

import anyio
import anyio.to_thread
import msgspec

from crossclaw.channels.accounts import LiveAccount
from crossclaw.domain.addresses import Attachment
from crossclaw.domain.attachments import BYTES_MAX, attached, sound_type
from crossclaw.domain.errors import CrossclawError, Invalid, MediaRefused
from crossclaw.domain.media import carrying
from crossclaw.domain.messages import Document, Image, MediaSource, UserBlock

FETCH_S = 60.0  # for all that came with one message; the chat waits meanwhile
SMALL_BYTES = 256 * 1024  # what is larger is looked at in a thread
COUNT_MAX = 10  # of one message


class FetchedMedia(msgspec.Struct):
    blocks: list[UserBlock] = []
    notes: list[str] = []
    """Notes about attachments that a model cannot look at."""

    def under(self, text: str) -> str:
        return "\n".join(filter(None, [text, *self.notes]))


async def fetch_media(
    live: LiveAccount, attachments: Sequence[Attachment], recording_bytes_max: int = 0
) -> FetchedMedia:
    """Fetches a message's attachments. Never fails: a note describes what could not be fetched. Recordings
    are fetched only where they are transcribed."""
    found = FetchedMedia([], [])
    most = live.settings.media_max_mb or live.traits.media_max_mb
    with anyio.move_on_after(FETCH_S) as patience:
        for each in attachments[:COUNT_MAX]:
            sound = each.voice or each.kind == "audio"
            limit = min(int(most * 2**20), recording_bytes_max) if sound else int(most * 2**20)
            await _fetch_one(live, each, limit, found)
    if patience.cancelled_caught:
        found.notes.append("[A file came along; fetching it took too long.]")
    if len(attachments) > COUNT_MAX:
        found.notes.append(f"[{len(attachments) - COUNT_MAX} more files came along and were left.]")
    return found


async def _fetch_one(live: LiveAccount, what: Attachment, limit: int, found: FetchedMedia) -> None:
    sound = what.voice or what.kind == "audio"
    if what.kind == "video" or (sound and not limit):
        found.notes.append(f"[{_name(what)} came along; you cannot listen to it or watch it.]")
        return
    try:
        if what.size is not None and what.size > limit:
            raise MediaRefused(f"it has {what.size:,} bytes; {limit:,} are allowed")
        data = await live.account.fetch(what, limit)
        make = _recording if sound else _block
        if len(data) > SMALL_BYTES:
            found.blocks.append(await anyio.to_thread.run_sync(make, data, what))
        else:
            found.blocks.append(make(data, what))
    except Invalid as error:
        found.notes.append(f"[{_name(what)} came along, which cannot be read: {error}]")
    except CrossclawError as error:
        found.notes.append(f"[{_name(what)} came along and could not be fetched: {error}]")


def _block(data: bytes, what: Attachment) -> Image | Document:
    known = attached(data, what.mime, what.name)
    source = carrying(MediaSource("base64", known.media.media_type), known.media.data)
    return known.block(source)


def _recording(data: bytes, what: Attachment) -> Document:
    media_type = sound_type(data, what.mime)
    if media_type is None or len(data) > BYTES_MAX:
        raise Invalid(
            "it is no recording that is known" if media_type is None else "it is too long"
        )
    title = f"the {_name(what).partition(' ')[2]}"
    return Document(carrying(MediaSource("base64", media_type), data), title)


def _name(what: Attachment) -> str:
    kind = "A voice note" if what.voice else {"image": "A picture", "audio": "A sound file", "video": "A video", "sticker": "A sticker"}.get(what.kind, "A file")  # fmt: skip
    called = " ".join((what.name or "").split())[:80].replace("]", ")")
    return f"{kind} called {called}" if called else kind
