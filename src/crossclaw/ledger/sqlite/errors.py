"""SQLite's errors end here: whoever uses the ledger knows its contract and not what is behind it."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import apsw
import msgspec

from crossclaw.domain.errors import StoreDamaged, StoreError

C = TypeVar("C", bound=type)

OF_ONE_STEP = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError)
"""What is wrong with a step and not with the disk."""


def speaks_for_the_store(cls: C) -> C:
    """Every asynchronous method of the class, also one that is added later, tells SQLite's errors as `StoreError`."""
    for name, method in list(vars(cls).items()):
        if inspect.iscoroutinefunction(method):
            setattr(cls, name, _explained(method))
    return cls


def _explained(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def explained(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except apsw.Error as error:
            raise StoreError(f"the ledger could not be read: {error}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreDamaged(
                "what the ledger has of this is damaged and cannot be read; crossclaw doctor names it"
            ) from error

    return explained
