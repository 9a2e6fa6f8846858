"""A real-looking OpenClaw config with chats loads as it is, and what it says about tools in groups holds."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.channels.http import HttpClients
from crossclaw.config import Config, load
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.config.load import Loaded
from crossclaw.domain.authority import Authority, ChatPlace
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolResultMessage
from crossclaw.domain.sight import EVERYTHING
from crossclaw.domain.tools import built_in
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.sessions.channel_rules import chat_tool_layers
from crossclaw.testing import VirtualClock, VirtualLoop, open_gateway
from tests.channels.discord.fake import FakeDiscord
from tests.channels.discord.world import TEXT, FakeChannel, Person
from tests.channels.fake_http import FakeTransport
from tests.channels.fake_socket import memory_dial
from tests.channels.telegram.fake import FakeTelegram
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

FILE = Path(__file__).parent / "data" / "openclaw-chats.json5"
GROUP, NAMED = -1001111111111, -1002222222222


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """One of them: it is the config that is tried."""
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    file = tmp_path / "openclaw.json"
    file.write_text(FILE.read_text("utf-8"), "utf-8")
    return load(file, {})


def place(chat_id: str, sender: str, **more: Any) -> ChatPlace:
    given = {"channel": "telegram", "account_id": "default", **more}
    return ChatPlace(chat_id=chat_id, senders=(sender,), **given)


def test_it_loads_and_says_what_has_no_effect_and_which_rule_cannot_be_kept(loaded: Loaded) -> None:
    found = accounts_in(loaded.config.channels, {})
    names = {f"{each.channel}/{each.account_id}" for each in found}
    assert names == {"telegram/default", "telegram/alerts", "discord/default", "whatsapp/default", "whatsapp/personal"}  # fmt: skip
    told = "\n".join(loaded.warnings)
    assert "username:mallory" in told
    assert "toolsBySender" in told
    quiet = {each.path[-1] for each in loaded.no_effect}
    assert not quiet & {"tools", "toolsBySender", "typingMode", "ackReaction", "responsePrefix", "streamMode", "replyToMode"}  # fmt: skip


@pytest.mark.spec("N8", "B3")
async def test_tools_of_groups_and_of_senders_hold_when_a_tool_is_used(
    tmp_path: Path, loaded: Loaded
) -> None:
    def http() -> HttpClients:
        return HttpClients(FakeTransport({"api.telegram.org": FakeTelegram()}))

    async def offered(gateway: Any, where: ChatPlace, agent: str = "home") -> set[str]:
        key = SessionKey.parse(f"agent:{agent}:telegram:group:{where.chat_id}")
        given = Authority(chats=frozenset({where}))
        return set(await gateway.toolsets.of(key, given, "recording/x"))

    async with open_gateway(tmp_path, Recording(), config=loaded.config, http=http) as gateway:
        anybody = await offered(gateway, place(str(GROUP), "555"))
        owner = await offered(gateway, place(str(GROUP), "123456789"))
        elsewhere = await offered(gateway, place("-1009", "555"))
        unkept = await offered(gateway, place(str(NAMED), "555"))
        server = {"channel": "discord", "guild_id": "123456789012345678"}
        in_channel = await offered(gateway, place("223456789012345678", "987654321098765432", **server), "work")  # fmt: skip
        stranger = await offered(gateway, place("general", "111", **server), "work")

    assert {"read", "edit"} <= anybody
    assert not {"exec", "write"} & anybody
    assert {"exec", "write"} <= owner
    assert "sessions_list" in elsewhere
    assert "read" not in elsewhere
    assert unkept == set()
    assert "exec" not in in_channel
    assert "write" in in_channel
    assert "exec" not in stranger


@pytest.mark.spec("N8", "N9", "B3")
async def test_the_gateway_serves_with_it_and_a_group_whose_rule_cannot_be_kept_is_not_heard(
    tmp_path: Path, loaded: Loaded
) -> None:
    telegram = FakeTelegram()
    home, alerts = telegram.add_bot("700:home"), telegram.add_bot("800:work", "alerts_bot")
    for chat in (GROUP, NAMED):
        telegram.add_chat(chat, "supergroup", title="Team")

    def http() -> HttpClients:
        return HttpClients(FakeTransport({"api.telegram.org": telegram}))

    async with open_gateway(
        tmp_path, RehearsalProvider(), config=loaded.config, http=http
    ) as gateway:
        await anyio.sleep(5)
        ann, eve = (_person(number) for number in (123456789, 555))
        telegram.say(home, GROUP, 'tool: exec {"command": "true"}\nthen:\nsay: tried', **eve)
        telegram.say(home, NAMED, "say: where a name is a rule", **ann)
        telegram.say(alerts, 123456789, "say: by the other agent", **ann)
        await anyio.sleep(60)
        group = SessionKey.parse(f"agent:home:telegram:group:{GROUP}")
        session = await gateway.ledger.find_session(group)
        assert session is not None
        entries = await gateway.ledger.list_entries(session.session_id, limit=20)

    (result,) = [each.message for each in entries if isinstance(each.message, ToolResultMessage)]
    assert f"group {GROUP}, tools denies exec" in str(result.content)
    assert telegram.texts(GROUP) == ["[Clawd] tried"]
    assert telegram.texts(NAMED) == []
    assert telegram.texts(123456789) == ["by the other agent"]


@pytest.mark.spec("B3", "N8")
async def test_a_child_that_was_begun_in_a_group_has_no_tool_that_the_group_lacks_whoever_writes_to_it(
    tmp_path: Path, loaded: Loaded
) -> None:
    telegram = FakeTelegram()
    home = telegram.add_bot("700:home")
    telegram.add_chat(GROUP, "supergroup", title="Team")

    def http() -> HttpClients:
        return HttpClients(FakeTransport({"api.telegram.org": telegram}))

    config = loaded.config
    async with open_gateway(tmp_path, RehearsalProvider(), config=config, http=http) as gateway:
        await anyio.sleep(5)
        spawning = 'tool: sessions_spawn {"task": "say: here"}\nthen:\nsay: begun'
        telegram.say(home, GROUP, spawning, **_person(555))
        await anyio.sleep(60)
        rows = await gateway.ledger.list_sessions(limit=20, sight=EVERYTHING)
        (child,) = [each for each in rows if "subagent" in each.key.text]
        of_owner = Authority(owner=True).meet(child.authority)
        offered = set(await gateway.toolsets.of(child.key, of_owner, "rehearsal/x"))

    assert "read" in offered
    assert not {"exec", "write"} & offered


@pytest.mark.spec("B3")
def test_what_was_asked_in_a_group_of_an_account_that_is_gone_may_use_no_tools() -> None:
    (layer,) = chat_tool_layers(Config(), place(str(GROUP), "555"))
    assert not layer.decide(built_in("read")).allowed


def _person(number: int) -> dict[str, Any]:
    return {"from": {"id": number, "is_bot": False, "first_name": "Somebody"}}


GUILD, DOCS, MEMBER = "123456789012345678", "223456789012345678", "987654321098765432"
OLDER = 'dm: { enabled: true, policy: "pairing", allowFrom: ["1234567890"],'
NEWER = 'dmPolicy: "pairing", allowFrom: ["1234567890"], dm: { enabled: true,'


@pytest.mark.spec("N3", "N5", "N8")
@pytest.mark.parametrize("spelling", [OLDER, NEWER], ids=["dm.policy", "dmPolicy"])
async def test_discord_talks_by_it_in_both_spellings_and_a_linked_phone_is_told_apart(
    tmp_path: Path, spelling: str
) -> None:
    text = FILE.read_text("utf-8")
    assert OLDER in text
    (tmp_path / "openclaw.json").write_text(text.replace(OLDER, spelling), "utf-8")
    config = load(tmp_path / "openclaw.json", {}).config
    discord = FakeDiscord(VirtualClock().now_ms)
    discord.token = "not-a-real-token"
    world = discord.world
    world.guilds[GUILD] = "friends-of-openclaw"
    member, stranger = Person(MEMBER, "ana"), world.person("eve")
    docs = world.channels[DOCS] = FakeChannel(DOCS, TEXT, "docs", GUILD)
    async with anyio.create_task_group() as tasks:
        dial = memory_dial(tasks, {"gateway.discord.gg": discord.gateway})
        transport = FakeTransport({"discord.com": discord, "api.telegram.org": FakeTelegram()})
        async with open_gateway(
            tmp_path, RehearsalProvider(), config=config, http=lambda: HttpClients(transport, dial)
        ) as gateway:
            await anyio.sleep(5)
            discord.say(member, f"<@{world.bot.id}> say: by the other agent", docs)
            discord.say(member, "say: nobody has called me", docs)
            discord.say(stranger, "let me in", docs)
            discord.say(stranger, "let me in")
            await anyio.sleep(60)
            rows = await gateway.ledger.list_sessions(limit=20, sight=EVERYTHING)
            status = (await call(gateway, "channels.status"))["channelAccounts"]
            for asked in ("web.login.start", "web.login.wait"):
                with pytest.raises(Invalid, match=r"Cloud API.*docs/channels.md"):
                    await call(gateway, asked)
            with pytest.raises(Invalid, match=r"channels\.whatsapp\.enabled to false"):
                await call(gateway, "channels.logout", channel="whatsapp")
        tasks.cancel_scope.cancel()

    assert discord.texts(docs) == ["by the other agent"]
    assert [each.key.text for each in rows] == [f"agent:work:discord:channel:{DOCS}"]
    (code,) = discord.texts(stranger)
    assert "Pairing code: " in code
    assert discord.complaints == []
    assert [each["state"] for each in status["discord"]] == ["running"]
    phones = {each["accountId"]: each for each in status["whatsapp"]}
    assert {each["state"] for each in phones.values()} == {"not set up"}
    assert "linked phone" in phones["personal"]["lastError"]
    assert "WHATSAPP_ACCESS_TOKEN" in phones["personal"]["lastError"]
