"""Every async test runs twice, on trio and on asyncio, both with a clock that jumps; no example of
Hypothesis has a deadline, because a busy machine makes any of them late."""

from typing import Any

import pytest
from hypothesis import settings
from trio.testing import MockClock

from crossclaw.testing import VirtualLoop

settings.register_profile("crossclaw", deadline=None)
settings.load_profile("crossclaw")


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    if request.param == "trio":
        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": VirtualLoop}
