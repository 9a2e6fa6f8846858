"""A small sample of `make scale`: the course is the same, with fewer of everything. Time is virtual, so it can be told exactly."""

from pathlib import Path

import anyio
import pytest

from crossclaw.testing import VirtualLoop
from tests.scale.simulation import Simulation, Sizes

SIZES = Sizes(
    gateways=6,
    sessions=500,
    waiting=60,
    messages_s=20,
    steady_s=2,
    run_s=2,
    die=2,
    slots=40,
    cores=4,
)


@pytest.mark.spec("B6", "B1")
def test_many_gateways_share_what_waits_and_what_the_dead_have_left(tmp_path: Path) -> None:
    found = anyio.run(
        Simulation(SIZES, tmp_path).run, backend_options={"loop_factory": VirtualLoop}
    )

    assert found.ended == found.accepted, "nothing is lost"
    assert found.begun_twice == found.left_by_dead > 0, "nothing is done twice that was not cut off"
    assert found.start.seconds < 2
    assert found.deaths.seconds < 5
    assert found.steady.spread[0] > 0
    assert found.start.spread[-1] < SIZES.waiting, "nobody takes all"
    a_run = found.steady.all_statements_s * found.steady.seconds / found.steady.claims
    assert a_run < 75, "gateways do not all ask for what one of them gets"
