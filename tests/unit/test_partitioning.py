"""Who of many gateways takes what waits: each its share, nobody all, and nothing is left over."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import Partition, SharingGateway
from crossclaw.ledger.hints import ENDED, LANES
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Claimed, Submitted
from crossclaw.ledger.postgres.listener import without_claimed
from crossclaw.runs.partitioning import IN_COMMON, Partitioner
from tests.ledger.making import ANA, BEN, begun

LANE = [SessionKey.named("main", f"s{number}") for number in range(600)]


def there(
    number: int, *, left_ms: int = 3000, draining: bool = False, config: str = ""
) -> SharingGateway:
    return SharingGateway(
        gateway_id=f"g{number}",
        incarnation=f"i{number:03}",
        joined_at=1,
        left_ms=left_ms,
        draining=draining,
        config_hash=config,
    )


def anything(key: SessionKey) -> bool:
    return True


def partitioners(found: Sequence[SharingGateway]) -> list[Partitioner]:
    made = [Partitioner(each.incarnation) for each in found]
    for each in made:
        each.see(found)
    return made


@pytest.mark.parametrize("count", [1, 3, 20])
def test_after_a_hint_a_few_look_and_others_for_other_lanes(count: int) -> None:
    gateways = partitioners([there(number) for number in range(count)])

    looks = [[each.is_first(key) for each in gateways] for key in LANE]

    assert {sum(row) for row in looks} == {min(count, IN_COMMON)}
    often = Counter(place for row in looks for place, is_first in enumerate(row) if is_first)
    assert min(often.values()) > len(LANE) * min(count, IN_COMMON) / count / 2


async def test_each_takes_its_share_and_that_of_others_only_when_it_waits_on() -> None:
    shares: list[Partition] = []

    async def find(share: Partition) -> Sequence[SessionKey]:
        shares.append(share)
        return [] if share.count > 1 else LANE[:2]

    second = partitioners([there(number) for number in range(20)])[2]

    assert await second.choose(find, anything) == []
    assert await second.choose(find, anything) == LANE[:2], (
        "nobody has taken it since the last look"
    )
    assert shares == [Partition(20, 2, IN_COMMON), Partition()] * 2


async def test_lanes_of_its_share_that_it_may_not_take_do_not_keep_it_from_others() -> None:
    """As those for guests of other gateways; what is for its own guest it takes at once."""
    guest = SessionKey.named("main", "mcp:ana")

    async def find(share: Partition) -> Sequence[SessionKey]:
        return LANE[:1] if share.count > 1 else [LANE[0], LANE[1], guest]

    second = partitioners([there(number) for number in range(20)])[2]

    assert await second.choose(find, lambda key: key != LANE[0]) == [guest]
    assert await second.choose(find, lambda key: key != LANE[0]) == [LANE[1], guest]


async def test_where_there_are_few_gateways_each_takes_all_it_finds() -> None:
    async def find(share: Partition) -> Sequence[SessionKey]:
        assert share == Partition(agents=("ops",))
        return LANE

    alone = Partitioner("i000", {"ops"})
    alone.see([there(number) for number in range(IN_COMMON)])

    assert await alone.choose(find, anything) == LANE


async def test_gateways_that_take_no_runs_have_no_share() -> None:
    others = [there(1), there(2), there(3), there(4, left_ms=0), there(5, draining=True)]
    first = Partitioner("i000")
    first.see([there(0), *others, there(6, config="another")])
    shares: list[Partition] = []

    async def find(share: Partition) -> Sequence[SessionKey]:
        shares.append(share)
        return LANE

    await first.choose(find, anything)

    assert shares == [Partition(4, 0, IN_COMMON)]


async def test_a_run_that_is_taken_by_the_step_that_accepts_it_wakes_nobody_else(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    claimed = Claimed(await begun(ledger, "r1"), None)
    await ledger.close()
    mine, other = (LANES, ANA.text), (LANES, BEN.text)

    assert without_claimed({mine, other, (ENDED, "r0")}, [Submitted("r1"), claimed]) == {
        other,
        (ENDED, "r0"),
    }
    assert without_claimed({mine}, [Submitted("r1"), None]) == {mine}
