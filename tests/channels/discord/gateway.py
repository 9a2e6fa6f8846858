"""FakeGateway: Discord's gateway socket as its documents describe it (https://discord.com/developers/docs/events/gateway
and topics/opcodes-and-status-codes, August 2026): Hello first, heartbeats required, Identify with intents, Resume that
replays what came after `seq`, invalid sessions, close codes, at most 120 frames in a minute and 4096 bytes each."""

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import msgspec

from tests.channels.discord.world import DM, GROUP_DM, PUBLIC_THREAD, DiscordWorld, FakeChannel
from tests.channels.fake_socket import CutConnection, FakeSocket, SocketLeft

EVERY_MS = 41_250
SESSION_S = 120.0
PRIVILEGED = (1 << 1) | (1 << 8) | (1 << 15)
KNOWN = (1 << 26) - 1


class GatewaySession(msgspec.Struct):
    id: str
    intents: int
    events: list[dict[str, Any]] = []
    left_at: float | None = None
    out: Any = None
    """Where the connection reads what to send; None: nobody is connected."""


class FakeGateway:
    def __init__(self, world: DiscordWorld, token: Callable[[], str]) -> None:
        self.world = world
        self._token = token
        self.sessions: dict[str, GatewaySession] = {}
        self.approved = PRIVILEGED
        """Privileged intents that are switched on for this bot."""
        self.identifies_left = 1000
        self.deaf: set[int] = set()
        """Connections, by their number, on which heartbeats are not answered and nothing else is said."""
        self.refuses_resume = False
        """Connections that want to resume are hung up on."""
        self.closes_with = 0
        """Every introduction is answered with this close code."""
        self.silent_sessions = False
        """Heartbeats are answered, introductions are not: an outage behind the gateway."""
        self.connections = 0
        self.introductions: list[dict[str, Any]] = []
        """Every Identify and Resume, as it came."""
        self.heartbeats: list[int | None] = []
        self.left: list[int | None] = []
        """Close codes of the client."""
        self.extra: deque[dict[str, Any]] = deque()
        """Dispatched after the next READY, as they stand."""
        self._numbers = itertools.count(1)

    # ── what happens at Discord ────────────────────────────────────────────────────────────────

    def tell_message(self, name: str, channel: FakeChannel, message: dict[str, Any]) -> None:
        event = {**message, "channel_type": channel.type}
        if channel.guild_id is not None:
            event |= {"guild_id": channel.guild_id, "member": {"nick": None, "roles": []}}
        for session in self.sessions.values():
            if not session.intents & (1 << 9 if channel.guild_id else 1 << 12):
                continue
            self.tell(session, name, self._as_seen(session, channel, event))

    def _as_seen(
        self, session: GatewaySession, channel: FakeChannel, event: dict[str, Any]
    ) -> dict[str, Any]:
        """Without the Message Content Intent: only one's own, direct ones and mentions have content."""
        bot = self.world.bot.id
        mine = event["author"]["id"] == bot or any(each["id"] == bot for each in event["mentions"])
        if session.intents & (1 << 15) or mine or channel.type in (DM, GROUP_DM):
            return dict(event)
        return {**event, "content": "", "attachments": [], "embeds": []}

    def tell(self, session: GatewaySession, name: str, data: Any) -> None:
        event = {"op": 0, "t": name, "s": len(session.events) + 1, "d": data}
        session.events.append(event)
        if session.out is not None:
            session.out.send_nowait(event)

    def tell_all(self, name: str, data: Any) -> None:
        for session in self.sessions.values():
            self.tell(session, name, data)

    def order(self, what: Any) -> None:
        """To every connection: a frame as it stands, a close code, or an exception that ends it."""
        for session in self.sessions.values():
            if session.out is not None:
                session.out.send_nowait(what)

    def drop(self) -> None:
        self.order(CutConnection())

    def forget(self) -> None:
        """All sessions are gone, as after some minutes without a connection."""
        self.drop()
        self.sessions.clear()

    @property
    def connected(self) -> bool:
        return any(session.out is not None for session in self.sessions.values())

    # ── one connection ─────────────────────────────────────────────────────────────────────────

    async def talk(self, target: str, socket: FakeSocket) -> None:
        self.connections += 1
        asked = parse_qs(urlsplit(target).query)
        if asked.get("v") != ["10"] or asked.get("encoding") != ["json"]:
            await socket.close(4012, "Invalid API version.")
        await socket.send({"op": 10, "d": {"heartbeat_interval": EVERY_MS}, "s": None, "t": None})
        try:
            await self._converse(socket, self.connections)
        except SocketLeft as left:
            self.left.append(left.code)
            raise

    async def _converse(self, socket: FakeSocket, number: int) -> None:
        session: GatewaySession | None = None
        times: deque[float] = deque(maxlen=120)
        ended: list[BaseException] = []
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    with anyio.move_on_after(EVERY_MS / 1000 * 1.5) as patience:
                        try:
                            frame = await socket.receive()
                        except SocketLeft as left:
                            ended.append(left)
                            break
                    if patience.cancelled_caught:
                        await self._end(socket, 4000, "No heartbeat came.", ended)
                        break
                    now = anyio.current_time()
                    if len(times) == 120 and now - times[0] < 60:
                        await self._end(socket, 4008, "Rate limited.", ended)
                        break
                    times.append(now)
                    if number in self.deaf:
                        continue
                    code, session = await self._take(frame, socket, session, tasks, ended)
                    if code:
                        await self._end(socket, code, "", ended)
                        break
                tasks.cancel_scope.cancel()
        finally:
            if session is not None:
                if session.out is not None:
                    session.out.close()
                session.out, session.left_at = None, anyio.current_time()
        if ended:
            goodbye = ended[0].code if isinstance(ended[0], SocketLeft) else None
            if session is not None and goodbye in (1000, 1001):
                self.sessions.pop(session.id, None)
            raise ended[0]

    async def _end(
        self, socket: FakeSocket, code: int, why: str, ended: list[BaseException]
    ) -> None:
        try:
            await socket.close(code, why)
        except CutConnection as cut:
            ended.append(cut)

    async def _take(
        self,
        frame: Any,
        socket: FakeSocket,
        session: GatewaySession | None,
        tasks: anyio.abc.TaskGroup,
        ended: list[BaseException],
    ) -> tuple[int, GatewaySession | None]:
        """Answers a close code (0: none) and the session."""
        if not isinstance(frame, dict) or len(msgspec.json.encode(frame)) > 4096:
            return 4002, session
        op: Any = frame.get("op")
        data: Any = frame.get("d")
        if op == 1:
            self.heartbeats.append(data)
            await socket.send({"op": 11})
            return 0, session
        if op not in (2, 6):
            return (4001 if session else 4003), session
        if session is not None:
            return 4005, session
        self.introductions.append(frame)
        if self.silent_sessions or self.closes_with:
            return self.closes_with, None
        if data.get("token") != self._token():
            return 4004, None
        if op == 2:
            return await self._identify(data, socket, tasks, ended)
        return await self._resume(data, socket, tasks, ended)

    async def _identify(
        self,
        data: dict[str, Any],
        socket: FakeSocket,
        tasks: anyio.abc.TaskGroup,
        ended: list[BaseException],
    ) -> tuple[int, GatewaySession | None]:
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~KNOWN:
            return 4013, None
        if intents & PRIVILEGED & ~self.approved:
            return 4014, None
        if set(data.get("properties", {})) != {"os", "browser", "device"}:
            return 4002, None
        self.identifies_left -= 1
        session = GatewaySession(f"session{next(self._numbers)}", intents)
        self.sessions[session.id] = session
        self._attach(session, socket, tasks, ended)
        ready = {
            "v": 10,
            "user": self.world.bot.shown(),
            "guilds": [{"id": each, "unavailable": True} for each in self.world.guilds],
            "session_id": session.id,
            "resume_gateway_url": "wss://gateway-us-east1-b.discord.gg",
            "application": {"id": self.world.bot.id, "flags": 0},
        }
        self.tell(session, "READY", ready)
        for guild_id, name in self.world.guilds.items():
            self.tell(session, "GUILD_CREATE", self._guild(guild_id, name))
        while self.extra:
            event = self.extra.popleft()
            self.tell(session, event["t"], event["d"])
        return 0, session

    def _guild(self, guild_id: str, name: str) -> dict[str, Any]:
        mine = [each for each in self.world.channels.values() if each.guild_id == guild_id]
        threads = [each.shown() for each in mine if each.type == PUBLIC_THREAD]
        channels = [each.shown() for each in mine if each.type != PUBLIC_THREAD]
        for channel in channels:
            channel.pop("guild_id")  # it is not there in this event
        return {"id": guild_id, "name": name, "channels": channels, "threads": threads}

    async def _resume(
        self,
        data: dict[str, Any],
        socket: FakeSocket,
        tasks: anyio.abc.TaskGroup,
        ended: list[BaseException],
    ) -> tuple[int, GatewaySession | None]:
        if self.refuses_resume:
            return 4000, None
        session = self.sessions.get(str(data.get("session_id")))
        left_at = session.left_at if session else None
        if session is None or (left_at and anyio.current_time() - left_at > SESSION_S):
            await socket.send({"op": 9, "d": False, "s": None, "t": None})
            return 0, None
        if not isinstance(data.get("seq"), int) or data["seq"] > len(session.events):
            return 4007, None
        self._attach(session, socket, tasks, ended)
        for event in session.events[data["seq"] :]:
            session.out.send_nowait(event)
        self.tell(session, "RESUMED", {})
        return 0, session

    def _attach(
        self,
        session: GatewaySession,
        socket: FakeSocket,
        tasks: anyio.abc.TaskGroup,
        ended: list[BaseException],
    ) -> None:
        out, into = anyio.create_memory_object_stream[Any](10_000)
        session.out, session.left_at = out, None
        tasks.start_soon(self._say, into, socket, tasks, ended)

    async def _say(
        self,
        into: anyio.abc.ObjectReceiveStream[Any],
        socket: FakeSocket,
        tasks: anyio.abc.TaskGroup,
        ended: list[BaseException],
    ) -> None:
        async with into:
            async for frame in into:
                if isinstance(frame, int):
                    await self._end(socket, frame, "", ended)
                    tasks.cancel_scope.cancel()
                    return
                if isinstance(frame, BaseException):
                    ended.append(frame)
                    tasks.cancel_scope.cancel()
                    return
                if self.connections not in self.deaf:
                    await socket.send(frame)
