"""Type aliases that many packages use: one meaning, one name, one place."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

Json = dict[str, Any]
"""An object as JSON has it."""

Filled = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that is not empty."""

IdText = Annotated[str, msgspec.Meta(min_length=1, max_length=600)]
"""An id or a key, as a client may send it."""

Tell = Callable[[str], None]
"""Takes a sentence for a person, or a piece of output."""

Counted = Callable[[int, int], None]
"""Called with how many of how many are done."""

Callback = Callable[[], None]
"""Called for its effect alone: somebody is to be woken, or something has changed."""

NameText = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
"""A name or an id of a client's own, as it may send it."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
"""A whole number from 1 on."""

SafeInteger = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A whole number from 0 on that JavaScript keeps exactly."""

KeyPath = tuple[str | int, ...]
"""The place of a value in the config: names of keys and numbers in lists, from the outside in."""

Senders = tuple[str | int, ...]
"""People of a chat platform by their ids, as the config lists them."""

Hints = frozenset[str]
"""What a hint names: ids or keys, by its kind."""
