"""A story for the README's picture: two people, two agents, two chat platforms. Told by a real gateway on a real Synapse and on
Telegram's fake, and printed as what each of them saw: `python -m tests.channels.story`."""

import json
import tempfile
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from crossclaw.app import Gateway
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage, words_of
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import ScriptedProvider, instructions_of, open_gateway
from tests.channels.fake_http import serve_fake
from tests.channels.synapse import Person, open_synapse
from tests.channels.telegram.fake import FakeTelegram
from tests.channels.test_two_channels import READER, TOKEN, config, followed

LENT = "I have the tide atlas. When do you want it back?"
UNTIL = "Thursday would be fine."
WANTED = "Can I have the tide atlas on Friday?"
ASKED = "Somebody needs the tide atlas on Friday. Is it here?"
KNOWN = "It is lent out until Thursday. I will keep it for Friday."
ANSWER = "Yes: it comes back on Thursday, and the librarian keeps it for you."
ANNOUNCE = "Somebody waits for the tide atlas: Thursday is fine, but not later, please."
PATIENCE_S = 60


def answer(request: ModelRequest) -> list[ToolUse] | str:
    """What the models say, each at its place in the exchange."""
    last = request.turns[-1]
    assert isinstance(last, UserTurn)
    if "posted to your chat" in instructions_of(request):
        return ANNOUNCE
    if "this is turn" in instructions_of(request):
        return "REPLY_SKIP"
    if last.results:
        return ANSWER
    words = " ".join(block.text for block in last.content if isinstance(block, Text))
    if WANTED in words:
        return [ToolUse("c1", "sessions_send", {"agentId": "librarian", "message": ASKED})]
    return KNOWN if ASKED in words else UNTIL


async def tell() -> dict[str, Any]:
    telegram = FakeTelegram()
    bot = telegram.add_bot(TOKEN)
    with tempfile.TemporaryDirectory() as folder, open_synapse(Path(folder) / "synapse") as synapse:
        ann, us = synapse.register("ann"), synapse.register("bot")
        room = ann.make_room(us.user_id, direct=True)
        us.join(room)
        async with serve_fake(telegram) as url:
            settings = config(synapse.url, us.token, url)
            state = Path(folder) / "state"
            async with open_gateway(
                state, ScriptedProvider(answer), config=settings, clock=SystemClock(), inline=False
            ) as gateway:
                with anyio.fail_after(PATIENCE_S):
                    await followed(gateway, f"sync {us.user_id} {us.device_id}")
                    telegram.say(bot, READER, LENT, date=SystemClock().now_ms() // 1000)
                    await telegram.wait_seen(1)
                    ann.say(room, WANTED)
                    await telegram.wait_seen(2)
                    await anyio.to_thread.run_sync(ann.wait_for, room, us.user_id)
                between = await _between(gateway)
        return {
            "matrix": await anyio.to_thread.run_sync(_heard, ann, us, room),
            "between": between,
            "telegram": [("Ben", LENT), *(("librarian", text) for text in telegram.texts(READER))],
        }


def _heard(ann: Person, us: Person, room: str) -> list[tuple[str, str]]:
    """As the homeserver has it."""
    heard = [("Ann", ann.user_id), ("main", us.user_id)]
    said = [(who, event) for who, sender in heard for event in ann.heard_from(room, sender)]
    said.sort(key=lambda each: each[1]["origin_server_ts"])
    return [(who, event["content"]["body"]) for who, event in said]


async def _between(gateway: Gateway) -> list[tuple[str, str]]:
    """What the agents said to each other, as the librarian's transcript has it."""
    session = await gateway.ledger.find_session(SessionKey.main("librarian"))
    assert session is not None
    found: list[tuple[str, str]] = []
    for entry in await gateway.ledger.list_entries(session.session_id, limit=50):
        message = entry.message
        if isinstance(message, UserMessage) and words_of(message) == ASKED:
            found.append(("main", words_of(message)))
        elif isinstance(message, AssistantMessage) and len(found) == 1:
            found.append(("librarian", words_of(message)))
    return found


if __name__ == "__main__":
    print(json.dumps(anyio.run(tell)))
