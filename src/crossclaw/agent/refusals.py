"""Refusals: which messages a service means when it refuses a request for its content.

A service that names a place in the request means one message; where it only mentions pictures,
those come first that no model has answered yet. What is found is replaced by a note, so that no
message blocks its session.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from crossclaw.agent.view import is_picture
from crossclaw.domain.errors import ProviderRefused
from crossclaw.domain.messages import AssistantMessage, Document, Image, Message, UserMessage
from crossclaw.domain.sessions import Entry
from crossclaw.providers.contract import Part, Turn, UserTurn

_PICTURES = re.compile(
    r"image|picture|media.?type|base64|pixel|vision|multimodal|\bpdf\b|document|\bfile\b",
    re.IGNORECASE,
)
"""Words with which services refuse a picture or a file."""

_Shown = Image | Document


NAMED_MAX = 2  # services name one picture at a time; many bad ones must not take many calls


class Refusal(NamedTuple):
    error: ProviderRefused
    sent: Sequence[Turn]
    """The turns as they were sent."""
    view: Sequence[Turn]
    """The same turns with pictures as the history has them."""
    times: int = 0
    """How often the same request was refused before, each time without what was found then."""


def refused_pictures(refusal: Refusal, entries: Sequence[Entry], gone: Iterable[int]) -> list[int]:
    """Seqs of the messages whose pictures are replaced: the named one; else, if the refusal
    mentions pictures at all, those that no model has answered since, else all."""
    found = {e.seq: pictures_in(e.message) for e in entries if e.seq not in set(gone)}
    if refusal.times < NAMED_MAX and (named := _named(refusal)):
        return [seq for seq, pictures in found.items() if any(p in named for p in pictures)]
    if not _PICTURES.search(str(refusal.error)):
        return []
    shown = [seq for seq, pictures in found.items() if pictures]
    answered = max((e.seq for e in entries if is_answer(e)), default=0)
    return [seq for seq in shown if seq > answered] or shown


def unanswered(entries: Sequence[Entry], gone: Iterable[int], run_id: str) -> list[int]:
    """Seqs of the messages since the last answer, except those of this run."""
    answered = max((e.seq for e in entries if is_answer(e)), default=0)
    left_out = set(gone)
    return [
        entry.seq
        for entry in entries
        if entry.seq > answered
        and entry.seq not in left_out
        and entry.run_id != run_id
        and isinstance(entry.message, UserMessage)
    ]


def is_answer(entry: Entry) -> bool:
    message = entry.message
    return isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted")


def pictures_in(message: Message | None) -> list[_Shown]:
    """The pictures and files of a message."""
    content = None if message is None else message.content
    if not isinstance(content, list):
        return []
    return [
        block if isinstance(block, Document) else msgspec.convert(block, Image)
        for block in content
        if is_picture(block)
    ]


def _named(refusal: Refusal) -> list[_Shown]:
    """The pictures inside the part of the request that the service has named. The picture that was
    sent may differ from the one in the history, but has the same place."""
    texts = list(_texts(refusal.error.part))
    pairs = (
        (sent, own)
        for turn, shown in zip(refusal.sent, refusal.view, strict=False)
        for sent, own in zip(_blocks(turn), _blocks(shown), strict=False)
    )
    return [
        own
        for sent, own in pairs
        if isinstance(sent, _Shown) and isinstance(own, _Shown) and _is_in(sent, texts)
    ]


def _is_in(picture: _Shown, texts: Sequence[str]) -> bool:
    data = picture.source.data or picture.source.url
    return data is not None and any(
        t.endswith(data) for t in texts
    )  # some write `data:…;base64,` before


def _blocks(turn: Turn) -> list[Part]:
    if not isinstance(turn, UserTurn):
        return []
    return [*(block for result in turn.results for block in result.content), *turn.content]


def _texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _texts(inner)
