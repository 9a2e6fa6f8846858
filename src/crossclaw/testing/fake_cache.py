"""A prompt cache as Claude's service keeps it: it counts what is read, written and paid for.

Rules (platform.claude.com/docs/en/build-with-claude/prompt-caching, read 2026-11-15): a prefix is remembered
only at a mark; at each mark the service looks back over at most 20 blocks for something remembered;
prefixes are tools, then system, then messages; a changed block forgets all that follows. Reading costs a
tenth of the input price, writing for five minutes 1.25 of it, for an hour twice.

    cache = PromptCache()
    usage = cache.charge(body)     # of one request to /v1/messages
    cache.paid / cache.ideal       # what it cost, beside one that pays for nothing twice

The ideal pays for every block once, wherever it stands: a beginning that changes, and so has the whole conversation
read anew, is no excuse.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from crossclaw.domain.messages import Usage

LOOK_BACK = 20
LEAST_TOKENS = 512
"""The shortest prefix that is remembered, on Claude 5.5 (1,024 before)."""
READ, WRITE, WRITE_HOUR = 0.1, 1.25, 2.0
BYTES_A_TOKEN = 4


class CacheBlock(msgspec.Struct, frozen=True):
    digest: str
    """The digest of everything up to and including this block."""
    tokens: int
    """The tokens of everything up to and including this block."""
    mark: str | None
    """The time for which the prefix that ends here is remembered."""


class PromptCache:
    def __init__(self) -> None:
        self._remembered: set[str] = set()
        self._sent: Counter[tuple[str, int]] = Counter()
        self.paid = 0.0
        """The cost so far, in prices of one input token."""
        self.ideal = 0.0
        self.requests: list[Usage] = []

    def charge(self, body: dict[str, Any]) -> Usage:
        blocks = list(blocks_of(body))
        total = blocks[-1].tokens if blocks else 0
        read = self._read(blocks)
        marked = [block for block in blocks if block.mark and block.tokens >= LEAST_TOKENS]
        written = max(0, (marked[-1].tokens if marked else 0) - read)
        price = WRITE_HOUR if marked and marked[-1].mark == "1h" else WRITE
        self._remembered |= {block.digest for block in marked}
        self.paid += read * READ + written * price + (total - read - written)
        self._count_ideal(body, total, price)
        usage = Usage(input=total - read - written, cache_read=read, cache_write=written)
        self.requests.append(usage)
        return usage

    @property
    def ratio(self) -> float:
        return self.paid / self.ideal if self.ideal else 1.0

    def _read(self, blocks: list[CacheBlock]) -> int:
        marks = [place for place, block in enumerate(blocks) if block.mark]
        found = [
            blocks[back].tokens
            for place in marks
            for back in range(place, max(-1, place - LOOK_BACK), -1)
            if blocks[back].digest in self._remembered
        ]
        return max(found, default=0)

    def _count_ideal(self, body: dict[str, Any], total: int, price: float) -> None:
        pieces = Counter(_pieces(body))  # the same words said twice are two
        known = sum(size * times for (_, size), times in (pieces & self._sent).items())
        self._sent |= pieces
        known = min(known // BYTES_A_TOKEN, total)
        worth = known if known >= LEAST_TOKENS else 0
        self.ideal += worth * READ + (total - worth) * (price if total >= LEAST_TOKENS else 1.0)


def blocks_of(body: dict[str, Any]) -> Iterator[CacheBlock]:
    digest, size = hashlib.blake2s(str(body.get("model")).encode()), 0
    for part in _parts(body):
        mark = part.get("cache_control") if isinstance(part, dict) else None
        data = msgspec.json.encode(unmarked(part), order="sorted")
        digest.update(data)
        size += _size(part, data)
        kept = (mark.get("ttl") or "5m") if mark else None
        yield CacheBlock(digest.hexdigest(), size // BYTES_A_TOKEN, kept)


def _pieces(body: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The parts of a request, each by itself; a system prompt by its paragraphs."""
    for part in _parts(body):
        data = msgspec.json.encode(unmarked(part), order="sorted")
        if isinstance(part, dict) and "role" not in part and "text" in part:
            for paragraph in data.split(b"\\n\\n"):
                yield hashlib.blake2s(paragraph).hexdigest(), len(paragraph) + 4
        else:
            yield hashlib.blake2s(data).hexdigest(), _size(part, data)


def _size(part: Any, data: bytes) -> int:
    """The tokens of a part. A picture is some 1,600, however long its base64."""
    source = part.get("source") if isinstance(part, dict) else None
    return 6_400 if isinstance(source, dict) and "data" in source else len(data)


def _parts(body: dict[str, Any]) -> Iterator[Any]:
    yield from body.get("tools") or []
    system = body.get("system") or []
    yield from [{"text": system}] if isinstance(system, str) else system
    for message in body.get("messages") or []:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            yield {"role": message["role"], **block}


def unmarked(value: Any) -> Any:
    """The value without cache marks: they are no part of what is said."""
    if isinstance(value, dict):
        return {name: unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [unmarked(part) for part in value] if isinstance(value, list) else value
