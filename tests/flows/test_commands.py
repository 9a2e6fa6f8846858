"""Commands: said to the gateway, whole messages, by those who may; done once."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid, KeyReused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.door.principal import Principal
from crossclaw.sessions.commands import COMMANDS, Commands, SlashCommand, find_command
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import OWNER, call, say

MAIN = SessionKey.main("main")
OWNED = msgspec.convert({"commands": {"ownerAllowFrom": ["memory:ana"]}}, Config)
GUEST = Principal(
    name="guest",
    role="operator",
    scopes=frozenset({"operator.write"}),
    sight="everything",
    authority=Authority(),
)


def plain() -> ScriptedProvider:
    return ScriptedProvider(lambda request: "hello")


async def command(gateway: Gateway, text: str, run_id: str, principal: Principal = OWNER) -> Run:
    await call(
        gateway, "chat.send", principal, sessionKey="main", message=text, idempotencyKey=run_id
    )
    run = await gateway.run_store.find(run_id)
    assert run is not None
    return run


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/send off", SlashCommand("send", "off")),
        ("  /SEND  On ", SlashCommand("send", "On")),
        ("/send: inherit", SlashCommand("send", "inherit")),
        ("/send", SlashCommand("send")),
        ("/stop", SlashCommand("stop")),
        ("Stop", SlashCommand("stop")),
        ("/new tell me\nmore", SlashCommand("new", "tell me\nmore")),
        ("please /send off", None),
        ("/send off\nand more", None),
        ("/sendoff", SlashCommand("unknown", "sendoff")),
        ("/etc/hosts is a file", None),
        ("/etc/hosts", None),
        ("/tmp is full", None),
        ("/modle default", SlashCommand("unknown", "modle")),
        ("/unknown thing", None),
        ("stop it", None),
        pytest.param("/" + "a" * 2_000_000, None, id="no command is as long"),
    ],
)
@pytest.mark.spec("Y2")
def test_only_a_whole_message_is_a_command(text: str, found: SlashCommand | None) -> None:
    assert find_command(text) == found


@pytest.mark.parametrize(
    ("text", "suggested"),
    [("/statsu", "Did you mean /status"), ("/comp", "/compact"), ("/xyzzy", "/help lists")],
)
async def test_a_mistyped_command_is_answered_with_the_nearest_ones_and_costs_no_model(
    tmp_path: Path, text: str, suggested: str
) -> None:
    provider = plain()
    async with open_gateway(tmp_path, provider) as gateway:
        assert suggested in ((await command(gateway, text, "c1")).reply or "")
    assert not provider.seen


@pytest.mark.spec("Y2", "Y4")
async def test_the_owner_closes_a_session_and_opens_it_again_by_chat(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        assert (await command(gateway, "/send off", "c1")).reply == "⚙️ Send policy set to off."
        with pytest.raises(Exception, match="send blocked by session policy"):
            await say(gateway, "main", "hi", "r1")
        assert (await command(gateway, "/send on", "c2")).reply == "⚙️ Send policy set to on."
        assert (await say(gateway, "main", "hi", "r2")).reply == "hello"
        session = await gateway.ledger.find_session(MAIN)
        assert session is not None
        assert session.send_policy == "allow"
        await command(gateway, "/send inherit", "c3")
        session = await gateway.ledger.find_session(MAIN)
        assert session is not None
        assert session.send_policy is None


@pytest.mark.spec("Y2", "B3")
async def test_a_guest_cannot_say_what_only_the_owner_may(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        await say(gateway, "main", "hi", "r1")
        run = await command(gateway, "/send off", "c1", GUEST)

        assert run.reply == "Only the owner can say /send."
        session = await gateway.ledger.find_session(MAIN)
        assert session is not None
        assert session.send_policy is None


@pytest.mark.spec("Y2", "B3")
@pytest.mark.parametrize("text", ["/send off", "/new", "/new words", "/reset"])
async def test_an_owner_without_the_scope_hears_what_is_missing(tmp_path: Path, text: str) -> None:
    reader = msgspec.structs.replace(OWNER, scopes=frozenset({"operator.write"}))
    async with open_gateway(tmp_path, plain()) as gateway:
        await say(gateway, "main", "hi", "c0")
        before = await gateway.ledger.find_session(MAIN)
        run = await command(gateway, text, "c1", reader)

        after = await gateway.ledger.find_session(MAIN)
        assert run.reply == "⚠️ missing scope: operator.admin"
        assert before is not None
        assert after is not None
        assert (after.session_id, after.send_policy) == (before.session_id, None)


@pytest.mark.spec("Y2")
async def test_where_there_is_nothing_to_compact_the_answer_says_so(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        run = await command(gateway, "/compact", "c1")

        assert (run.reply or "").startswith("Not compacted: ")


@pytest.mark.spec("Y2")
async def test_on_a_channel_only_the_named_owner_commands(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, plain(), config=OWNED, channels=[chat]) as gateway:
        await chat.say("bob", "/send off")
        await chat.wait_sent(1)
        assert chat.sent == [("bob", "Only the owner can say /send.")]
        await chat.say("ana", "/send off")
        await anyio.sleep(60)
        session = await gateway.ledger.find_session(MAIN)
        assert session is not None
        assert session.send_policy == "deny"
        assert len(chat.sent) == 1  # nothing is said in a closed chat, not even that it is closed
        await chat.say("ana", "/send on")
        await chat.wait_sent(2)
        assert chat.sent[-1] == ("ana", "⚙️ Send policy set to on.")


@pytest.mark.spec("Y2", "N9")
async def test_whoever_may_talk_is_answered_in_their_own_chat_also_where_the_owner_has_another(
    tmp_path: Path,
) -> None:
    """The main session's chat stays the owner's: what is answered there is no answer to bob."""
    chat = MemoryChannel(settings=ChannelSettings(dm_policy="open", allow_from=("*",)))
    async with open_gateway(tmp_path, plain(), config=OWNED, channels=[chat]) as gateway:
        await chat.say("bob", "/stop")
        await chat.say("bob", "hi")
        await anyio.sleep(60)
        await chat.say("ana", "hi")
        await anyio.sleep(60)
        await chat.say("bob", "/status")
        await anyio.sleep(60)
        session = await gateway.ledger.find_session(MAIN)

    assert [to for to, _ in chat.sent] == ["bob", "bob", "ana", "bob"]
    assert chat.sent[0][1] == "Nothing was running."
    assert session is not None
    assert session.last_address is not None
    assert session.last_address.to == "ana"


async def test_an_agents_words_are_never_a_command(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        await call(gateway, "sessions.create", key="agent:main:desk")
        sent = await call(
            gateway, "sessions.send", sessionKey="agent:main:desk", message="/send off"
        )
        assert sent["reply"] == "hello"


@pytest.mark.spec("B1")
async def test_a_command_asked_again_is_not_done_again(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        await say(gateway, "main", "hi", "r1")
        await command(gateway, "/new", "c1")
        first = await gateway.ledger.find_session(MAIN)
        await command(gateway, "/new", "c1")
        again = await gateway.ledger.find_session(MAIN)

        assert first is not None
        assert again is not None
        assert first.session_id == again.session_id
        with pytest.raises(KeyReused):
            await command(gateway, "/send off", "c1")


@pytest.mark.spec("B1")
async def test_a_platform_that_repeats_itself_commands_once(tmp_path: Path) -> None:
    chat = MemoryChannel(settings=OPEN_TO_ALL)
    async with open_gateway(tmp_path, plain(), config=OWNED, channels=[chat]) as gateway:
        await chat.say("ana", "/new", message_id="7")
        first = await gateway.ledger.find_session(MAIN)
        await chat.say("ana", "/new", message_id="7")

        assert await gateway.ledger.find_session(MAIN) == first


async def test_words_after_new_are_the_first_of_the_new_session(tmp_path: Path) -> None:
    model = plain()
    async with open_gateway(tmp_path, model) as gateway:
        before = await say(gateway, "main", "old", "r1")
        await command(gateway, "/new and now this", "c1")
        run = await gateway.run_store.wait("c1", timeout_s=60)

        assert run is not None
        assert (run.kind, run.reply) == ("chat", "hello")
        assert run.session_id != before.session_id
        assert "and now this" in str(model.seen[-1].turns)
        assert "old" not in str(model.seen[-1].turns)
        await command(gateway, "/new and now this", "c1")
        assert len(model.seen) == 2


async def test_new_with_words_that_may_not_be_said_begins_nothing(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        await say(gateway, "main", "old", "r1")
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        before = await gateway.ledger.find_session(MAIN)
        for _ in range(2):
            with pytest.raises(Invalid, match="send blocked by session policy"):
                await command(gateway, "/new and now this", "c1")
        assert await gateway.ledger.find_session(MAIN) == before

        await command(gateway, "/new", "c2")  # says nothing, so nothing forbids it
        anew = await gateway.ledger.find_session(MAIN)
        assert before is not None
        assert anew is not None
        assert anew.session_id != before.session_id


async def test_new_with_words_asked_again_is_answered_although_they_were_forbidden_since(
    tmp_path: Path,
) -> None:
    said: dict[str, Any] = {
        "sessionKey": "main",
        "message": "/new and now this",
        "idempotencyKey": "c1",
    }
    async with open_gateway(tmp_path, plain()) as gateway:
        await call(gateway, "chat.send", **said)
        await gateway.run_store.wait("c1")
        await call(gateway, "sessions.patch", key="main", sendPolicy="deny")
        before = await gateway.ledger.find_session(MAIN)

        assert await call(gateway, "chat.send", **said) == {"runId": "c1", "status": "ok"}
        assert await gateway.ledger.find_session(MAIN) == before


async def test_commands_do_not_wait_behind_what_runs(tmp_path: Path) -> None:
    slow = ScriptedProvider(lambda request: "late", delay_s=1000)
    async with open_gateway(tmp_path, slow) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message="hi", idempotencyKey="r1")
        await anyio.sleep(1)
        run = await command(gateway, "/status", "c1")
        assert run.reply is not None
        assert "State: running" in run.reply
        stopped = await call(
            gateway, "chat.send", sessionKey="main", message="/stop", idempotencyKey="c2"
        )
        assert stopped == {"ok": True, "aborted": True, "runIds": ["r1"]}


async def test_what_a_command_tells_is_of_the_session_that_it_was_written_in(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        await call(gateway, "sessions.create", key="agent:main:desk")
        sent = {"sessionKey": "agent:main:desk", "message": "/status", "idempotencyKey": "c1"}
        await call(gateway, "chat.send", OWNER, **sent)
        run = await gateway.run_store.find("c1")

    assert run is not None
    assert "desk" in (run.reply or "")


async def test_a_model_never_sees_commands(tmp_path: Path) -> None:
    model = plain()
    async with open_gateway(tmp_path, model) as gateway:
        await command(gateway, "/think high", "c1")
        await say(gateway, "main", "hi", "r1")

        assert "think" not in str(model.seen[0].turns)
        assert model.seen[0].thinking == "high"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/help", "- /send on|off|inherit — whether anything is said in this chat (owner)"),
        ("/status", "State: idle"),
        ("/usage", "tokens in"),
        ("/model", "Model: scripted/test"),
        ("/model scripted/big", "Model: scripted/big."),
        ("/model nobody/knows", "unrecognized model"),
        ("/think", "Usage: /think"),
        ("/think sideways", "invalid thinkingLevel (use off|"),
        ("/verbose full", "Verbose set to full."),
        ("/queue", "Usage: /queue [collect|"),
        ("/queue Steer", "Queue mode set to steer."),
        ("/queue default", "Queue mode set to default."),
        ("/queue", "Now: collect, debounce 1 s, cap 20, drop summarize."),
        ("/queue debounce:2s", "Now: collect, debounce 2 s, cap 20, drop summarize."),
        (
            "/queue drop:OLD cap:3 steer debounce:1500",
            "Now: steer, debounce 1.5 s, cap 3, drop old.",
        ),
        ("/queue cap:0", "queueCap"),
        ("/queue debounce:soon", "'soon' is no duration"),
        ("/queue drop:everything", "invalid queueDrop (use old|new|summarize)"),
        ("/queue speed:9", "speed:9 is no setting of a queue"),
        pytest.param(f"/queue cap:{'9' * 5000}", "is no setting of a queue", id="a huge cap"),
        pytest.param(f"/queue debounce:{'9' * 400}h", "than a hundred years", id="a huge pause"),
        ("/queue backwards", "invalid queueMode (use "),
        ("/send", "⚙️ Usage: /send on|off|inherit"),
        ("/send maybe", "⚙️ Usage: /send on|off|inherit"),
        ("/stop", "Nothing was running."),
        ("/reset", "A new session has begun."),
    ],
)
async def test_every_command_answers(tmp_path: Path, text: str, words: str) -> None:
    async with open_gateway(tmp_path, plain()) as gateway:
        await say(gateway, "main", "hi", "r1")
        run = await command(gateway, text, "c1")

        assert words in (run.reply or "")
        assert run.kind == "command"


def test_every_command_is_carried_out_by_somebody() -> None:
    assert [name for name in COMMANDS if not hasattr(Commands, f"_{name}")] == []


async def test_trigger_words_can_be_taken_away(tmp_path: Path) -> None:
    config: Any = msgspec.convert({"session": {"resetTriggers": ["/new"]}}, Config)
    async with open_gateway(tmp_path, plain(), config=config) as gateway:
        assert (await say(gateway, "main", "/reset", "r1")).kind == "chat"


async def test_a_stop_asked_again_is_answered_as_a_stop(tmp_path: Path) -> None:
    """OpenClaw's clients tell a stop from a message by this form; a run id would be waited for."""
    stop: dict[str, Any] = {"sessionKey": "main", "message": "/stop", "idempotencyKey": "c1"}
    async with open_gateway(tmp_path, plain()) as gateway:
        await say(gateway, "main", "hi", "r1")
        answers = [await call(gateway, "chat.send", **stop) for _ in range(2)]

    assert answers == [{"ok": True, "aborted": False, "runIds": []}] * 2


@pytest.mark.parametrize("method", ["chat.send", "agent", "sessions.send"])
async def test_an_idempotency_key_is_of_one_session_and_of_one_text(
    tmp_path: Path, method: str
) -> None:
    said: dict[str, Any] = {"sessionKey": "agent:main:a", "message": "hi", "idempotencyKey": "r1"}
    async with open_gateway(tmp_path, plain()) as gateway:
        for name in "ab":
            await call(gateway, "sessions.create", key=f"agent:main:{name}")
        await call(gateway, method, **said)
        for other in ({"sessionKey": "agent:main:b"}, {"message": "ho"}):
            with pytest.raises(KeyReused):
                await call(gateway, method, **said | other)


async def test_how_much_is_shown_comes_from_the_config_where_a_session_does_not_say(
    tmp_path: Path,
) -> None:
    agents = {
        "defaults": {"verboseDefault": "on"},
        "list": [{"id": "main"}, {"id": "librarian", "verboseDefault": "full"}],
    }
    config = msgspec.convert({"agents": agents}, Config)
    async with open_gateway(tmp_path, ScriptedProvider(["yes"] * 3), config=config) as gateway:
        shown = {}
        for key in ("agent:main:main", "agent:librarian:main"):
            await say(gateway, key, "hello", f"r-{key}")
            shown[key] = (await call(gateway, "chat.history", sessionKey=key))["verboseLevel"]
        status = (await call(gateway, "tool.session_status", sessionKey="main"))["statusText"]
        await say(gateway, "agent:main:main", "/verbose off", "off")
        chosen = (await call(gateway, "chat.history", sessionKey="main"))["verboseLevel"]

    assert shown == {"agent:main:main": "on", "agent:librarian:main": "full"}
    assert "Verbose: on" in status
    assert chosen == "off"
