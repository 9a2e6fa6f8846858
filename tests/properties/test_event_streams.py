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
STREAMS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\r\n", "\r"]))).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


def events_of(pieces: list[bytes]) -> list[StreamedEvent]:
    stream = EventStream(1_000)
    return [event for piece in pieces for event in stream.feed(piece)]


@given(STREAMS, st.lists(st.integers(0, 200)))
def test_how_a_stream_is_cut_does_not_matter(text: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert events_of(pieces) == events_of([text])


@given(STREAMS)
def test_another_reader_finds_the_same_words(text: bytes) -> None:
    """httpx2's, which is others' code. It also tells events without data, and may read on behind a last \\r."""
    text += b"\n\n"
    request = httpx2.Request("GET", "http://localhost")
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    response = httpx2.Response(200, headers=headers, content=text, request=request)
    theirs = [(e.event, e.data) for e in httpx2.EventSource(response) if e.data]
    ours = [(e.name or "message", e.data) for e in events_of([text]) if e.data]
    assert ours == theirs


def test_a_mark_before_the_text_is_no_part_of_it() -> None:
    assert events_of([b"\xef\xbb\xbfdata: x\n\n"]) == [StreamedEvent("", "x")]


def test_an_event_that_is_cut_by_the_end_is_not_told() -> None:
    assert events_of([b"data: a\n\ndata: b\n"]) == [StreamedEvent("", "a")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 1_001, b"data: " + b"x" * 1_001 + b"\n\n"])
def test_an_event_that_nobody_can_use_is_refused(piece: bytes) -> None:
    with pytest.raises(EventTooLarge):
        events_of([piece])
