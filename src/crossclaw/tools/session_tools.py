"""The session tools: list sessions, read them, send into them."""

from typing import Any

from crossclaw.door.dispatch import Door
from crossclaw.door.registry import Method
from crossclaw.sessions.reading import (
    HistoryParams,
    HistoryResult,
    ListParams,
    ListResult,
    Reading,
)
from crossclaw.sessions.send import SendParams, SendResult, Sends
from crossclaw.tools.contract import Effect, Tool
from crossclaw.tools.door_tool import PREFIX, DoorTool


def session_methods(reading: Reading, sends: Sends) -> list[Method[Any]]:
    return [
        Method(
            name=f"{PREFIX}sessions_list",
            params=ListParams,
            result=ListResult,
            scope="operator.read",
            effect="read",
            handle=reading.list,
            hidden=True,
            summary="List sessions, newest first. kinds: main, group, cron, hook, node, other. "
            "activeMinutes: only recently active ones. messageLimit: add each session's last messages.",
        ),
        Method(
            name=f"{PREFIX}sessions_history",
            params=HistoryParams,
            result=HistoryResult,
            scope="operator.read",
            effect="read",
            handle=reading.history,
            hidden=True,
            summary="Read a session's messages, oldest first. sessionKey: a key or sessionId from "
            "sessions_list. includeTools: with tool results. before: page further back.",
        ),
        Method(
            name=f"{PREFIX}sessions_send",
            params=SendParams,
            result=SendResult,
            scope="operator.write",
            effect="run",
            handle=sends.send,
            hidden=True,
            summary="Send a message into another session and wait for its reply. Name it by sessionKey, "
            "label, or agentId (that agent's main session). timeoutSeconds: how long to wait, 0 = not.",
        ),
    ]


_EFFECTS: dict[str, Effect] = {
    "sessions_list": "pure",
    "sessions_history": "pure",
    "sessions_send": "once",
}


def session_tools(door: Door) -> list[Tool[Any]]:
    found = [(method, method.name.removeprefix(PREFIX)) for method in door.registry]
    return [DoorTool(door, method, _EFFECTS[name]) for method, name in found if name in _EFFECTS]
