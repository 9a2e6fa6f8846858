"""The client against the real program: what it does, and that a kill -9 loses and doubles nothing."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from crossclaw.client import (
    CallRefused,
    EntryCursor,
    GatewayClient,
    GatewayDown,
    MessageAccepted,
    NotLetIn,
    ReplyFailed,
    ReplyText,
    RunReply,
    SessionEntry,
    StreamPiece,
    ToolStep,
    WaitTimeout,
    connect,
)
from tests.process.program import Folder, until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Generator[Folder]:
    folder = Folder(tmp_path_factory.mktemp("client"))
    with folder.serve():
        yield folder


def environ(folder: Folder) -> dict[str, str]:
    return {"HOME": str(folder.state.parent), "OPENCLAW_STATE_DIR": str(folder.state)}


@pytest.mark.spec("C2", "G1")
def test_a_program_finds_the_gateway_as_the_command_line_does_and_talks_with_it(
    folder: Folder,
) -> None:
    with connect(environ=environ(folder)) as client:
        first = client.send("say: Good day!", "notes")
        pieces = list(
            client.stream("say: one\ntool: sessions_list {}\nthen:\nsay: two", "agent:main:notes")
        )
        listed = {row.key for row in client.sessions()}
        said = [(message.role, message.text) for message in client.history("notes", limit=2)]

    assert (first.status, first.text) == ("ok", "Good day!")
    assert isinstance(pieces[0], MessageAccepted)
    assert pieces[1:4] == [
        ReplyText("one", "one"),
        ToolStep("sessions_list", "start", {}),
        ReplyText("two", "two", anew=True),
    ]
    assert isinstance(pieces[4], RunReply)
    assert (pieces[4].text, pieces[4].run_id) == ("two", pieces[0].run_id)
    assert "agent:main:notes" in listed
    assert [role for role, _ in said][-1] == "assistant"
    assert said[-1][1] == "two"


@pytest.mark.spec("C2", "K6")
def test_an_agent_beside_a_session_means_the_same_session_by_name_key_and_id(
    folder: Folder,
) -> None:
    with connect(environ=environ(folder)) as client:
        client.send("say: begun", "agent:main:papers")
        before = client.sessions()
        session_id = _session_id(client, "agent:main:papers")
        names = ("papers", "agent:main:papers", session_id, f" {session_id.upper()} ")
        with client.subscribe(session_id, agent="main") as entries:
            for name in names:
                *_, streamed = client.stream("say: streamed", name, agent="Main")
                client.wait(client.submit("say: waited", name, agent="main"))
                assert isinstance(streamed, RunReply)
                assert (streamed.session_key, streamed.text) == ("agent:main:papers", "streamed")
                assert client.history(name, agent="main", limit=1)[0].text == "waited"
            followed = [next(entries).text for _ in range(4 * len(names))]

        assert followed[1::2] == ["streamed", "waited"] * len(names)
        assert {row.key for row in client.sessions()} == {row.key for row in before}


@pytest.mark.spec("C2", "K6")
def test_an_agent_beside_another_agents_session_is_refused_and_nothing_is_said(
    folder: Folder,
) -> None:
    with connect(environ=environ(folder)) as client:
        client.send("say: begun", "agent:main:papers")
        listed = [row.key for row in client.sessions()]
        session_id = _session_id(client, "agent:main:papers")
        refusals: dict[str, str] = {}
        for name, agent in [
            ("agent:main:papers", "librarian"),
            (session_id, "librarian"),
            ("agent:main:", "main"),
            ("papers", "no agent"),
            ("00000000-0000-4000-8000-000000000000", "main"),
        ]:
            asks: list[Callable[..., object]] = [
                partial(client.send, "x"),
                partial(client.submit, "x"),
                lambda *a, **k: list(client.stream("x", *a, **k)),
                client.history,
            ]
            for ask in asks:
                with pytest.raises(CallRefused) as refused:
                    ask(name, agent=agent)
                assert refused.value.code == "INVALID_REQUEST"
                refusals[name] = str(refused.value)
        assert [row.key for row in client.sessions()] == listed

    belongs = "agent:main:papers belongs to the agent main, not to librarian"
    assert refusals["agent:main:papers"] == refusals[session_id] == belongs


def _session_id(client: GatewayClient, key: str) -> str:
    return str(client.call("sessions.entries", {"key": key, "limit": 1})["sessionId"])


@pytest.mark.spec("P2", "P6")
def test_a_spawned_child_reports_into_the_session_that_is_subscribed_to(folder: Folder) -> None:
    with connect(environ=environ(folder)) as client:
        client.send("say: I am here.", "parent")
        with client.subscribe("agent:main:parent") as entries:
            spawned = client.spawn("say: done", "agent:main:parent", label="kid", key="spawn-1")
            again = client.spawn("say: done", "agent:main:parent", label="kid", key="spawn-1")
            report = next(entries)

    assert spawned == again
    assert spawned.child_session_key.startswith("agent:main:subagent:")
    assert "done" in report.text
    assert report.role == "user"


def test_errors_say_what_happened_and_what_a_timeout_means(folder: Folder, tmp_path: Path) -> None:
    with connect(environ=environ(folder)) as client:
        with pytest.raises(CallRefused) as refused:
            client.call("no.such.method")
        with pytest.raises(ReplyFailed) as failed:
            client.send("fail: no luck", "errors")
        run = client.submit("wait: 1\nsay: late", "errors")
        with pytest.raises(WaitTimeout, match=r"no reply within 0\.1 s; the run goes on") as over:
            client.wait(run, timeout_s=0.1)
        assert over.value.run_id == run.run_id
        assert client.wait(run).text == "late"
        with pytest.raises(CallRefused) as elsewhere:
            client.submit("another text", "errors", key=run.run_id)

    assert refused.value.code == "INVALID_REQUEST"
    assert failed.value.reply.status == "error"
    assert elsewhere.value.code == "INVALID_REQUEST"
    with pytest.raises(NotLetIn) as wrong, connect(client.url, token="wrong"):
        pass
    assert "gateway-token" in str(wrong.value.hint)
    with pytest.raises(GatewayDown), connect("ws://127.0.0.1:9", token="any"):
        pass


@pytest.mark.spec("C2")
def test_a_run_that_takes_too_long_ends_alike_for_who_waits_and_who_asks_again(
    folder: Folder,
) -> None:
    words, key = "wait: 60\nsay: never", "agent:main:overdue"
    with connect(environ=environ(folder)) as client:
        params = {"sessionKey": key, "message": words, "idempotencyKey": "o1", "timeoutMs": 300}
        client.call("chat.send", params)
        with pytest.raises(ReplyFailed) as waited:
            client.wait(RunReply(key, "o1"))
        with pytest.raises(ReplyFailed) as asked:
            client.send(words, key, key="o1", timeout_s=20)

    ends = [(failed.value.reply.status, str(failed.value)) for failed in (waited, asked)]
    assert ends == [("error", "the run was stopped: the time that a run may take was over")] * 2


@pytest.mark.spec("C2", "S4")
def test_a_message_whose_run_is_over_is_answered_from_what_is_stored(folder: Folder) -> None:
    with connect(environ=environ(folder)) as client:
        first = client.send("say: once", "again", key="a1")
        second = client.send("say: once", "again", key="a1", timeout_s=20)
        *_, third = client.stream("say: once", "again", key="a1", timeout_s=20)
        said = client.history("again")

    assert first == second == third
    assert len(said) == 2


@pytest.mark.spec("C2")
@pytest.mark.parametrize("session", ["fresh", "known"])
def test_a_stop_word_begins_no_run_to_wait_for(folder: Folder, session: str) -> None:
    with connect(environ=environ(folder)) as client:
        client.send("say: I am here.", "known")
        stopped = client.submit("stop", session)
        waited = client.wait(stopped, timeout_s=20)
        sent = client.send("stop", session, timeout_s=20)

    assert (waited.status, waited.text) == (sent.status, sent.text) == ("ok", "")


def _streamed(client: GatewayClient, pieces: list[StreamPiece]) -> None:
    text = "say: before\ntool: sessions_list {}\nthen:\nwait: 1\nsay: streamed"
    for piece in client.stream(text, "streaming"):
        pieces.append(piece)


def _followed(client: GatewayClient, after: EntryCursor) -> list[SessionEntry]:
    entries: list[SessionEntry] = []
    with client.subscribe("agent:main:streaming", after=after) as written:
        for entry in written:
            entries.append(entry)
            if entry.text == "streamed":
                break
    return entries


@pytest.mark.spec("S4", "B1")
def test_a_gateway_killed_in_the_middle_of_a_wait_and_of_a_stream_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """The next gateway has another port: the client looks for it anew."""
    folder = Folder(tmp_path)
    pieces: list[StreamPiece] = []
    told: list[str] = []
    with ExitStack() as stack:
        first = stack.enter_context(folder.serve())
        client = stack.enter_context(connect(environ=environ(folder), tell=told.append))
        client.send("say: first", "streaming")
        cursor = _last_cursor(client)
        threads = stack.enter_context(ThreadPoolExecutor(3))
        following = threads.submit(_followed, client, cursor)
        waiting = threads.submit(client.send, "wait: 1\nsay: waited", "waiting")
        streaming = threads.submit(_streamed, client, pieces)
        until(lambda: True if any(isinstance(p, ToolStep) for p in pieces) else None)
        until(lambda: True if len(client.sessions()) == 2 else None)
        first.kill()
        old = client.url
        stack.enter_context(folder.serve())
        entries, waited = following.result(), waiting.result()
        streaming.result()
        histories = {name: client.history(name) for name in ("streaming", "waiting")}
        new = client.url

    assert "the gateway was away; it is there again" in told
    assert old != new
    assert waited.text == "waited"
    assert isinstance(pieces[-1], RunReply)
    assert (pieces[-1].status, pieces[-1].text) == ("ok", "streamed")
    said = [m.text for m in histories["streaming"] if m.role == "assistant"]
    assert said == ["first", "before", "streamed"]
    assert [m.role for m in histories["waiting"]] == ["user", "assistant"]
    roles = [entry.role for entry in entries]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert [e.seq for e in entries] == [*range(cursor.seq + 1, cursor.seq + 5)]


def _last_cursor(client: GatewayClient) -> EntryCursor:
    page = client.call("sessions.entries", {"key": "agent:main:streaming", "limit": 1})
    return EntryCursor(page["sessionId"], page["lastSeq"])


@pytest.mark.spec("H2")
def test_a_subscription_reads_the_old_transcript_to_its_end_before_the_one_after_a_reset(
    folder: Folder,
) -> None:
    key = "agent:main:resetting"
    with connect(environ=environ(folder), scopes=["operator.admin"]) as client:
        client.send("say: one", key)
        with client.subscribe(key) as seen:
            client.submit("say: two", key)
            cursor = next(seen).cursor
        client.wait(client.submit("say: three", key))
        client.call("sessions.reset", {"key": key})
        client.wait(client.submit("say: four", key))
        texts: list[str] = []
        with client.subscribe(key, after=cursor) as missed:
            for entry in missed:
                if entry.role == "assistant":
                    texts.append(entry.text)
                if entry.text == "four":
                    break

    assert texts == ["two", "three", "four"]
