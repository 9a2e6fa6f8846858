"""Webhooks of chat platforms, on the gateway's own port. Whether a request is the platform's is decided by the
account, by the platform's own rule: a signature, a secret in a header. So no secret of the gateway is asked for."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from crossclaw.channels.contract import AccountWebhook, WebhookAnswer, WebhookRequest
from crossclaw.domain.errors import ChannelDown, CrossclawError
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
from crossclaw.runs.neighbours import Neighbours, answers

log = logging.getLogger(__name__)

BODY_BYTES_MAX = 4 * 2**20  # WhatsApp sends up to 3 MB, the others far less
ANSWER_S = 20.0  # platforms give up sooner and send it again
AT_ONCE = 64  # each holds a body in memory; beyond, the platform sends it again later

FindWebhook = Callable[[str], AccountWebhook | None]
"""Finds an account's webhook by its path."""


class PassingWebhooks:
    """Webhooks of the accounts here, and of accounts that another gateway keeps: a request for these is
    passed on to it, as it came, and its answer is the platform's. So nothing is acknowledged that it has not
    stored."""

    def __init__(
        self,
        find_here: FindWebhook,
        find_role: Callable[[str], str | None],
        neighbours: Neighbours,
    ) -> None:
        self._find_here, self._find_role, self._neighbours = find_here, find_role, neighbours

    def find(self, path: str) -> AccountWebhook | None:
        here = self._find_here(path)
        if here is not None or (role := self._find_role(path)) is None:
            return here

        async def pass_on(request: WebhookRequest) -> WebhookAnswer:
            if (holder := self._neighbours.find_holder(role)) is None:
                raise ChannelDown(f"no gateway that can be reached has the role {role} now")
            asked = msgspec.to_builtins(request)
            return await self._neighbours.ask(holder, "webhook", asked, WebhookAnswer, ANSWER_S)

        return pass_on

    @answers("webhook")
    async def _take_for_others(self, body: Any) -> WebhookAnswer:
        request = msgspec.convert(body, WebhookRequest)
        if (call := self._find_here(request.path)) is None:
            raise ChannelDown("the account of this webhook is not open here")
        return await call(request)


class Webhooks:
    def __init__(self, find: FindWebhook) -> None:
        self._find = find
        self._under_way = 0

    def find_endpoints(self, path: str) -> dict[str, Endpoint] | None:
        """The endpoints of a webhook; asked for paths that the gateway itself does not have."""
        if (call := self._find(path)) is None:
            return None

        async def handle(request: Request, _principal: Principal) -> Response:
            return await self._answer(call, request)

        return {
            method: Endpoint(
                method=method, path=path, handle=handle, door=None, body_bytes_max=BODY_BYTES_MAX
            )
            for method in ("GET", "POST")
        }

    async def _answer(self, call: AccountWebhook, request: Request) -> Response:
        """Answers a platform's request. A message that could not be stored is not acknowledged: the platform
        sends it again."""
        if self._under_way >= AT_ONCE:
            return PlainTextResponse("busy", 503, headers={"retry-after": "5"})
        self._under_way += 1
        try:
            with anyio.fail_after(ANSWER_S):
                answer = await call(await _read(request))
        except TimeoutError:
            return PlainTextResponse("too slow", 503, headers={"retry-after": "5"})
        except CrossclawError as error:
            log.warning("a webhook at %s was not taken: %s", request.url.path, error)
            return PlainTextResponse("not taken", 503, headers={"retry-after": "5"})
        except Exception:
            log.exception("a webhook at %s failed", request.url.path)
            return PlainTextResponse("failed", 500)
        finally:
            self._under_way -= 1
        return Response(answer.body, answer.status, media_type=answer.content_type)


async def _read(request: Request) -> WebhookRequest:
    return WebhookRequest(
        method=request.method,
        path=request.url.path,
        query=dict(request.query_params),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.body(),
    )
