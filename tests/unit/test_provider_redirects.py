"""A model service that sends its callers elsewhere."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from crossclaw.domain.errors import ProviderRefused
from crossclaw.domain.messages import Text
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.providers.registry import Providers, ProviderSettings

REQUEST = ModelRequest(model="m", system="", turns=[UserTurn([], [Text("in confidence")])])


class Service(ThreadingHTTPServer):
    """Sends every caller to `location`, and remembers who came."""

    def __init__(self, location: str) -> None:
        heard = self.heard = list[Any]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.append((self.path, dict(self.headers)))
                self.rfile.read(int(self.headers["content-length"]))
                elsewhere = location if len(heard) == 1 else ""
                self.send_response(307 if elsewhere else 400)
                if elsewhere:
                    self.send_header("location", elsewhere)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __exit__(self, *_error: object) -> None:
        self.shutdown()
        self.server_close()


async def ask(base_url: str) -> None:
    settings = ProviderSettings(
        "x", "anthropic-messages", base_url=base_url, api_key="sk-of-the-owner"
    )
    providers = Providers({"x": settings}, {})
    try:
        await providers.get("x/m")[0].complete(REQUEST, lambda piece: None)
    finally:
        await providers.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_conversation_and_its_key_go_only_where_the_owner_sends_them(
    anyio_backend: str,
) -> None:
    with Service("") as elsewhere, Service(f"{elsewhere.url}/v1/messages") as service:
        with pytest.raises(ProviderRefused, match="sends its callers elsewhere"):
            await ask(service.url)
        assert len(service.heard) == 1
        assert elsewhere.heard == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_another_path_of_the_same_service_is_followed(anyio_backend: str) -> None:
    with Service("/elsewhere") as service:
        with pytest.raises(ProviderRefused, match="400"):
            await ask(service.url)
        assert [path for path, _headers in service.heard] == ["/v1/messages", "/elsewhere"]
