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
from crossclaw.tools.contract import Tool
from crossclaw.tools.door_tool import door_tool, tool_method


def session_methods(
    reading: Reading, sends: Sends, spawns: Spawns, standing: Standing
) -> list[Method[Any]]:
    return [
        tool_method(
            "sessions_list",
            ListParams,
            ListResult,
            "read",
            reading.list,
            "List sessions, newest first. kinds: main, group, cron, hook, node, other. "
            "activeMinutes: only recently active ones. messageLimit: add each session's last messages.",
        ),
        tool_method(
            "sessions_history",
            HistoryParams,
            HistoryResult,
            "read",
            reading.history,
            "Read a session's messages, oldest first. sessionKey: a key or sessionId from "
            "sessions_list. includeTools: with tool results. before: page further back.",
        ),
        tool_method(
            "sessions_send",
            SendParams,
            SendResult,
            "run",
            sends.send,
            "Send a message into another session and wait for its reply. Name it by sessionKey, "
            "label, or agentId (that agent's main session). timeoutSeconds: how long to wait, 0 = not.",
        ),
        tool_method(
            "sessions_spawn",
            SpawnParams,
            SpawnResult,
            "run",
            spawns.spawn,
            "Give a task to a sub-agent with a session of its own, and go on at once; its report "
            "comes to you and to your chat when it is done. agentId: one that agents_list names. "
            "runTimeoutSeconds: stop it after that, 0 = never. cleanup: delete or keep its session.",
        ),
        tool_method(
            "agents_list",
            AgentsParams,
            AgentsResult,
            "read",
            standing.agents,
            "Which agents sessions_spawn may give a task to.",
        ),
        tool_method(
            "session_status",
            StatusParams,
            StatusResult,
            "change",
            standing.status,
            "How a session stands: state, model, tokens. sessionKey: default your own. model: set "
            "its model, or default to take that back.",
        ),
    ]


NAMES = (
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "agents_list",
    "session_status",
)


def session_tools(door: Door) -> list[Tool[Any]]:
    return [door_tool(door, name) for name in NAMES]
