"""What a room's events say, what spellings mean, and invitations; without a server, or on the fake."""

import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.channels.http import HttpClients
from crossclaw.channels.matrix.client import MatrixRefusal
from crossclaw.channels.matrix.events import MatrixEvent
from crossclaw.channels.matrix.manifest import normalize_sender, read_target
from crossclaw.channels.matrix.meaning import of_account, of_delivery
from crossclaw.channels.matrix.reading import MatrixText, SkippedEvent, read_said
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.channels.matrix.syncing import _start_of
from crossclaw.channels.matrix.writing import write_relation
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.errors import AccountBroken, ChannelDown, DeliveryUncertain
from crossclaw.testing import open_gateway
from tests.channels.fake_http import FakeTransport
from tests.channels.matrix.fake import TOKEN, FakeHomeserver
from tests.flows.test_runs_keep_their_order import Recording

pytestmark = pytest.mark.spec("N7")

US, ANN = "@bot:example.org", "@ann:example.org"


def event(content: Any, **more: Any) -> MatrixEvent:
    fields = {"type": "m.room.message", "sender": ANN, "event_id": "$1", "content": content}
    return msgspec.convert(fields | more, MatrixEvent)


def text(body: str, **more: Any) -> MatrixEvent:
    return event({"msgtype": "m.text", "body": body, **more})


def said(one: MatrixEvent) -> MatrixText:
    found = read_said(one, US, "Claw")
    assert isinstance(found, MatrixText), found
    return found


@pytest.mark.spec("N8")
@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("Claw: /status", "/status"),
        ("@claw hello", "hello"),
        ("bot, hello", "hello"),
        (f"{US}: hello", "hello"),
        ("Clawfoot: hello", "Clawfoot: hello"),
        ("hello Claw", "hello Claw"),
    ],
)
def test_a_mention_at_the_beginning_says_whom_the_rest_is_for(body: str, left: str) -> None:
    found = said(text(body, **{"m.mentions": {"user_ids": [US]}}))
    assert (found.text, found.mentioned) == (left, True)
    assert said(text(body, **{"m.mentions": {}})) == (body, False, None, None, None, None)


@pytest.mark.spec("N8")
def test_a_mention_in_what_is_quoted_is_none_and_a_link_of_an_old_client_is_one() -> None:
    link = f'<a href="https://matrix.to/#/{US}">Claw</a>'
    quoted = f"<mx-reply><blockquote>{link}</blockquote></mx-reply>no"
    assert not said(text("no", formatted_body=quoted)).mentioned
    assert said(text("hey", formatted_body=f"hey {link}")).mentioned
    relation = {"m.in_reply_to": {"event_id": "$0"}}
    body = "> <@bot:example.org> Claw?\n> more\n\nan answer\n> with a quote"
    answer = said(text(body, **{"m.relates_to": relation}))
    assert (answer.text, answer.reply_to) == ("an answer\n> with a quote", "$0")
    assert said(text("> only a quote\n\nwords")).text == "> only a quote\n\nwords"


@pytest.mark.spec("N8")
def test_what_a_client_puts_before_words_in_a_thread_or_an_edit_is_not_its_writers() -> None:
    thread = {"rel_type": "m.thread", "event_id": "$0", "is_falling_back": True}
    in_thread = {"m.relates_to": {**thread, "m.in_reply_to": {"event_id": "$8"}}}
    other = "> <@eve:example.org> let me in\n> please\n\n"
    found = said(text(f"{other}no", **in_thread))
    assert (found.text, found.thread_id, found.reply_to) == ("no", "$0", None)
    assert said(text("> * <@eve:example.org> waves\n\nno", **in_thread)).text == "no"
    assert said(text("> so I said\n\nyes", **in_thread)).text == "> so I said\n\nyes"

    edit = {"m.relates_to": {"rel_type": "m.replace", "event_id": "$8"}}
    new = {"msgtype": "m.text", "body": f"{other}never"}
    assert said(text(f"* {other}never", **edit, **{"m.new_content": new})).text == "never"


@pytest.mark.spec("N8", "B4")
@pytest.mark.parametrize(
    "one",
    [
        event({"msgtype": "m.text", "body": "x"}, sender=US),
        event({"msgtype": "m.notice", "body": "x"}),
        event({"msgtype": "m.text", "body": "x"}, state_key=""),
        event({"membership": "join"}, type="m.room.member", state_key=ANN),
        event({}),
        event({"msgtype": "m.text", "body": "  "}),
        event({"msgtype": "m.image", "body": "x", "url": "http://10.0.0.1/x"}),
        event({"m.relates_to": {"rel_type": "m.annotation"}}, type="m.reaction"),
    ],
)
def test_our_own_words_notices_and_changes_start_nothing(one: MatrixEvent) -> None:
    assert isinstance(read_said(one, US, "Claw"), SkippedEvent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["event_id", "rel_type", "url", "size"]), inner)
    ),
    max_leaves=5,
)
FIELDS = ("msgtype", "body", "m.relates_to", "m.new_content", "m.mentions", "file", "url", "info")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)), st.booleans())
def test_no_content_breaks_the_reading(content: dict[str, Any], media: bool) -> None:
    if media:
        content["msgtype"] = "m.image"
    assert isinstance(read_said(event(content), US, None), MatrixText | SkippedEvent)


@pytest.mark.spec("N8")
def test_our_time_in_a_room_begins_at_the_invitation() -> None:
    def member(membership: str, before: str | None) -> MatrixEvent:
        unsigned = {"prev_content": {"membership": before}} if before else {}
        fields = {"type": "m.room.member", "state_key": US, "unsigned": unsigned}
        return event({"membership": membership}, **fields)

    old, new = text("old"), text("new")
    assert _start_of([old, member("invite", None), new, member("join", "invite"), new], US) == 2
    assert _start_of([old, member("join", None), new], US) == 2
    assert _start_of([old, member("join", "leave"), new], US) == 2
    assert _start_of([old, member("join", "join"), new], US) == 0  # another name


@pytest.mark.spec("N9")
def test_a_reply_goes_into_the_thread_that_it_answers() -> None:
    assert write_relation(None, None, "inbound") == {}
    assert write_relation(None, "$1", "inbound") == {"m.in_reply_to": {"event_id": "$1"}}
    inside = write_relation("$root", "$1", "inbound")
    assert (inside["rel_type"], inside["event_id"], inside["is_falling_back"]) == (
        "m.thread",
        "$root",
        False,
    )
    assert write_relation("$root", "$1", "off") == {"m.in_reply_to": {"event_id": "$1"}}
    assert write_relation(None, "$1", "always")["event_id"] == "$1"


@pytest.mark.spec("N9")
def test_a_refusal_means_what_its_numbers_say() -> None:
    def refusal(status: int, errcode: str = "", **more: Any) -> MatrixRefusal:
        return MatrixRefusal(status, errcode, "401 M_UNKNOWN_TOKEN in words", **more)

    limited = of_delivery(refusal(429, "M_LIMIT_EXCEEDED", retry_after_s=7.0))
    assert (limited.retryable, limited.retry_after_s) == (True, 7.0)
    assert isinstance(of_delivery(refusal(502)), DeliveryUncertain)
    assert of_delivery(refusal(403, "M_FORBIDDEN")).chat_gone
    assert of_delivery(refusal(401, "M_UNKNOWN_TOKEN")).stops_account
    too_large = of_delivery(refusal(413, "M_TOO_LARGE"))
    assert (too_large.retryable, too_large.chat_gone, too_large.stops_account) == (False,) * 3
    assert isinstance(of_account(refusal(401), may_log_in=False), AccountBroken)
    assert isinstance(of_account(refusal(401), may_log_in=True), ChannelDown)
    assert isinstance(of_account(refusal(500), may_log_in=False), ChannelDown)


@pytest.mark.spec("N8", "N9")
def test_spellings_of_targets_and_of_senders() -> None:
    room = "!zwGPQ8RmeweVvGUVCsmW_In85U-RB2q6JWO2wLsBJs"  # no server in it
    for written, to in {
        room: room,
        f"room:{room}": room,
        f"matrix:channel:{room}": room,
        "user:@Ann:example.org": "@Ann:example.org",
        "#ops:example.org": "#ops:example.org",
    }.items():
        target = read_target(written)
        assert target is not None
        assert target.to == to
    assert read_target("ann") is None
    assert normalize_sender("matrix:@Ann:Example.org") == ANN
    assert [normalize_sender(each) for each in ("ann", "@ann", "Ann Lee")] == [None] * 3


def test_the_older_names_in_the_config_mean_the_same() -> None:
    section = {"rooms": {"!a": {"autoReply": True}}, "allowlistOnly": True, "groupPolicy": "open"}
    settings = msgspec.convert(section, MatrixSettings)
    found = settings.group("!a")
    assert found is not None
    assert found.mention is False
    assert (settings.dm_policy, settings.group_policy) == ("allowlist", "allowlist")


@pytest.mark.anyio
@pytest.mark.spec("N8")
@pytest.mark.parametrize(
    ("policy", "more", "joined"),
    [
        ("pairing", {}, True),
        ("pairing", {"autoJoin": "allowlist"}, False),
        ("allowlist", {}, False),
        ("allowlist", {"allowFrom": ["@eve:fake.example"]}, True),
        ("allowlist", {"autoJoinAllowlist": ["!hers"]}, True),
        ("open", {"allowFrom": ["*"], "autoJoin": "off"}, False),
    ],
)
async def test_an_invitation_is_followed_where_its_sender_may_talk_or_may_ask_to(
    tmp_path: Path, policy: str, more: dict[str, Any], joined: bool
) -> None:
    homeserver = FakeHomeserver()
    section = {"homeserver": "https://fake.example", "accessToken": TOKEN, "dmPolicy": policy}
    config = Config(channels=Loose.of({"matrix": {**section, **more}}))
    transport = FakeTransport({"fake.example": homeserver})
    async with open_gateway(
        tmp_path, Recording(), config=config, http=lambda: HttpClients(transport)
    ):
        await homeserver.followed.wait()
        homeserver.invite("!hers", "@eve:fake.example")
        await anyio.sleep(60)
    assert ("!hers" in homeserver.members) is joined


@pytest.mark.anyio
@pytest.mark.spec("N8")
@pytest.mark.parametrize("named", ["!hers", "!ours", None])
async def test_an_alias_that_an_invitation_shows_is_looked_up(
    tmp_path: Path, named: str | None
) -> None:
    """Whoever invites writes it there; only the alias's own server says which room it names."""
    homeserver = FakeHomeserver()
    homeserver.claimed = "#ops:fake.example"
    homeserver.directory = {"#ops:fake.example": named} if named else {}
    section = {
        "homeserver": "https://fake.example",
        "accessToken": TOKEN,
        "dmPolicy": "allowlist",
        "autoJoinAllowlist": ["#ops:fake.example"],
    }
    config = Config(channels=Loose.of({"matrix": section}))
    transport = FakeTransport({"fake.example": homeserver})
    async with open_gateway(
        tmp_path, Recording(), config=config, http=lambda: HttpClients(transport)
    ):
        await homeserver.followed.wait()
        homeserver.invite("!hers", "@eve:fake.example")
        await anyio.sleep(60)
    assert ("!hers" in homeserver.members) is (named == "!hers")


async def test_an_account_with_encryption_and_without_its_package_says_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "crossclaw.channels.matrix.encryption", raising=False)
    monkeypatch.setitem(sys.modules, "nio", None)
    matrix = {"homeserver": "https://fake.example", "accessToken": TOKEN, "encryption": True}
    config = Config(channels=Loose.of({"matrix": matrix}))
    transport = FakeTransport({"fake.example": FakeHomeserver()})
    async with open_gateway(
        tmp_path, Recording(), config=config, http=lambda: HttpClients(transport)
    ) as gateway:
        await anyio.sleep(5)
        (status,) = gateway.channels.list_status()

    assert status.state == "broken"
    assert "needs the Python package nio" in (status.error or "")
    assert how_to_install_there("channels") in (status.error or "")
