"""A service that names what it refuses: that one picture gives way, and everything else stays."""

from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.errors import ProviderRefused
from crossclaw.domain.messages import Image, MediaSource, UserMessage
from crossclaw.providers.failures import part_at
from crossclaw.testing import FakeModelServer
from crossclaw.testing.fake_models import FakeRequest, Refuse, ServerAnswer, Status
from tests.contracts.wires import MODELS, complete, opened, user
from tests.flows.talking import call
from tests.flows.test_no_message_blocks_a_session import give

BAD = Image(MediaSource("base64", "image/png", "iVBORw0KGgpCQUQ="))
GOOD = Image(MediaSource("base64", "image/png", "iVBORw0KGgpHT09E"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # in real time: there is a server


def places(body: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a request with its place, spelled as each service does."""
    match body:
        case str():
            yield path, body
        case dict():
            for name, inner in body.items():
                yield from places(inner, f"{path}.{name}" if path else name)
        case list():
            for number, inner in enumerate(body):
                yield from places(inner, f"{path}[{number}]")


def claudes(place: str) -> str:
    """`messages.3.content.1.image.source.base64.data`: the types of blocks stand in the path."""
    plain = place.replace("[", ".").replace("]", "")
    return plain.replace(".source", ".image.source.base64")


WORDS: dict[str, Callable[[str], str]] = {
    "anthropic": lambda place: f"{claudes(place)}: Could not process image",
    "chat": lambda place: f"Invalid '{place}'. The image could not be read.",
    "responses": lambda place: f"Invalid '{place}'. The image could not be read.",
    "gemini": lambda place: f"* GenerateContentRequest.{place}: Unable to process input image",
}


def along(picture: Image) -> tuple[str, bytes]:
    return "a.png", b64decode(str(picture.source.data))


class Service:
    """Takes every picture at first, later refuses the bad one by its place."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.is_strict = False

    def __call__(self, request: FakeRequest) -> ServerAnswer:
        for place, text in places(request.body):
            if self.is_strict and str(BAD.source.data) in text:
                return Refuse("invalid", message=WORDS[self.wire](place))
        return "fine"


@asynccontextmanager
async def gateway_at(
    folder: Path, server: FakeModelServer, wire: str
) -> AsyncGenerator[app.Gateway]:
    async with opened(wire, server) as provider:
        paths = Paths(home=folder, state_dir=folder / "s", config_path=folder / "c.json")
        raw = {"agents": {"defaults": {"model": f"{wire}/{MODELS[wire]}"}}}
        outside = app.GatewayInputs(environ={}, providers={wire: provider})
        async with app.open_gateway(msgspec.convert(raw, Config), paths, outside) as gateway:
            yield gateway


@pytest.mark.spec("M5")
@pytest.mark.parametrize("wire", WORDS)
async def test_the_picture_that_a_service_names_gives_way_and_no_other(
    tmp_path: Path, wire: str
) -> None:
    """It was answered before, so only its name tells it from the newer ones."""
    service = Service(wire)
    with FakeModelServer(service) as server:
        async with gateway_at(tmp_path, server, wire) as gateway:
            await give(gateway, "hello", "r0")
            await give(gateway, "a good one", "r1", along(GOOD))
            await give(gateway, "and a", "r2", along(BAD))
            service.is_strict = True
            third = await give(gateway, "another good one", "r3", along(GOOD))
            fourth = await give(gateway, "and now?", "r4")
            entries = await gateway.ledger.list_entries(fourth.session_id, limit=20)

    assert (third.status, fourth.status) == ("ok", "ok"), third.error
    sent = [text for _, text in places(server.requests[-1].body)]
    assert sum(str(GOOD.source.data) in text for text in sent) == 2
    assert sum("the model's service refused it" in text for text in sent) == 1
    assert len(server.requests) == 6  # one repetition, and none for the next message
    kept = [e.message for e in entries if isinstance(e.message, UserMessage)]
    assert any(isinstance(block, Image) for block in kept[2].content)  # the history keeps it


@pytest.mark.spec("M5")
async def test_many_refused_pictures_block_no_session(tmp_path: Path) -> None:
    """Named one at a time; after two all give way, also that of the first request, behind a summary."""
    service = Service("anthropic")
    with FakeModelServer(service) as server:
        async with gateway_at(tmp_path, server, "anthropic") as gateway:
            for number in range(4):
                await give(gateway, f"picture {number}", f"r{number}", along(BAD))
            await call(gateway, "sessions.compact", key="main")
            for number in range(4, 8):
                await give(gateway, f"picture {number}", f"r{number}", along(BAD))
            service.is_strict = True
            run = await give(gateway, "a plain question", "last")

    assert (run.status, run.reply) == ("ok", "fine"), run.error
    assert "picture 0" in str(server.requests[-1].body)


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_openai_may_say_the_place_beside_its_words(
    server: FakeModelServer, wire: str
) -> None:
    root = "messages.[1].content.[0]" if wire == "chat" else "input[0].content[0]"
    server.queue(
        Status(
            400, {"error": {"message": "Bad image", "param": root, "type": "invalid_request_error"}}
        )
    )
    async with opened(wire, server) as provider:
        with pytest.raises(ProviderRefused) as failure:
            await complete(provider, user("hi"), system="you")
    assert failure.value.place == root
    assert "hi" in str(failure.value.part)


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        yield server


def test_a_place_that_is_not_in_the_request_names_nothing() -> None:
    params = {"messages": [{"content": [{"type": "text", "text": "a"}]}]}
    assert part_at(params, "messages.0.content.0.text") == "a"
    assert part_at(params, "messages.0.content.0.image.source") == {"type": "text", "text": "a"}
    assert part_at(params, "messages.7.content") is None
    assert part_at(params, "contents[0]") is None
