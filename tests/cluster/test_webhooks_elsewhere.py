"""Webhooks that arrive at any gateway: each message is stored by the one that keeps its account, before the platform is told so."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from crossclaw.channels.contract import WebhookAnswer, WebhookRequest
from crossclaw.channels.manifest import Traits
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import StoreError
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider
from tests.cluster.linked import Linked, linked, see_each_other, until
from tests.flows.talking import call
from tests.wire.served_gateway import TOKEN

pytestmark = [pytest.mark.spec("B6"), pytest.mark.anyio]
PATH = "/channels/memory/hook"
HOOKS_TOKEN = "the-token-of-the-hooks-which-is-long-enough"


class HookedChannel(MemoryChannel):
    """A platform that calls; what it sends is `<message id> <words>`, and a wrong secret is refused."""

    def __init__(self) -> None:
        traits = Traits(webhook=PATH)
        super().__init__("memory", knows_key_s=1e9, settings=OPEN_TO_ALL, traits=traits)
        self.fault: Exception | None = None
        self.called = 0

    async def webhook(self, request: WebhookRequest) -> WebhookAnswer:
        self.called += 1
        if request.headers.get("x-secret") != "right":
            return WebhookAnswer(status=401, body=b"no", content_type="text/x-why")
        if self.fault is not None:
            raise self.fault
        message_id, _, text = request.body.decode().partition(" ")
        received = await self.bring(
            Inbound(
                address=Address(self.name, request.query["chat"]),
                sender=request.query["chat"],
                text=text,
                message_id=message_id,
            )
        )
        return WebhookAnswer(body=(received.run_id or "").encode())


@pytest.fixture
def chats() -> dict[str, HookedChannel]:
    return {"a": HookedChannel(), "b": HookedChannel()}


@pytest.fixture
async def pair(
    tmp_path: Path, url: str, quick_links: None, chats: dict[str, HookedChannel]
) -> AsyncGenerator[tuple[Linked, Linked]]:
    raw = {"hooks": {"enabled": True, "token": HOOKS_TOKEN}}
    async with AsyncExitStack() as closing:
        opened = []
        for name, chat in chats.items():
            model = ScriptedProvider(lambda _: "heard")
            opened.append(
                await closing.enter_async_context(
                    linked(tmp_path, url, name, model, raw, channels=[chat])
                )
            )
            await until(lambda: chats["a"].host is not None)  # the first one gets the account
        a, b = opened
        await see_each_other(a, b)
        yield a, b


async def post(where: Linked, body: str, secret: str = "right") -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as http:
        return await http.post(
            f"{where.url}{PATH}?chat=bob", content=body, headers={"x-secret": secret}
        )


@pytest.mark.spec("N1", "B2")
async def test_what_arrives_at_a_gateway_without_the_account_is_stored_by_the_other_before_it_is_acknowledged(
    pair: tuple[Linked, Linked], chats: dict[str, HookedChannel]
) -> None:
    a, b = pair
    assert chats["b"].host is None
    await until(lambda: b.gateway.neighbours.find_holder("channel:memory:default") is not None)
    said = await post(b, "m1 hello")
    assert said.status_code == 200, said.text
    assert await a.gateway.ledger.find_run(said.text) is not None, "stored when it is acknowledged"
    again = await post(a, "m1 hello")
    assert again.text == said.text, "the same message by the other gateway is the same message"
    await chats["a"].wait_sent()
    assert chats["a"].sent == [("bob", "heard")]
    assert chats["b"].called == 0

    refused = await post(b, "m2 hello", secret="wrong")
    assert (refused.status_code, refused.text) == (401, "no")
    assert refused.headers["content-type"].startswith("text/x-why")
    chats["a"].fault = StoreError("the disk is full")
    assert (await post(b, "m3 hello")).status_code == 503, "the platform sends it again"
    chats["a"].fault = RuntimeError("a bug of the account")
    assert (await post(b, "m3 hello")).status_code == 503
    a.cut()
    assert (await post(b, "m4 hello")).status_code == 503, "nobody has it now"


async def test_a_hook_is_a_run_on_whichever_gateway_it_arrives(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    headers = {"authorization": f"Bearer {HOOKS_TOKEN}", "idempotency-key": "d1"}
    runs = set()
    async with httpx2.AsyncClient(trust_env=False) as http:
        for where in (a, b):
            said = await http.post(
                f"{where.url}/hooks/agent", json={"message": "look"}, headers=headers
            )
            assert said.status_code == 202, said.text
            runs.add(said.json()["runId"])
        (run_id,) = runs
        woken = await http.post(
            f"{b.url}/hooks/wake",
            json={"text": "wake up", "mode": "now"},
            headers={**headers, "idempotency-key": "d2"},
        )
        assert woken.status_code == 200, woken.text
    run = await b.gateway.run_store.wait(run_id, 20)
    assert run is not None
    assert run.status == "ok"

    async def is_heard() -> bool:
        history = await call(a.gateway, "chat.history", sessionKey="main")
        return "wake up" in str(history["messages"])

    await until(is_heard)


@pytest.mark.spec("G4")
async def test_only_gateways_ask_each_other_and_each_question_is_heard_once(
    pair: tuple[Linked, Linked], chats: dict[str, HookedChannel]
) -> None:
    """Whoever can read along, or has the clients' token alone, brings nothing about."""
    a, b = pair
    sent: list[httpx2.Request] = []
    (neighbour,) = b.gateway.neighbours
    real = httpx2.AsyncClient.send

    async def record(self: Any, request: httpx2.Request, **more: Any) -> httpx2.Response:
        sent.append(request)
        return await real(self, request, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx2.AsyncClient, "send", record)
        await b.gateway.neighbours.ask(
            neighbour, "webhook", _asked("m1 hello"), WebhookAnswer, timeout_s=5
        )
    question = next(each for each in sent if each.url.path == "/gateways/ask")
    body = question.content
    assert TOKEN not in str(question.headers)
    assert b"webhook" not in body, "nor is it read on its way"
    async with httpx2.AsyncClient(trust_env=False) as http:
        ask = f"{a.url}/gateways/ask"
        headers = dict(question.headers)
        assert (await http.post(ask, content=body, headers=headers)).status_code == 409
        other = body[:-9] + bytes(reversed(body[-9:-3])) + body[-3:]
        assert (await http.post(ask, content=other, headers=headers)).status_code == 403
        bare = {**headers, "authorization": f"Bearer {TOKEN}"}
        assert (await http.post(ask, content=body, headers=bare)).status_code == 403
        wrong = {**headers, "authorization": headers["authorization"] + "0"}
        assert (await http.post(ask, content=body, headers=wrong)).status_code == 401
    assert chats["a"].called == 1


def _asked(body: str) -> Any:
    request = WebhookRequest(
        method="POST",
        path=PATH,
        query={"chat": "bob"},
        headers={"x-secret": "right"},
        body=body.encode(),
    )
    return msgspec.to_builtins(request)
