"""The session tools: list sessions, read them, send into them, spawn sub-agents."""

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
from crossclaw.sessions.spawn import SpawnParams, SpawnResult, Spawns
from crossclaw.sessions.status import (
    AgentsParams,
    AgentsResult,
    Standing,
    StatusParams,
    StatusResult,
)
from crossclaw.tools.contract import Effect, Tool
from crossclaw.tools.door_tool import PREFIX, DoorTool


def session_methods(
    reading: Reading, sends: Sends, spawns: Spawns, standing: Standing
) -> list[Method[Any]]:
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
        Method(
            name=f"{PREFIX}sessions_spawn",
            params=SpawnParams,
            result=SpawnResult,
            scope="operator.write",
            effect="run",
            handle=spawns.spawn,
            hidden=True,
            summary="Give a task to a sub-agent with a session of its own, and go on at once; its report "
            "comes to you and to your chat when it is done. agentId: one that agents_list names. "
            "runTimeoutSeconds: stop it after that, 0 = never. cleanup: delete or keep its session.",
        ),
        Method(
            name=f"{PREFIX}agents_list",
            params=AgentsParams,
            result=AgentsResult,
            scope="operator.read",
            effect="read",
            handle=standing.agents,
            hidden=True,
            summary="Which agents sessions_spawn may give a task to.",
        ),
        Method(
            name=f"{PREFIX}session_status",
            params=StatusParams,
            result=StatusResult,
            scope="operator.write",
            effect="change",
            handle=standing.status,
            hidden=True,
            summary="How a session stands: state, model, tokens. sessionKey: default your own. model: set "
            "its model, or default to take that back.",
        ),
    ]


_EFFECTS: dict[str, Effect] = {
    "sessions_list": "pure",
    "sessions_history": "pure",
    "sessions_send": "once",
    "sessions_spawn": "once",
    "agents_list": "pure",
    "session_status": "once",
}


def session_tools(door: Door) -> list[Tool[Any]]:
    found = [(method, method.name.removeprefix(PREFIX)) for method in door.registry]
    return [DoorTool(door, method, _EFFECTS[name]) for method, name in found if name in _EFFECTS]
