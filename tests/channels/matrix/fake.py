"""FakeHomeserver: the part of a Matrix homeserver that a bot in rooms without encryption meets.

By the client-server API v1.16 (spec.matrix.org, read on 2026-11-16) and by Synapse 1.163.2, which the same calls were made
against on that day; `test_matrix.py` holds the real one to the same promises. Strict where Synapse is: unknown tokens (401),
rooms one is not in (403), messages without a body (400), events over 64 KiB (413), one event for one transaction id of a
device. Events that only a hostile server could send get in by `bring`.
"""

import itertools
import re
from typing import Any
from urllib.parse import unquote

import anyio
import msgspec

from crossclaw.testing.time import NOON_MS
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, json_of

BOT, DEVICE, TOKEN = "@bot:fake.example", "BOTDEVICE", "syt_bot_token"
EVENT_BYTES_MAX = 65_536
MEGOLM = {"algorithm": "m.megolm.v1.aes-sha2"}
_CLIENT = "/_matrix/client/v3"
_ROOM = re.compile(rf"{_CLIENT}/rooms/([^/]+)/(\w+)(?:/([^/]+))?(?:/(.*))?")

DOWNLOAD = "/_matrix/client/v1/media/download"


def refusal(status: int, errcode: str, text: str, **more: Any) -> FakeAnswer:
    return json_of({"errcode": errcode, "error": text, **more}, status)


class FakeHomeserver(FakeHttpService):
    def __init__(self) -> None:
        super().__init__()
        self.device = DEVICE
        """Of the login that the token is from."""
        self.stream: list[tuple[str, Any]] = []
        """All that happened, (room, event), in the server's order; a token of a sync is a place in it."""
        self.members: dict[str, dict[str, str]] = {}
        self.invited: dict[str, str] = {}
        self._withdrawn: set[str] = set()
        self._told_withdrawn: set[str] = set()
        self.claimed: str | None = None
        """The alias that invitations show: whoever invites writes it, and no server looks at it."""
        self.directory: dict[str, str] = {}
        """Which room an alias really names."""
        self.encrypted: set[str] = set()
        """Rooms whose state says so."""
        self.devices: dict[str, dict[str, Any]] = {BOT: {}}
        """The keys of each person's devices, as they were uploaded."""
        self.one_time_keys: dict[tuple[str, str], dict[str, Any]] = {}
        """Of a person's device, as they were uploaded."""
        self.typing: list[bool] = []
        self.reactions: list[str] = []
        self.uploads: list[bytes] = []
        self.media: dict[str, bytes] = {}
        """What people have uploaded, by its name behind `mxc://fake.example/`."""
        self.relations: list[dict[str, Any]] = []
        """The `m.relates_to` of each of `seen`."""
        self._places: dict[str, int] = {}
        self.seen: list[tuple[str, str]] = []
        """What people got to see of the bot: (room, text)."""
        self.acknowledged = 0
        self.followed = anyio.Event()
        """The bot has made its first sync and follows."""
        self._sent: dict[tuple[str, str], str] = {}
        self._numbers = itertools.count(1)
        self._news = anyio.Event()

    @property
    def _has_news_of_invitations(self) -> bool:
        return bool(self.invited or self._withdrawn - self._told_withdrawn)

    # ── people ─────────────────────────────────────────────────────────────────────────────────

    def room_with(self, *people: str) -> str:
        """One that the bot is in."""
        room = f"!room{next(self._numbers)}"
        self.members[room] = dict.fromkeys((BOT, *people), "join")
        return room

    def say(self, room: str, sender: str, text: str, **content: Any) -> str:
        return self.happen(
            room, sender, "m.room.message", {"msgtype": "m.text", "body": text, **content}
        )

    def invite(self, room: str, sender: str) -> None:
        self.invited[room] = sender
        self._news.set()

    def withdraw(self, room: str) -> None:
        """An invitation is taken back: the next sync says that we have left the room."""
        self._withdrawn.add(room)
        self._news.set()

    def happen(self, room: str, sender: str, kind: str, content: Any, **more: Any) -> str:
        event_id = f"$event{next(self._numbers)}"
        event = {
            "type": kind,
            "sender": sender,
            "content": content,
            "event_id": event_id,
            "origin_server_ts": NOON_MS + len(self.stream),
            **more,
        }
        self.bring(room, event)
        return event_id

    def take_back(self, room: str, sender: str, event_id: str, *, newer: bool = False) -> None:
        """A person redacts an event: its content is gone, its sender and kind stay (room versions 11 and up name it in the
        content of the redaction)."""
        _, event = self.find(event_id)
        event["content"] = {}
        content = {"redacts": event_id} if newer else {}
        more = {} if newer else {"redacts": event_id}
        self.happen(room, sender, "m.room.redaction", content, **more)

    def bring(self, room: str, event: Any) -> None:
        self.stream.append((room, event))
        self._news.set()

    def find(self, event_id: str) -> tuple[str, Any]:
        return next(each for each in self.stream if each[1].get("event_id") == event_id)

    async def _wait(self) -> None:
        """For anything new; several may wait."""
        if self._news.is_set():
            self._news = anyio.Event()
        await self._news.wait()

    async def wait_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await self._wait()

    async def wait_acknowledged(self) -> None:
        """Until the bot has taken all that happened."""
        while self.acknowledged < len(self.stream):
            await self._wait()

    # ── the bot's calls ────────────────────────────────────────────────────────────────────────

    def due_cut(self, path: str) -> str | None:
        """Sends are cut by the word `send`: their paths end in ids."""
        return super().due_cut(_kind_of(path))

    async def respond(self, asked: AskedOfFake) -> FakeAnswer:
        self.requests.append(asked)
        kind = _kind_of(asked.path)
        if self.answers and self.answers[0][0] == kind:
            return self.answers.popleft()[1]
        answer = await self.handle(asked)
        if self.effects and answer.status < 300 and self.effects[0][0] == kind:
            self.effects.popleft()[1]()
        return answer

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return refusal(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.")
        path = asked.path
        if path == f"{_CLIENT}/account/whoami":
            return json_of({"user_id": BOT, "device_id": self.device, "is_guest": False})
        if "/media/" in path:
            return self._file(asked)
        if path == f"{_CLIENT}/sync":
            return await self._sync(asked)
        if path.startswith((f"{_CLIENT}/keys/", f"{_CLIENT}/sendToDevice/")):
            return self._keys(asked, path.removeprefix(f"{_CLIENT}/"))
        if path.startswith(f"{_CLIENT}/directory/room/"):
            found_room = self.directory.get(unquote(path.rsplit("/", 1)[1]))
            if found_room is None:
                return refusal(404, "M_NOT_FOUND", "Room alias not found")
            return json_of({"room_id": found_room, "servers": ["fake.example"]})
        if path.startswith(f"{_CLIENT}/profile/"):
            return json_of({"displayname": "Bot"})
        if path.startswith(f"{_CLIENT}/join/"):
            return self._join(path.rsplit("/", 1)[1])
        if found := _ROOM.fullmatch(path):
            return self._in_room(asked, *found.groups())
        return refusal(404, "M_UNRECOGNIZED", "Unrecognized request")

    def _file(self, asked: AskedOfFake) -> FakeAnswer:
        if asked.path == "/_matrix/media/v3/upload":
            self.uploads.append(asked.body)
            return json_of({"content_uri": f"mxc://fake.example/{len(self.uploads)}"})
        data = self.media.get(asked.path.removeprefix(f"{DOWNLOAD}/fake.example/"))
        if data is None:
            return refusal(404, "M_NOT_FOUND", "Not found")
        return FakeAnswer(200, data, "application/octet-stream")

    def _keys(self, asked: AskedOfFake, path: str) -> FakeAnswer:
        match path.split("/"):
            case ["keys", "upload"]:
                if keys := asked.json().get("device_keys"):
                    self.devices[BOT][keys["device_id"]] = keys
                return json_of({"one_time_key_counts": {"signed_curve25519": 50}})
            case ["keys", "query"]:
                asked_for = asked.json()["device_keys"]
                known = {
                    user: {
                        name: keys
                        for name, keys in self.devices[user].items()
                        if name in (devices or self.devices[user])
                    }
                    for user, devices in asked_for.items()
                    if user in self.devices
                }
                return json_of({"device_keys": known, "failures": {}})
            case ["keys", "claim"]:
                return json_of({"one_time_keys": self._claimed(asked), "failures": {}})
            case ["sendToDevice", _kind, _txn]:
                return json_of({})
        return refusal(404, "M_UNRECOGNIZED", "Unrecognized request")

    def _claimed(self, asked: AskedOfFake) -> dict[str, Any]:
        """Each key is given away once."""
        given: dict[str, Any] = {}
        for user, devices in asked.json()["one_time_keys"].items():
            for device in devices:
                left = self.one_time_keys.get((user, device)) or {}
                if left:
                    given.setdefault(user, {})[device] = dict([left.popitem()])
        return given

    async def _sync(self, asked: AskedOfFake) -> FakeAnswer:
        try:
            chosen = msgspec.json.decode(asked.query.get("filter", "{}"))
            since = int(asked.query.get("since", "s0").removeprefix("s"))
        except (msgspec.DecodeError, ValueError):
            return refusal(400, "M_UNKNOWN", "Invalid stream token")
        first = "since" not in asked.query
        if not first:
            self.acknowledged = max(self.acknowledged, since)
            self.followed.set()
            self._news.set()
            with anyio.move_on_after(int(asked.query.get("timeout", "0")) / 1000):
                while len(self.stream) <= since and not self._has_news_of_invitations:
                    await self._wait()
        joined = self._joined(0 if first else since, chosen["room"]["timeline"]["limit"])
        invited = {
            room: {"invite_state": {"events": self._invite_state(who)}}
            for room, who in self.invited.items()
        }
        leave: dict[str, Any] = {room: {} for room in self._withdrawn - self._told_withdrawn}
        self._told_withdrawn |= self._withdrawn
        rooms = {"join": joined, "invite": invited, "leave": leave}
        self.invited = {}
        return json_of({"next_batch": f"s{len(self.stream)}", "rooms": rooms})

    def _invite_state(self, who: str) -> list[dict[str, Any]]:
        member = {
            "type": "m.room.member",
            "sender": who,
            "state_key": BOT,
            "content": {"membership": "invite", "is_direct": True},
        }
        if self.claimed is None:
            return [member]
        alias = {
            "type": "m.room.canonical_alias",
            "sender": who,
            "state_key": "",
            "content": {"alias": self.claimed},
        }
        return [member, alias]

    def _joined(self, since: int, limit: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for room in self.members:
            new = [(at, each) for at, (where, each) in enumerate(self.stream) if where == room]
            new = [(at, each) for at, each in new if at >= since]
            shown = new[-limit:] if limit else []
            if new:
                prev = shown[0][0] if shown else len(self.stream)
                found[room] = {
                    "timeline": {
                        "events": [each for _, each in shown],
                        "limited": len(shown) < len(new),
                        "prev_batch": f"s{prev}",
                    },
                    "state": {"events": []},
                }
        return found

    def _join(self, room: str) -> FakeAnswer:
        if room in self._withdrawn:
            return refusal(403, "M_FORBIDDEN", "You are not invited to this room.")
        self.members.setdefault(room, {})[BOT] = "join"
        return json_of({"room_id": room})

    def _in_room(
        self, asked: AskedOfFake, room: str, what: str, kind: str | None, rest: str | None
    ) -> FakeAnswer:
        if self.members.get(room, {}).get(BOT) != "join":
            return refusal(403, "M_FORBIDDEN", f"User {BOT} not in room {room}")
        match what:
            case "members":
                return json_of({"chunk": [_member(*each) for each in self.members[room].items()]})
            case "state" if kind == "m.room.encryption" and room in self.encrypted:
                return json_of(MEGOLM)
            case "state":
                return refusal(404, "M_NOT_FOUND", "Event not found.")
            case "messages":
                return self._messages(asked, room)
            case "event":
                known = [each for _, each in self.stream if each.get("event_id") == kind]
                return json_of(known[0]) if known else refusal(404, "M_NOT_FOUND", "Event not found.")  # fmt: skip
            case "typing":
                self.typing.append(bool(asked.json()["typing"]))
                return json_of({})
            case "redact":
                return json_of({})
            case "send":
                return self._send(asked, room, kind or "", rest or "")
        return refusal(404, "M_UNRECOGNIZED", "Unrecognized request")

    def _messages(self, asked: AskedOfFake, room: str) -> FakeAnswer:
        start, end = (int(asked.query[name].removeprefix("s")) for name in ("from", "to"))
        older = [(at, each) for at, (where, each) in enumerate(self.stream) if where == room]
        page = [(at, each) for at, each in reversed(older) if end <= at < start]
        page, more = page[: int(asked.query["limit"])], page[int(asked.query["limit"]) :]
        body: dict[str, Any] = {"chunk": [each for _, each in page], "start": asked.query["from"]}
        return json_of(body | ({"end": f"s{page[-1][0]}"} if more else {}))

    def _send(self, asked: AskedOfFake, room: str, kind: str, key: str) -> FakeAnswer:
        if len(asked.body) > EVENT_BYTES_MAX:
            return refusal(413, "M_TOO_LARGE", "event too large")
        content = asked.json()
        if kind == "m.room.message":
            for name in ("body", "msgtype"):
                if not isinstance(content.get(name), str):
                    return refusal(400, "M_BAD_JSON", f"'{name}' not in content")
            if ("formatted_body" in content) != ("format" in content):
                self.complaints.append("a formatted body needs its format, and the other way round")
            if "m.mentions" not in content:
                self.complaints.append("without m.mentions old clients guess whom it mentions")
        if (self.device, key) not in self._sent:
            self._sent[self.device, key] = event_id = self.happen(room, BOT, kind, content)
            relation = content.get("m.relates_to") or {}
            if relation.get("rel_type") == "m.replace":
                at = self._places[relation["event_id"]]
                self.seen[at] = (room, content["m.new_content"]["body"])
            elif kind == "m.room.message":
                self._places[event_id] = len(self.seen)
                self.seen.append((room, content["body"]))
                self.relations.append(relation)
            elif kind == "m.reaction":
                self.reactions.append(relation["key"])
        return json_of({"event_id": self._sent[self.device, key]})


def _kind_of(path: str) -> str:
    found = _ROOM.fullmatch(path)
    return found[2] if found else path


def _member(user_id: str, membership: str) -> dict[str, Any]:
    content = {"membership": membership, "displayname": user_id[1:].partition(":")[0]}
    return {
        "type": "m.room.member",
        "sender": user_id,
        "state_key": user_id,
        "content": content,
        "event_id": f"$member-{user_id}",
    }
