"""The ledger equals a dict, through crash and reopening (a state machine against a model)."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crossclaw.domain.errors import CrossclawError, Fenced, KeyReused
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import words_of
from crossclaw.domain.runs import Outcome, Run
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import (
    AlreadyAccepted,
    Append,
    Claim,
    Dedupe,
    EndOpenRun,
    EndRun,
    Op,
    Recover,
    ReleaseRun,
    Submit,
)
from tests.ledger.making import run, says, session
from tests.proof.size import examples
from tests.stores import copy_state

KEYS = [SessionKey.named("main", name) for name in ("ana", "ben")]
keys = st.sampled_from(KEYS)


class LedgerMachine(RuleBasedStateMachine):
    @initialize()
    def open_the_first(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.boots = 0
        self.lanes: dict[SessionKey, list[str]] = {key: [] for key in KEYS}  # open runs in order
        self.said: dict[SessionKey, list[str]] = {key: [] for key in KEYS}
        self.unread: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.claims: dict[SessionKey, Run] = {}
        self.stale: list[Run] = []
        self.numbers = 0
        self._open()
        for key in KEYS:
            self._do(session(key))

    def _open(self) -> None:
        self.boots += 1
        self.ledger = open_ledger(self.folder / f"{self.boots}" / "l.sqlite", inline=True)

    def _do(self, *ops: Op[Any]) -> list[Any]:
        async def commit() -> list[Any]:
            return await self.ledger.commit(*ops)

        return anyio.run(commit)

    def _read(self, method: str, *args: Any, **kwargs: Any) -> Any:
        async def read() -> Any:
            return await getattr(self.ledger, method)(*args, **kwargs)

        return anyio.run(read)

    @rule(
        key=keys,
        dedupe=st.none() | st.sampled_from(["k1", "k2"]),
        text=st.sampled_from(["red", "blue"]),
    )
    def submit(self, key: SessionKey, dedupe: str | None, text: str) -> None:
        self.numbers += 1
        run_id, digest = f"r{self.numbers}", f"{key}{text}"
        op = Submit(
            new=run(run_id, key, text),
            at=1,
            dedupe=Dedupe("chat", dedupe, digest) if dedupe else None,
        )
        known = self.keys.get(dedupe or "")
        if known and known[1] != digest:
            with pytest.raises(KeyReused):
                self._do(op)
            return
        if known:
            with pytest.raises(AlreadyAccepted, match=known[0]):
                self._do(op)
            return
        (submitted,) = self._do(op)
        assert (submitted.run_id, submitted.duplicate) == (run_id, False)
        self.lanes[key].append(run_id)
        self.unread[run_id] = text
        if dedupe:
            self.keys[dedupe] = (run_id, digest)

    @rule(key=keys)
    def claim(self, key: SessionKey) -> None:
        (claimed,) = self._do(Claim(key=key, owner=str(self.boots), at=2))
        if key in self.claims or not self.lanes[key]:
            assert claimed is None
            return
        assert claimed.run.run_id == self.lanes[key][0]
        self.claims[key] = claimed.run
        if claimed.run.run_id in self.unread:
            self.said[key].append(self.unread.pop(claimed.run.run_id))

    @rule(key=keys, word=st.sampled_from(["one", "two"]), end=st.booleans())
    def write(self, key: SessionKey, word: str, end: bool) -> None:
        if key not in self.claims:
            return
        claimed = self.claims[key]
        ops: list[Op[Any]] = [Append(fence=claimed.fence, entries=[says(word)], at=3)]
        if end:
            ops.append(EndRun(fence=claimed.fence, outcome=Outcome("ok", reply=word), at=4))
        self._do(*ops)
        self.said[key].append(word)
        if end:
            self._ended(key, claimed.run_id, "ok")

    @rule(key=keys)
    def half_a_step_that_fails(self, key: SessionKey) -> None:
        if key in self.claims and self.stale:
            good, bad = self.claims[key], self.stale[0]
            with pytest.raises(Fenced):
                self._do(
                    Append(fence=good.fence, entries=[says("void")], at=3),
                    Append(fence=bad.fence, entries=[says("void")], at=3),
                )

    @rule(key=keys)
    def abort(self, key: SessionKey) -> None:
        if not self.lanes[key]:
            return
        run_id = self.lanes[key][-1]
        ((ended, _),) = self._do(EndOpenRun(run_id=run_id, outcome=Outcome("aborted"), at=5))
        assert [run.run_id for run in ended] == [run_id]
        if run_id in self.unread:
            self.said[key].append(self.unread.pop(run_id))
        self._ended(key, run_id, "aborted")

    @rule(key=keys)
    def release(self, key: SessionKey) -> None:
        if key in self.claims:
            claimed = self.claims.pop(key)
            self._do(ReleaseRun(fence=claimed.fence))
            self.stale.append(claimed)

    @rule()
    def write_with_a_lost_claim(self) -> None:
        for lost in self.stale[-3:]:
            with pytest.raises(CrossclawError):
                self._do(Append(fence=lost.fence, entries=[says("void")], at=3))

    @rule()
    def crash(self) -> None:
        """Another process finds the files as they are now."""
        before = self.folder / f"{self.boots}"
        copy_state(before, self.folder / f"{self.boots + 1}")
        anyio.run(self.ledger.close)
        self._open()
        self.stale += self.claims.values()
        self.claims.clear()
        self._do(Recover(owner=str(self.boots), at=9))

    @rule()
    def close_and_reopen(self) -> None:
        anyio.run(self.ledger.close)
        self.ledger = open_ledger(self.folder / f"{self.boots}" / "l.sqlite", inline=True)

    def _ended(self, key: SessionKey, run_id: str, status: str) -> None:
        self.lanes[key].remove(run_id)
        self.outcomes[run_id] = status
        claimed = self.claims.get(key)
        if claimed and claimed.run_id == run_id:
            self.stale.append(self.claims.pop(key))

    @invariant()
    def the_ledger_says_the_same(self) -> None:
        for key in KEYS:
            entries = self._read("list_entries", f"id-of-{key.name}", limit=999)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            assert [words_of(entry.message) for entry in entries] == self.said[key]
            assert [each.run_id for each in self._read("list_open_runs", key)] == self.lanes[key]
        for run_id, status in self.outcomes.items():
            assert self._read("find_run", run_id).status == status
        for word in ("red", "two", "void"):
            hits = self._read("search", word, limit=999, sight=EVERYTHING)
            assert len(hits) == sum(texts.count(word) for texts in self.said.values())

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            anyio.run(self.ledger.close)
            shutil.rmtree(self.folder)


LedgerMachine.TestCase.settings = settings(
    max_examples=examples(10, 25), stateful_step_count=25, deadline=None
)
TestLedger = pytest.mark.spec("B1")(LedgerMachine.TestCase)
