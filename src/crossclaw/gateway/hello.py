"""The hello-ok payload: what a client learns when it comes in, and who else is connected."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from crossclaw.domain.clock import Clock
from crossclaw.domain.keys import MAIN, SessionKey
from crossclaw.gateway.handshake import Admitted
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.publisher import EVENT_NAMES

ListPresence = Callable[[], list[dict[str, Any]]]

CAPABILITIES = ("published-model-catalog",)
"""Capabilities that clients of 2026.9 ask for by name: `models.list` lists the models that can be used."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's facts about itself."""

    version: str
    default_agent_id: str = "main"
    session_scope: str = "per-sender"
    began_ms: int | None = None
    """When the program began, which may have reopened since; None: now."""


class Presence:
    """Who is connected, newest first: here, then on other gateways (`others`). `version` grows with every change."""

    def __init__(
        self, about: ServerFacts, clock: Clock, limits: GatewayLimits, others: ListPresence = list
    ) -> None:
        self._others = others
        self._elsewhere: list[dict[str, Any]] = []
        self._about = about
        self._clock = clock
        self._limits = limits
        self._since = clock.now_ms()
        self._here: dict[str, tuple[Admitted, str, int]] = {}
        self.version = 1

    def came(self, conn_id: str, admitted: Admitted, address: str) -> None:
        self._here[conn_id] = (admitted, address, self._clock.now_ms())
        self.version += 1

    def went(self, conn_id: str) -> bool:
        gone = self._here.pop(conn_id, None) is not None
        self.version += gone
        return gone

    def entries(self) -> list[dict[str, Any]]:
        return [*self.entries_here(), *self._elsewhere]

    def others_changed(self) -> None:
        """Reads anew who is connected elsewhere. The list is kept until the next change, since every newcomer
        gets all of it."""
        most = self._limits.presence_entries_max
        self._elsewhere = sorted(self._others(), key=_is_client)[:most]
        self.version += 1

    def entries_here(self) -> list[dict[str, Any]]:
        newest = islice(reversed(self._here.values()), self._limits.presence_entries_max)
        return [self._own(), *(_entry(*each) for each in newest)]

    def _own(self) -> dict[str, Any]:
        return {
            "host": "gateway",
            "version": self._about.version,
            "mode": "gateway",
            "reason": "self",
            "text": f"Gateway: crossclaw {self._about.version}",
            "ts": self._since,
        }


def _is_client(entry: dict[str, Any]) -> tuple[bool, int]:
    """Sorts entries of other gateways: the gateways, then their newest clients."""
    return entry.get("mode") != "gateway", -entry.get("ts", 0)


def _entry(admitted: Admitted, address: str, since: int) -> dict[str, Any]:
    client = admitted.client
    entry = {
        "host": client.display_name or client.id,
        "ip": address,
        "version": client.version,
        "platform": client.platform,
        "deviceFamily": client.device_family,
        "mode": client.mode,
        "reason": "connect",
        "ts": since,
        "deviceId": admitted.device_id,
        "roles": [admitted.role],
        "scopes": admitted.shown_scopes,
        "instanceId": client.instance_id,
    }
    return {name: value for name, value in entry.items() if value is not None}


_BARE = ("ok", "ts")


class Health:
    """The gateway's last known health, and how often it has been determined."""

    def __init__(self) -> None:
        self.snapshot: Any = {}
        self.version = 1

    def shown_to(self, may_read: bool) -> Any:
        """The health that a client gets: all of it, which names the newest sessions, or only that the gateway
        is well."""
        return self.snapshot if may_read else {k: v for k, v in self.snapshot.items() if k in _BARE}

    def update(self, snapshot: Any) -> None:
        self.snapshot = snapshot
        self.version += 1


class Hello:
    def __init__(
        self,
        about: ServerFacts,
        presence: Presence,
        health: Health,
        clock: Clock,
        limits: GatewayLimits,
    ) -> None:
        self._about = about
        self._presence = presence
        self._health = health
        self._clock = clock
        self._limits = limits
        self._began_ms = clock.now_ms() if about.began_ms is None else about.began_ms

    def state_version(self) -> dict[str, int]:
        return {"presence": self._presence.version, "health": self._health.version}

    def payload(self, conn_id: str, admitted: Admitted, methods: Iterable[str]) -> dict[str, Any]:
        limits, protocol = self._limits, admitted.protocol
        payload: dict[str, Any] = {
            "type": "hello-ok",
            "protocol": protocol,
            "server": {"version": self._about.version, "connId": conn_id},
            "features": {"methods": list(methods), "events": list(EVENT_NAMES)},
            "snapshot": self._snapshot(admitted.may_read),
            "policy": {
                "maxPayload": limits.payload_bytes_max(protocol),
                "maxBufferedBytes": limits.buffered_bytes_max(protocol),
                "tickIntervalMs": round(limits.tick_s * 1000),
            },
        }
        token = admitted.new_token
        if protocol >= 4 or token:  # clients of protocol 3 take `auth` only with a device token
            payload["auth"] = {"role": admitted.role, "scopes": admitted.shown_scopes}
        if protocol >= 4:
            payload["features"]["capabilities"] = list(CAPABILITIES)
            payload["auth"]["method"] = admitted.method
        if token is not None:
            kept = {"deviceToken": token.reveal(), "issuedAtMs": self._clock.now_ms()}
            payload["auth"].update(kept)
        return payload

    def _snapshot(self, may_read: bool) -> dict[str, Any]:
        about = self._about
        return {
            "presence": self._presence.entries() if may_read else [],
            "health": self._health.shown_to(may_read),
            "stateVersion": self.state_version(),
            "uptimeMs": max(0, self._clock.now_ms() - self._began_ms),
            "sessionDefaults": {
                "defaultAgentId": about.default_agent_id,
                "mainKey": MAIN,
                "mainSessionKey": SessionKey.main(about.default_agent_id).text,
                "scope": about.session_scope,
            },
        }
