"""`message send`: sends to an agent's session and shows the reply as it is written; or to a chat."""

import base64
import mimetypes
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from crossclaw.cli.context import ALL_BYTES_MAX, FILE_BYTES_MAX, with_context
from crossclaw.cli.exits import Exit, UsageError
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    gateway_options,
    json_option,
    seconds,
)
from crossclaw.cli.naming import name_session
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json, problem
from crossclaw.cli.screens import choose_screen
from crossclaw.cli.talk import talk
from crossclaw.client.peer import ADMIN, READ, WRITE, GatewayPeer
from crossclaw.domain.attachments import BYTES_MAX
from crossclaw.domain.media import shown_size

REPLY_S = 600.0  # as long as a run may take by default

_MORE = f"""examples
  crossclaw message send "Hola, agente"
  crossclaw message send "Hola" --session abc123
  crossclaw message send "Hola" --agent my-agent
  crossclaw message send "Revisa este archivo" --context src/app.ts
  git diff | crossclaw message send - --json
  crossclaw message send --channel telegram --target 12345 --message "On my way"

A session is named by its key, its id, or any new word: abc123 becomes agent:<default>:abc123.
A context file is UTF-8 text of at most {FILE_BYTES_MAX // 1024} KiB; all together {ALL_BYTES_MAX // 1024} KiB.
Ctrl-C aborts the run. When no gateway runs, one is embedded for the call. A gateway that goes away
meanwhile is waited for, up to half a minute: the message is said once, and its reply is had."""

_TO_MORE = """A person's messages are in the agent's main session, so --to means that one. Into a chat goes
crossclaw message send --channel NAME --target TO."""


def _agent_arguments(parser: Parser) -> None:
    """Adds the arguments, also those of `agent`, OpenClaw's word for this."""
    parser.add_argument("text", nargs="?", help="the message; - or nothing reads it from a pipe")
    parser.add_argument("--message", "-m", help="the same as an option")
    parser.add_argument(
        "--session",
        *("--session-id", "--session-key"),
        metavar="S",
        help="key, session id, label or a new name",
    )
    parser.add_argument("--agent", metavar="ID", help="that agent's main session, or its --session")
    parser.add_argument(
        "--context", action="append", default=[], metavar="FILE", help="a text file; repeatable"
    )
    json_option(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=REPLY_S,
        metavar="S",
        help=f"seconds to wait for the reply ({REPLY_S:g}); the run goes on after that",
    )
    gateway_options(parser, timeout=False)


def _word_of_openclaw(parser: Parser) -> None:
    _agent_arguments(parser)
    parser.add_argument("--to", "-t", metavar="TO", help="whose: here the agent's main session")
    parser.set_defaults(target=None, channel=None, media=[])


def _arguments(parser: Parser) -> None:
    _agent_arguments(parser)
    chat = parser.add_argument_group("to a chat, without an agent")
    chat.add_argument("--target", "-t", metavar="TO", help="the chat or person")
    chat.add_argument("--channel", metavar="NAME", help="telegram, discord, signal, …")
    chat.add_argument("--thread-id", metavar="ID", help="in which thread or topic of the chat")
    chat.add_argument(
        "--media",
        metavar="FILE",
        action="append",
        default=[],
        help="a file to send; can be repeated",
    )
    chat.add_argument("--account", metavar="ID", help="which login, where there are several")


def _send(arguments: Arguments) -> int:
    text = _text(arguments)
    if arguments.target or arguments.channel:
        _refuse_mixture(arguments)
        return ask(arguments, WRITE, work=lambda peer: _to_chat(peer, arguments, text))
    if arguments.media:
        raise UsageError("--media goes to a chat: add --channel and --target")
    message = with_context(text, arguments.context)
    return ask(
        arguments,
        *(READ, WRITE, ADMIN),
        work=lambda peer: _to_agent(peer, arguments, message),
        lasting=True,
    )


async def _to_agent(peer: GatewayPeer, arguments: Arguments, message: str) -> int:
    key = await name_session(peer, arguments.session, arguments.agent)
    screen = choose_screen(quiet=arguments.json)
    talked = await talk(peer, key, message, screen, arguments.timeout)
    if arguments.json:
        out_json(talked.as_json())
    elif talked.status != "ok":
        problem(talked.error or talked.status)
    return talked.exit_code


async def _to_chat(peer: GatewayPeer, arguments: Arguments, text: str) -> int:
    params: dict[str, Any] = {"to": arguments.target, "message": text}
    params |= {"mediaUrls": list(map(_as_data, arguments.media))} if arguments.media else {}
    params |= {"channel": arguments.channel} if arguments.channel else {}
    params |= {"accountId": arguments.account} if arguments.account else {}
    params |= {"threadId": arguments.thread_id} if arguments.thread_id else {}
    answer = await peer.call("send", params | {"idempotencyKey": str(uuid4())})
    if arguments.json:
        out_json(answer)
    else:
        where = f"{answer.get('channel') or arguments.channel}, {arguments.target}"
        out(f"sent to {where} ({answer.get('messageId') or answer.get('runId')})")
    return Exit.OK


def _as_data(name: str) -> str:
    """A file as a data URL: the gateway may run elsewhere, and reads no files for a client."""
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Nothing was sent.") from None
    if len(data) > BYTES_MAX:
        raise UsageError(f"{path} is larger than {shown_size(BYTES_MAX)}. Nothing was sent.")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};name={quote(path.name)};base64,{base64.b64encode(data).decode()}"


def _text(arguments: Arguments) -> str:
    given = [text for text in (arguments.text, arguments.message) if text is not None]
    if len(given) > 1:
        raise UsageError("there are two messages; send one at a time")
    piped = given == ["-"] or (not given and not sys.stdin.isatty())
    text = sys.stdin.read() if piped else "".join(given)
    if not text.strip() and arguments.media:
        return ""
    if given and not text.strip():
        raise UsageError("the message is empty. Nothing was sent.")
    if not text.strip():
        raise UsageError(
            "the message is missing", hint='Example: crossclaw message send "Hola, agente"'
        )
    return text


def _refuse_mixture(arguments: Arguments) -> None:
    if not arguments.target:
        raise UsageError("--channel needs --target: which chat there?")
    if arguments.session or arguments.agent or arguments.context:
        raise UsageError(
            "--target sends to a chat; --session, --agent and --context go with a message to an agent"
        )


COMMANDS = {
    "send": CommandSpec(_arguments, _send, _MORE),
    "agent": CommandSpec(_word_of_openclaw, _send, _TO_MORE),
}
