"""Files that an agent or a client sends to a chat: pieces of the one outbox, and only what may leave."""

import base64
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.channels.manifest import Traits
from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings
from crossclaw.delivery.files import file_to_send
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import DeliveryError, Invalid, KeyReused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolResultMessage
from crossclaw.ledger.operations import media_holder
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import MemoryChannel, VirtualLoop, open_gateway
from crossclaw.tools.contract import context_of
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
OPEN = ChannelSettings(dm_policy="open", allow_from=("*",))
FILES = Traits(files=True, caption_limit=40)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """One of them: the contract of channels sends files on both."""
    return "asyncio", {"loop_factory": VirtualLoop}


def chat(**traits: Any) -> MemoryChannel:
    return MemoryChannel(settings=OPEN, traits=msgspec.structs.replace(FILES, **traits))


def workspace(folder: Path, **files: bytes) -> Path:
    made = folder / "state" / "workspace"
    made.mkdir(parents=True, mode=0o700)
    (folder / "state").chmod(0o700)
    for name, data in files.items():
        (made / name.replace("_", ".")).write_bytes(data)
    return made


def asking(**arguments: Any) -> str:
    told = msgspec.json.encode(arguments).decode()
    return f"tool: message {told}\nthen:\nsay: Done."


def sent(channel: MemoryChannel) -> list[tuple[str, bytes | None, str]]:
    return [
        (each.media.name if each.media else "", each.media.data if each.media else None, each.text)
        for each in channel.pieces
    ]


async def results_in(gateway: Any, run_id: str) -> list[str]:
    run = await gateway.run_store.wait(run_id)
    entries = await gateway.ledger.list_entries(run.session_id, limit=50)
    found = [each.message for each in entries if isinstance(each.message, ToolResultMessage)]
    return [str(each.content) for each in found]


@pytest.mark.spec("N9")
async def test_an_agent_sends_files_of_its_workspace_with_words_under_the_first(
    tmp_path: Path,
) -> None:
    workspace(tmp_path, a_png=PNG, b_txt=b"words")
    channel = chat()
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", asking(message="Look!", media=["a.png", "b.txt"]))
        await channel.wait_sent(3)
        delivered = await gateway.ledger.find_delivery(f"message:{run_id}:" + _call_of(channel))
        kept = [await gateway.ledger.find_media(each.file.sha256) for each in _both()]

    assert sent(channel) == [("a.png", PNG, "Look!"), ("b.txt", b"words", ""), ("", None, "Done.")]
    assert [each.media.kind for each in channel.pieces if each.media] == ["image", "document"]
    assert delivered is not None
    assert delivered.state == "delivered"
    assert kept == [None, None], "nobody needs them any more"


def _both() -> list[Any]:
    return [file_to_send(PNG, "a.png"), file_to_send(b"words", "b.txt")]


def _call_of(channel: MemoryChannel) -> str:
    return channel.pieces[0].delivery_key.partition("#")[0].split(":", 2)[2]


async def test_words_that_do_not_fit_under_a_file_follow_it(tmp_path: Path) -> None:
    workspace(tmp_path, a_png=PNG)
    channel, words = chat(), "More words than fit under a picture, by far."
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]):
        await channel.say("ann", asking(message=words, path="a.png"))
        await channel.wait_sent(3)

    assert sent(channel)[:2] == [("a.png", PNG, ""), ("", None, words)]


@pytest.mark.parametrize("tools", [{"deny": ["read"]}, {"profile": "messaging"}])
async def test_who_may_not_read_a_file_may_not_send_it(
    tmp_path: Path, tools: dict[str, Any]
) -> None:
    workspace(tmp_path, MEMORY_md=b"what only the owner knows")
    channel = chat()
    config = msgspec.convert({"tools": tools}, Config)
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=config, channels=[channel]
    ) as gateway:
        run_id = await channel.say("ann", asking(message="Here", media="MEMORY.md"))
        results = await results_in(gateway, run_id)
        await channel.say("ann", asking(message="Only words"))
        await channel.wait_sent(3)

    assert "the tool 'read' is not available here" in results[0]
    assert [text for _, _, text in sent(channel)] == ["Done.", "Only words", "Done."]


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        ({"media_max_mb": 0.000001}, "(a.png is too large for this chat, which takes 1 bytes.)"),
        ({"files": False}, "(a.png: files cannot be sent here.)"),
    ],
)
async def test_what_a_chat_does_not_take_is_said_in_words(
    tmp_path: Path, traits: dict[str, Any], said: str
) -> None:
    workspace(tmp_path, a_png=PNG)
    channel = chat(**traits)
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]):
        await channel.say("ann", asking(message="Look!", filePath="a.png"))
        await channel.wait_sent(2)

    assert sent(channel)[0] == ("", None, f"Look!\n\n{said}")


@pytest.mark.spec("V4")
async def test_no_path_leads_out_of_the_workspace_and_no_program_goes_out(tmp_path: Path) -> None:
    folder = workspace(tmp_path, tool_bin=b"\x7fELFprogram", empty_txt=b"")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    channel = chat()
    bad = ["../../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "tool.bin", "empty.txt", "none.txt"]  # fmt: skip
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]) as gateway:
        for path in bad:
            run_id = await channel.say("ann", asking(media=path))
            (answer,) = (await results_in(gateway, run_id))[-1:]
            assert "on its way" not in answer, path
        await anyio.sleep(5)

    assert [each.media for each in channel.pieces] == [None] * len(bad)


@pytest.mark.spec("N9", "B2")
async def test_a_file_that_arrived_is_not_sent_again_when_the_next_one_fails_or_the_gateway_dies(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    workspace(folder, a_png=PNG, b_txt=b"words")
    channel = chat()

    class Failing(MemoryChannel):
        async def send(self, piece: Any) -> str | None:
            if piece.media is not None and piece.media.name == "b.txt" and self.tries == 1:
                self.tries += 1
                raise DeliveryError("later", retryable=True, retry_after_s=3600.0)
            return await super().send(piece)

    channel = Failing(settings=OPEN, traits=FILES)
    async with open_gateway(folder, RehearsalProvider(), channels=[channel]):
        await channel.say("ann", asking(media=["a.png", "b.txt"]))
        await channel.wait_sent(1)
        await anyio.sleep(10)
        left = crashed_copy(folder)
    async with open_gateway(left, RehearsalProvider(), channels=[channel]):
        await channel.wait_sent(3)

    assert [each[0] for each in sent(channel)] == ["a.png", "b.txt", ""]


@pytest.mark.spec("B1")
async def test_a_call_that_is_made_again_after_a_crash_answers_as_before_though_its_file_is_gone(
    tmp_path: Path,
) -> None:
    folder, channel = workspace(tmp_path, a_png=PNG), chat()
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]) as gateway:
        run_id = await channel.say("ann", "say: hi")
        run = await gateway.run_store.wait(run_id)
        assert run is not None
        tool = gateway.toolsets.known["message"]
        again, params = context_of(run, "t1", run.authority), tool.read({"media": "a.png"})
        first = await tool.call(again, params)
        (folder / "a.png").unlink()
        second = await tool.call(again, params)
        await anyio.sleep(10)

    assert first == second == "on its way to memory: a.png"
    assert [each[0] for each in sent(channel)] == ["", "a.png"]


@pytest.mark.spec("S6", "S7")
async def test_a_word_that_means_silence_reaches_no_chat_by_the_tool_either(tmp_path: Path) -> None:
    channel = chat()
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]):
        await channel.say("ann", asking(message=" ANNOUNCE_SKIP "))
        await anyio.sleep(60)

    assert [each[2] for each in sent(channel)] == ["Done."]


async def test_the_tool_is_there_only_where_there_are_chats(tmp_path: Path) -> None:
    for channels in ([], [chat()]):
        (folder := tmp_path / str(len(channels))).mkdir()
        async with open_gateway(folder, RehearsalProvider(), channels=channels) as gateway:
            main = SessionKey.parse("agent:main:main")
            offered = await gateway.toolsets.of(main, Authority(owner=True), "rehearsal/x")
            assert ("message" in offered) == bool(channels)


# ── by a client ────────────────────────────────────────────────────────────────────────────────


def as_data(data: bytes, name: str, kind: str = "image/png") -> str:
    return f"data:{kind};name={name};base64,{base64.b64encode(data).decode()}"


@pytest.mark.spec("N9")
async def test_a_client_sends_files_to_a_chat(tmp_path: Path) -> None:
    workspace(tmp_path, a_png=PNG)
    channel = chat()
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]) as gateway:
        asked: dict[str, Any] = {"to": "ann", "channel": "memory", "idempotencyKey": "k1"}
        for _ in range(2):  # asked again, sent once
            await call(
                gateway,
                "send",
                **asked,
                message="Hi",
                mediaUrls=[as_data(PNG, "b%20c.png"), "a.png"],
            )
        with pytest.raises(KeyReused):
            await call(
                gateway, "send", **asked, message="Hi", mediaUrls=[as_data(PNG, "other.png")]
            )
        await channel.wait_sent(2)
        await anyio.sleep(10)
        held = media_holder("send:k1")
        uses = await gateway.ledger.find_media(file_to_send(PNG, "a.png").file.sha256)

    assert sent(channel) == [("b c.png", PNG, "Hi"), ("a.png", PNG, "")]
    assert (held, uses) == ("outbox:send:k1", None)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.org/a.png", "not fetched from addresses"),
        ("data:image/png,abc", "base64"),
        ("data:image/png;base64,%%%", "no base64"),
        ("../openclaw.json", "stay|leads|outside|out of"),
        (as_data(b"MZprogram", "a.exe"), "program"),
    ],
)
async def test_what_a_client_may_not_send_is_refused_at_once(
    tmp_path: Path, url: str, why: str
) -> None:
    workspace(tmp_path)
    channel = chat()
    async with open_gateway(tmp_path, RehearsalProvider(), channels=[channel]) as gateway:
        with pytest.raises(Exception, match=why):
            await call(
                gateway, "send", to="ann", channel="memory", idempotencyKey="k", mediaUrl=url
            )
        with pytest.raises(Invalid, match="nothing to send"):
            await call(gateway, "send", to="ann", channel="memory", idempotencyKey="k")

    assert channel.pieces == []


@pytest.mark.parametrize(
    ("data", "name", "kind", "mime"),
    [
        (PNG, "a.txt", "image", "image/png"),
        (b"OggS....", "note.ogg", "audio", "audio/ogg"),
        (b"OggS....", "note.png", "audio", "audio/ogg"),
        (b"....ftypisom", "film.mp4", "video", "video/mp4"),
        (b"....ftypM4A ", "song.mp3", "audio", "audio/mpeg"),
        (b"%PDF-1.7", "a.exe", "document", "application/pdf"),
        (b"words", "a.png", "document", "application/octet-stream"),
        (b"a,b", "a.csv", "document", "text/csv"),
        (b"a,b", "../..\\etc/\x07pass\nwd", "document", "application/octet-stream"),
    ],
)
def test_a_file_is_known_by_its_content(data: bytes, name: str, kind: str, mime: str) -> None:
    file = file_to_send(data, name).file
    assert (file.kind, file.mime) == (kind, mime)
    assert file.name.isprintable()
    assert "/" not in file.name


@pytest.mark.spec("N9")
@pytest.mark.parametrize("answer", ["deny", "allow-once"])
async def test_where_a_person_is_asked_before_a_file_is_read_nobody_sends_one_unasked(
    tmp_path: Path, answer: str
) -> None:
    workspace(tmp_path, a_png=PNG)
    channel = chat()
    config = msgspec.convert({"tools": {"ask": ["read"]}}, Config)
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=config, channels=[channel]
    ) as gateway:
        await channel.say("ann", asking(message="words alone"))
        await channel.wait_sent(2)
        run_id = await channel.say("ann", asking(media="a.png"))
        await anyio.sleep(5)
        assert len(channel.pieces) == 2
        (waiting,) = await gateway.ledger.list_waiting_approvals()
        await call(gateway, "exec.approval.resolve", id=waiting.approval_id, decision=answer)
        results = await results_in(gateway, run_id)
    assert "a.png" in waiting.wish.shown
    assert (PNG in [data for _, data, _ in sent(channel)]) is (answer == "allow-once")
    assert ("Denied" in results[-1]) is (answer == "deny")


@pytest.mark.parametrize(("channel", "named"), [("carrier-pigeon", "carrier-pigeon"), (None, "")])
async def test_a_message_for_a_channel_that_is_not_set_up_says_which_are(
    tmp_path: Path, channel: str | None, named: str
) -> None:
    chats = [MemoryChannel("one"), MemoryChannel("two")]
    async with open_gateway(tmp_path, RehearsalProvider(), channels=chats) as gateway:
        with pytest.raises(Invalid, match=f"unsupported channel: .*{named}.*; set up: one, two"):
            await call(gateway, "send", to="g1", message="hi", channel=channel, idempotencyKey="n1")
