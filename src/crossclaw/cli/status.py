"""`status` and `health`: the gateway at a glance, and whether it lives at all."""

from typing import Any

from crossclaw.cli.channels import states_of, troubled_channels
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    asking_options,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import in_one_line, out, out_json
from crossclaw.cli.tables import ago, pairs, table
from crossclaw.client.errors import CallRefused
from crossclaw.client.peer import READ, GatewayPeer
from crossclaw.display.languages import tr

_RECENT = 5


def _status(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        status = await peer.call("status", {}, timeout_s=arguments.timeout)
        why_not = await _why_no_runs(peer, arguments.timeout)
        if arguments.json:
            out_json(status | ({"whyNoRuns": why_not} if why_not else {}))
            return Exit.OK
        agents = await peer.call("agents.list", {}, timeout_s=arguments.timeout)
        sessions = await peer.call("sessions.list", {"limit": _RECENT})
        held = await _held(peer, arguments.timeout)
        spent = await _last_hour(peer, arguments.timeout)
        channels = await _channels(peer, status.get("channelSummary") or [])
        shown = [("takes no runs", in_one_line(f"{why_not}."))] if why_not else []
        out(pairs([*_glance(peer, status, agents, channels), *shown, *spent, *held]))
        if sessions["sessions"]:
            out("\n" + _recent(sessions))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _glance(
    peer: GatewayPeer, status: dict[str, Any], agents: dict[str, Any], channels: list[str]
) -> list[tuple[str, object]]:
    sessions = status.get("sessions") or {}
    model = (sessions.get("defaults") or {}).get("model")
    if str(model).startswith("rehearsal"):
        model = f"{model} ({tr('scripted; for one that thinks: crossclaw onboard')})"
    elif fault := status.get("modelFault"):
        model = f"{model} ({fault})"
    return [
        ("gateway", peer.place),
        ("agents", ", ".join(agent["id"] for agent in agents["agents"])),
        ("model", model),
        ("sessions", sessions.get("count")),
        ("store", _disk(status.get("disk"))),
        ("channels", ", ".join(channels) or None),
        *([("OpenClaw", left)] if (left := _unimported(status.get("unimported"))) else []),
    ]


async def _why_no_runs(peer: GatewayPeer, timeout_s: float) -> str | None:
    """Why this one of several gateways takes no runs; an older one does not know the method."""
    try:
        answer = await peer.call("gateways.list", {}, timeout_s=timeout_s)
    except CallRefused:
        return None
    why: str | None = answer.get("whyNoRuns")
    return why


async def _channels(peer: GatewayPeer, names: list[str]) -> list[str]:
    """The channels, each with its fault if it does not run."""
    if not names:
        return []
    try:
        troubled = troubled_channels(await states_of(peer))
    except CallRefused:
        return names
    every = dict.fromkeys([*names, *troubled])
    return [f"{name} ({troubled[name]})" if name in troubled else name for name in every]


async def _last_hour(peer: GatewayPeer, timeout_s: float) -> list[tuple[str, object]]:
    """The cost of the last hour; an older gateway does not know it."""
    try:
        total = (await peer.call("figures.get", {}, timeout_s=timeout_s))["total"]
    except CallRefused:
        return []
    words = [
        f"${total['costUsd']:.2f}",
        f"{total['turns']:,} turn{'' if total['turns'] == 1 else 's'}",
        f"{total['tokens']:,} tokens",
        *([f"{total['failed']:,} failed"] if total["failed"] else []),
    ]
    return [("last hour", ", ".join(words))]


def _unimported(stores: list[str] | None) -> str | None:
    if not stores:
        return None
    return tr(
        "its sessions or jobs are here, not imported yet; stop the gateway, then: crossclaw import"
    )


def _disk(disk: dict[str, Any] | None) -> str | None:
    """The ledger's size and the free disk space in words; an older gateway does not report it."""
    if not disk:
        return None
    size = _size(disk["ledgerBytes"] + disk["walBytes"])
    grown = disk["grownBytes"]
    since = f" (+{_size(grown)} since it was started)" if grown >= 2**20 else ""
    return f"{size}{since}; {_size(disk['freeBytes'])} of the disk are free"


def _size(count: float) -> str:
    units = ["B", "KB", "MB", "GB", "TB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return (
        f"{count:.1f} {units[0]}" if count < 10 and units[0] != "B" else f"{count:.0f} {units[0]}"
    )


async def _held(peer: GatewayPeer, timeout_s: float) -> list[tuple[str, object]]:
    """The tools that wait for the owner's agreement. An older gateway does not know the method; its status is
    shown all the same."""
    try:
        answer = await peer.call("mcp.held", {}, timeout_s=timeout_s)
    except CallRefused:
        return []
    names = ", ".join(each["tool"] for each in answer["tools"])
    return (
        [("held tools", f"{names} (changed or new; crossclaw mcp held shows how)")] if names else []
    )


def _recent(sessions: dict[str, Any]) -> str:
    now = sessions["ts"]
    rows = [(row["key"], ago(row.get("updatedAt"), now)) for row in sessions["sessions"]]
    return table(("newest sessions", "updated"), rows)


def _health(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        health = await peer.call("health", {}, timeout_s=arguments.timeout)
        well = bool(health.get("ok"))
        words = "is well" if well else "is not well"
        out_json(health) if arguments.json else out(f"the gateway at {peer.place} {words}")
        return Exit.OK if well else Exit.FAILED

    return ask(arguments, READ, work=work, embed=False)


COMMANDS = {
    "status": CommandSpec(asking_options, _status),
    "health": CommandSpec(asking_options, _health),
}
