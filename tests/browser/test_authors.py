"""Who said it: words of hooks, clocks and guests are nowhere shown as a person's or as the gateway's own."""

import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.request import Request, urlopen

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from tests.browser.conftest import Visit
from tests.browser.visiting import AGENTS, LIBRARIAN, MAIN, Place, open_place, route

HOOK_TOKEN = "a-secret-for-hooks-that-opens-nothing-else"
BUDGET = {"budget": {"tokens": 400_000}}
CONFIG = json.dumps(
    {
        "agents": {**AGENTS, "defaults": BUDGET},
        "session": {"agentToAgent": {"maxPingPongTurns": 0}},
        "hooks": {"enabled": True, "token": HOOK_TOKEN},
        "gateway": {"guests": {"sessions": {"*": ["*"]}}},
    }
)
GUEST = "agent:main:mcp:claude"

pytestmark = pytest.mark.spec("B7", "N1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    with open_place(tmp_path_factory.mktemp("place"), CONFIG) as place:
        yield place


def by_hook(place: Place, path: str, **body: Any) -> None:
    request = Request(
        f"{place.url}hooks/{path}",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {HOOK_TOKEN}", "Content-Type": "application/json"},
    )
    with urlopen(request) as answer:
        assert answer.status in (200, 202)
    place.settle()


def by_guest(place: Place, tool: str, **arguments: Any) -> Any:
    """One call of an MCP client; in a thread of its own, for this one belongs to the browser."""

    async def call() -> Any:
        headers = {"Authorization": f"Bearer {place.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            road = streamable_http_client(f"{place.url}mcp?name=claude", http_client=http)
            async with Client(road) as client:
                result = await client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        assert not result.is_error, content.text
        return json.loads(content.text)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, call).result()


def test_words_of_a_hook_are_signed_by_the_hook_in_chat_run_and_map(
    visit: Visit, place: Place
) -> None:
    by_hook(place, "wake", text="say: The build is red.")
    by_hook(place, "agent", message="say: Three issues.", name="GitHub")
    visitor = visit(route("chat", MAIN))

    message = visitor.see(".message.other", has_text="The build is red.")
    assert message.locator(".head .name").inner_text() == "a hook"
    assert visitor.find(".message.user").count() == 0
    runs = place.ledger("SELECT run_id, key FROM runs WHERE kind = 'hook' ORDER BY id")
    (woken, _), (told, key) = runs
    visitor.go(route("chat", key))
    visitor.see(".message.other .head .name", has_text="GitHub (hook)")
    visitor.go(route("run", told))
    visitor.see(".timeline .label", has_text="by GitHub (hook)")
    visitor.see(".chain", has_text="GitHub (hook)")
    visitor.go(route("map"))
    visitor.see(f".flow a[data-run='{woken}']", has_text="a hook → Main")
    visitor.see(f".flow a[data-run='{told}']", has_text="a hook → ")


def test_a_job_is_brought_about_by_a_clock_and_has_its_agents_face(
    visit: Visit, place: Place
) -> None:
    job = {
        "name": "watch",
        "schedule": {"kind": "cron", "expr": "0 7 * * *"},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "say: All is well."},
        "agentId": "librarian",
    }
    made = place.client.call("cron.add", job)
    place.client.call("cron.run", {"id": made["id"], "mode": "force"})
    place.settle()

    visitor = visit(route("map"))
    visitor.see(".flow a", has_text="a clock → ")
    (run_id,) = place.ledger("SELECT run_id FROM runs WHERE kind = 'cron'")[0]
    visitor.go(route("run", run_id))
    visitor.see(".timeline .label", has_text="by watch (cron)")
    # The key of a job names no agent; beside the chat it has the face of its own all the same.
    visitor.go(route("chat", f"cron:{made['id']}"))
    visitor.see("[aria-current=page] .face", has_text="L")


def test_a_guest_is_named_where_it_asks_and_where_it_answers(visit: Visit, place: Place) -> None:
    by_guest(place, "sessions_send", agentId="librarian", message="say: The ninth.")
    place.client.submit("two and two?", GUEST, key="for-claude")
    asked = by_guest(place, "sessions_wait", timeoutSeconds=20)
    by_guest(place, "sessions_reply", runId=asked["runId"], reply="four")
    place.settle()

    visitor = visit(route("map"))
    visitor.see(".flow a", has_text="claude → The librarian")
    visitor.go(route("chat", GUEST))
    answer = visitor.see(".message.assistant[data-seq]", has_text="four")
    assert answer.locator(".head .name").inner_text() == "claude"
    visitor.go(route("chat", LIBRARIAN))
    visitor.see(".message.other .head .name", has_text="claude")


def test_a_budget_is_in_the_details_of_its_session_and_above_its_chat(
    visit: Visit, place: Place
) -> None:
    key = place.make("thrifty")
    visitor = visit(route("chat", key))
    visitor.see(".log .empty")

    visitor.say("say: as little as possible")
    visitor.see(".about", has_text="of 400,000 tokens")
    visitor.go(route("sessions", key))
    visitor.see(".panel .facts", has_text="of 400,000 tokens")
