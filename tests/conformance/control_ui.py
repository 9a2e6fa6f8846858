"""The Control UI of OpenClaw 2026.2.6-3 in a headless browser: it connects, sends, shows the reply."""

import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.conformance.installing import package

if TYPE_CHECKING:
    from tests.conformance.clients import Gateway

PORT = 28_790  # the gateway's `allowedOrigins` name it


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served_page() -> Generator[str]:
    folder = package("old", "openclaw") / "dist" / "control-ui"
    server = ThreadingHTTPServer(("127.0.0.1", PORT), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{PORT}"
    finally:
        server.shutdown()
        server.server_close()


def control_ui(gateway: "Gateway") -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only here

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with served_page() as page_url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(f"{page_url}/?gatewayUrl={quote(gateway.url)}&token={quote(gateway.token)}")
        page.get_by_role("button", name="Confirm").click(timeout=60_000)
        words = page.locator("textarea").first
        words.wait_for(timeout=60_000)
        page.wait_for_function("!document.querySelector('textarea').disabled", timeout=60_000)
        words.fill("say: seen in the browser")
        words.press("Enter")
        page.wait_for_function(
            "document.body.innerText.split('seen in the browser').length > 2", timeout=60_000
        )
        browser.close()
