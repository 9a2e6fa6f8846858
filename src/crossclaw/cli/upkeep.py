"""`sessions spawn|abort|archive|unarchive|cleanup`: what agents do with sessions, for scripts and people."""

from typing import Any

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    seconds,
    session_asking_options,
)
from crossclaw.cli.naming import find_session, name_session
from crossclaw.cli.running import ask
from crossclaw.cli.say import out, out_json, problem
from crossclaw.client.peer import ADMIN, READ, WRITE, GatewayPeer


def _spawn_arguments(parser: Parser) -> None:
    parser.add_argument("task", help="what the sub-agent is to do")
    parser.add_argument("--session", help="whose sub-agent it is: key, session id or name (main)")
    parser.add_argument(
        "--agent", metavar="ID", help="another agent does it, where that is allowed"
    )
    parser.add_argument("--label", help="a name for it")
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="what it thinks with")
    parser.add_argument("--thinking", metavar="LEVEL", help="how hard: off to xhigh")
    parser.add_argument("--run-timeout", type=seconds, metavar="S", help="stop it after that")
    parser.add_argument("--cleanup", choices=("keep", "delete"), help="its session afterwards")
    asking_options(parser)


def _spawn(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {
            "task": arguments.task,
            "sessionKey": await name_session(peer, arguments.session, None),
            "agentId": arguments.agent,
            "label": arguments.label,
            "model": arguments.model,
            "thinking": arguments.thinking,
            "runTimeoutSeconds": arguments.run_timeout,
            "cleanup": arguments.cleanup,
        }
        given = {name: value for name, value in params.items() if value is not None}
        answer = await peer.call("sessions.spawn", given, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
        elif answer["status"] == "accepted":
            out(f"{answer['childSessionKey']} is at work (run {answer['runId']})")
        else:
            problem(answer.get("error") or answer["status"])
        return Exit.OK if answer["status"] == "accepted" else Exit.FAILED

    return ask(arguments, READ, WRITE, work=work)


def _abort(arguments: Arguments) -> int:
    def shown(key: str, answer: dict[str, Any]) -> str:
        count = len(answer.get("runIds", ()))
        return f"{key}: {count} stopped" if count else f"{key}: nothing was running"

    return _change(arguments, "sessions.abort", shown)


def _archive(arguments: Arguments) -> int:
    def shown(key: str, answer: dict[str, Any]) -> str:
        return f"{key} is archived" if answer["archived"] else f"{key} was archived already"

    return _change(arguments, "sessions.archive", shown)


def _unarchive(arguments: Arguments) -> int:
    def shown(key: str, answer: dict[str, Any]) -> str:
        return f"{key} is back" if answer["unarchived"] else f"{key} was not archived"

    return _change(arguments, "sessions.unarchive", shown)


def _change(arguments: Arguments, method: str, shown: Any) -> int:
    async def work(peer: GatewayPeer) -> int:
        key = await find_session(peer, arguments.session)
        answer = await peer.call(method, {"key": key}, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(shown(key, answer))
        return Exit.OK

    return ask(arguments, READ, WRITE, ADMIN, work=work)


def _cleanup_arguments(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    parser.add_argument("--older-than-days", type=float, default=30.0, metavar="N", help="(30)")
    parser.add_argument("--enforce", action="store_true", help="delete them; else they are named")
    asking_options(parser)


def _cleanup(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {"enforce": arguments.enforce, "olderThanDays": arguments.older_than_days}
        if arguments.agent:
            params["agent"] = arguments.agent
        answer = await peer.call("sessions.cleanup", params, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
            return Exit.OK
        word = "deleted" if arguments.enforce else "would be deleted; --enforce does it"
        out("\n".join([*answer["keys"], f"{answer['count']} archived sessions {word}"]))
        return Exit.OK

    return ask(arguments, READ, ADMIN, work=work)


COMMANDS = {
    "spawn": CommandSpec(_spawn_arguments, _spawn),
    "abort": CommandSpec(session_asking_options, _abort),
    "archive": CommandSpec(session_asking_options, _archive),
    "unarchive": CommandSpec(session_asking_options, _unarchive),
    "cleanup": CommandSpec(_cleanup_arguments, _cleanup),
}
