"""`devices`: phones, laptops and pages that may come in by a key of their own."""

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
from crossclaw.cli.say import out, out_json
from crossclaw.cli.tables import ago, table
from crossclaw.client.peer import ADMIN, GatewayPeer
from crossclaw.domain.clock import SystemClock

_ID_CHARS = 12  # of 64: enough to tell devices apart at a glance; --json has them whole


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("device.pair.list", {}, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_shown(answer, SystemClock().now_ms()))
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


def _shown(answer: dict[str, Any], now_ms: float) -> str:
    parts = []
    if answer["pending"]:
        rows = [
            (each["requestId"], *_about(each, each["ts"], now_ms)) for each in answer["pending"]
        ]
        parts.append(table(("waiting: request", "who", "from", "role", "scopes", "asked"), rows))
    if answer["paired"]:
        rows = [
            (each["deviceId"][:_ID_CHARS], *_about(each, _used(each), now_ms))
            for each in answer["paired"]
        ]
        parts.append(table(("device", "who", "from", "role", "scopes", "last token"), rows))
    return "\n\n".join(parts) or "no device is paired, and none waits"


def _about(each: dict[str, Any], at: float | None, now_ms: float) -> tuple[object, ...]:
    return (
        each.get("displayName") or each.get("clientId"),
        each.get("remoteIp"),
        ", ".join(each["roles"]),
        ", ".join(scope.removeprefix("operator.") for scope in each["scopes"]) or None,
        ago(at, now_ms),
    )


def _used(device: dict[str, Any]) -> float | None:
    return max((each.get("lastUsedAtMs", 0) for each in device["tokens"]), default=0) or None


def _request_arguments(parser: Parser) -> None:
    parser.add_argument("request", help="its id, as `devices list` shows it")
    gateway_options(parser)


def _decide(method: str, said: str) -> Any:
    def run(arguments: Arguments) -> int:
        async def work(peer: GatewayPeer) -> int:
            params = {"requestId": arguments.request}
            await peer.call(method, params, timeout_s=arguments.timeout)
            out(said)
            return Exit.OK

        return ask(arguments, ADMIN, work=work)

    return run


def _revoke_arguments(parser: Parser) -> None:
    parser.add_argument("device", help="its id, or the beginning of it")
    gateway_options(parser)


def _revoke(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("device.pair.list", {}, timeout_s=arguments.timeout)
        ids = [each["deviceId"] for each in answer["paired"]]
        meant = [each for each in ids if each.startswith(arguments.device)]
        device_id = meant[0] if len(meant) == 1 else arguments.device
        await peer.call("device.pair.remove", {"deviceId": device_id}, timeout_s=arguments.timeout)
        out(f"{device_id} is gone, and its connections are closed")
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


COMMANDS = {
    "list": CommandSpec(asking_options, _list),
    "approve": CommandSpec(
        _request_arguments,
        _decide("device.pair.approve", "approved; it comes in when it tries again"),
    ),
    "reject": CommandSpec(_request_arguments, _decide("device.pair.reject", "rejected")),
    "revoke": CommandSpec(
        _revoke_arguments, _revoke, "example\n  crossclaw devices revoke 3f9a01cc20de"
    ),
}
