"""Proofs count cases, not schedules: one backend is enough for them."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
