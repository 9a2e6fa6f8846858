"""The client for ordinary programs: the same functions, each of which returns when it is done.

An event loop runs in a thread of its own as long as the client is open; so the connection is kept up, and
comes back, while the program does something else.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from crossclaw.client.asynchronous import REPLY_S, AsyncGatewayClient, connect_async
from crossclaw.client.peer import READ, WRITE, Event, GatewayDefaults
from crossclaw.client.reconnecting import AWAY_S_MAX
from crossclaw.client.replies import RunReply, StreamPiece
from crossclaw.client.rows import (
    EntryCursor,
    HistoryMessage,
    SessionEntry,
    SessionInfo,
    SpawnedChild,
)

T = TypeVar("T")


class GatewayClient:
    """The blocking client; AsyncGatewayClient says what each function does. Threads may share one."""

    def __init__(self, client: AsyncGatewayClient, portal: BlockingPortal) -> None:
        self._client = client
        self._portal = portal

    @property
    def url(self) -> str:
        return self._client.url

    @property
    def defaults(self) -> GatewayDefaults:
        return self._client.defaults

    def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout_s: float = 30,
        final: bool = False,
        repeat: bool | None = None,
    ) -> Any:
        return self._portal.call(
            lambda: self._client.call(
                method, params, timeout_s=timeout_s, final=final, repeat=repeat
            )
        )

    def submit(
        self, text: str, session: str | None = None, *, agent: str | None = None, key: str = ""
    ) -> RunReply:
        return self._portal.call(lambda: self._client.submit(text, session, agent=agent, key=key))

    def wait(self, run: RunReply, *, timeout_s: float = REPLY_S) -> RunReply:
        return self._portal.call(lambda: self._client.wait(run, timeout_s=timeout_s))

    def send(
        self,
        text: str,
        session: str | None = None,
        *,
        agent: str | None = None,
        timeout_s: float = REPLY_S,
        key: str = "",
    ) -> RunReply:
        return self._portal.call(
            lambda: self._client.send(text, session, agent=agent, timeout_s=timeout_s, key=key)
        )

    def stream(
        self,
        text: str,
        session: str | None = None,
        *,
        agent: str | None = None,
        timeout_s: float = REPLY_S,
        key: str = "",
    ) -> Generator[StreamPiece]:
        return self._iterate(
            self._client.stream(text, session, agent=agent, timeout_s=timeout_s, key=key)
        )

    def abort(self, run: RunReply) -> None:
        self._portal.call(lambda: self._client.abort(run))

    def sessions(
        self, *, limit: int = 100, search: str | None = None, agent: str | None = None
    ) -> list[SessionInfo]:
        return self._portal.call(
            lambda: self._client.sessions(limit=limit, search=search, agent=agent)
        )

    def history(
        self, session: str | None = None, *, limit: int = 200, agent: str | None = None
    ) -> list[HistoryMessage]:
        return self._portal.call(lambda: self._client.history(session, limit=limit, agent=agent))

    def spawn(
        self,
        task: str,
        session: str | None = None,
        *,
        agent: str | None = None,
        label: str | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
        key: str = "",
    ) -> SpawnedChild:
        return self._portal.call(
            lambda: self._client.spawn(
                task, session, agent=agent, label=label, model=model, timeout_s=timeout_s, key=key
            )
        )

    @contextmanager
    def subscribe(
        self,
        session: str | None = None,
        *,
        after: EntryCursor | None = None,
        agent: str | None = None,
    ) -> Generator[Generator[SessionEntry]]:
        opening = self._client.subscribe(session, after=after, agent=agent)
        with (
            self._portal.wrap_async_context_manager(opening) as entries,
            closing(self._iterate(entries)) as iterator,
        ):
            yield iterator

    @contextmanager
    def events(self) -> Generator[Generator[Event]]:
        with (
            self._portal.wrap_async_context_manager(self._client.events()) as events,
            closing(self._iterate(events)) as iterator,
        ):
            yield iterator

    def _iterate(self, generator: AsyncGenerator[T]) -> Generator[T]:
        try:
            while True:
                try:
                    yield self._portal.call(anext, generator)
                except StopAsyncIteration:
                    return
        finally:
            with suppress(RuntimeError):  # the client was closed first, and this with it
                self._portal.call(generator.aclose)


@contextmanager
def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    password: str | None = None,
    scopes: Sequence[str] = (READ, WRITE),
    away_s: float = AWAY_S_MAX,
    environ: Mapping[str, str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Generator[GatewayClient]:
    """Connects like connect_async, for programs without an event loop."""
    opening = connect_async(
        url,
        token=token,
        token_file=token_file,
        password=password,
        scopes=scopes,
        away_s=away_s,
        environ=environ,
        tell=tell,
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opening) as client,
    ):
        yield GatewayClient(client, portal)
