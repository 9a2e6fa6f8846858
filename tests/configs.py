"""Configs as a file would say them, for tests that have no file."""

from typing import Any

import msgspec

from crossclaw.config import Config


def config_of(raw: dict[str, Any]) -> Config:
    return msgspec.convert(raw, Config)
