"""Somebody whose client encrypts: matrix-nio's own, in a process of its own, so that nothing of ours is on that side.

Lines of JSON in and out: `{"do": "say", "room": …, "text": …}` is answered when it is sent, `{"do": "heard", "room": …,
"count": n}` when so many messages of others could be decrypted.
"""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from tests.channels.synapse import Person

ROOT = Path(__file__).parents[3]


class EncryptedPerson:
    """From the test's side."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, what: str, **words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **words}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or "{}")
        assert "error" not in answer, answer
        return answer["answer"]

    async def ask(self, what: str, **words: Any) -> Any:
        """While the account under test goes on."""
        return await anyio.to_thread.run_sync(lambda: self.do(what, **words))


@contextmanager
def open_person(person: Person, folder: Path) -> Generator[EncryptedPerson]:
    folder.mkdir()
    words = [person.url, person.user_id, person.password, str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield EncryptedPerson(process)
        finally:
            process.kill()


# ── in the other process ───────────────────────────────────────────────────────────────────────


class Their:
    def __init__(self, client: Any) -> None:
        self.client = client
        self.heard: list[tuple[str, str, str]] = []
        self.unread = 0
        self.news = anyio.Event()

    def hear(self, room: Any, event: Any) -> None:
        if event.sender != self.client.user_id:
            kind = type(event).__name__
            text = (
                getattr(event, "body", "") if event.decrypted or "Encrypted" in kind else "IN CLEAR"
            )
            self.heard.append((room.room_id, kind, text))
            self.files = getattr(self, "files", [])
            self.files.append(event)
            self.news.set()

    def miss(self, room: Any, event: Any) -> None:
        self.unread += 1

    async def answer(self, asked: dict[str, Any]) -> Any:
        room = asked.get("room")
        match asked["do"]:
            case "say":
                content = {"msgtype": "m.text", "body": asked["text"], **asked.get("more", {})}
                sent = await self.client.room_send(
                    room, "m.room.message", content, ignore_unverified_devices=True
                )
                return sent.event_id
            case "join":
                await self.client.join(room)
                return None
            case "wait encrypted":
                for _ in range(600):
                    if room in self.client.rooms and self.client.rooms[room].encrypted:
                        return None
                    await anyio.sleep(0.05)
                raise ValueError("the room is not encrypted")
            case "heard":
                while (
                    len(found := [each for each in self.heard if each[0] == room]) < asked["count"]
                ):
                    self.news = anyio.Event()
                    await self.news.wait()
                return [[kind, text] for _, kind, text in found]
            case "file":
                return await self._file(self.files[-1])
            case "send file":
                return await self._send_file(asked)
        raise ValueError(asked)

    async def _file(self, event: Any) -> str:
        from nio.crypto.attachments import decrypt_attachment  # noqa: PLC0415

        got = await self.client.download(event.url)
        opened = decrypt_attachment(got.body, event.key["k"], event.hashes["sha256"], event.iv)
        return str(opened.decode("latin-1"))

    async def _send_file(self, asked: dict[str, Any]) -> Any:
        import io  # noqa: PLC0415

        data = asked["data"].encode()
        got, keys = await self.client.upload(
            io.BytesIO(data), "text/plain", "notes.txt", encrypt=True, filesize=len(data)
        )
        file = {**keys, "url": got.content_uri}
        content = {"msgtype": "m.file", "body": "notes.txt", "file": file}
        sent = await self.client.room_send(
            asked["room"], "m.room.message", content, ignore_unverified_devices=True
        )
        return sent.event_id


async def _follow(client: Any) -> None:
    """Who asks for keys while a message is being sent finds that it was done meanwhile, and nio calls that an error."""
    import nio  # noqa: PLC0415  only make channels installs it

    while True:
        with suppress(nio.LocalProtocolError):
            await client.sync_forever(1000, None, None, True)


async def main(url: str, user_id: str, password: str, folder: str) -> None:
    import nio  # noqa: PLC0415  only make channels installs it

    client = nio.AsyncClient(url, user_id, store_path=folder)
    await client.login(password, device_name="hers")
    their = Their(client)
    client.add_event_callback(their.hear, (nio.RoomMessageText, nio.RoomEncryptedImage))
    client.add_event_callback(their.miss, nio.MegolmEvent)
    await client.sync(timeout=0, full_state=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_follow, client)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            try:
                answer = {"answer": await their.answer(json.loads(line))}
            except Exception as error:  # noqa: BLE001  told to the test
                answer = {"error": repr(error)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        tasks.cancel_scope.cancel()
    await client.close()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
