"""Whatever is done to the gateway, in whatever order and beside whatever else: when it is quiet again nothing is
lost, doubled, left over, or said where it is denied."""

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.proof.size import FULL
from tests.properties.living import GATEWAYS, KEYS, WORDS, Deed, live

TALK = ("say", "say", "say", "ask", "ask", "post")
CHANGE = ("reset", "delete", "archive", "unarchive", "stop", "deny", "allow", "queue", "compact")
REST = ("job", "job_off", "job_gone", "crash", "close")

pauses = st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.5, 2.0, 3.0, 7.0, 45.0, 400.0])
deeds = st.one_of(
    st.builds(Deed, st.sampled_from(TALK), st.sampled_from(KEYS), st.sampled_from(WORDS), pauses),
    st.builds(Deed, st.sampled_from(CHANGE), st.sampled_from(KEYS), st.sampled_from(WORDS), pauses),
    st.builds(Deed, st.sampled_from(REST), st.just(KEYS[0]), st.sampled_from(WORDS), pauses),
    st.builds(Deed, st.just("reload"), st.just(KEYS[0]), st.sampled_from(sorted(GATEWAYS)), pauses),
)


@pytest.mark.timeout(0 if FULL else 300)
@pytest.mark.spec("B1", "Y4", "P8", "S3")
@settings(
    max_examples=2_000
    if FULL
    else 10,  # each is two gateways or three and half an hour of their time
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(deeds, min_size=3, max_size=14))
def test_when_it_is_quiet_again_all_is_as_it_should_be(plan: list[Deed]) -> None:
    wrongs: list[str] = anyio.run(
        live,
        plan,
        backend="trio",
        backend_options={"clock": MockClock(autojump_threshold=0)},
    )
    assert wrongs == []
