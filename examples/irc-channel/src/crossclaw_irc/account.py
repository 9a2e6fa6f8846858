"""One connection to an IRC network. What is said there goes to the host; what the host wants to say goes out as lines."""

import itertools
import ssl
from collections.abc import Awaitable, Callable
from uuid import uuid4

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from crossclaw.channels.contract import AccountFacts, ChannelAccount, ChannelHost, Piece
from crossclaw.channels.holding import receive_only_copy
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    DeliveryError,
    DeliveryUncertain,
    PlatformUnreachable,
)
from crossclaw_irc.lines import Line, lines_of, read_line
from crossclaw_irc.settings import IrcSettings

OPEN_S_MAX = 30.0
PONG_S_MAX = 30.0
QUIET_S_MAX = (
    120.0  # then the server is asked; if it says nothing for as long again, the connection is dead
)
LINE_BYTES_MAX = 8_192  # with tags; a server that sends more has lost its way

REFUSED = {
    "401": "there is nobody of that name",
    "403": "there is no such channel",
    "404": "the channel does not take messages from us",
    "442": "we are not in that channel",
}
BROKEN = {"464": "the server's password is wrong", "465": "we are banned from this server"}

Dial = Callable[[str, int, bool], Awaitable[anyio.abc.ByteStream]]


async def dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
    if tls:
        context = ssl.create_default_context()
        return await anyio.connect_tcp(
            host,
            port,
            tls=True,
            ssl_context=context,
            tls_hostname=host,
            tls_standard_compatible=False,
        )
    return await anyio.connect_tcp(host, port)


def open_account(settings: IrcSettings, host: ChannelHost) -> "IrcAccount":
    return IrcAccount(settings, host)


class IrcAccount(ChannelAccount):
    def __init__(self, settings: IrcSettings, host: ChannelHost, dial: Dial = dial) -> None:
        if settings.server is None:
            raise AccountBroken(settings.what_is_missing)
        self._settings, self._host, self._dial = settings, host, dial
        self._nick = settings.nick
        self._stream: anyio.abc.ByteStream | None = None
        self._sending = anyio.Lock()
        self._numbers = itertools.count(1)
        self._pongs: dict[str, anyio.Event] = {}
        self._refusals: list[Line] = []

    # ── what arrives ───────────────────────────────────────────────────────────────────────────

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        stream = await self._connect()
        try:
            lines = BufferedByteReceiveStream(stream)
            with anyio.fail_after(OPEN_S_MAX):
                await self._register(stream, lines)
            self._stream = stream
            await host.connected(
                AccountFacts(id=f"{self._nick}@{self._settings.server}", name=self._nick)
            )
            task_status.started()
            while True:
                await self._take(stream, await self._next(stream, lines))
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, OSError):
            raise ChannelDown("the connection to the IRC server broke") from None
        except TimeoutError:
            raise ChannelDown("the IRC server does not answer") from None
        finally:
            self._stream = None
            for waiting in self._pongs.values():
                waiting.set()
            await anyio.aclose_forcefully(stream)

    async def _connect(self) -> anyio.abc.ByteStream:
        server = self._settings.server or ""
        try:
            with anyio.fail_after(OPEN_S_MAX):
                return await self._dial(server, self._settings.port, self._settings.tls)
        except (OSError, TimeoutError) as error:
            raise ChannelDown(f"no connection to {server}: {error}") from None

    async def _register(
        self, stream: anyio.abc.ByteStream, lines: BufferedByteReceiveStream
    ) -> None:
        if self._settings.password is not None:
            await _say(stream, f"PASS {self._settings.password.reveal()}")
        await _say(stream, f"NICK {self._nick}", f"USER {self._nick} 0 * :Crossclaw")
        while (line := await _read(lines)) is None or line.command != "001":
            if line is None:
                continue
            if line.command in BROKEN:
                raise AccountBroken(BROKEN[line.command])
            if line.command == "433":
                self._nick += "_"  # somebody else has it
                await _say(stream, f"NICK {self._nick}")
            if line.command == "PING":
                await _say(stream, f"PONG :{line.params[-1] if line.params else ''}")
        self._nick = line.params[0] if line.params else self._nick
        await _say(stream, *(f"JOIN {channel}" for channel in self._settings.channels))

    async def _next(
        self, stream: anyio.abc.ByteStream, lines: BufferedByteReceiveStream
    ) -> Line | None:
        """A server that is silent for long is asked whether it is still there."""
        with anyio.move_on_after(QUIET_S_MAX):
            return await _read(lines)
        await _say(stream, "PING :still-there")
        with anyio.fail_after(QUIET_S_MAX):
            return await _read(lines)

    async def _take(self, stream: anyio.abc.ByteStream, line: Line | None) -> None:
        self._host.heard()
        if line is None:
            return
        if line.command == "PING":
            await _say(stream, f"PONG :{line.params[-1] if line.params else ''}")
        elif line.command == "PONG" and line.params:
            if waiting := self._pongs.get(line.params[-1]):
                waiting.set()
        elif line.command in REFUSED:
            self._refusals.append(line)
        elif line.command == "NICK" and line.nick == self._nick and line.params:
            self._nick = line.params[0]
        elif line.command == "PRIVMSG" and len(line.params) == 2:
            await self._hear(line)

    async def _hear(self, line: Line) -> None:
        """IRC has no ids of messages and brings nothing twice: each gets an id of ours."""
        target, text = line.params
        if line.nick == self._nick or "!" not in line.source or text.startswith("\x01"):
            return
        in_channel = target.lower() != self._nick.lower()
        bare, mentioned = self._without_nick(text)
        if bare.strip():
            await receive_only_copy(
                self._host,
                Inbound(
                    address=Address(
                        "irc", target if in_channel else line.nick, self._host.account_id
                    ),
                    sender=line.source,
                    sender_name=line.nick,
                    text=bare,
                    message_id=str(uuid4()),
                    at_ms=self._host.now_ms(),
                    chat_type="channel" if in_channel else "direct",
                    chat_id=target if in_channel else None,
                    mentioned=mentioned if in_channel else None,
                ),
            )

    def _without_nick(self, text: str) -> tuple[str, bool]:
        """`claw: hello` and `@claw hello` are meant for us."""
        lower, nick = text.lstrip("@ ").lower(), self._nick.lower()
        if lower.startswith(nick) and lower[len(nick) : len(nick) + 1] in (":", ",", " ", ""):
            return text.lstrip("@ ")[len(nick) :].lstrip(":, "), True
        return text, False

    # ── what goes out ──────────────────────────────────────────────────────────────────────────

    async def send(self, piece: Piece) -> str | None:
        """The server reads lines in their order: when the PONG comes, the message was read, and a refusal is there."""
        target, words = piece.address.to, lines_of(piece.formatted or piece.text)
        if not words or not target or any(c in target for c in " \r\n\0,:"):
            raise DeliveryError(f"{target!r} cannot be written to, or there is nothing to say")
        async with self._sending:
            stream = self._stream
            if stream is None:
                raise PlatformUnreachable("not connected to the IRC server")
            token = f"crossclaw-{next(self._numbers)}"
            self._pongs[token], self._refusals = anyio.Event(), []
            try:
                await _say(
                    stream, *(f"PRIVMSG {target} :{line}" for line in words), f"PING :{token}"
                )
                with anyio.fail_after(PONG_S_MAX):
                    await self._pongs[token].wait()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, TimeoutError):
                raise DeliveryUncertain("the connection broke while the message was sent") from None
            finally:
                del self._pongs[token]
            self._judge(stream, target)
        return None

    def _judge(self, stream: anyio.abc.ByteStream, target: str) -> None:
        if self._stream is not stream:
            raise DeliveryUncertain("the connection broke while the message was sent")
        for line in self._refusals:
            if target.lower() in (param.lower() for param in line.params):
                why = REFUSED[line.command]
                raise DeliveryError(f"IRC refused: {why} ({line.command})", chat_gone=True)

    async def probe(self) -> AccountFacts:
        return AccountFacts(id=f"{self._nick}@{self._settings.server}", name=self._nick)


async def _say(stream: anyio.abc.ByteStream, *lines: str) -> None:
    await stream.send("".join(f"{line}\r\n" for line in lines).encode("utf-8", "replace"))


async def _read(lines: BufferedByteReceiveStream) -> Line | None:
    data = await lines.receive_until(b"\n", LINE_BYTES_MAX)
    return read_line(data.decode("utf-8", "replace").rstrip("\r"))
