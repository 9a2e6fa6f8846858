"""Rate limits as Discord states them with every answer: per bucket and top-level resource, and for the whole bot.

Nothing is assumed about them; what the headers say is kept. A request that would be refused waits if that is short,
and is put off if it is not: refused requests count against the bot, and too many of them get it banned.
"""

from collections.abc import Callable, Mapping

import anyio

from crossclaw.channels.http import seconds_in
from crossclaw.domain.errors import DeliveryError
from crossclaw.domain.newest import keep_newest

PATIENCE_S = (
    5.0  # waiting longer than this is the outbox's matter, which does not hold a place for it
)
BUCKETS_MAX = 5_000  # each is one channel with one kind of request; the oldest are forgotten


class _Bucket:
    def __init__(self) -> None:
        self.remaining = 1
        self.resets_at = 0.0


class RouteLimits:
    def __init__(self, now: Callable[[], float] = anyio.current_time) -> None:
        self._now = now
        self._names: dict[str, str] = {}
        """Kind of request → Discord's name of its bucket, once known."""
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._all_wait_until = 0.0

    async def wait(self, route: str, resource: str) -> None:
        """Waits until a request is allowed. Raises DeliveryError (try again later) when that takes too long."""
        while (wait_s := self._wait_s(route, resource)) > 0:
            if wait_s > PATIENCE_S:
                raise DeliveryError(
                    f"Discord's rate limit allows this in {wait_s:.0f} s",
                    retryable=True,
                    retry_after_s=wait_s,
                    stops_account=self._all_wait_until > self._now(),
                )
            await anyio.sleep(wait_s)
        bucket = self._buckets.get(self._key(route, resource))
        if bucket is not None:
            bucket.remaining -= 1  # those that leave before its answer comes count too

    def learn(self, route: str, resource: str, status: int, headers: Mapping[str, str]) -> None:
        if name := headers.get("x-ratelimit-bucket"):
            self._names[route] = name
        remaining = headers.get("x-ratelimit-remaining", "")
        after_s = seconds_in(headers.get("x-ratelimit-reset-after"))
        if remaining.isdigit() and after_s is not None:
            self._keep(route, resource, int(remaining), after_s)
        if status == 429:
            after_s = seconds_in(headers.get("retry-after")) or 1.0
            if headers.get("x-ratelimit-scope") == "global" or "x-ratelimit-global" in headers:
                self._all_wait_until = self._now() + after_s
            else:
                self._keep(route, resource, 0, after_s)

    def _keep(self, route: str, resource: str, remaining: int, after_s: float) -> None:
        key = self._key(route, resource)
        bucket = self._buckets.get(key) or _Bucket()
        bucket.remaining, bucket.resets_at = remaining, self._now() + after_s
        keep_newest(self._buckets, key, bucket, BUCKETS_MAX)

    def _wait_s(self, route: str, resource: str) -> float:
        now = self._now()
        if self._all_wait_until > now:
            return self._all_wait_until - now
        bucket = self._buckets.get(self._key(route, resource))
        if bucket is None or bucket.remaining > 0:
            return 0.0
        if bucket.resets_at <= now:
            bucket.remaining = 1  # the next answer says how many there really are
            return 0.0
        return bucket.resets_at - now

    def _key(self, route: str, resource: str) -> tuple[str, str]:
        return self._names.get(route, route), resource
