"""Further methods of OpenClaw's clients: commands, the agent's name, the log, and sends by `key`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import anyio.to_thread
import msgspec

from crossclaw.config import Config
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import Invalid
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.gateway.methods.chat import Attachments, Chat, ChatSendParams, RequestKey
from crossclaw.sessions.commands import COMMANDS, STOP_WORDS
from crossclaw.sessions.send import Sends, SendToolParams

LINES_DEFAULT, LINES_MAX = 500, 5_000  # OpenClaw's; a page shows no more
BYTES_DEFAULT, BYTES_MAX = 250_000, 1_000_000


class CommandsParams(Params, frozen=True):
    session_key: Filled | None = None
    agent_id: Filled | None = None
    provider: Filled | None = None
    scope: Literal["text", "native", "both"] | None = None
    include_args: bool | None = None


class CommandInfo(Result, frozen=True):
    name: str
    description: str
    source: str
    scope: str
    accepts_args: bool
    text_aliases: list[str] | None = None
    category: str | None = None


class CommandsResult(Result, frozen=True):
    commands: list[CommandInfo]


class IdentityParams(Params, frozen=True):
    agent_id: Filled | None = None
    session_key: str | None = None


class IdentityResult(Result, frozen=True):
    agent_id: str
    name: str | None = None


class TailParams(Params, frozen=True):
    cursor: Annotated[int, msgspec.Meta(ge=0)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=LINES_MAX)] = LINES_DEFAULT
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=BYTES_MAX)] = BYTES_DEFAULT


class TailResult(Result, frozen=True):
    file: str
    cursor: int
    size: int
    lines: list[str]
    truncated: bool | None = None
    reset: bool | None = None


class SessionsSendParams(SendToolParams, frozen=True):
    """Parameters of sessions.send. With `key`, as OpenClaw's clients have it, a run is begun and events bring
    the reply. With `sessionKey`, `label` or `agentId` the answer is the reply itself."""

    key: Filled | None = None
    thinking: ThinkingLevel | None = None
    attachments: Attachments = ()
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    idempotency_key: RequestKey | None = None


class Clients:
    def __init__(self, config: Config, chat: Chat, sends: Sends, log: Path, ids: Ids) -> None:
        self._config = config
        self._chat = chat
        self._sends = sends
        self._log = log
        self._ids = ids

    @method("commands.list", "operator.read", "read", "What may be said with a slash.")
    async def commands(self, caller: Caller, params: CommandsParams) -> CommandsResult:
        if params.agent_id is not None:
            self._config.agents.get(params.agent_id)  # raises, and says which agents there are
        return CommandsResult(commands=[_command(name) for name in COMMANDS])

    @method(
        "agent.identity.get",
        "operator.read",
        "read",
        "The name of an agent, or of the one a session belongs to.",
    )
    async def identity(self, caller: Caller, params: IdentityParams) -> IdentityResult:
        """An agent's name. Asked by a session whose agent is gone, it is empty."""
        agents = self._config.agents
        if params.agent_id is None and params.session_key:
            key = SessionKey.parse(params.session_key, agent_id=agents.default_id)
            known = agents.find(key.agent_id)
            return IdentityResult(agent_id=key.agent_id, name=(known and known.name) or None)
        agent = agents.get(params.agent_id or agents.default_id)
        return IdentityResult(agent_id=agent.id, name=agent.name or None)

    @method(
        "logs.tail",
        "operator.read",
        "read",
        "The end of the log file, or what was added since `cursor`.",
    )
    async def tail(self, caller: Caller, params: TailParams) -> TailResult:
        return await anyio.to_thread.run_sync(read_tail, self._log, params)

    @method(
        "sessions.send",
        "operator.write",
        "run",
        "Send a message into a session: with `key` begin a run, else wait for its reply.",
    )
    async def send(self, caller: Caller, params: SessionsSendParams) -> dict[str, Any]:
        if params.key is None:
            plain = {name: getattr(params, name) for name in SendToolParams.__struct_fields__}
            key = params.idempotency_key
            return _plain(await self._sends.send(caller, SendToolParams(**plain), key))
        if params.session_key or params.label:
            raise Invalid("Provide either key or sessionKey or label (not several).")
        wanted = ChatSendParams(
            session_key=params.key,
            message=params.message,
            idempotency_key=params.idempotency_key or self._ids.new(),
            thinking=params.thinking,
            attachments=params.attachments,
            timeout_ms=params.timeout_ms,
        )
        return _plain(await self._chat.send(caller, wanted))


def _plain(answer: Result) -> dict[str, Any]:
    """The answer as a plain object: the method has two kinds of answers and one result type."""
    plain: dict[str, Any] = msgspec.to_builtins(answer)
    return plain


def _command(name: str) -> CommandInfo:
    known = COMMANDS[name]
    aliases = sorted(STOP_WORDS) if name == "stop" else [f"/{name}"]
    return CommandInfo(
        name=name,
        description=known.summary,
        source="native",
        scope="both",
        accepts_args=" " in known.usage,
        text_aliases=aliases,
        category="session",
    )


def read_tail(path: Path, params: TailParams) -> TailResult:
    """The end of the log, in whole lines: one that is still being written comes with the next read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            reset = params.cursor is not None and params.cursor > size  # another file by that name
            start = size - params.max_bytes if params.cursor is None or reset else params.cursor
            begin = max(0, start, size - params.max_bytes)
            file.seek(begin)
            data = file.read(params.max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return TailResult(file=str(path), cursor=0, size=0, lines=[])
    cut = begin > 0 and (params.cursor is None or reset or begin > params.cursor)
    whole, newline, rest = data.rpartition(b"\n")
    lines = (whole + newline).decode("utf-8", "replace").splitlines()[int(cut) :]
    return TailResult(
        file=str(path),
        cursor=begin + len(data) - len(rest),
        size=size,
        lines=lines[-params.limit :],
        truncated=cut or len(lines) > params.limit or None,
        reset=reset or None,
    )
