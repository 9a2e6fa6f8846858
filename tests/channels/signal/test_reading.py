"""What signal-cli writes, as messages; what a message becomes for it; and what its refusals mean."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.channels.signal.client import SignalRefusal
from crossclaw.channels.signal.manifest import normalize_sender, read_target
from crossclaw.channels.signal.meaning import of_refusal
from crossclaw.channels.signal.reading import SignalSelf, SkippedEnvelope, read_envelope
from crossclaw.channels.signal.styles import read_styles
from crossclaw.display.dialects import DIALECTS
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.errors import DeliveryUncertain
from tests.channels.signal.fake import ACCOUNT, GROUP, OWN_UUID, failed
from tests.chunking import chunks

pytestmark = pytest.mark.spec("N4")

US = SignalSelf(ACCOUNT, OWN_UUID)
ANN, ANN_UUID = "+4915112345678", "aaaaaaaa-1111-4222-8333-444444444444"


def envelope(data: Any = None, **more: Any) -> dict[str, Any]:
    source = {"sourceNumber": ANN, "sourceUuid": ANN_UUID, "sourceName": "Ann", "timestamp": 5}
    words = {"timestamp": 1700000000005, "message": "hello"}
    message = {} if data is None else {"dataMessage": words | data}
    return {"envelope": {**source, **message, **more}, "account": ACCOUNT}


def read(params: Any) -> Inbound:
    found = read_envelope(params, US, "default")
    assert isinstance(found, Inbound), found
    return found


@pytest.mark.spec("N8")
def test_a_person_is_one_by_number_and_uuid() -> None:
    said = read(envelope({}))
    assert (said.sender, said.sender_aliases) == (ANN, (f"uuid:{ANN_UUID}",))
    assert (said.address.to, said.message_id, said.chat_type) == (ANN, "1700000000005", "direct")
    hidden = read(envelope({}, sourceNumber=None))
    assert (hidden.sender, hidden.address.to) == (f"uuid:{ANN_UUID}", f"uuid:{ANN_UUID}")


@pytest.mark.spec("N8")
def test_a_groups_id_is_kept_as_it_is_and_mentions_are_names() -> None:
    us = {"start": 0, "length": 1, "uuid": OWN_UUID.upper(), "number": None, "name": "bot"}
    bob = {"start": 6, "length": 1, "uuid": "x", "number": "+4915100000007", "name": "Bob"}
    group = {"groupId": GROUP, "groupName": "Team", "type": "DELIVER", "revision": 3}
    text = "\ufffc 🦀 a\ufffc"  # the crab is two units
    said = read(envelope({"message": text, "mentions": [us, bob], "groupInfo": group}))
    assert (said.text, said.mentioned) == ("🦀 a@Bob", True)
    assert (said.address.to, said.chat_id, said.chat_type) == (f"group:{GROUP}", GROUP, "group")
    other = read(envelope({"message": "\ufffc", "mentions": [bob | {"start": 0}]}))
    assert (other.mentioned, other.mentions_others) == (False, True)


@pytest.mark.spec("N8")
def test_edits_deletions_reactions_replies_and_files_are_told_apart() -> None:
    edit = {"targetSentTimestamp": 9, "dataMessage": {"timestamp": 11, "message": "better"}}
    changed = read(envelope(editMessage=edit))
    assert (changed.text, changed.edit_of, changed.message_id) == ("better", "9", "11")
    gone = read(envelope({"message": None, "remoteDelete": {"timestamp": 9}}))
    assert gone.deletion_of == "9"
    heart = {"emoji": "❤", "targetSentTimestamp": 9, "isRemove": False}
    liked = read(envelope({"message": None, "reaction": heart}))
    assert (liked.text, liked.reaction_to) == ("❤", "9")
    quote = {"id": 9, "authorNumber": None, "authorUuid": OWN_UUID, "text": "a question"}
    reply = read(envelope({"quote": quote})).reply_to
    assert reply is not None
    assert (reply.message_id, reply.ours, reply.text) == ("9", True, "a question")
    voice = {"id": "abc.aac", "contentType": "audio/aac", "filename": None, "size": 4}
    (file,) = read(envelope({"message": None, "attachments": [voice]})).attachments
    assert (file.kind, file.voice, file.size) == ("audio", True, 4)


@pytest.mark.spec("N8", "B4")
@pytest.mark.parametrize(
    "params",
    [
        envelope({}, sourceNumber=ACCOUNT, sourceUuid=None),
        envelope({}, sourceNumber=None, sourceUuid=OWN_UUID),
        envelope({}) | {"account": "+4915100000009"},
        envelope(typingMessage={"action": "STARTED"}),
        envelope(receiptMessage={"isRead": True}),
        envelope(syncMessage={"sentMessage": {"message": "x"}}),
        envelope({"message": "", "storyContext": {"authorUuid": "x"}}),
        envelope({"message": None}),
        {"exception": {"message": "x", "type": "y"}, "account": ACCOUNT},
        None,
        [],
    ],
)
def test_our_own_words_and_what_is_no_message_start_nothing(params: Any) -> None:
    assert isinstance(read_envelope(params, US, "default"), SkippedEnvelope)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["message", "timestamp", "mentions", "start"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(JSON, JSON)
def test_nothing_that_can_be_written_breaks_the_reading(data: Any, mentions: Any) -> None:
    for params in (data, envelope({"mentions": mentions}), {"envelope": {"dataMessage": data}}):
        assert isinstance(read_envelope(params, US, "default"), Inbound | SkippedEnvelope)


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    ("markdown", "text", "ranges"),
    [
        ("plain", "plain", ()),
        ("🦀 **bold** x", "🦀 bold x", ("3:4:BOLD",)),
        ("**a *b***", "a b", ("0:3:BOLD", "2:1:ITALIC")),
        ("`x` ~~y~~", "x y", ("0:1:MONOSPACE", "2:1:STRIKETHROUGH")),
        ("```\nf()\n```", "f()", ("0:3:MONOSPACE",)),
    ],
)
def test_marks_become_ranges_in_utf16_units(
    markdown: str, text: str, ranges: tuple[str, ...]
) -> None:
    (formatted,) = chunks(markdown, DIALECTS["signal"])
    assert read_styles(formatted) == (text, ranges)


@given(st.text(alphabet="\ufdd0\ufdd1\ufdd2\ufdd3\ufdd6\ufdd7 a🦀\n", max_size=12))
def test_no_range_leads_beyond_the_text(formatted: str) -> None:
    words = read_styles(formatted)
    units = len(words.text.encode("utf-16-le")) // 2
    for each in words.ranges:
        start, length, _ = each.split(":")
        assert int(length) > 0
        assert int(start) + int(length) <= units


@pytest.mark.spec("N9")
@pytest.mark.parametrize(
    ("number", "data", "means"),
    [
        (-5, failed("RATE_LIMIT_FAILURE", retryAfterSeconds=30), (True, 30.0, False)),
        (-5, None, (True, 60.0, False)),
        (-1, failed("UNREGISTERED_FAILURE"), (False, None, True)),
        (-4, None, (False, None, True)),
        (-32602, None, (False, None, False)),
        (-1, "rate limit -5 UNREGISTERED_FAILURE", (False, None, False)),
    ],
)
def test_a_refusal_means_what_its_number_and_kind_say(number: int, data: Any, means: Any) -> None:
    error = of_refusal(SignalRefusal(number, "words that mean nothing: rate limit", data))
    assert (error.retryable, error.retry_after_s, error.chat_gone) == means
    assert not isinstance(error, DeliveryUncertain)


@pytest.mark.spec("N9", "B2")
@pytest.mark.parametrize(("number", "data"), [(-3, None), (-1, failed("NETWORK_FAILURE"))])
def test_what_was_on_its_way_to_signal_is_uncertain(number: int, data: Any) -> None:
    assert isinstance(of_refusal(SignalRefusal(number, "", data)), DeliveryUncertain)


@pytest.mark.spec("N9")
def test_spellings_of_targets_and_of_senders() -> None:
    for text, to in {
        "+49 151 12345678": ANN,
        f"signal:{ANN}": ANN,
        ANN_UUID.upper(): f"uuid:{ANN_UUID}",
        f"group:{GROUP}": f"group:{GROUP}",
        "u:ann.42": "username:ann.42",
    }.items():
        target = read_target(text)
        assert target is not None
        assert target.to == to
    assert read_target("Ann") is None
    assert [normalize_sender(each) for each in ("ann", "0151123456", "username:ann")] == [None] * 3
