"""A gateway with three agents, and a visitor who looks at its page."""

import json
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from crossclaw.client import GatewayClient, connect
from tests.process.program import Folder, Program

AGENTS: dict[str, Any] = {
    "list": [
        {"id": "main", "default": True, "name": "Main"},
        {"id": "librarian", "name": "The librarian"},
        {"id": "harbour", "name": "Harbour master"},
    ]
}
CONFIG = json.dumps({"agents": AGENTS})
MAIN, LIBRARIAN, HARBOUR = (f"agent:{name}:main" for name in ("main", "librarian", "harbour"))
LOOK = (Path(__file__).parent / "looking.js").read_text("utf-8")
PATIENCE_MS = 30_000  # asked for only where something is wrong, or the machine does much else


class Place:
    """The program, a client of ours beside the page, and the ledger itself."""

    def __init__(self, folder: Folder, program: Program, client: GatewayClient) -> None:
        self.folder = folder
        self.program = program
        self.client = client
        self.visitors: list[Visitor] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.program.port}/"

    @property
    def token(self) -> str:
        return self.folder.token

    def ledger(self, sql: str, *values: Any) -> list[Any]:
        flags = apsw.SQLITE_OPEN_READONLY
        db = apsw.Connection(str(self.folder.state / "crossclaw.sqlite"), flags=flags)
        try:
            return list(db.execute(sql, values))
        finally:
            db.close()

    def say(self, key: str, text: str) -> str:
        """Said by somebody else, and answered on return."""
        return self.client.send(text, key, timeout_s=PATIENCE_MS / 1000).run_id

    def settle(self) -> None:
        """Until nothing is under way any more: rounds and announces too."""
        for _ in range(200):
            left = self.ledger("SELECT run_id FROM runs WHERE ended_at IS NULL LIMIT 1")
            if not left:
                return
            wait = {"runId": left[0][0], "timeoutMs": PATIENCE_MS}
            self.client.call("agent.wait", wait, timeout_s=2 * PATIENCE_MS / 1000)
        raise AssertionError("it does not come to rest")

    def make(self, name: str, **more: Any) -> str:
        key: str = self.client.call("sessions.create", {"key": name, **more})["key"]
        return key


@contextmanager
def open_place(path: Path, config: str = CONFIG, **environ: str) -> Generator[Place]:
    with serve_place(Folder(path, config, **environ)) as place:
        yield place


@contextmanager
def serve_place(folder: Folder) -> Generator[Place]:
    with folder.serve() as program:
        url = f"ws://127.0.0.1:{program.port}"
        with connect(url, token=folder.token, scopes=["operator.admin"]) as client:
            place = Place(folder, program, client)
            yield place
            for visitor in place.visitors:
                visitor.leave_in_time()


def furnish(place: Place, number: int) -> None:
    """Sessions by the thousand, put where the ledger has them."""
    db = apsw.Connection(str(place.folder.state / "crossclaw.sqlite"))
    db.set_busy_timeout(5_000)
    key = f"'agent:' || (CASE value % 3 WHEN 0 THEN 'main' WHEN 1 THEN 'librarian' ELSE 'harbour' END) || ':n{number}-' || value"
    many = (
        f"WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT {number}) "
    )
    with db:
        db.execute(
            f"{many} INSERT INTO sessions (agent_id, key, session_id, kind, chat_type, created_at, "
            "updated_at) SELECT CASE value % 3 WHEN 0 THEN 'main' WHEN 1 THEN 'librarian' ELSE "
            f"'harbour' END, {key}, {key}, 'other', 'direct', value, value FROM n"
        )
    db.close()


def ask_script(agent: str, question: str, answer: str, finally_: str) -> str:
    """What makes the rehearsal model ask another agent."""
    call = {"agentId": agent, "message": f"{question}\n{answer}", "timeoutSeconds": 600}
    return f"say: I will ask.\ntool: sessions_send {json.dumps(call)}\nthen:\nsay: {finally_}"


def route(*parts: str) -> str:
    return "#/" + "/".join(quote(part, safe="") for part in parts)


class Visitor:
    def __init__(
        self,
        chromium: Any,
        place: Place,
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        locale: str = "en-GB",
        may_complain: str | None = None,
    ) -> None:
        self.place = place
        self.url = place.url  # stays, also when the program does not
        self.complaints: list[str] = []
        self._may_complain = may_complain
        place.visitors.append(self)
        self.context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            locale=locale,
            accept_downloads=True,
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"asked elsewhere: {request.url}")

    def come_in(self) -> None:
        self.page.goto(f"{self.url}#token={self.place.token}")
        self.page.locator("#line[data-state=on]").wait_for(state="attached")

    def go(self, where: str) -> None:
        """There on return: views are fetched when they are looked at."""
        self.page.goto(self.url + where)
        if name := where.partition("/")[2].partition("/")[0]:
            self.find(f"main > cc-{name}").wait_for(state="attached")

    def leave_in_time(self) -> None:
        """Before the program ends: a page that still fetches something would complain. Who may complain may stay."""
        if self._may_complain is None:
            self.context.close()

    def leave(self) -> None:
        self.context.close()
        expected = self._may_complain
        left = [c for c in self.complaints if not (expected and re.search(expected, c))]
        assert not left, left

    # ── what is seen ───────────────────────────────────────────────────────────────────────────

    def find(self, selector: str, **more: Any) -> Any:
        return self.page.locator(selector, **more)

    def see(self, selector: str, **more: Any) -> Any:
        """It is there, or will be in a moment."""
        found = self.page.locator(selector, **more).first
        found.wait_for()
        return found

    def look(self) -> list[str]:
        """What a careful eye finds wrong, in sentences."""
        wrong: list[str] = self.page.evaluate(LOOK)
        return wrong

    def until(self, script: str, argument: Any = None) -> None:
        self.page.wait_for_function(script, arg=argument, timeout=PATIENCE_MS)

    def settle(self) -> None:
        """Everything that the page has asked for is answered."""
        quiet = (
            "async () => { const { wire } = await import(new URL('static/wire.js', document.baseURI));"
            " return wire.ready && wire.waiting.size === 0 }"
        )
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(quiet):
            assert time.monotonic() < deadline, "the page still waits for answers"

    def say(self, text: str) -> None:
        self.page.fill("#say", text)
        self.page.press("#say", "Enter")

    def words(self) -> list[str]:
        """What the conversation shows, message by message, once nobody is writing."""
        self.until("() => !document.querySelector('.log > .ghost')")
        script = "items => items.map(i => i.querySelector('.body').textContent.trim())"
        texts: list[str] = self.find(".log > .message").evaluate_all(script)
        return texts


class HeldAnswers:
    """The page's way to the gateway, on which the answers to one method wait until they are let go."""

    def __init__(self, visitor: Visitor, method: str) -> None:
        self._page = visitor.page
        self._method = method
        self._is_held = True
        self._asked: set[str] = set()
        self._held: list[tuple[Any, Any]] = []
        visitor.page.route_web_socket("**/*", self._dial)

    def _dial(self, socket: Any) -> None:
        server = socket.connect_to_server()

        def ask(frame: Any) -> None:
            request = json.loads(frame)
            if request.get("method") == self._method:
                self._asked.add(request["id"])
            server.send(frame)

        def answer(frame: Any) -> None:
            if self._is_held and json.loads(frame).get("id") in self._asked:
                self._held.append((socket, frame))
            else:
                socket.send(frame)

        socket.on_message(ask)
        server.on_message(answer)

    def wait_for(self, number: int) -> None:
        for _ in range(PATIENCE_MS // 50):
            if len(self._held) >= number:
                return
            self._page.wait_for_timeout(50)
        raise AssertionError(f"{self._method} was answered {len(self._held)} times, not {number}")

    def let_go(self) -> None:
        """In the order in which they came."""
        self._is_held = False
        for socket, frame in self._held:
            socket.send(frame)
        self._held.clear()
