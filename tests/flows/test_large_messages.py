"""One message that is larger than an answer may be hides nothing: it comes shortened, in every history."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.media import KINDS, Kinds
from crossclaw.domain.messages import Image, MediaSource, Text, ToolResultMessage, UserMessage
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.gateway.methods.chat import HISTORY_BYTES_MAX
from crossclaw.gateway.methods.search import ENTRY_BYTES_MAX
from crossclaw.ledger.operations import Inject
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.sessions.fitting import PageWanted, fitting, read_page, shortened
from crossclaw.sessions.rows import stored_message
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say
from tests.ledger.making import ANA, session

PICTURE = b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 4_900_000).decode()


async def looked_at(gateway: Gateway, pictures: int = 1) -> None:
    """Three turns; in the second one the person shows pictures."""
    await say(gateway, "main", "before", "r1")
    await call(
        gateway,
        "chat.send",
        sessionKey="main",
        message="what is this?",
        idempotencyKey="r2",
        attachments=[{"mimeType": "image/png", "content": PICTURE}] * pictures,
    )
    await gateway.run_store.wait("r2")
    await say(gateway, "main", "after", "r3")


def talker() -> ScriptedProvider:
    return ScriptedProvider(lambda _request: "ok")


def words(message: dict[str, Any]) -> str:
    content = message.get("content")
    return (
        content if isinstance(content, str) else "".join(b.get("text", "") for b in content or ())
    )


@pytest.mark.spec("H3", "G2")
async def test_a_picture_hides_nothing_of_a_conversation(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, talker()) as gateway:
        await looked_at(gateway)
        whole = await call(gateway, "chat.history", sessionKey="main")
        pages = [await call(gateway, "chat.history", sessionKey="main", limit=2)]
        while pages[-1].get("older"):
            before = pages[-1]["older"] + 1
            pages.append(
                await call(gateway, "chat.history", sessionKey="main", limit=2, before=before)
            )

    said = [words(each).split("\n")[0] for each in whole["messages"]]
    assert said == ["before", "ok", "what is this?", "ok", "after", "ok"]
    large = whole["messages"][2]
    assert (large["omitted"], large["role"]) == (True, "user")
    assert large["bytes"] > HISTORY_BYTES_MAX
    assert large["id"] == large["__openclaw"]["id"]
    assert "[picture: image/png]" in words(large)
    assert len(msgspec.json.encode(large)) < 2_000
    assert [m for page in reversed(pages) for m in page["messages"]] == whole["messages"]


@pytest.mark.spec("H3")
async def test_a_history_of_nothing_but_large_messages_is_read_to_its_beginning(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, talker()) as gateway:
        await looked_at(gateway)
        tool = await call(gateway, "tool.sessions_history", sessionKey="main")
        rows = (await call(gateway, "tool.sessions_list", messageLimit=20))["sessions"]

    large = tool["messages"][2]
    for found in (large, rows[0]["messages"][2]):
        assert set(found) == {"id", "role", "timestamp", "omitted", "bytes", "beginning"}
        assert found["beginning"] == "what is this?\n[picture: image/png]"
    assert len(tool["messages"]) == len(rows[0]["messages"]) == 6
    assert (tool["truncated"], tool["droppedMessages"], tool["before"]) == (True, 0, None)


@pytest.mark.spec("H3")
async def test_the_page_shows_one_picture_and_the_beginning_of_more_than_it_can(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, talker()) as gateway:
        await looked_at(gateway)
        await looked_at_again(gateway)
        entries = await every_entry(gateway)
        exported = await every_entry(gateway, whole=True)
        trace = await call(gateway, "runs.trace", runId="p2")
        preview = await call(gateway, "sessions.preview", keys=["main"])

    one, two = (entries[2]["message"], entries[8]["message"])
    assert one["content"][1]["data"] == PICTURE
    assert (two["omitted"], two["role"]) == (True, "user")
    assert two["bytes"] > ENTRY_BYTES_MAX
    assert [each["seq"] for each in entries] == list(range(1, 11))
    assert [each["data"] for each in exported[8]["message"]["content"]] == [PICTURE, PICTURE]
    assert trace["asked"]["omitted"] is True
    assert trace["entries"][0]["message"]["omitted"] is True
    items = preview["previews"][0]["items"]
    assert items[-2]["text"] == "[picture: image/png]\n[picture: image/png]"


async def looked_at_again(gateway: Gateway) -> None:
    """Two pictures and not a word."""
    await say(gateway, "main", "once more", "p1")
    pictures = [{"mimeType": "image/png", "content": PICTURE}] * 2
    await call(
        gateway,
        "chat.send",
        sessionKey="main",
        message=" ",
        idempotencyKey="p2",
        attachments=pictures,
    )
    await gateway.run_store.wait("p2")


async def every_entry(gateway: Gateway, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = await call(gateway, "sessions.entries", key="main", after=after, **more)
        assert page["entries"]
        found += page["entries"]
        after = page.get("after")
    return [each for each in found if each["type"] == "message"]


@pytest.mark.spec("H3")
async def test_of_many_pictures_only_those_are_read_that_an_answer_has_room_for(
    tmp_path: Path,
) -> None:
    class Counting(SqliteLedger):
        read = 0

        async def with_media(self, entries: Sequence[Entry], kinds: Kinds = KINDS) -> list[Entry]:
            self.read += len(entries)
            return await super().with_media(entries, kinds)

    size = 40_000
    picture = Image(MediaSource("base64", "image/png", b64encode(b"x" * (size * 3 // 4)).decode()))
    ledger = Counting(tmp_path / "l.sqlite", inline=True)
    entries = [NewEntry(entry_id=f"e{n}", message=UserMessage([picture])) for n in range(6)]
    await ledger.commit(session(ANA), Inject(key=ANA, entries=entries, at=1))
    found = await ledger.find_session(ANA)
    assert found is not None
    page = await read_page(
        ledger,
        found.session_id,
        stored_message,
        shortened,
        PageWanted(limit=9, bytes_max=size * 5 // 2),
    )
    await ledger.close()

    assert (len(page.shown), ledger.read) == (2, 2)


@pytest.mark.spec("H3")
@pytest.mark.parametrize("oldest", [True, False])
def test_at_the_limit_a_message_is_whole_and_a_byte_further_shortened(oldest: bool) -> None:
    entry = Entry(
        session_id="s", seq=1, entry_id="e", at=1, type="message", message=UserMessage("x" * 900)
    )
    size = len(msgspec.json.encode(stored_message(entry)))

    (whole,) = fitting([entry], size, stored_message, shortened, oldest=oldest)
    (short,) = fitting([entry], size - 1, stored_message, shortened, oldest=oldest)

    assert len(fitting([entry, entry], 2 * size, stored_message, shortened, oldest=oldest)) == 2
    assert whole == stored_message(entry)
    assert (short["omitted"], short["bytes"]) == (True, size)
    assert short["beginning"] == "x" * 399 + "…"


@pytest.mark.spec("H3")
def test_the_beginning_of_a_result_tells_of_its_pictures() -> None:
    picture = msgspec.to_builtins(Image(MediaSource("base64", "image/png", "A" * 9_000)))
    message = ToolResultMessage("c", "read", [msgspec.to_builtins(Text("a chart")), picture])
    entry = Entry(session_id="s", seq=1, entry_id="e", at=1, type="message", message=message)

    assert shortened(entry, 9_100)["beginning"] == "a chart\n[pictures: 1]"
