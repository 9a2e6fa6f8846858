"""The contract of channels: what every channel does, whatever its platform. A channel passes by naming itself and its fake:

    class TestTelegram(ChannelContract):
        @pytest.fixture
        def driver(self) -> TelegramDriver:
            return TelegramDriver()

A driver is a person's hands and eyes on the platform's side: it says, sees, and makes the platform misbehave. The gateway is a
real one in virtual time; a start after a crash is made on a copy of its folder. What a driver says about its platform
(`brings_again`, `knows_keys`) decides what is asked of it.
"""

import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.delivery.files import file_to_send
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.ledger.operations import NewDelivery, PutDelivery
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece
from tests.channels.driving import (
    PICTURE,
    QUIET_S,
    ChannelDriver,
    Failure,
    HandedOver,
    Witness,
    configured,
    delivery_states,
    gateway_with,
    shown,
)
from tests.channels.roads import ChatRoads
from tests.flows.crashing import crashed_copy
from tests.flows.test_runs_keep_their_order import Recording

__all__ = ["ChannelContract", "ChannelDriver", "Failure", "HandedOver", "Witness", "gateway_with"]

PAIRING_CODE = re.compile(r"\b[A-HJ-NP-Z2-9]{8}\b")
AWAY_S = 3_600.0  # longer than any grace for what was there before an account
WORD = re.compile(r"word\d+")


class Verbose(Recording):
    """A model with much to say, each word of it once."""

    def __init__(self, chars: int) -> None:
        super().__init__(0.1)
        self.words = [f"word{number:05}" for number in range(chars // 10)]

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        lines = [" ".join(self.words[at : at + 20]) for at in range(0, len(self.words), 20)]
        return AssistantMessage([Text("\n\n".join(lines))], stop_reason="end_turn")


class Slowly(Recording):
    """A model that writes for half a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [f"This is part {number} of it. " for number in range(10)]

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        for part in self.parts:
            tell(TextPiece(part))
            await anyio.sleep(3)
        return AssistantMessage([Text("".join(self.parts).strip())], stop_reason="end_turn")


class ChannelContract(ChatRoads):
    """Subclass it with a fixture `driver`; the names of the tests are the contract."""

    @pytest.fixture
    def driver(self) -> ChannelDriver:
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "gateway").mkdir()
        return tmp_path / "gateway"

    @pytest.fixture(autouse=True)
    def nothing_to_complain(self, driver: ChannelDriver) -> Any:
        yield
        assert driver.complaints() == []

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    @pytest.mark.spec("N8", "N9", "B1")
    async def test_messages_are_answered_once_each_and_in_order_then_acknowledged(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        async with gateway_with(folder, driver):
            for number in range(3):
                await driver.say(f"m{number}")
                await shown(driver, number + 1)
            again = await driver.say("m3")
            await shown(driver, 4)
            await driver.say_again(again)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: m0", "re: m1", "re: m2", "re: m3"]
        assert driver.waiting() == 0

    @pytest.mark.spec("N8")
    async def test_an_edit_of_a_message_that_waits_takes_its_place(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        async with gateway_with(folder, driver, Recording(30)):
            await driver.say("first")
            await anyio.sleep(10)
            waiting = await driver.say("secnd")
            await anyio.sleep(10)
            if not await driver.change(waiting, "second"):
                return  # nobody tells bots of edits there
            await shown(driver, 2)

        assert driver.seen() == ["re: first", "re: second"]
        assert [each.what for each in driver.received] == ["accepted", "accepted", "changed"]

    @pytest.mark.spec("N8", "B1")
    async def test_a_restart_answers_what_came_meanwhile_and_nothing_twice(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        async with gateway_with(folder, driver):
            first = await driver.say("before")
            await shown(driver, 1)
        if driver.brings_again:
            await driver.say("meanwhile")
        async with gateway_with(folder, driver):
            await driver.say_again(first)
            await driver.say("after")
            await shown(driver, 3 if driver.brings_again else 2)
            await anyio.sleep(QUIET_S)

        meanwhile = ["re: meanwhile"] if driver.brings_again else []
        assert driver.seen() == ["re: before", *meanwhile, "re: after"]

    @pytest.mark.spec("N8", "B1")
    async def test_the_first_message_ever_may_be_written_while_the_gateway_is_away(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        """Nobody has written before, so there is nothing by which the account would know where it was."""
        if not driver.keeps_first:
            return
        async with gateway_with(folder, driver):
            await anyio.sleep(QUIET_S)
        await anyio.sleep(AWAY_S / 2)
        await driver.say("is anybody there?")
        await anyio.sleep(AWAY_S / 2)
        async with gateway_with(folder, driver):
            await shown(driver, 1)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: is anybody there?"]
        assert driver.waiting() == 0

    @pytest.mark.spec("N8", "B1")
    async def test_a_crash_between_accept_and_reply_loses_nothing_and_doubles_nothing(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        async with gateway_with(folder, driver, Recording(100_000.0)):
            first = await driver.say("important")
            await anyio.sleep(60)
            left = crashed_copy(folder)
        async with gateway_with(left, driver):
            await driver.say_again(first)
            await shown(driver, 1)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: important"]

    @pytest.mark.spec("N8", "B1")
    async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        """Where the platform brings nothing again the account holds on to the message until there is room."""
        driver.full_for = 3
        async with gateway_with(folder, driver):
            await driver.say("one")
            await driver.say("two")
            await shown(driver, 2)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: one", "re: two"]
        assert driver.waiting() == 0

    @pytest.mark.spec("N8")
    async def test_hostile_payloads_bring_nothing_down(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        async with gateway_with(folder, driver):
            await driver.say("before")
            await driver.bring_hostile()
            await driver.say("after")
            await shown(driver, 2)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: before", "re: after"]
        assert driver.waiting() == 0

    @pytest.mark.spec("N8", "B4")
    async def test_our_own_words_start_nothing(self, folder: Path, driver: ChannelDriver) -> None:
        async with gateway_with(folder, driver):
            await driver.say_as_us("an echo")
            await driver.say("a person")
            await shown(driver, 1)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: a person"]
        assert len({each.run_id for each in driver.received if each.run_id}) == 1

    # ── who may talk ───────────────────────────────────────────────────────────────────────────

    @pytest.mark.spec("N8", "B4")
    async def test_strangers_and_other_bots_start_nothing(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        driver.restrict("allowlist", "1001")
        async with gateway_with(folder, driver):
            await driver.say("let me in", person="1002")
            await driver.say_as_bot("beep")
            await driver.say("a friend", person="1001")
            await shown(driver, 1)
            await anyio.sleep(QUIET_S)

        assert driver.seen() == ["re: a friend"]
        assert driver.waiting() == 0

    @pytest.mark.spec("N8")
    async def test_an_empty_list_lets_nobody_in_and_says_nothing(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        driver.restrict("allowlist")
        async with gateway_with(folder, driver):
            await driver.say("hello?")
            await anyio.sleep(QUIET_S)

        assert driver.seen() == []

    @pytest.mark.spec("N8", "N9")
    async def test_a_stranger_gets_one_code_over_a_restart_and_no_run(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        driver.restrict("pairing")
        async with gateway_with(folder, driver):
            await driver.say("hello")
            await shown(driver, 1)
            await driver.say("hello again")
            await anyio.sleep(QUIET_S)
        async with gateway_with(folder, driver):
            await driver.say("still there?")
            await anyio.sleep(QUIET_S)

        (text,) = driver.seen()
        assert PAIRING_CODE.search(text)
        assert not any(each.run_id for each in driver.received)

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    @pytest.mark.spec("N9", "B2")
    @pytest.mark.parametrize(
        ("how", "state", "shown"),
        [
            ("not sent", "delivered", 1),
            ("later", "delivered", 1),
            ("never", "failed", 0),
            ("gone", "failed", 0),
            ("lost before", "uncertain", 0),
            ("lost after", "uncertain", 1),
        ],
    )
    async def test_a_failed_send_is_settled_by_what_the_failure_means(
        self, folder: Path, driver: ChannelDriver, how: Failure, state: str, shown: int
    ) -> None:
        if state == "uncertain" and driver.knows_key_s:
            state, shown = "delivered", 1
        if how == "lost after" and driver.finds_lost:
            state = "delivered"
        driver.fail_next_send(how)
        async with gateway_with(folder, driver) as gateway:
            await driver.say("hi")
            if how == "later":
                await anyio.sleep(driver.later_s)
                assert driver.seen() == []
            await anyio.sleep(QUIET_S)
            states = await delivery_states(gateway, driver)

        assert (states, driver.seen()) == ([state], ["re: hi"] * shown)

    @pytest.mark.spec("N9", "B2")
    async def test_a_long_reply_comes_in_pieces_and_one_that_fails_repeats_no_other(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        model = Verbose(driver.text_limit * 5 // 2)
        driver.at_next_effect(lambda: driver.fail_next_send("later"))
        async with gateway_with(folder, driver, model):
            await driver.say("tell me everything")
            await anyio.sleep(QUIET_S)

        seen = driver.seen()
        assert WORD.findall(" ".join(seen)) == model.words
        assert len(seen) >= 3
        assert max(len(text.encode("utf-16-le")) // 2 for text in seen) <= driver.text_limit

    @pytest.mark.spec("N9", "B2")
    async def test_a_crash_while_sending_shows_nothing_twice(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        left: list[Path] = []
        driver.at_next_effect(lambda: left.append(crashed_copy(folder)))
        async with gateway_with(folder, driver):
            await driver.say("hi")
            await shown(driver, 1)
            await anyio.sleep(10)
        async with gateway_with(left[0], driver) as gateway:
            await anyio.sleep(QUIET_S)
            states = await delivery_states(gateway, driver)

        assert driver.seen() == ["re: hi"]
        assert states == ["delivered" if driver.knows_key_s else "uncertain"]

    # ── what people see meanwhile ──────────────────────────────────────────────────────────────

    @pytest.mark.spec("N8", "N9", "B2")
    async def test_people_see_that_they_were_heard_and_a_reply_that_grows_is_one_message(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        driver.at_its_best()
        traits, model = driver.traits, Slowly()
        driver.settings = msgspec.structs.replace(driver.settings, streaming=True)
        async with gateway_with(folder, driver, model, configured(typingMode="instant")) as gateway:
            await driver.say("hi")
            await anyio.sleep(20)
            soon = driver.seen()
            await anyio.sleep(QUIET_S)
            states = await delivery_states(gateway, driver)

        whole = "".join(model.parts).strip()
        assert (driver.seen(), states) == ([whole], ["delivered"])
        if traits.edits:
            assert len(soon) == 1
            assert whole.startswith(soon[0])
            assert soon[0] != whole
        assert (driver.typing_seen() > 0) == (traits.typing_every_s is not None)
        assert (driver.reactions_seen() > 0) == traits.reactions

    @pytest.mark.spec("N9", "B2")
    async def test_files_arrive_once_with_their_words(
        self, folder: Path, driver: ChannelDriver
    ) -> None:
        """The first is lost on its way and comes again; the second is a note. Where there are no files, words say so."""
        async with gateway_with(folder, driver) as gateway:
            await driver.say("hi")
            await shown(driver, 1)
            run_id = next(each.run_id for each in driver.received if each.run_id)
            run = await gateway.ledger.find_run(run_id)
            files = [file_to_send(PICTURE, "a.png"), file_to_send(b"a note", "note.txt")]
            new = NewDelivery(
                delivery_key="files",
                key=run.key,
                address=run.plan.reply_to,
                text="Look!",
                files=tuple(each.file for each in files),
            )
            keep = [each.keep("files", "main", 1) for each in files]
            await gateway.ledger.commit(*keep, PutDelivery(new=new, at=1))
            gateway.outbox.wake()
            await anyio.sleep(QUIET_S)
            delivery = await gateway.ledger.find_delivery("files")

        assert delivery.state == "delivered"
        assert "Look!" in " ".join(driver.seen())
        expected = [PICTURE, b"a note"] if driver.traits.files else []
        assert driver.files_seen() == expected
