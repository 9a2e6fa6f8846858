"""SDK clients: their package is loaded off the loop on first use; a client is opened once and closed again.

The two SDKs and the HTTP client below them run in production on asyncio; nothing here depends on it.
"""

import importlib
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from crossclaw.domain.errors import ProviderError, ProviderMissing, ProviderRefused
from crossclaw.providers.failures import Failures, retry_after_s, where_the_key_goes

RETRIES = 2
CONNECT_S = 10.0
SILENCE_S = 120.0
"""Between two bytes of an answer. Services send pings while a model thinks."""

RETRY_AFTER_S_MAX = 30.0
"""An SDK sleeps as long as the service asks, which may be an hour, and nobody would know why the
run stands still. Longer waits are told instead of slept."""


class Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class LazyClient(Generic[C]):
    def __init__(self, package: str, open_client: Callable[[], C]) -> None:
        self._package = package
        self._open_client = open_client
        self._client: C | None = None
        self._opening = anyio.Lock()

    async def get(self) -> C:
        if self._client is None:
            async with self._opening:
                if self._client is None:
                    await self._load()
                    self._client = await anyio.to_thread.run_sync(self._open_client)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _load(self) -> None:
        try:
            # A cancelled run need not wait for an import; the next one finds it done.
            await anyio.to_thread.run_sync(
                importlib.import_module, self._package, abandon_on_cancel=True
            )
        except ModuleNotFoundError as error:
            raise ProviderMissing(
                f"the {self._package} package is not installed ({error});"
                f" pip install 'crossclaw[{self._package}]'"
            ) from error


async def refuse_long_waits(response: Any) -> None:
    """A response hook: both SDKs obey `x-should-retry`."""
    if (retry_after_s(response.headers) or 0) > RETRY_AFTER_S_MAX:
        response.headers["x-should-retry"] = "false"


def transport_failure(failures: Failures, error: Exception, silence_s: float) -> ProviderError:
    """What happened on the line. SDKs wrap the HTTP client's error before an answer begins, and some
    let it through afterwards."""
    import httpx2  # noqa: PLC0415  # comes with the SDKs, and is loaded by now

    cause = error if isinstance(error, httpx2.TransportError) else error.__cause__
    match cause:
        case httpx2.ReadTimeout() | httpx2.WriteTimeout() | httpx2.PoolTimeout():
            return failures.silent(silence_s)
        case httpx2.ReadError() | httpx2.WriteError() | httpx2.RemoteProtocolError():
            return failures.cut()
        case _:
            return failures.unreachable()


def host_of(name: str, base_url: str) -> str:
    """For error texts: a URL may carry a password, its host does not."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ProviderRefused(
            f"models.providers.{name}.baseUrl is no address; write it like http://127.0.0.1:8080/v1"
        )
    return f"{parts.hostname}:{port}" if port else parts.hostname


def clean_key(name: str, api_key: str) -> str:
    """A key goes into an HTTP header, where a pasted line break or quotation mark fails obscurely."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ProviderRefused(
            f"the key of {name} holds characters that no key has; copy it again into"
            f" {where_the_key_goes(name)}"
        )
    return key
