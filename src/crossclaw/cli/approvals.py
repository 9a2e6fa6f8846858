"""`approvals`: calls of agents that wait for a person's approval, and what was allowed for good."""

from collections.abc import Callable
from shlex import join
from typing import Any

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    gateway_options,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import in_one_line, out, out_json
from crossclaw.cli.tables import ago, table
from crossclaw.client.peer import ADMIN, GatewayPeer
from crossclaw.domain.clock import SystemClock

_ID_CHARS = 8  # of 16: enough to tell them apart; a longer beginning counts as well


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        waiting = await peer.call("exec.approval.list", {}, timeout_s=arguments.timeout)
        allowed = (await peer.call("approvals.allowed", {}, timeout_s=arguments.timeout))["allowed"]
        if arguments.json:
            out_json({"waiting": waiting, "allowed": allowed})
        else:
            out(_shown(waiting, allowed, SystemClock().now_ms()))
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


def _shown(waiting: list[dict[str, Any]], allowed: list[dict[str, Any]], now_ms: float) -> str:
    parts = [shown_request(each, now_ms) for each in waiting] or ["nothing waits for a yes"]
    if allowed:
        head = ("allowed for good", "agent", "what", "by", "since")
        parts.append(table(head, [_row(each, now_ms) for each in allowed]))
    return "\n\n".join(parts)


def shown_request(approval: dict[str, Any], now_ms: float) -> str:
    """The whole request: what is cut cannot be agreed to."""
    request = approval["request"]
    left_s = max(0, round((approval["expiresAtMs"] - now_ms) / 1000))
    lines = [
        f"{approval['id'][:_ID_CHARS]}  {request['agentId']} asks, in {request['sessionKey']}; "
        f"a no in {left_s // 60} min {left_s % 60} s",
        *(f"    {line}" for line in request["command"].splitlines()),
    ]
    if (program := request.get("resolvedPath")) is not None:
        lines.append(f"  program  {_path(program)}")
    if (folder := request.get("cwd")) is not None:
        lines.append(
            f"  in       {_path(folder)}{' (sandbox)' if request.get('host') == 'sandbox' else ''}"
        )
    if (warning := request.get("warningText")) is not None:
        lines.append(f"  note     {warning}")
    if (why := request.get("whyOnce")) is not None:
        lines.append(f"  only once: it has {why}")
    return "\n".join(lines)


def _path(path: str) -> str:
    """The path on one line, as it is: a blank for a line end would be another path."""
    return path if path.isprintable() else repr(path)


def _row(each: dict[str, Any], now_ms: float) -> tuple[object, ...]:
    who = each.get("grantedBy") or "import"
    return (
        each["id"][:_ID_CHARS],
        each["agentId"],
        _what(each),
        who if each["counts"] else f"{who} (gone: asked about again)",
        ago(each["createdAtMs"], now_ms),
    )


def _what(each: dict[str, Any]) -> str:
    if "security" in each:
        return f"rule: security {each['security']}, ask {each['ask']}"
    if each.get("program") is None:
        return f"{each['tool']}, any arguments"
    if each.get("arguments") is None:
        return f"{each['program']}, any arguments"
    where = f" in {each['folder']}" if each.get("folder") else ""
    within = " of a sandbox" if each.get("sandboxed") else ""
    return f"{join([each['program'], *each['arguments']])}{where}{within}"


def _id_arguments(parser: Parser) -> None:
    parser.add_argument("id", help="its id, or the beginning of it, as `approvals list` shows it")
    gateway_options(parser)


def _allow_arguments(parser: Parser) -> None:
    parser.add_argument("--always", action="store_true", help="and from now on without asking")
    _id_arguments(parser)


def _answering(decision: Callable[[Arguments], str], said: dict[str, str]) -> Any:
    def run(arguments: Arguments) -> int:
        async def work(peer: GatewayPeer) -> int:
            word = decision(arguments)
            params = {"id": arguments.id, "decision": word}
            await peer.call("exec.approval.resolve", params, timeout_s=arguments.timeout)
            out(said[word])
            return Exit.OK

        return ask(arguments, ADMIN, work=work)

    return run


def _revoke(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        allowed = (await peer.call("approvals.allowed", {}, timeout_s=arguments.timeout))["allowed"]
        meant = [each["id"] for each in allowed if each["id"].startswith(arguments.id)]
        named = meant[0] if len(meant) == 1 else arguments.id
        answer = await peer.call("approvals.revoke", {"id": named}, timeout_s=arguments.timeout)
        out(
            f"taken back, {answer['revoked']['agentId']} asks again: {in_one_line(_what(answer['revoked']))}"
        )
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


_ALLOWED = {
    "allow-once": "allowed, this once",
    "allow-always": "allowed, and from now on always; approvals revoke takes it back",
}

COMMANDS = {
    "list": CommandSpec(asking_options, _list),
    "allow": CommandSpec(
        _allow_arguments,
        _answering(lambda each: "allow-always" if each.always else "allow-once", _ALLOWED),
        "example\n  crossclaw approvals allow 3f9a01cc --always",
    ),
    "deny": CommandSpec(_id_arguments, _answering(lambda each: "deny", {"deny": "denied"})),
    "revoke": CommandSpec(_id_arguments, _revoke),
}
