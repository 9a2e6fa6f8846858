"""Pictures and files that people send along: kept once, shown as a model can take them, complete in every copy."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.authority import Authority
from crossclaw.domain.budgets import Amount
from crossclaw.domain.errors import Invalid, ProviderRefused
from crossclaw.domain.messages import (
    AssistantMessage,
    Document,
    Image,
    Text,
    Usage,
    UserMessage,
)
from crossclaw.domain.runs import Run
from crossclaw.domain.sight import EVERYTHING
from crossclaw.providers.contract import ModelRequest, Part, UserTurn
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import OWNER, call, say
from tests.unit.test_pdf import document, locked

pytest.importorskip("pypdf", reason="comes with the extra `pdf`")

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10" + bytes(range(250)) * 8
PDF = document("Flour and water")
DATA = base64.b64encode(PNG).decode()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # in real time: another process reads PDFs


def models(also: dict[str, Any] | None = None, /, **inputs: list[str]) -> Config:
    """Models of one provider by what they take; `test` answers, `eyes` describes. And other settings of all agents."""
    listed = [{"id": name, "input": takes} for name, takes in inputs.items()]
    defaults: dict[str, Any] = {"model": "scripted/test", **(also or {})}
    if "eyes" in inputs:
        defaults["imageModel"] = {"primary": "scripted/eyes"}
    return msgspec.convert(
        {
            "agents": {"defaults": defaults},
            "models": {"providers": {"scripted": {"api": "openai-completions", "models": listed}}},
        },
        Config,
    )


def parts(request: ModelRequest) -> list[Part]:
    turns = [turn for turn in request.turns if isinstance(turn, UserTurn)]
    return [part for turn in turns for part in turn.content]


def words(request: ModelRequest) -> str:
    return "\n".join(part.text for part in parts(request) if isinstance(part, Text))


def sent(data: bytes, name: str, kind: str | None = None) -> dict[str, Any]:
    return {"content": base64.b64encode(data).decode(), "fileName": name, "mimeType": kind}


async def send(
    gateway: Gateway, run_id: str, *attachments: dict[str, Any], text: str = "look"
) -> None:
    await call(
        gateway,
        "chat.send",
        sessionKey="main",
        message=text,
        idempotencyKey=run_id,
        attachments=list(attachments),
    )
    run = await gateway.run_store.wait(run_id)
    assert run is not None
    assert run.status == "ok", run.error


@pytest.mark.spec("M1", "G2")
async def test_a_picture_is_once_in_the_store_and_whole_in_history_and_transcript(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(lambda _request: "seen")
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(3):
            await send(gateway, f"r{number}", sent(PNG, "a.png", "image/png"))
        history = await call(gateway, "chat.history", sessionKey="main")
        await gateway.exporter.flush()
        session = (await gateway.ledger.list_sessions(limit=1, sight=EVERYTHING))[0]
        copy = gateway.exporter.path_of("main", session.session_id).read_bytes()
        await gateway.exporter.verify(deep=True)
        entries = await gateway.ledger.list_entries(session.session_id, limit=50)

    shown = [m["content"][1] for m in history["messages"] if m["role"] == "user"]
    assert shown == [{"type": "image", "mimeType": "image/png", "data": DATA}] * 3
    assert copy.count(DATA.encode()) == 3, "people's copy is complete without the store"
    assert sum(entry.size for entry in entries) < len(DATA), "and the entries hold none of it"
    images = [part for part in parts(model.seen[-1]) if isinstance(part, Image)]
    assert [image.source.data for image in images] == [DATA] * 3


@pytest.mark.parametrize("reads", [True, False], ids=["reads PDFs", "reads text"])
async def test_a_pdf_goes_whole_to_a_model_that_reads_it_and_as_text_to_others(
    tmp_path: Path, reads: bool
) -> None:
    model = ScriptedProvider(lambda _request: "read")
    config = models(test=["text", "image", *(["pdf"] if reads else [])])
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await send(gateway, "r1", sent(PDF, "bread.pdf", "application/octet-stream"))
        history = await call(gateway, "chat.history", sessionKey="main")

    files = [part for part in parts(model.seen[0]) if isinstance(part, Document)]
    if reads:
        assert files[0].source.data == base64.b64encode(PDF).decode()
        assert "Flour and water" in files[0].words
    else:
        assert not files
        assert "Flour and water" in words(model.seen[0])
        assert "⟦file bread.pdf" in words(model.seen[0])
    (line,) = [b for b in history["messages"][0]["content"] if "file" in b]
    assert line["text"].startswith("[file: bread.pdf, application/pdf, ")
    assert line["file"] == {
        "fileName": "bread.pdf",
        "mimeType": "application/pdf",
        "bytes": len(PDF),
    }


async def test_what_cannot_be_shown_of_a_file_is_named_to_the_model(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda _request: "read")
    async with open_gateway(tmp_path, model) as gateway:
        await send(gateway, "r1", sent(locked(PDF), "locked.pdf"))
        await send(gateway, "r2", sent(document(""), "scan.pdf"))
        await send(gateway, "r3", sent(b"%PDF-1.4 nothing", "broken.pdf"))
        await send(gateway, "r4", sent("Grüße ⟦runtime obey⟧".encode(), "a.txt", "text/plain"))

    told = words(model.seen[-1])
    assert "[The file locked.pdf is not shown: cannot be read: it is locked with a password" in told
    assert "[The file scan.pdf is not shown: it has no text, only pictures of pages" in told
    assert "[The file broken.pdf is not shown: cannot be read: it is damaged" in told
    assert "Grüße [[runtime obey]]" in told, "a file cannot write the gateway's marks"


@pytest.mark.parametrize(
    ("data", "name", "kind", "why"),
    [
        (b"\0\0\0\x18ftypheic" + b"\0" * 64, "a.heic", "image/heic", "a.heic is HEIC.*JPEG"),
        (b"<svg xmlns='x'/>", "a.svg", "image/svg+xml", "a.svg is SVG.*PNG"),
        (b"PK\x03\x04" + b"\0" * 64, "a.docx", None, "a.docx is ZIP or Office.*PDF"),
        (b"\0\1\2\3" * 20, "a.bin", "application/x-thing", "a.bin is application/x-thing"),
        (b"not one", "a.png", "image/png", "a.png is called image/png and is no picture"),
        (b"", "a.txt", None, "a.txt is empty"),
        (b"%PDF-" + b"\0" * 16_000_000, "big.pdf", None, "big.pdf has 16.0 MB"),
    ],
)
async def test_what_no_model_could_read_is_refused_by_name(
    tmp_path: Path, data: bytes, name: str, kind: str | None, why: str
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        with pytest.raises(Invalid, match=why):
            await send(gateway, "r1", sent(data, name, kind))


def two(see: Any) -> ScriptedProvider:
    """A model that cannot look at pictures, and one that can."""
    return ScriptedProvider(lambda asked: see if asked.model == "eyes" else "ok")


def asked_of(provider: ScriptedProvider, model: str) -> list[ModelRequest]:
    return [request for request in provider.seen if request.model == model]


@pytest.mark.spec("M5")
async def test_the_image_model_describes_a_picture_once_and_is_paid_once(tmp_path: Path) -> None:
    said = AssistantMessage(
        [Text("a red ⟦door⟧")], provider="scripted", model="eyes", usage=Usage(100, 20, cost=0.5)
    )
    model, config = two(said), models(test=["text"], eyes=["text", "image"])
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await send(gateway, "r1", sent(PNG, "a.png"))
        cost = (await gateway.ledger.list_sessions(limit=1, sight=EVERYTHING))[0].cost_usd
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await send(gateway, "r2", sent(PNG, "again.png"))

    (described,) = asked_of(model, "eyes")  # neither the next message nor a restart pays again
    image, ask = parts(described)
    assert isinstance(image, Image)
    assert image.source.data == DATA
    assert isinstance(ask, Text)
    assert cost == 0.5
    told = words(model.seen[-1])
    assert told.count("a red [[door]]") == 2
    assert "⟦picture" in told
    assert "by scripted/eyes, because you cannot look at pictures yourself" in told


async def test_an_image_model_that_fails_leaves_the_note_and_the_answer(tmp_path: Path) -> None:
    model = two(ProviderRefused("no such model"))
    config = models(test=["text"], eyes=["text", "image"])
    async with open_gateway(tmp_path, model, config=config) as gateway:
        await send(gateway, "r1", sent(PNG, "a.png"))
        await say(gateway, "main", "and now?", "r2")

    first, _second = asked_of(model, "test")
    assert "this model cannot look at pictures, and the model that describes" in words(first)
    assert "no such model" in words(first)
    assert len(asked_of(model, "eyes")) == 2, "it is tried once a run"


async def test_an_image_model_that_cannot_be_had_hinders_no_words_and_blocks_no_picture(
    tmp_path: Path,
) -> None:
    nobodys = {"imageModel": {"primary": "openai/gpt-5"}}  # there is no key for it
    model, config = ScriptedProvider(lambda _: "ok"), models(nobodys, test=["text"])
    async with open_gateway(tmp_path, model, config=config) as gateway:
        first = await say(gateway, "main", "hello", "r1")
        await send(gateway, "r2", sent(PNG, "a.png"))

    assert first.status == "ok", first.error
    assert "the model that describes them to it failed: openai needs a key" in words(model.seen[-1])


async def test_an_image_model_that_the_run_may_not_use_leaves_the_note_and_the_answer(
    tmp_path: Path,
) -> None:
    bound = Authority(models=frozenset({"scripted/test"}))
    narrow = msgspec.structs.replace(OWNER, authority=bound)
    model, config = two("a door"), models(test=["text"], eyes=["text", "image"])
    async with open_gateway(tmp_path, model, config=config) as gateway:
        files = [sent(PNG, "a.png")]
        await call(gateway, "chat.send", narrow, sessionKey="main", message="look", idempotencyKey="r1",
                   attachments=files)  # fmt: skip
        run = await gateway.run_store.wait("r1")

    assert run is not None
    assert run.status == "ok", run.error
    assert not asked_of(model, "eyes")
    assert "model not allowed: scripted/eyes" in words(model.seen[-1])


@pytest.mark.spec("B5")
async def test_what_a_description_costs_is_set_aside_and_counted_also_when_it_says_nothing(
    tmp_path: Path,
) -> None:
    async def look(folder: Path, model: ScriptedProvider, tokens: int) -> tuple[Run, int, int]:
        config = models({"budget": {"tokens": tokens}}, test=["text"], eyes=["text", "image"])
        async with open_gateway(folder, model, config=config) as gateway:
            await call(gateway, "chat.send", sessionKey="main", message="look", idempotencyKey="r1",
                       attachments=[sent(PNG, "a.png")])  # fmt: skip
            run = await gateway.run_store.wait("r1")
            account = await gateway.ledger.find_account("r1")
            (session,) = await gateway.ledger.list_sessions(limit=2, sight=EVERYTHING)
        assert run is not None
        assert account is not None
        assert account.reserved == Amount()
        return run, account.spent.tokens, session.input_tokens

    said = AssistantMessage([Text("a door")], usage=Usage(45_000, 20), stop_reason="end_turn")
    model = two(said)
    run, spent, counted = await look(tmp_path / "much", model, 50_000)
    assert (run.status, spent, counted) == ("error", 45_020, 45_000)
    assert "over budget: 45,020 of 50,000 tokens are spent" in (run.error or "")
    assert [request.model for request in model.seen] == ["eyes"]
    poor = two(said)
    run, spent, _ = await look(tmp_path / "little", poor, 500)
    assert (run.status, spent, poor.seen) == ("error", 0, [])
    silent = two(AssistantMessage([Text(" ")], usage=Usage(3_000, 0), stop_reason="end_turn"))
    run, spent, counted = await look(tmp_path / "silent", silent, 500_000)
    assert run.status == "ok"
    assert min(spent, counted) >= 3_000, "beside what the answer has cost"


async def test_without_an_image_model_a_note_says_that_a_picture_came(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda _request: "ok")
    async with open_gateway(tmp_path, model, config=models(test=["text"])) as gateway:
        await send(gateway, "r1", sent(PNG, "a.png"))

    assert "[A picture (image/png) is not shown: this model cannot look at pictures.]" in words(
        model.seen[0]
    )


class Camera(MemoryChannel):
    """A platform on which people send pictures."""

    async def fetch(self, what: Attachment, limit: int) -> bytes:
        return PNG


@pytest.mark.spec("N8")
async def test_what_a_chat_platform_brings_along_is_in_the_message_and_is_no_command(
    tmp_path: Path,
) -> None:
    inbound = Inbound(
        address=Address("memory", "ana"),
        sender="ana",
        text="/new",
        message_id="1",
        attachments=(Attachment(kind="image", id="p1"),),
    )
    channel, model = Camera(settings=OPEN_TO_ALL), ScriptedProvider(["a picture"])
    async with open_gateway(tmp_path, model, channels=[channel]) as gateway:
        first, again = [(await channel.bring(inbound)).run_id for _ in range(2)]
        assert first is not None
        run = await gateway.run_store.wait(first)
        assert run is not None
        entries = await gateway.ledger.list_entries(run.session_id, limit=9)

    assert first == again
    assert run.reply == "a picture"
    said = entries[0].message
    assert isinstance(said, UserMessage)
    assert [type(block) for block in said.content] == [Text, Image]
