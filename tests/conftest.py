"""Every async test runs twice, on trio and on asyncio, both with a clock that jumps."""

from typing import Any

import pytest
from trio.testing import MockClock

from crossclaw.testing import VirtualLoop


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    if request.param == "trio":
        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": VirtualLoop}
