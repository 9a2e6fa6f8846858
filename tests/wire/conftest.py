"""Tests over real sockets run in real time: uvicorn knows only asyncio."""

from typing import Any

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}
