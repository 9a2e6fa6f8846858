"""From the feed to each listener: who hears what, spelled how, and how often."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Busy
from crossclaw.domain.events import (
    CallRepeated,
    EntryAppended,
    Injected,
    ReplyPiece,
    RunEnded,
    RunStarted,
    SessionChanged,
    SpeechAllowed,
    ToolEnded,
    ToolStarted,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import Kinds, Media, carrying, with_sources
from crossclaw.domain.messages import AssistantMessage, Image, MediaSource, UserMessage
from crossclaw.domain.runs import Cause, Run, RunPlan
from crossclaw.domain.sessions import Entry
from crossclaw.gateway.context import WithMedia
from crossclaw.gateway.frames import EventFrame
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.publisher import EventPublisher
from crossclaw.gateway.subscribers import Audience, Subscription

MAIN = SessionKey.main("main")


class SetClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


class Listener:
    """A client of which only the ears are real."""

    def __init__(self, protocol: int = 4, *, tools: bool = False) -> None:
        self.protocol = protocol
        self.hears_tools = tools
        self.slow = False
        self.heard: list[dict[str, Any]] = []
        self.frames: list[EventFrame] = []

    def push(self, frame: EventFrame) -> bool:
        if self.slow and frame.droppable:
            return False
        self.frames.append(frame)
        self.heard.append(json.loads(frame.numbered(len(self.heard) + 1)))
        return True

    def payloads(self, name: str) -> list[dict[str, Any]]:
        return [frame["payload"] for frame in self.heard if frame["event"] == name]


class Gateway:
    def __init__(
        self, limits: GatewayLimits | None = None, with_media: WithMedia | None = None
    ) -> None:
        self.clock = SetClock()
        limits = limits or GatewayLimits()
        self.audience = Audience(limits)
        self.publisher = EventPublisher(self.audience, self.clock, limits, with_media)

    def join(self, listener: Listener, *, page: bool = False) -> Subscription:
        return self.audience.join(listener, is_page=page)

    def pass_time(self, ms: int) -> None:
        self.clock.ms += ms
        self.publisher._send_due()

    def say(self, text: str, piece: str, *, restarted: bool = False) -> None:
        self.publisher.on_event(ReplyPiece("r1", MAIN, piece, text, restarted))

    def start(self, **changes: Any) -> None:
        self.publisher.on_event(RunStarted(run(status="running", **changes)))

    def end(self, **changes: Any) -> None:
        self.publisher.on_event(RunEnded(run(**changes)))


def run(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "run_id": "r1",
        "key": MAIN,
        "session_id": "s1",
        "kind": "chat",
        "status": "ok",
        "attempt": 1,
        "epoch": 1,
        "plan": RunPlan(),
        "authority": Authority(),
        "cause": Cause(),
        "created_at": 1,
        "started_at": 2,
        "ended_at": 3,
        "reply": "one two",
        **changes,
    }
    return Run(**fields)


def entry(message: Any, **changes: Any) -> Entry:
    fields = {"session_id": "s1", "seq": 4, "entry_id": "e4", "at": 9, "type": "message"}
    return Entry(**{**fields, "message": message, **changes})


# ── a run, told ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G1", "G4")
@pytest.mark.parametrize("protocol", [3, 4])
def test_who_began_a_run_hears_it_under_the_key_that_it_spelled(protocol: int) -> None:
    gateway, listener = Gateway(), Listener(protocol)
    gateway.join(listener).runs["r1"] = "main"

    gateway.start()
    gateway.say("one ", "one ")
    gateway.say("one two", "two")
    gateway.end()

    agent, chat = listener.payloads("agent"), listener.payloads("chat")
    assert [(p["seq"], p["stream"]) for p in agent] == [
        (1, "lifecycle"),
        (2, "assistant"),
        (3, "assistant"),
        (4, "lifecycle"),
    ]
    assert agent[0]["data"] == {"phase": "start", "startedAt": 2}
    assert agent[1]["data"] == {"text": "one ", "delta": "one "}
    assert agent[2]["data"] == {"text": "one two", "delta": "two"}
    assert agent[3]["data"] == {"phase": "end", "startedAt": 2, "endedAt": 3}
    assert [p["state"] for p in chat] == ["delta", "final"]
    assert chat[1]["message"] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "one two"}],
        "timestamp": 3,
    }
    assert {p["sessionKey"] for p in agent + chat} == {"main"}
    assert [frame["seq"] for frame in listener.heard] == list(range(1, len(listener.heard) + 1))


@pytest.mark.spec("G1")
def test_chat_events_have_the_published_fields_and_no_others() -> None:
    gateway, four, three = Gateway(), Listener(4), Listener(3)
    for listener in (four, three):
        gateway.join(listener).runs["r1"] = "main"

    gateway.start()
    gateway.say("one", "one")
    gateway.end()

    common = {"runId", "sessionKey", "seq", "state", "message"}
    assert set(four.payloads("chat")[0]) == common | {"deltaText"}
    assert set(three.payloads("chat")[0]) == common
    assert set(four.payloads("chat")[1]) == set(three.payloads("chat")[1]) == common


@pytest.mark.spec("G1")
def test_text_goes_out_at_once_and_then_at_its_pace_and_no_delta_is_lost() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"
    text = ""

    for number in range(100):
        text += f"{number} "
        gateway.say(text, f"{number} ")
        gateway.pass_time(10)
    gateway.end(reply=text)

    deltas = [p["data"]["delta"] for p in listener.payloads("agent") if p["stream"] == "assistant"]
    chat = listener.payloads("chat")
    assert "".join(deltas) == text
    assert len(deltas) <= 22  # a second at 50 ms
    assert len(chat) <= 8 + 1  # a second at 150 ms, and the end
    assert chat[0]["message"]["content"][0]["text"] == "0 "
    told = "".join(p["deltaText"] for p in chat[:-1])
    assert text.startswith(told)
    assert chat[-1]["message"]["content"][0]["text"] == text


@pytest.mark.spec("G1")
def test_a_turn_that_begins_anew_replaces_what_was_shown() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.say("Let me", "Let me")
    gateway.pass_time(200)
    gateway.say("Now", "Now", restarted=True)
    gateway.pass_time(200)
    gateway.say("Now I", " I")
    gateway.pass_time(200)

    chat = listener.payloads("chat")
    assert [(p["deltaText"], p.get("replace")) for p in chat] == [
        ("Let me", None),
        ("Now", True),
        (" I", None),
    ]


def test_the_text_before_a_tool_call_is_replaced_by_the_text_after_it() -> None:
    gateway, listener = Gateway(), Listener(tools=True)
    gateway.join(listener).runs["r1"] = "main"

    gateway.say("I look", "I look")
    gateway.publisher.on_event(
        ToolStarted("r1", MAIN, "c1", "read", {"path": "a", "text": "x" * 9000})
    )
    gateway.publisher.on_event(ToolEnded("r1", MAIN, "c1", "read", False, 5))
    gateway.say("Found", "Found")
    gateway.pass_time(200)

    tools = [p["data"] for p in listener.payloads("agent") if p["stream"] == "tool"]
    assert [data["phase"] for data in tools] == ["start", "result"]
    assert tools[0]["toolCallId"] == "c1"
    assert tools[0]["args"]["path"] == "a"
    assert tools[0]["args"]["text"].endswith("… (1000 more characters)")
    assert tools[1] == {
        "phase": "result",
        "name": "read",
        "toolCallId": "c1",
        "isError": False,
        "durationMs": 5,
    }
    assert [(p["deltaText"], p.get("replace")) for p in listener.payloads("chat")] == [
        ("I look", None),
        ("Found", True),
    ]


def test_tools_are_told_only_to_those_who_asked_for_them() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.publisher.on_event(ToolStarted("r1", MAIN, "c1", "read", {}))

    assert listener.heard == []


@pytest.mark.spec("G4")
def test_a_model_that_does_not_stream_still_gives_a_delta_before_the_final() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.start()
    gateway.end()

    assert [p["state"] for p in listener.payloads("chat")] == ["delta", "final"]
    assert listener.payloads("agent")[1]["data"] == {"text": "one two", "delta": "one two"}


@pytest.mark.parametrize(
    ("changes", "lifecycle", "chat"),
    [
        (
            {"status": "error", "error": "no model", "reply": None},
            {
                "phase": "error",
                "error": "no model",
                "startedAt": 2,
                "endedAt": 3,
                "standing": {"name": "failed", "why": "no model"},
            },
            {"state": "error", "errorMessage": "no model"},
        ),
        (
            {"status": "aborted", "reply": None},
            {
                "phase": "end",
                "aborted": True,
                "startedAt": 2,
                "endedAt": 3,
                "standing": {"name": "stopped"},
            },
            {"state": "aborted", "stopReason": "rpc"},
        ),
        (
            {"status": "timeout", "reply": None, "started_at": None},
            {"phase": "end", "aborted": True, "endedAt": 3, "standing": {"name": "timed out"}},
            {"state": "aborted", "stopReason": "timeout"},
        ),
        (
            {"reply": None},
            {"phase": "end", "startedAt": 2, "endedAt": 3},
            {"state": "final"},
        ),
    ],
)
def test_every_end_is_told(
    changes: dict[str, Any], lifecycle: dict[str, Any], chat: dict[str, Any]
) -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.end(**changes)

    assert listener.payloads("agent")[-1]["data"] == lifecycle
    rest = {"runId": "r1", "sessionKey": "main", "seq": 1}
    assert listener.payloads("chat") == [{**rest, **chat}]


@pytest.mark.spec("S7")
@pytest.mark.parametrize("token", ["ANNOUNCE_SKIP", " REPLY_SKIP\n"])
def test_a_control_token_is_never_shown(token: str) -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).sessions.add(MAIN)

    gateway.start(kind="announce")
    gateway.say(token, token)
    gateway.pass_time(500)
    gateway.end(kind="announce", reply=token)

    assert [p["state"] for p in listener.payloads("chat")] == ["final"]
    assert token.strip() not in json.dumps(listener.heard)


def test_a_command_has_a_final_and_no_life_of_an_agent() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.end(kind="command", reply="⚙️ done", started_at=None)

    assert [frame["event"] for frame in listener.heard] == ["chat"]


def test_the_numbers_of_a_run_go_on_after_a_restart() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.start(epoch=2)

    assert listener.payloads("agent")[0]["seq"] == 1_000_001


# ── who hears ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G1")
def test_events_go_to_who_began_and_who_subscribed_and_to_old_pages() -> None:
    gateway = Gateway()
    listeners = {name: Listener() for name in ("began", "session", "all", "page", "other", "idle")}
    gateway.join(listeners["began"]).runs["r1"] = "main"
    gateway.join(listeners["session"]).sessions.add(MAIN)
    gateway.join(listeners["all"]).all_sessions = True
    gateway.join(listeners["page"], page=True)
    gateway.join(listeners["other"]).sessions.add(SessionKey.named("main", "other"))
    gateway.join(listeners["idle"])

    gateway.end()

    heard = {name: one.payloads("chat") for name, one in listeners.items()}
    assert {name for name, payloads in heard.items() if payloads} == {
        "began",
        "session",
        "all",
        "page",
    }
    assert heard["began"][-1]["sessionKey"] == "main"
    assert heard["page"][-1]["sessionKey"] == "agent:main:main"
    assert all(len(payloads) <= 2 for payloads in heard.values())


def test_alike_listeners_share_one_encoded_frame() -> None:
    gateway = Gateway()
    listeners = [Listener(4) for _ in range(10)]
    for listener in listeners:
        gateway.join(listener).sessions.add(MAIN)

    gateway.end()

    assert len({id(listener.frames[-1]) for listener in listeners}) == 1


def test_a_run_that_ended_is_forgotten_everywhere() -> None:
    gateway, listener = Gateway(), Listener()
    subscription = gateway.join(listener)
    subscription.runs["r1"] = "main"

    gateway.start()
    gateway.end()
    count = len(listener.heard)
    gateway.end()

    assert dict(subscription.runs) == {}
    assert len(listener.heard) == count
    assert not gateway.publisher._open_runs


def test_who_leaves_hears_nothing_more() -> None:
    gateway, listener = Gateway(), Listener()
    subscription = gateway.join(listener, page=True)
    subscription.runs["r1"] = "main"
    subscription.sessions.add(MAIN)
    subscription.all_sessions = True

    gateway.audience.leave(subscription)
    gateway.end()

    assert listener.heard == []
    assert gateway.audience.watchers() == []


def test_unsubscribing_works() -> None:
    gateway, listener = Gateway(), Listener()
    subscription = gateway.join(listener)
    subscription.sessions |= {MAIN}
    subscription.all_sessions = True
    assert MAIN in subscription.sessions

    subscription.sessions.discard(MAIN)
    subscription.all_sessions = False
    gateway.end()

    assert not subscription.all_sessions
    assert listener.heard == []


def test_subscriptions_and_followed_runs_are_bounded() -> None:
    gateway = Gateway(GatewayLimits(subscriptions_max=2, followed_runs_max=2))
    subscription = gateway.join(Listener())
    for name in ("a", "b"):
        subscription.sessions.add(SessionKey.named("main", name))

    with pytest.raises(Busy, match=r"sessions\.subscribe"):
        subscription.sessions.add(MAIN)
    for run_id in ("r1", "r2", "r3"):
        subscription.runs[run_id] = "main"

    assert list(subscription.runs) == ["r2", "r3"]
    assert not gateway.audience.runs.get("r1")


@pytest.mark.spec("G1")
def test_a_slow_client_misses_deltas_and_then_hears_the_whole_text() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).runs["r1"] = "main"

    gateway.say("a", "a")
    listener.slow = True
    gateway.pass_time(200)
    gateway.say("ab", "b")
    listener.slow = False
    gateway.pass_time(200)
    gateway.say("abc", "c")
    gateway.pass_time(200)
    gateway.say("abcd", "d")

    assert [(p["deltaText"], p.get("replace")) for p in listener.payloads("chat")] == [
        ("a", None),
        ("abc", True),
        ("d", None),
    ]


# ── sessions ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G4")
def test_messages_of_a_session_are_told_to_its_subscribers() -> None:
    gateway, listener, all_sessions = Gateway(), Listener(), Listener()
    gateway.join(listener).sessions.add(MAIN)
    gateway.join(all_sessions).all_sessions = True

    gateway.publisher.on_event(EntryAppended(MAIN, entry(UserMessage("hi"), run_id="r1")))

    (payload,) = listener.payloads("session.message")
    assert payload["sessionKey"] == "agent:main:main"
    assert payload["message"]["content"] == [{"type": "text", "text": "hi"}]
    assert (payload["seq"], payload["messageId"], payload["runId"]) == (4, "e4", "r1")
    assert all_sessions.heard == []


@pytest.mark.spec("G4")
async def test_a_picture_is_told_with_its_bytes_and_what_follows_it_waits_behind() -> None:
    gateway, listener = Gateway(with_media=filled), Listener()
    gateway.join(listener).sessions.add(MAIN)
    pictured = entry(UserMessage([Image(PIXEL.source)]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.publisher.serve)
        gateway.publisher.on_event(EntryAppended(MAIN, pictured))
        gateway.publisher.on_event(EntryAppended(MAIN, entry(UserMessage("and this"))))
        assert listener.payloads("session.message") == [], "a read comes first"
        while len(listener.payloads("session.message")) < 2:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    first, second = [each["message"]["content"] for each in listener.payloads("session.message")]
    assert first == [{"type": "image", "mimeType": "image/png", "data": "eA=="}]
    assert second == [{"type": "text", "text": "and this"}]


PIXEL = Media("image/png", b"x")


async def filled(entries: Sequence[Entry], kinds: Kinds) -> list[Entry]:
    def change(source: MediaSource) -> MediaSource:
        return carrying(source, PIXEL.data)

    return [
        msgspec.structs.replace(each, message=with_sources(each.message, change, kinds))
        for each in entries
    ]


def test_changes_of_sessions_are_told_to_those_who_follow_all() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener).all_sessions = True

    gateway.publisher.on_event(SessionChanged(MAIN, "patch"))

    assert listener.payloads("sessions.changed") == [
        {
            "sessionKey": "agent:main:main",
            "agentId": "main",
            "reason": "patch",
            "ts": 1_000_000,
        }
    ]


def test_injected_words_are_a_final_without_a_run() -> None:
    gateway, page = Gateway(), Listener(3)
    gateway.join(page, page=True)

    gateway.publisher.on_event(
        Injected(MAIN, entry(AssistantMessage("note", stop_reason="injected")))
    )

    (payload,) = page.payloads("chat")
    assert (payload["runId"], payload["seq"], payload["state"]) == ("inject-e4", 0, "final")
    assert payload["message"]["stopReason"] == "injected"


@pytest.mark.spec("K5")
def test_nobody_ever_sees_the_name_of_the_shared_session() -> None:
    gateway, page = Gateway(), Listener(3)
    gateway.join(page, page=True)

    gateway.end(key=SessionKey.shared("main"))

    assert page.payloads("chat")[-1]["sessionKey"] == "agent:main:main"


def test_a_call_that_is_made_again_is_told_with_its_reason() -> None:
    gateway, page = Gateway(), Listener()
    gateway.join(page, page=True)
    gateway.start()
    gateway.publisher.on_event(CallRepeated("r1", MAIN, "too many requests", 1.5))
    gateway.publisher.on_event(CallRepeated("r1", MAIN, "still too many", 0.0, "openai/x"))

    told = [each for each in page.payloads("agent") if each["stream"] == "model"]
    assert [each["data"] for each in told] == [
        {"phase": "retry", "reason": "too many requests", "waitMs": 1500},
        {"phase": "fallback", "reason": "still too many", "waitMs": 0, "model": "openai/x"},
    ]


def test_an_answer_begun_anew_in_the_middle_replaces_what_was_told_of_it() -> None:
    gateway, client = Gateway(), Listener()
    gateway.join(client, page=True)
    gateway.start()
    gateway.say("part one, half a", "half a")
    gateway.pass_time(5_000)
    gateway.say("part one, two", "two", restarted=True)
    gateway.pass_time(5_000)

    told = [each["data"]["text"] for each in client.payloads("agent") if "text" in each["data"]]
    assert told == ["part one, half a", "part one, two"]
    assert client.payloads("chat")[-1]["replace"] is True


@pytest.mark.spec("S7")
@pytest.mark.parametrize("kind", ["chat", "agent", "send", "round", "announce", "spawn"])
@pytest.mark.parametrize("token", ["REPLY_SKIP", " ANNOUNCE_SKIP\n"])
def test_nothing_is_shown_of_a_token_whatever_run_says_it(kind: str, token: str) -> None:
    gateway, page = Gateway(), Listener()
    gateway.join(page, page=True)
    gateway.start(kind=kind)
    for end in range(1, len(token) + 1):
        gateway.say(token[:end], token[end - 1])
        gateway.pass_time(1_000)
    gateway.end(kind=kind, reply=token)

    assert "SK" not in str(page.heard)
    (final,) = page.payloads("chat")
    assert "message" not in final


@pytest.mark.parametrize("words", ["A", "REPLY", "ANNOUNCE_SKIPPED", "REPLY_SKIP."])
def test_words_that_only_begin_like_a_token_are_shown_at_the_latest_at_the_end(words: str) -> None:
    gateway, page = Gateway(), Listener()
    gateway.join(page, page=True)
    gateway.start()
    gateway.say(words, words)
    gateway.end(reply=words)

    assert page.payloads("chat")[-1]["message"]["content"][0]["text"] == words
    said = [p["data"] for p in page.payloads("agent") if p["stream"] == "assistant"]
    assert [data["text"] for data in said] == [words]


def test_a_run_that_is_stopped_in_the_middle_of_a_token_shows_nothing_of_it() -> None:
    gateway, page = Gateway(), Listener()
    gateway.join(page, page=True)
    gateway.start()
    gateway.say("REPLY_SK", "REPLY_SK")
    gateway.end(status="aborted", reply=None)

    assert "SK" not in str(page.heard)


# ── the send policy ────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Y4", "S7")
def test_a_reply_under_way_falls_silent_when_its_session_is_denied() -> None:
    gateway, listener = Gateway(), Listener(tools=True)
    gateway.join(listener, page=True)
    gateway.start()
    gateway.say("One", "One")
    gateway.say("One two", " two")  # waits for its time
    gateway.publisher.on_event(SpeechAllowed(MAIN, False))
    gateway.pass_time(1000)
    gateway.say("One two three", " three")
    gateway.publisher.on_event(ToolStarted("r1", MAIN, "t1", "read", {}))
    gateway.publisher.on_event(RunEnded(run(reply="One two three"), withheld=True))

    said = [*listener.payloads("chat"), *listener.payloads("agent")]
    assert "three" not in json.dumps(said)
    assert " two" not in json.dumps(said)
    assert [p["state"] for p in listener.payloads("chat")] == ["delta", "final"]
    streams = [p["stream"] for p in listener.payloads("agent")]
    assert streams == ["lifecycle", "assistant", "tool", "lifecycle"]  # what it does is still seen


@pytest.mark.spec("Y4", "Y2")
def test_a_reply_is_told_whole_once_its_session_may_speak_again() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener, page=True)
    gateway.start()
    gateway.publisher.on_event(SpeechAllowed(MAIN, False))
    gateway.say("One", "One")
    gateway.pass_time(1000)
    gateway.publisher.on_event(SpeechAllowed(MAIN, True))
    gateway.say("One two", " two")

    (delta,) = listener.payloads("chat")
    assert (delta["deltaText"], delta["message"]["content"][0]["text"]) == ("One two", "One two")


@pytest.mark.spec("Y4")
def test_a_denied_session_silences_neither_others_nor_the_one_who_asked_by_rpc() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener, page=True)
    gateway.start(kind="agent")
    gateway.publisher.on_event(SpeechAllowed(SessionKey.named("main", "other"), False))
    gateway.publisher.on_event(SpeechAllowed(MAIN, False))
    gateway.say("One", "One")

    assert len(listener.payloads("chat")) == 1


@pytest.mark.spec("Y4")
def test_a_message_that_joins_a_silenced_run_is_not_heard_either() -> None:
    gateway, listener = Gateway(), Listener()
    gateway.join(listener, page=True)
    gateway.start()
    gateway.publisher.on_event(SpeechAllowed(MAIN, False))
    gateway.start(run_id="r2")
    gateway.publisher.on_event(ReplyPiece("r2", MAIN, "One", "One"))
    gateway.pass_time(1000)
    gateway.publisher.on_event(RunEnded(run(run_id="r2"), withheld=True))
    gateway.publisher.on_event(RunEnded(run(), withheld=True))
    gateway.start(run_id="r3")
    gateway.publisher.on_event(ReplyPiece("r3", MAIN, "Two", "Two"))

    deltas = [p["runId"] for p in listener.payloads("chat") if p["state"] == "delta"]
    assert deltas == ["r3"]  # whether it may is asked anew when a run begins
