"""Webhooks of chat accounts come in by the gateway's own port: by names that it does not know, with the platform's
own proof, and within limits."""

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import Response

from crossclaw.channels.contract import WebhookAnswer, WebhookRequest
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import Busy
from crossclaw.domain.secret import Secret
from crossclaw.door.principal import Principal
from crossclaw.gateway.auth import Authenticator, secret_digests
from crossclaw.gateway.edge import Edge, Endpoint, Routes
from crossclaw.gateway.http import webhooks
from crossclaw.gateway.http.webhooks import Webhooks
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.origins import Origins
from tests.unit.test_gateway_edge import Site

FROM_OUTSIDE = [("host", "bot.example.org"), ("content-type", "application/x-www-form-urlencoded")]


class WebhookSite(Site):
    """A gateway with a route of its own, and an account that is called at /pigeon."""

    def __init__(self) -> None:
        super().__init__()
        limits = GatewayLimits(
            body_bytes_max=100, body_time_s=0.05, unsigned_bytes_max=1_000, unsigned_small_bytes=50
        )
        self.asked: list[WebhookRequest] = []
        self.fault: Exception | None = None
        self.takes_s = 0.0

        async def call(request: WebhookRequest) -> WebhookAnswer:
            self.asked.append(request)
            await anyio.sleep(self.takes_s)
            if self.fault:
                raise self.fault
            return WebhookAnswer(status=202 if request.method == "POST" else 200)

        async def own(request: Request, principal: Principal) -> Response:
            return Response("own")

        find = Webhooks(lambda path: call if path in ("/pigeon", "/own") else None)
        routes = Routes([Endpoint(method="POST", path="/own", handle=own)], find.find_endpoints)
        keeper = Authenticator({"gateway": secret_digests(Secret("t" * 43))}, SystemClock(), limits)
        self.app = Edge(routes, self._upgrade, keeper, Origins(), limits)


async def test_a_platform_calls_by_any_name_without_a_secret_of_ours_and_the_raw_bytes_are_handed_on() -> (
    None
):
    site = WebhookSite()
    assert await site.ask("POST", "/pigeon", [*FROM_OUTSIDE, ("X-Ring", "r")], [b"a=", b"1"]) == 202
    assert await site.ask("GET", "/pigeon", FROM_OUTSIDE) == 200
    assert (site.asked[0].body, site.asked[0].headers["x-ring"]) == (b"a=1", "r")


async def test_all_other_paths_are_guarded_as_before_and_own_routes_come_first() -> None:
    site = WebhookSite()
    assert await site.ask("POST", "/pigeons", FROM_OUTSIDE) == 421
    assert await site.ask("POST", "/own", FROM_OUTSIDE) == 421
    assert await site.ask("WS", "/pigeon", FROM_OUTSIDE) == 421
    assert await site.ask("DELETE", "/pigeon", FROM_OUTSIDE) == 405
    assert site.asked == []


async def test_a_large_or_slow_webhook_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "BODY_BYTES_MAX", 10)
    monkeypatch.setattr(webhooks, "ANSWER_S", 0.01)
    site = WebhookSite()
    assert await site.ask("POST", "/pigeon", FROM_OUTSIDE, [b"x" * 11]) == 413
    assert site.asked == []
    site.takes_s = 1.0
    assert await site.ask("POST", "/pigeon", FROM_OUTSIDE) == 503


@pytest.mark.spec("N8")
@pytest.mark.parametrize(("fault", "status"), [(Busy("full"), 503), (KeyError("bug"), 500)])
async def test_what_could_not_be_stored_is_not_acknowledged(fault: Exception, status: int) -> None:
    site = WebhookSite()
    site.fault = fault
    assert await site.ask("POST", "/pigeon", FROM_OUTSIDE) == status


async def test_strangers_fill_only_so_much_memory_with_what_nobody_has_signed() -> None:
    """Each may send megabytes before its signature can be looked at; small messages come through all the same."""
    site = WebhookSite()
    site.takes_s = 0.05
    found: list[int] = []

    async def send(size: int) -> None:
        half = b"x" * (size // 2)
        found.append(await site.ask("POST", "/pigeon", FROM_OUTSIDE, [half, half]))

    async with anyio.create_task_group() as tasks:
        for size in (400, 400, 400, 40):
            tasks.start_soon(send, size)
    assert sorted(found) == [202, 202, 202, 503]
    assert sorted(len(each.body) for each in site.asked) == [40, 400, 400]
    found.clear()
    await send(900)
    assert found == [202]  # the room is given back
