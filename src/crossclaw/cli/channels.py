"""`channels`: the chat accounts of the running gateway, their status, and what the log says about them."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from crossclaw.channels.registry import find_manifest, list_manifests
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    gateway_options,
    positive,
)
from crossclaw.cli.logs import read_log
from crossclaw.cli.running import ask
from crossclaw.cli.say import cleaned, note, out, out_json
from crossclaw.cli.tables import ago, table
from crossclaw.client.peer import READ, WRITE, GatewayPeer
from crossclaw.domain.clock import SystemClock

TEST_WORDS = "This is a test message of your gateway."
WAIT_MS = 10_000  # for it to arrive

WELL = ("running", "starting", "elsewhere")
"""States of an account that need no attention; `elsewhere` is another gateway's."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("--probe", action="store_true", help="ask each platform now who we are")
    asking_options(parser)


def _status(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {"probe": True} if arguments.probe else {}
        answer = await peer.call("channels.status", params, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_shown(answer, SystemClock().now_ms()))
        return Exit.OK

    return ask(arguments, READ, work=work, embed=False)


def _shown(answer: dict[str, Any], now_ms: float) -> str:
    rows: list[tuple[object, ...]] = []
    for name in answer["channelOrder"]:
        accounts = answer["channelAccounts"].get(name) or []
        if not accounts:
            running = answer["channels"][name].get("running")
            rows.append((name, None, "running" if running else "stopped", None, None, None))
        for each in accounts:
            heard, error = each.get("lastInboundAt"), each.get("lastError")
            probe = each.get("probe")
            if probe is not None:
                error = None if probe["ok"] else probe["error"]
            who = (each.get("bot") or {}).get("username")
            rows.append((name, each["accountId"], each["state"], who, ago(heard, now_ms), error))
    head = ("channel", "account", "state", "who", "last message", "last error")
    return table(head, rows)


async def states_of(peer: GatewayPeer) -> dict[tuple[str, str], dict[str, Any]]:
    """The status of the accounts, by channel and id."""
    listed = (await peer.call("channels.status", {}))["channelAccounts"]
    return {(name, each["accountId"]): each for name, rows in listed.items() for each in rows}


def troubled_channels(states: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    """Channels with an account that does not run, each with that one's status."""
    return {name: row["state"] for (name, _), row in states.items() if row["state"] not in WELL}


def _test_arguments(parser: Parser) -> None:
    parser.add_argument("channel", help="the channel")
    parser.add_argument(
        "target",
        nargs="?",
        help="the chat or person that gets a test message; without it the platform is asked who we are",
    )
    parser.add_argument("--account", metavar="ID", help="which account, where there are several")
    gateway_options(parser)


def _test(arguments: Arguments) -> int:
    work = send_test if arguments.target else probe
    return ask(arguments, WRITE, work=partial(work, arguments), embed=False)


async def send_test(arguments: Arguments, peer: GatewayPeer) -> int:
    """Sends a test message and waits for its outcome."""
    params = {"channel": arguments.channel, "to": arguments.target, "message": TEST_WORDS}
    params |= {"accountId": arguments.account} if arguments.account else {}
    sent = await peer.call("send", params | {"idempotencyKey": str(uuid4())})
    wait = {"messageId": sent["messageId"], "timeoutMs": WAIT_MS}
    standing = (await peer.call("deliveries.wait", wait, timeout_s=WAIT_MS / 1000 + 10))["standing"]
    name, why = standing["name"], standing.get("why")
    if name == "ok":
        out("It has arrived.")
        return Exit.OK
    if name == "uncertain":
        raise CommandFailed(
            "nobody knows whether it arrived: look in the chat",
            hint="crossclaw deliveries list has it",
        )
    if name == "failed":
        raise CommandFailed(f"it failed because {why or 'the platform refused it'}")
    raise CommandFailed(
        f"it has not gone out yet{f': {why}' if why else ''}",
        Exit.TIMEOUT,
        hint="It is tried again by itself; crossclaw channels status says how the account is.",
    )


async def probe(arguments: Arguments, peer: GatewayPeer) -> int:
    manifest = find_manifest(arguments.channel)
    params = {"probe": True, "channel": manifest.name if manifest else arguments.channel}
    answer = await peer.call("channels.status", params, timeout_s=WAIT_MS / 1000 + 10)
    found = [each for rows in answer["channelAccounts"].values() for each in rows]
    wanted = [each for each in found if arguments.account in (None, each["accountId"])]
    if not wanted:
        raise CommandFailed(
            f"no account of {arguments.channel} is set up", hint="crossclaw channels status"
        )
    failed = 0
    for each in wanted:
        probe = each["probe"]
        who = (probe.get("bot") or {}).get("username") or (probe.get("bot") or {}).get("id")
        failed += not probe["ok"]
        said = f"answers as {who}" if probe["ok"] else f"failed because {probe['error']}"
        out(f"{arguments.channel} {each['accountId']} {said}")
    return Exit.FAILED if failed else Exit.OK


# ── the log ────────────────────────────────────────────────────────────────────────────────────


def _logs_arguments(parser: Parser) -> None:
    parser.add_argument("channel", nargs="?", help="only of this channel")
    parser.add_argument("--channel", dest="named_channel", help="the same")
    parser.add_argument("--account", metavar="ID", help="not of this channel's other accounts")
    parser.add_argument("--lines", "-n", type=positive, default=50, help="how many (50)")


def _logs(arguments: Arguments) -> int:
    """Shows the log's entries about chat accounts. One that names no account may be about any of its channel."""
    channel = arguments.channel or arguments.named_channel
    manifest = find_manifest(channel) if channel else None
    if channel and manifest is None:
        known = ", ".join(each.name for each in list_manifests())
        raise CommandFailed(f"there is no channel {channel}; there are {known}")
    names = [each.name for each in ([manifest] if manifest else list_manifests())]
    found = [each for each in read_log() if concerns(each, names, arguments.account)]
    if not found:
        note("the log has no line about it")
        return Exit.OK
    out("\n".join(map(cleaned, found[-arguments.lines :])))
    return Exit.OK


def concerns(entry: str, channels: Sequence[str], account: str | None) -> bool:
    """Whether an entry of the log is about one of these channels, and about no other account than this one."""
    first = entry.lower()
    about = [each for each in channels if re.search(rf"\b{re.escape(each)}\b", first)]
    if not about or account is None:
        return bool(about)
    named = re.search(rf"\b(?:{'|'.join(map(re.escape, about))}) account (\S+?)[\s:,;]", first)
    return named is None or named[1] == account.lower()


COMMANDS = {
    "status": CommandSpec(_arguments, _status),
    "list": CommandSpec(_arguments, _status),
    "test": CommandSpec(_test_arguments, _test),
    "logs": CommandSpec(_logs_arguments, _logs),
}
