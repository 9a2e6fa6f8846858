"""Descriptions of the session tools and their parameters, for models.

A description says in two to four sentences when the tool is the right one, when another is, and what comes
back. A parameter has a line of its own; what takes one of a few words lists them.
"""

from typing import NamedTuple

from crossclaw.domain.keys import KINDS
from crossclaw.domain.models import LEVELS
from crossclaw.tools.contract import ParameterTexts


class ToolText(NamedTuple):
    description: str
    parameters: ParameterTexts


TEXTS: dict[str, ToolText] = {
    "sessions_list": ToolText(
        "List the sessions that you can see, the most recently active first. Use it to find a session's "
        "key before you read or write to it. Each row has key, kind, channel, the time of its last "
        "change and its tokens.",
        {
            "kinds": {
                "description": "only these kinds",
                "type": "array",
                "items": {"type": "string", "enum": list(KINDS)},
            },
            "limit": "rows at most; default 100, at most 200",
            "activeMinutes": "only sessions that changed in the last so many minutes",
            "messageLimit": "add the last so many messages of each; default 0, at most 20",
        },
    ),
    "sessions_history": ToolText(
        "Read what was said in another session, oldest first. Your own history is in front of you "
        "already. A long answer leaves out the oldest and says so: page back with `before`.",
        {
            "sessionKey": "a key or sessionId from sessions_list, or an agent's id for its main session",
            "limit": "messages at most, the newest; default 200, at most 1000",
            "includeTools": "also what tools answered; long, so only when you need it",
            "before": "the `before` of an earlier answer: what comes before it",
        },
    ),
    "sessions_send": ToolText(
        "Ask or tell another session something and wait for its reply. It is for somebody who has the "
        "context; for new separate work use sessions_spawn. Give exactly one of sessionKey, label and "
        "agentId. `ok` comes with the reply; `timeout` means that the other is still at work: do not "
        "send again, its answer will be in its history.",
        {
            "message": "the whole message; the other session sees nothing else of yours",
            "sessionKey": "the session: a key or sessionId from sessions_list",
            "label": "the session, by its label",
            "agentId": "the agent: its main session gets the message; with label, whose label it is",
            "timeoutSeconds": "how long to wait for the reply; default 30, 0: do not wait",
        },
    ),
    "sessions_spawn": ToolText(
        "Give a task to a sub-agent in a session of its own and go on at once. It is for long or separate "
        "work, also several side by side. Its report comes into this session by itself when it is done: "
        "never poll for it.",
        {
            "task": "all that it needs to know and what to report; it sees nothing of this conversation",
            "label": "a short name for lists",
            "agentId": "whose sub-agent it is; default your own; agents_list says which you may spawn",
            "model": "provider/model or an alias; default the agent's own",
            "thinking": {"description": "how hard it thinks", "enum": list(LEVELS)},
            "runTimeoutSeconds": "stop it after so many seconds; default 0: never",
            "cleanup": {
                "description": "whether its session stays after the report; default keep",
                "enum": ["delete", "keep"],
            },
        },
    ),
    "agents_list": ToolText(
        "List the agents that you can reach: whom you may send to (sessions_send) and whom you may spawn "
        "(sessions_spawn), with a line about each.",
        {},
    ),
    "session_status": ToolText(
        "Tell how a session stands: at work or idle, model, tokens, cost, sub-agents at work. With `model` it "
        "also changes that session's model.",
        {
            "sessionKey": "the session; default your own",
            "model": "provider/model or an alias to use from now on; `default` takes it back",
        },
    ),
}
