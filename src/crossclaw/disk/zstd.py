"""Zstandard, imported when it is used: part of Python from 3.14 on, a package before."""

import sys
from typing import Any


def zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd as module  # noqa: PLC0415
    else:
        from backports import zstd as module  # noqa: PLC0415
    return module
