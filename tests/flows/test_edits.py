"""People change and delete what they have written while it waits for its run."""

from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings, GroupSettings
from crossclaw.domain.addresses import Attachment
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Image, Text, UserMessage
from crossclaw.testing import open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.flows.test_messages_while_busy import queue
from tests.flows.test_runs_keep_their_order import Recording
from tests.flows.test_who_may_talk import WithFiles, chat, direct, said, words_in

ONE_BY_ONE = queue("followup", debounceMs=0)


@pytest.mark.spec("N8")
async def test_an_edit_of_a_message_that_waits_replaces_it_once_also_after_a_crash(
    tmp_path: Path,
) -> None:
    (tmp_path / "gateway").mkdir()
    memory = chat(dmPolicy="allowlist", allowFrom=["7"])
    async with open_gateway(
        tmp_path / "gateway", Recording(30), config=ONE_BY_ONE, channels=[memory]
    ):
        await memory.bring(direct("7", "first", 1))
        await memory.bring(direct("7", "secnd", 2))
        edit = direct("7", "/stop", 3, edit_of="2")
        kinds = [(await memory.bring(each)).what for each in (edit, direct("7", "second", 4, edit_of="2"), edit)]  # fmt: skip
        copy = crashed_copy(tmp_path / "gateway")
        await anyio.sleep(90)
    assert kinds == ["changed"] * 3
    assert memory.sent == [("7", "re: first"), ("7", "re: second")]

    memory = chat(dmPolicy="allowlist", allowFrom=["7"])
    async with open_gateway(copy, Recording(1), config=ONE_BY_ONE, channels=[memory]) as gateway:
        assert (await memory.bring(edit)).what == "changed"  # the platform brings it again
        await anyio.sleep(90)
        words = await words_in(gateway, "agent:main:main")
    assert words[-1] == "second"
    assert ("7", "re: second") in memory.sent


async def test_an_edit_that_reads_like_a_command_is_words(tmp_path: Path) -> None:
    """As ever: only what was sent as a command is one."""
    memory = chat(dmPolicy="allowlist", allowFrom=["7"])
    config = msgspec.convert(
        {
            "commands": {"ownerAllowFrom": ["memory:7"]},
            "messages": {"queue": {"mode": "followup", "debounceMs": 0}},
        },
        Config,
    )
    async with open_gateway(tmp_path, Recording(30), config=config, channels=[memory]):
        await memory.bring(direct("7", "first", 1))
        await memory.bring(direct("7", "second", 2))
        assert (await memory.bring(direct("7", "/stop", 3, edit_of="2"))).what == "changed"
        await anyio.sleep(90)
    assert memory.sent == [("7", "re: first"), ("7", "re: /stop")]


@pytest.mark.spec("N8")
async def test_only_who_wrote_a_message_in_the_same_chat_changes_it(tmp_path: Path) -> None:
    settings = ChannelSettings(
        dm_policy="allowlist",
        allow_from=("7", "8"),
        group_policy="open",
        groups={
            "g": GroupSettings(require_mention=False),
            "h": GroupSettings(require_mention=False),
        },
    )
    memory = WithFiles(settings=settings)
    async with open_gateway(
        tmp_path, Recording(30), config=ONE_BY_ONE, channels=[memory]
    ) as gateway:
        await memory.bring(said("g", "7", "first", 1))
        await memory.bring(said("g", "7", "transfer 10", 2))
        others = [
            await memory.bring(said("g", "8", "transfer 1000", 3, edit_of="2")),
            await memory.bring(said("h", "7", "transfer 1000", 4, edit_of="2")),
            await memory.bring(said("g", "8", "", 5, deletion_of="2")),
            await memory.bring(direct("9", "transfer 1000", 6, edit_of="2")),
        ]
        await anyio.sleep(90)
        words = await words_in(gateway, "agent:main:memory:group:g")
    assert [each.what for each in others] == ["noted", "dropped", "noted", "dropped"]
    assert "transfer 10" in words
    assert ("g", "re: transfer 10") in memory.sent


async def test_who_may_no_longer_talk_changes_nothing(tmp_path: Path) -> None:
    memory = chat()
    async with open_gateway(
        tmp_path, Recording(30), config=ONE_BY_ONE, channels=[memory]
    ) as gateway:
        await memory.bring(direct("7", "let me in", 0))
        (asked,) = (await call(gateway, "chat.pairing.list"))["requests"]
        await call(gateway, "chat.pairing.approve", channel="memory", code=asked["code"])
        await memory.bring(direct("7", "first", 1))
        await memory.bring(direct("7", "second", 2))
        await call(gateway, "chat.pairing.remove", channel="memory", sender="7")
        refused = await memory.bring(direct("7", "other words", 3, edit_of="2"))
        await anyio.sleep(90)
        words = await words_in(gateway, "agent:main:main")
    assert refused.what == "pairing"
    assert words == ["first", "second"]


async def test_a_message_that_is_deleted_while_it_waits_is_not_answered(tmp_path: Path) -> None:
    memory = chat(dmPolicy="allowlist", allowFrom=["7"])
    async with open_gateway(
        tmp_path, Recording(30), config=ONE_BY_ONE, channels=[memory]
    ) as gateway:
        for number, words in enumerate(("first", "a secret", "third"), 1):
            accepted = await memory.bring(direct("7", words, number))
            if number == 2:
                gone_run = accepted.run_id
        deletion = direct("7", "", 4, deletion_of="2")
        kinds = [(await memory.bring(deletion)).what]
        late = await memory.bring(direct("7", "", 5, deletion_of="1"))
        await anyio.sleep(90)
        await memory.bring(deletion)
        await anyio.sleep(90)
        words_said = await words_in(gateway, "agent:main:main")
        run = await gateway.ledger.find_run(gone_run or "")
    assert (kinds, late.what) == (["changed"], "noted")
    assert words_said == ["first", "[7 has deleted an earlier message.]", "third"]
    assert [text for _, text in memory.sent] == ["re: first", "re: third"]
    assert run is not None
    assert (run.status, run.error) == (
        "aborted",
        "its sender deleted the message before the agent had read it",
    )


async def test_an_edited_caption_brings_its_files_and_words_about_them(tmp_path: Path) -> None:
    memory = WithFiles(settings=ChannelSettings(dm_policy="allowlist", allow_from=("7",)))
    picture = Attachment(kind="image", id="picture", mime="image/jpeg")
    async with open_gateway(
        tmp_path, Recording(30), config=ONE_BY_ONE, channels=[memory]
    ) as gateway:
        await memory.bring(direct("7", "first", 1))
        accepted = await memory.bring(direct("7", "", 2, attachments=(picture,)))
        await memory.bring(direct("7", "plain", 3))
        files = (picture, Attachment(kind="video", id="film"))
        await memory.bring(direct("7", "look", 4, edit_of="2", attachments=files))
        fetched = memory.fetched
        late = await memory.bring(direct("7", "look", 5, edit_of="1", attachments=files))
        unknown = await memory.bring(direct("7", "look", 6, edit_of="99", attachments=files))
        await gateway.run_store.wait(accepted.run_id or "")
        session = await gateway.ledger.find_session(SessionKey.main("main"))
        assert session is not None
        entries = await gateway.ledger.list_entries(session.session_id, limit=9)
    assert (late.what, unknown.what) == ("noted", "noted")
    assert memory.fetched == fetched, "nothing is fetched for a note"
    (shown,) = [
        each.message for each in entries if isinstance(each.message, UserMessage) and isinstance(each.message.content, list) and any(isinstance(b, Image) for b in each.message.content)
    ]  # fmt: skip
    text = "\n".join(block.text for block in shown.content if isinstance(block, Text))
    assert text.startswith("look\n[A video came along")


async def test_an_edit_of_what_a_group_said_changes_the_context_of_the_next_message(
    tmp_path: Path,
) -> None:
    memory = chat(groupPolicy="open")
    async with open_gateway(tmp_path, Recording(), channels=[memory]) as gateway:
        await memory.bring(said("g1", "8", "at nine", 1, mentioned=False))
        await memory.bring(said("g1", "8", "a secret", 2, mentioned=False))
        kinds = [
            (await memory.bring(said("g1", "8", "at ten", 3, mentioned=False, edit_of="1"))).what,
            (await memory.bring(said("g1", "8", "", 4, deletion_of="2"))).what,
        ]
        await memory.bring(said("g1", "1", "when?", 5, mentioned=True))
        await anyio.sleep(60)
        words = await words_in(gateway, "agent:main:memory:group:g1")
    assert kinds == ["changed"] * 2
    assert words == ["8: at ten", "when?"]


async def test_an_edit_of_one_picture_of_an_album_takes_nothing_else_of_it_away(
    tmp_path: Path,
) -> None:
    memory = WithFiles(settings=ChannelSettings(dm_policy="allowlist", allow_from=("7",)))
    picture = Attachment(kind="image", id="picture", mime="image/jpeg")
    async with open_gateway(
        tmp_path, Recording(30), config=ONE_BY_ONE, channels=[memory]
    ) as gateway:
        await memory.bring(direct("7", "first", 1))
        await anyio.sleep(1)
        album = direct("7", "look\nand this", 2, attachments=(picture, picture), joined=True)
        accepted = await memory.bring(album)
        changed = direct("7", "see", 4, edit_of="2", attachments=(picture,))
        kinds = [
            (await memory.bring(changed)).what,
            (await memory.bring(direct("7", "", 5, deletion_of="2"))).what,
        ]
        run = await gateway.run_store.wait(accepted.run_id or "")
        words = await words_in(gateway, "agent:main:main")
    assert kinds == ["noted"] * 2
    assert "look\nand this" in words
    assert run is not None
    assert run.status == "ok"
