"""Session keys: one spelling a session, parsed once."""

import pytest

from crossclaw.domain.errors import InvalidKey
from crossclaw.domain.keys import Kind, SessionKey


@pytest.mark.spec("K1")
def test_main_is_the_calling_agents_main_session() -> None:
    assert str(SessionKey.parse("main", agent_id="ops")) == "agent:ops:main"
    assert SessionKey.parse(" main ", agent_id="ops") == SessionKey.parse("agent:ops:main")


@pytest.mark.spec("K1")
def test_a_main_session_is_main_to_its_own_agent_and_full_to_others() -> None:
    key = SessionKey.main("ops")

    assert key.display("ops") == "main"
    assert key.display("main") == "agent:ops:main"
    assert key.display(None) == "agent:ops:main"


@pytest.mark.spec("K2")
@pytest.mark.parametrize("chat_type", ["group", "channel"])
def test_groups_and_channels_name_their_platform(chat_type: str) -> None:
    text = f"agent:main:discord:{chat_type}:1234"

    key = SessionKey.parse(text)

    assert (str(key), key.kind, key.channel, key.chat_type) == (text, "group", "discord", chat_type)
    assert key.display("main") == text


@pytest.mark.spec("K2")
def test_a_group_id_keeps_its_case_and_its_colons() -> None:
    key = SessionKey.group("main", "Matrix", "!Room:server.org", thread_id="$Ev")

    assert str(key) == "agent:main:matrix:group:!Room:server.org:thread:$Ev"
    assert key.thread_id == "$Ev"


def test_an_id_that_would_leave_an_empty_part_is_escaped_not_merged() -> None:
    with_gap = SessionKey.group("main", "irc", "a::b")

    assert SessionKey.parse(str(with_gap)) == with_gap
    assert with_gap != SessionKey.group("main", "irc", "a:b")


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("bare", "kind"), [("cron:j1", "cron"), ("hook:u1", "hook"), ("node-n1", "node")]
)
def test_inside_sessions_are_bare_and_their_long_spelling_means_the_same(
    bare: str, kind: Kind
) -> None:
    key, long = SessionKey.parse(bare), SessionKey.parse(f"agent:ops:{bare}")

    assert key == long
    assert (str(long), long.kind, long.agent_id) == (bare, kind, "ops")
    assert hash(key) == hash(long)
    assert (key != long) is False


@pytest.mark.spec("K4")
def test_a_subagent_is_known_by_its_key() -> None:
    key = SessionKey.subagent("main", "7b0c")

    assert str(key) == "agent:main:subagent:7b0c"
    assert key.is_subagent
    assert key.kind == "other"


@pytest.mark.spec("K4")
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("main", "agent:main:main"),
        ("per-peer", "agent:main:dm:ana"),
        ("per-channel-peer", "agent:main:telegram:dm:ana"),
        ("per-account-channel-peer", "agent:main:telegram:work:dm:ana"),
    ],
)
def test_the_dm_scope_decides_who_shares_a_session(scope: str, expected: str) -> None:
    key = SessionKey.direct("main", "telegram", " Ana ", scope=scope, account_id="work")  # type: ignore[arg-type]

    assert str(key) == expected


@pytest.mark.spec("K4")
def test_identity_links_bring_one_person_into_one_session() -> None:
    links = {"Ana": ["telegram:42", "DISCORD:ana#1"]}

    on_telegram = SessionKey.direct("main", "telegram", "42", scope="per-peer", links=links)
    on_discord = SessionKey.direct("main", "discord", "Ana#1", scope="per-peer", links=links)

    assert str(on_telegram) == str(on_discord) == "agent:main:dm:ana"
    assert str(SessionKey.direct("main", "signal", "42", scope="per-peer", links=links)).endswith(
        "42"
    )


@pytest.mark.spec("K4")
def test_a_direct_chat_by_channel_names_its_channel() -> None:
    assert SessionKey.parse("agent:main:telegram:work:dm:ana").channel == "telegram"
    assert SessionKey.parse("agent:main:dm:ana").channel is None


@pytest.mark.spec("K5")
@pytest.mark.parametrize("text", ["global", "unknown", "agent:main:global", "agent:main:unknown"])
def test_reserved_names_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(InvalidKey):
        SessionKey.parse(text)


@pytest.mark.spec("K5")
def test_the_shared_session_is_main_to_everybody() -> None:
    shared = SessionKey.shared("ops")

    assert shared.kind == "main"
    assert shared.display("anybody") == shared.display(None) == "main"


@pytest.mark.spec("K7")
def test_agent_ids_are_normalised_and_the_rest_is_case_sensitive() -> None:
    assert SessionKey.parse("agent:OPS:Notes") == SessionKey.parse("agent:ops:Notes")
    assert SessionKey.parse("agent:ops:Notes") != SessionKey.parse("agent:ops:notes")


@pytest.mark.spec("K7")
@pytest.mark.parametrize(
    "text",
    [
        "MAIN",
        "Main",
        "ｍａｉｎ",
        "agent:main:MAIN",
        "agent:ｍａｉｎ:main",
        "AGENT:main:main",
        "agent:main:ｍain",
        "agent:main:SubAgent:x",
        "",
        "   ",
        "agent:main:",
        "agent::main",
        "agent:main",
        "agent:main:a::b",
        "cron:",
        "node-",
        "abc123",
        "agent:a/b:main",
        "agent:main:a\nb",
        "x" * 600,
        "agent:main:" + "y" * 600,
    ],
)
def test_what_only_looks_like_a_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey):
        SessionKey.parse(text)


@pytest.mark.spec("K7")
def test_a_refusal_says_what_would_work() -> None:
    with pytest.raises(InvalidKey, match="use main, agent:<agent>:<name>"):
        SessionKey.parse("abc123")
    with pytest.raises(InvalidKey, match="did you mean main"):
        SessionKey.parse("agent:ops:MAIN")


def test_a_person_may_name_a_session_freely() -> None:
    assert str(SessionKey.named("main", "abc123")) == "agent:main:abc123"
