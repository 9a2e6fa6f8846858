"""The client for async programs. It runs on asyncio, directly or by anyio."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

from crossclaw.client.errors import GatewayDown, ReplyFailed, WaitTimeout
from crossclaw.client.finding import ConnectOptions, find_serving
from crossclaw.client.following import follow_entries
from crossclaw.client.history import read_history
from crossclaw.client.location import find_place
from crossclaw.client.naming import name_for_gateway
from crossclaw.client.peer import (
    MISSED,
    READ,
    WRITE,
    Event,
    EventQueue,
    GatewayDefaults,
    GatewayPeer,
)
from crossclaw.client.reconnecting import AWAY_S_MAX, open_reconnecting
from crossclaw.client.replies import RunReply, StreamPiece, begun_by, find_end, reply_pieces
from crossclaw.client.rows import (
    EntryCursor,
    HistoryMessage,
    SessionEntry,
    SessionInfo,
    SpawnedChild,
    read_row,
)

REPLY_S = 600.0  # as long as a run may take by default
_WAIT_S_MAX = 50.0  # of one question; then it is asked again, so that a dead connection is noticed


class AsyncGatewayClient:
    """Everything that a program can ask of a gateway.

    A `session` is a key (`agent:main:main`), a session id, or any new name; left out, it is the main session of
    the default agent, or of `agent`. With `agent` a name is that agent's, and a key or an id must be.
    """

    def __init__(self, peer: GatewayPeer) -> None:
        self._peer = peer

    @property
    def url(self) -> str:
        return self._peer.place

    @property
    def defaults(self) -> GatewayDefaults:
        """The default agent and the key of its main session."""
        return self._peer.defaults

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout_s: float = 30,
        final: bool = False,
        repeat: bool | None = None,
    ) -> Any:
        """Calls any method of the protocol (docs/protocol.md), for what has no function here.

        When the connection is lost before the answer, the request is sent again if it has an `idempotencyKey`
        or `repeat` is true; otherwise GatewayDown says that the outcome is unknown.
        """
        return await self._peer.call(
            method, params or {}, timeout_s=timeout_s, final=final, repeat=repeat
        )

    async def submit(
        self, text: str, session: str | None = None, *, agent: str | None = None, key: str = ""
    ) -> RunReply:
        """Sends a message and does not wait: it is stored when this returns. `key` is its idempotency key:
        the same one again, in a week even, is the same message and not said twice."""
        params = await self._message(text, session, agent, key)
        return begun_by(await self._peer.call("chat.send", params), params)

    async def wait(self, run: RunReply, *, timeout_s: float = REPLY_S) -> RunReply:
        """Waits for the reply to what was submitted. Reads what is stored: a restart of the gateway changes
        nothing."""
        ended: RunReply | None = run if run.over else None
        until = anyio.current_time() + timeout_s
        while ended is None:
            left_s = max(0.0, until - anyio.current_time())
            slice_s = min(left_s, _WAIT_S_MAX)
            ended = await find_end(self._peer, run, slice_s)
            if ended is None and left_s <= slice_s:
                raise WaitTimeout(
                    f"no reply within {timeout_s:g} s; the run goes on", run_id=run.run_id
                )
        return _good(ended)

    async def send(
        self,
        text: str,
        session: str | None = None,
        *,
        agent: str | None = None,
        timeout_s: float = REPLY_S,
        key: str = "",
    ) -> RunReply:
        """Sends a message and waits for the reply."""
        reply: StreamPiece | None = None
        async for piece in self.stream(text, session, agent=agent, timeout_s=timeout_s, key=key):
            reply = piece
        assert isinstance(reply, RunReply), "the last piece is the reply"
        return _good(reply)

    async def stream(
        self,
        text: str,
        session: str | None = None,
        *,
        agent: str | None = None,
        timeout_s: float = REPLY_S,
        key: str = "",
    ) -> AsyncGenerator[StreamPiece]:
        """Sends a message and yields the reply as it is written; the last piece is the RunReply, whatever its
        status."""
        params = await self._message(text, session, agent, key)
        async with aclosing(reply_pieces(self._peer, params, timeout_s)) as pieces:
            async for piece in pieces:
                yield piece

    async def abort(self, run: RunReply) -> None:
        params = {"sessionKey": run.session_key, "runId": run.run_id}
        await self._peer.call("chat.abort", params, repeat=True)

    async def sessions(
        self, *, limit: int = 100, search: str | None = None, agent: str | None = None
    ) -> list[SessionInfo]:
        """The sessions, the newest first."""
        params = _given(limit=limit, search=search, agentId=agent)
        answer = await self._peer.call("sessions.list", params, repeat=True)
        return [read_row(row, SessionInfo) for row in answer["sessions"]]

    async def history(
        self, session: str | None = None, *, limit: int = 200, agent: str | None = None
    ) -> list[HistoryMessage]:
        """The newest messages of a session, oldest first."""
        name = await name_for_gateway(self._peer, session, agent)
        answer = await read_history(self._peer, name, limit)
        return [read_row(message, HistoryMessage) for message in answer["messages"]]

    async def spawn(
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
        """Gives a task to a sub-agent of a session. Returns when it is accepted; the report comes into that
        session. `agent` is who does it, `timeout_s` how long the child may take."""
        params = _given(
            task=task,
            sessionKey=await name_for_gateway(self._peer, session, None),
            agentId=agent,
            label=label,
            model=model,
            runTimeoutSeconds=timeout_s,
            idempotencyKey=key or str(uuid4()),
        )
        answer = await self._peer.call("sessions.spawn", params)
        if answer.get("status") != "accepted":
            raise ReplyFailed(
                RunReply(params["sessionKey"], "", "error", error=str(answer.get("error")))
            )
        return read_row(answer, SpawnedChild)

    @asynccontextmanager
    async def subscribe(
        self,
        session: str | None = None,
        *,
        after: EntryCursor | None = None,
        agent: str | None = None,
    ) -> AsyncGenerator[AsyncGenerator[SessionEntry]]:
        """The entries of a session as they are written from now on, each once and in order. Keep
        `entry.cursor` and pass it as `after`, and nothing is missed between two calls, or two starts of your
        program."""
        name = await name_for_gateway(self._peer, session, agent)
        async with follow_entries(self._peer, name, after) as entries:
            yield entries

    @asynccontextmanager
    async def events(self) -> AsyncGenerator[AsyncGenerator[Event]]:
        """All events of the gateway about sessions and runs, raw (docs/protocol.md). After a lost connection
        there is one named `client.missed`."""
        with self._peer.listen() as queue:
            await self._peer.call("sessions.subscribe", {}, repeat=True)
            async with aclosing(self._heard(queue)) as events:
                yield events

    async def _heard(self, queue: EventQueue) -> AsyncGenerator[Event]:
        async for event in queue:
            if event.name == MISSED:
                await self._peer.call("sessions.subscribe", {}, repeat=True)
            yield event

    async def _message(
        self, text: str, session: str | None, agent: str | None, key: str
    ) -> dict[str, Any]:
        return {
            "sessionKey": await name_for_gateway(self._peer, session, agent),
            "message": text,
            "idempotencyKey": key or str(uuid4()),
            "deliver": False,
        }


@asynccontextmanager
async def connect_async(
    url: str | None = None,
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    password: str | None = None,
    scopes: Sequence[str] = (READ, WRITE),
    away_s: float = AWAY_S_MAX,
    environ: Mapping[str, str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> AsyncGenerator[AsyncGatewayClient]:
    """A client of the gateway that the command line would find: `url` with its `token`, or
    OPENCLAW_GATEWAY_URL and OPENCLAW_GATEWAY_TOKEN, or the gateway of this machine with the token that it
    keeps in its state folder. `away_s` is how long a gateway that went away is waited for."""
    wanted = ConnectOptions(url, _read(token_file) if token_file else token, password)

    async with open_reconnecting(
        lambda: find_serving(wanted, find_place(environ)), scopes, away_s=away_s, tell=tell
    ) as line:
        yield AsyncGatewayClient(line)


def _read(file: str | Path) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except OSError as error:
        raise GatewayDown(f"the token cannot be read from {file}: {error.strerror}") from None


def _good(reply: RunReply) -> RunReply:
    if reply.status != "ok":
        raise ReplyFailed(reply)
    return reply


def _given(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
