"""Whatever is said and whatever happens to a file, it comes to be the ledger's own rendering."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.domain.messages import UserMessage
from crossclaw.domain.sessions import Entry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Export
from crossclaw.testing import VirtualClock, VirtualLoop
from crossclaw.transcripts.exporter import Exporter
from crossclaw.transcripts.jsonl import Damage, entry_lines, header_line, read_lines
from tests.proof.size import FULL
from tests.unit.test_transcript_exporter import ANA, id_of, path_of, rendered, speak

# Short words make lines of the same length: then a hole can be as long as what follows it.
words = st.sampled_from(["aa", "bb", "✓", "a\nb", "x" * 3_000]) | st.text(max_size=20)


class Harm(NamedTuple):
    """Done to the file at two places, which are taken modulo its size or its lines."""

    kind: Literal["cut", "drop", "double", "insert", "delete", "foreign", "flip", "swap"]
    at: int
    more: bytes

    @property
    def keeps_the_size(self) -> bool:
        return self.kind in ("flip", "swap")

    def do(self, path: Path) -> None:
        if not path.exists():
            return
        if self.kind == "delete":
            path.unlink()
        else:
            path.write_bytes(self._changed(path.read_bytes()))

    def _changed(self, data: bytes) -> bytes:
        lines, at = data.splitlines(keepends=True), self.at % (len(data) + 1)
        n = self.at % max(1, len(lines))
        changes: dict[str, Callable[[], bytes]] = {
            "cut": lambda: data[:at],
            "drop": lambda: b"".join([*lines[:n], *lines[n + 1 :]]),
            "double": lambda: b"".join([*lines[: n + 1], *lines[n:]]),
            "insert": lambda: data[:at] + self.more + data[at:],
            "foreign": lambda: self.more,
            "flip": lambda: data[: at - 1] + bytes([data[at - 1] ^ 1]) + data[at:] if at else data,
            "swap": lambda: b"".join([*lines[n:], *lines[:n]]),
        }
        return changes[self.kind]()


class Step(NamedTuple):
    said: list[str]
    written: Literal["flushed", "served", "not yet"]
    harm: Harm | None
    ended: Literal["closed", "crashed", "no"]


harms = st.builds(
    Harm,
    st.sampled_from(["cut", "drop", "double", "insert", "delete", "foreign", "flip", "swap"]),
    st.integers(0, 100_000),
    st.sampled_from([b"x", b"\n", b"{}\n", b"\x00" * 40, b'{"type":"session"']),
)
steps = st.builds(
    Step,
    st.lists(words, max_size=5),
    st.sampled_from(["flushed", "served", "not yet"]),
    st.none() | harms,
    st.sampled_from(["closed", "crashed", "no"]),
)


@pytest.mark.spec("M4")
@settings(deadline=None, max_examples=150 if FULL else 40)
@given(st.lists(steps, min_size=1, max_size=6))
def test_after_repair_and_verification_a_file_is_what_the_ledger_says(story: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tell = partial(live_through, Path(folder), story)
        anyio.run(tell, backend_options={"loop_factory": VirtualLoop})


async def live_through(folder: Path, story: Sequence[Step]) -> None:
    ledger = open_ledger(folder / "ledger.sqlite", inline=True)
    clock = VirtualClock()
    exporter = Exporter(ledger, folder / "sessions", clock, inline=True)
    for step in story:
        await ledger.commit(*speak(ANA, *step.said))
        await write(exporter, step)
        if step.ended == "closed":
            await exporter.close()
        if step.harm:
            step.harm.do(path_of(exporter, ANA))
        if step.ended != "no":
            exporter.files.close()
            exporter = Exporter(ledger, folder / "sessions", clock, inline=True)
        await exporter.repair()
        await exporter.verify(deep=bool(step.harm and step.harm.keeps_the_size))
        await expect_truth(ledger, path_of(exporter, ANA))
        await anyio.sleep(100)  # so that what is repaired again is no fight
    exporter.files.close()
    await ledger.close()


async def write(exporter: Exporter, step: Step) -> None:
    if step.written == "flushed":
        await exporter.flush()
    if step.written == "served":
        async with anyio.create_task_group() as tasks:
            await tasks.start(exporter.serve)
            await anyio.sleep(0.5)
            tasks.cancel_scope.cancel()


async def expect_truth(ledger: Ledger, path: Path) -> None:
    truth = await rendered(ledger, id_of(ANA))
    found = path.read_bytes() if path.exists() else b""  # noqa: ASYNC240
    if truth.count(b"\n") > 1 or found:
        assert found == truth


entries = st.lists(words, max_size=6).map(
    lambda texts: [
        Entry(
            session_id="s",
            seq=number,
            entry_id=f"e{number}",
            at=number,
            type="message",
            message=UserMessage(text),
        )
        for number, text in enumerate(texts, start=1)
    ]
)
HEADER = header_line(Export("main", "s", "agent:main:main", 0, 0, 0, 0))


@given(entries)
def test_lines_read_back_whole_and_one_a_line(said: list[Entry]) -> None:
    data = HEADER + entry_lines(said, None)

    lines = list(read_lines(data.splitlines(keepends=True)))

    assert not [line for line in lines if isinstance(line, Damage)]
    assert len(lines) == len(said) + 1 == data.count(b"\n")


@given(entries, st.data())
def test_a_transcript_cut_anywhere_has_at_most_a_torn_end(
    said: list[Entry], data: st.DataObject
) -> None:
    whole = HEADER + entry_lines(said, None)
    cut = whole[: data.draw(st.integers(0, len(whole)))]

    damage = [
        line for line in read_lines(cut.splitlines(keepends=True)) if isinstance(line, Damage)
    ]

    assert [each.kind for each in damage] == ([] if not cut or cut.endswith(b"\n") else ["torn"])


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_at_all_upset_the_reader(lines: list[bytes]) -> None:
    assert all(isinstance(line, Damage) for line in read_lines(lines))
