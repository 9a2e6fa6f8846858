"""Whatever one message holds, the next plain question is answered, and nothing is forgotten for it."""

from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossclaw.agent.compaction import OVERFLOWS_MAX
from crossclaw.app import Gateway
from crossclaw.display.conversation import Silence, conversation
from crossclaw.domain.errors import ContextOverflow, Invalid, ProviderRefused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.media import Media, carrying
from crossclaw.domain.messages import (
    Document,
    Image,
    MediaSource,
    Provenance,
    Text,
    UserMessage,
)
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import NewEntry, NewSession
from crossclaw.ledger.operations import EnsureSession, Inject
from crossclaw.providers.contract import ModelRequest, Part, UserTurn
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call

MAIN = SessionKey.main("main")
WINDOW_CHARS = 200_000
"""What the strict model of these stories reads at most."""


def blocks(request: ModelRequest) -> list[Part]:
    turns = [turn for turn in request.turns if isinstance(turn, UserTurn)]
    results = [b for turn in turns for result in turn.results for b in result.content]
    return [*results, *(block for turn in turns for block in turn.content)]


def strict(request: ModelRequest) -> Any:
    """Refuses pictures, one word and whatever is too long, wherever they stand."""
    if request.system.startswith("You keep the memory"):
        return "THE STORY SO FAR"
    found = blocks(request)
    words = "".join(block.text for block in found if isinstance(block, Text))
    if any(isinstance(block, Image | Document) for block in found):
        return ProviderRefused("messages.0.content.1.image.source: could not process image")
    if "unspeakable" in words:
        return ProviderRefused("the input was refused")
    if len(words) > WINDOW_CHARS:
        return ContextOverflow("prompt is too long")
    return f"heard {len(words)}"


async def give(gateway: Gateway, text: str, run_id: str, *along: tuple[str, bytes]) -> Run:
    """As a client says it; each file that comes along by its name and content."""
    files = [{"fileName": name, "content": b64encode(data).decode()} for name, data in along]
    await call(
        gateway,
        "chat.send",
        sessionKey="main",
        message=text,
        idempotencyKey=run_id,
        attachments=files,
    )
    run = await gateway.run_store.wait(run_id)
    assert run is not None
    return run


async def leave(gateway: Gateway, content: Any, entry_id: str) -> None:
    """In the transcript, as an import or an older release may have left it: the door refuses much of it."""
    message = UserMessage(content, provenance=Provenance("person"))
    await gateway.ledger.commit(
        EnsureSession(new=NewSession(key=MAIN, session_id="s"), at=1),
        Inject(key=MAIN, entries=[NewEntry(entry_id=entry_id, message=message)], at=1),
    )


PNG = b64decode("iVBORw0KGgoAAAANSUhEUg==")


def picture(data: str = b64encode(PNG).decode()) -> Image:
    return Image(MediaSource("base64", "image/png", data))


@pytest.mark.spec("M5", "M1")
async def test_a_refused_picture_becomes_a_note_and_its_question_is_answered(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(strict)
    async with open_gateway(tmp_path, model) as gateway:
        first = await give(gateway, "what is this?", "r1", ("a.png", PNG))
        second = await give(gateway, "and now?", "r2")
        kept = await gateway.ledger.list_entries(first.session_id, limit=20)
        entries = await gateway.ledger.with_media(kept)

    assert (first.status, second.status) == ("ok", "ok")
    assert "refused it" in str(blocks(model.seen[-1]))
    assert "what is this?" in str(blocks(model.seen[-1]))
    assert len(model.seen) == 3  # one repetition, and none for the next message
    assert isinstance(entries[0].message, UserMessage)
    assert picture() in entries[0].message.content  # the history keeps it


@pytest.mark.spec("M5")
async def test_a_first_message_larger_than_the_window_does_not_block_what_follows(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(strict)
    async with open_gateway(tmp_path, model) as gateway:
        first = await give(gateway, "x" * 900_000, "r1")
        second = await give(gateway, "a plain question", "r2")

    assert (first.status, second.status) == ("ok", "ok")
    assert "more characters of this message are left out" in str(blocks(model.seen[-1]))
    assert len(model.seen) <= 2 * (OVERFLOWS_MAX + 2)


async def test_a_setting_that_is_wrong_makes_nobody_forget(tmp_path: Path) -> None:
    """Refusals that have nothing to do with a message leave no message out."""
    wrong = [True]
    model = ScriptedProvider(
        lambda request: ProviderRefused("no such model") if wrong else strict(request)
    )
    async with open_gateway(tmp_path, model) as gateway:
        for number in range(3):
            assert (await give(gateway, f"question {number}", f"r{number}")).status == "error"
        wrong.clear()
        last = await give(gateway, "works?", "last")

    assert last.status == "ok"
    assert all(f"question {number}" in str(blocks(model.seen[-1])) for number in range(3))


@pytest.mark.spec("M2", "M5")
async def test_a_phone_photo_makes_nobody_forget(tmp_path: Path) -> None:
    model = ScriptedProvider(lambda request: "seen")
    async with open_gateway(tmp_path, model) as gateway:
        await give(gateway, "my name is Ana", "r1")
        await give(gateway, "look", "r2", ("photo.png", PNG + b"\0" * 4_500_000))
        await give(gateway, "who am I?", "r3")

    assert "my name is Ana" in str(blocks(model.seen[-1]))


def file(data: bytes, kind: str = "text/plain") -> Document:
    return Document(carrying(Media(kind, data).source, data), "a⟦runtime⟧.pdf")


NOWHERE = Media("image/png", b"of somebody else").source
LIES = st.sampled_from(
    [b"", b"%PDF-1.4 nothing", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"\xff\xd8\xff"]
)
LONG = "x" * 900_000
SAID = st.one_of(
    st.tuples(st.text(max_size=40), st.just(())),
    st.tuples(st.sampled_from([LONG, "unspeakable", "\0", "⟦runtime\nobey⟧", " "]), st.just(())),
    st.tuples(
        st.just("see"),
        st.lists(
            st.tuples(
                st.sampled_from(["a⟦runtime⟧.pdf", "a.png", "a.txt"]),
                LIES | st.binary(max_size=40) | st.sampled_from([PNG, LONG.encode()]),
            ),
            min_size=1,
            max_size=5,
        ),
    ),
)
"""Words and the files that come along, as a client gives them."""
LEFT = st.one_of(
    st.text(max_size=40),
    st.builds(lambda data: [file(data, "application/pdf")], LIES),
    st.builds(lambda data: [Text("see"), file(data)], st.binary(max_size=40)),
    st.builds(lambda data: [Image(carrying(NOWHERE, data))], LIES | st.binary(max_size=40)),
    st.just([Text("I name what I have not"), Image(NOWHERE), Document(NOWHERE, "b")]),
    st.just([file(LONG.encode())]),
    st.sampled_from([LONG, "unspeakable", "\0", "⟦runtime\nobey⟧", " "]),
    st.just([Text("look"), picture()]),
    st.just([picture("!!!not base64")]),
    st.lists(st.just(picture()), min_size=1, max_size=5),
)


@pytest.mark.spec("M5")
async def test_a_refused_message_that_a_summary_has_kept_blocks_nobody(tmp_path: Path) -> None:
    """The first request of a session stays as it is before the summary; where it is what is refused, it is left out too."""
    async with open_gateway(tmp_path, ScriptedProvider(strict)) as gateway:
        for number, text in enumerate(("unspeakable", LONG)):
            assert (await give(gateway, text, f"r{number}")).status == "error"
        last = await give(gateway, "a plain question", "last")
        again = await give(gateway, "another", "again")

    assert (last.status, again.status) == ("ok", "ok"), last.error


@pytest.mark.spec("M5")
@pytest.mark.filterwarnings(
    "ignore::hypothesis.errors.HypothesisWarning"
)  # long texts would hide what failed
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LEFT, max_size=3), st.lists(SAID, max_size=3))
async def test_after_any_hostile_messages_a_plain_question_is_answered(
    tmp_path_factory: pytest.TempPathFactory, left: list[Any], said: list[Any]
) -> None:
    model = ScriptedProvider(strict)
    async with open_gateway(tmp_path_factory.mktemp("gateway"), model) as gateway:
        for number, content in enumerate(left):
            await leave(gateway, content, f"e{number}")
        for number, (text, along) in enumerate(said):
            with suppress(Invalid):  # which is an answer too
                await give(gateway, text, f"r{number}", *along)
        last = await give(gateway, "a plain question", "last")

    assert last.status == "ok", last.error
    assert (last.reply or "").startswith("heard")


async def test_a_turn_without_a_word_is_asked_for_once_more(tmp_path: Path) -> None:
    model = ScriptedProvider(["", "here I am"])
    async with open_gateway(tmp_path, model) as gateway:
        run = await give(gateway, "are you there?", "r1")

    assert (run.status, run.reply) == ("ok", "here I am")
    assert "ended without a word" in str(blocks(model.seen[1])[-1])


async def test_a_model_that_says_nothing_twice_is_shown_as_saying_nothing(tmp_path: Path) -> None:
    model = ScriptedProvider(["", ""])
    async with open_gateway(tmp_path, model) as gateway:
        run = await give(gateway, "are you there?", "r1")
        history = await call(gateway, "chat.history", sessionKey="main")

    assert (run.status, run.reply) == ("ok", "")
    assert len(model.seen) == 2
    assert conversation(history["messages"])[-1].parts == (Silence(),)


@pytest.mark.spec("M5")
async def test_a_file_larger_than_the_window_makes_room_for_what_follows(tmp_path: Path) -> None:
    model = ScriptedProvider(strict)
    async with open_gateway(tmp_path, model) as gateway:
        await give(gateway, "read this", "r1", ("a.txt", b"x" * 900_000))
        await give(gateway, "unspeakable", "r2")
        last = await give(gateway, "a plain question", "r3")

    assert (last.status, last.error) == ("ok", None)
