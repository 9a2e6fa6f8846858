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
