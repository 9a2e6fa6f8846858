"""Laws of reading server-sent events: how a stream is cut does not matter, and another reader finds the same in it."""

from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.providers.event_stream import EventStream, EventTooLarge, StreamedEvent

FIELDS = st.sampled_from(["data", "event", "id", "retry", "", "other", " data", "data "])
VALUES = st.text(st.sampled_from("ab :ü\u2028{}"), max_size=6)
LINES = st.one_of(
    st.just(""),
    st.just(""),
    st.builds(lambda f, s, v: f + s + v, FIELDS, st.sampled_from([":", ": ", ""]), VALUES),
)
ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r"])
MARK = b"\xef\xbb\xbf"
BODIES = st.tuples(st.lists(st.tuples(LINES, ENDS)), st.sampled_from(["", "\n\n", "\r\r"])).map(
    lambda parts: ("".join(line + end for line, end in parts[0]) + parts[1]).encode()
)
STREAMS = st.tuples(st.sampled_from([b"", MARK, MARK[:2], MARK + MARK]), BODIES).map(b"".join)


def events_of(pieces: list[bytes]) -> list[StreamedEvent]:
    stream = EventStream(1_000)
    return [event for piece in pieces for event in stream.feed(piece)]


@given(STREAMS, st.lists(st.one_of(st.integers(0, 4), st.integers(0, 200))))
def test_how_a_stream_is_cut_does_not_matter(text: bytes, cuts: list[int]) -> None:
    """A place that is named twice is an empty piece there."""
    places = sorted([0, len(text), *(cut for cut in cuts if cut < len(text))])
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert events_of(pieces) == events_of([text])


@given(STREAMS)
def test_an_event_is_told_with_its_last_byte(text: bytes) -> None:
    """What has come is read as if nothing came any more: a reader that waits for more has nothing to hold back."""
    stream, told = EventStream(1_000), list[StreamedEvent]()
    for at in range(len(text)):
        told += stream.feed(text[at : at + 1])
        lines = text[: at + 1].removeprefix(MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, _ = lines.split(b"\n\n")
        assert len(told) == sum(map(_has_data, blocks))


def _has_data(block: bytes) -> bool:
    return any(line.partition(b":")[0] == b"data" for line in block.split(b"\n"))


@given(BODIES, st.sampled_from([b"\n\n", b"\r\r", b"\r\n\r\n"]))
def test_another_reader_finds_the_same_words(text: bytes, end: bytes) -> None:
    """httpx2's, which is others' code. It also tells events without data, may read on behind a last \\r, and knows no
    mark before the text."""
    text += end
    request = httpx2.Request("GET", "http://localhost")
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    response = httpx2.Response(200, headers=headers, content=text, request=request)
    theirs = [(e.event, e.data) for e in httpx2.EventSource(response) if e.data]
    ours = [(e.name or "message", e.data) for e in events_of([text]) if e.data]
    assert ours == theirs


@pytest.mark.parametrize(
    "pieces",
    [
        [MARK + b"data: x\n\n"],
        [b"", MARK + b"data: x\n\n"],
        [MARK[:1], b"", MARK[1:2], MARK[2:] + b"data: x\n\n"],
        [MARK, b"data: x\n\n"],
    ],
)
def test_a_mark_before_the_text_is_no_part_of_it(pieces: list[bytes]) -> None:
    assert events_of(pieces) == [StreamedEvent("", "x")]


def test_a_return_ends_its_line_at_once() -> None:
    stream = EventStream(1_000)
    assert stream.feed(b"data: a\r\r") == [StreamedEvent("", "a")]
    assert stream.feed(b"data: b\r") == []
    assert stream.feed(b"\n\r") == [StreamedEvent("", "b")]
    assert stream.feed(b"") == stream.feed(b"\n") == []  # the other half of what ended b
    assert stream.feed(b"data: c\n\n") == [StreamedEvent("", "c")]


def test_an_event_that_is_cut_by_the_end_is_not_told() -> None:
    assert events_of([b"data: a\n\ndata: b\n"]) == [StreamedEvent("", "a")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 1_001, b"data: " + b"x" * 1_001 + b"\n\n"])
def test_an_event_that_nobody_can_use_is_refused(piece: bytes) -> None:
    with pytest.raises(EventTooLarge):
        events_of([piece])
