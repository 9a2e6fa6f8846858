"""Shared settings on PostgreSQL: the config of all gateways and its numbers, and encrypted model
keys."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from crossclaw.domain.errors import StoreFenced
from crossclaw.ledger.postgres.listener import CHANNEL, payload_of
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.shared_settings import (
    CONFIG,
    EPOCHS_KEPT,
    MODEL_KEYS,
    AgreedConfig,
    SealedModelKey,
    SealedSecret,
)

SETTINGS_TABLES = (
    "CREATE TABLE IF NOT EXISTS configs (epoch BIGINT PRIMARY KEY, digest TEXT NOT NULL, keys TEXT NOT NULL, "
    "text TEXT NOT NULL, secrets TEXT NOT NULL, by TEXT NOT NULL, seal TEXT NOT NULL, "
    "at TIMESTAMPTZ NOT NULL DEFAULT now()); "
    "CREATE TABLE IF NOT EXISTS model_keys (provider TEXT PRIMARY KEY, base_url TEXT, sealed TEXT NOT NULL, "
    "at TIMESTAMPTZ NOT NULL DEFAULT now())"
)
_CHANGING = 0x63726F7373636C65  # for pg_advisory_lock: one change of the config at a time
_NEWEST = "SELECT coalesce(max(epoch), 0) FROM configs"
_HERE = "EXISTS (SELECT 1 FROM gateways WHERE incarnation = $1)"
_FIND = (
    "SELECT epoch, digest, keys, text, secrets, by, seal FROM configs WHERE epoch > $1 "
    "ORDER BY epoch DESC LIMIT 1"
)
_PUT_CONFIG = (
    "INSERT INTO configs (epoch, digest, keys, text, secrets, by, seal) "
    f"SELECT $2::bigint, $3, $4, $5, $6, $7, $8 WHERE {_HERE} RETURNING 1"
)
_PUT_KEY = (
    f"INSERT INTO model_keys (provider, base_url, sealed) SELECT $2, $3, $4 WHERE {_HERE} "
    "ON CONFLICT (provider) DO UPDATE SET base_url = excluded.base_url, sealed = excluded.sealed, at = now() "
    "RETURNING 1"
)
_OLD_TEXTS = "UPDATE configs SET text = '', secrets = '[]' WHERE epoch < $1 AND text <> ''"
_OLD_ROWS = (
    "DELETE FROM configs WHERE epoch IN (SELECT epoch FROM configs ORDER BY epoch DESC OFFSET $1)"
)
FENCED = "this gateway was not heard of for too long, and stores nothing any more; try again"

_Call = Callable[[Callable[[PgWire], Any]], Awaitable[Any]]


class PostgresSharedSettings:
    """Reads and writes shared settings. `call` runs work on one of the connections of the gateway's
    membership."""

    def __init__(self, call: _Call, incarnation: str) -> None:
        self._call, self._incarnation = call, incarnation

    async def newest_config(self, after: int) -> AgreedConfig | None:
        rows = await self._call(lambda wire: wire.ask(_FIND, after))
        return _config_of(rows[0]) if rows else None

    async def find_epoch(self, digest: str) -> int | None:
        sql = "SELECT max(epoch) FROM configs WHERE digest = $1"
        ((found,),) = await self._call(lambda wire: wire.ask(sql, digest))
        return None if found is None else int(found)

    async def put_config(self, config: AgreedConfig, after: int) -> bool:
        return bool(await self._call(lambda wire: self._put_config(wire, config, after)))

    def _put_config(self, wire: PgWire, config: AgreedConfig, after: int) -> bool:
        wire.ask("SELECT pg_advisory_lock($1::bigint)", _CHANGING)
        try:
            if wire.ask(_NEWEST) != [(after,)]:  # unless it is ours, and the answer was lost
                sql = "SELECT 1 FROM configs WHERE epoch = $1 AND text = $2 AND by = $3"
                return bool(wire.ask(sql, config.epoch, config.text, config.by))
            values = (config.epoch, config.digest, _text(config.keys), config.text)
            put = (*values, _text(config.secrets), config.by, config.seal)
            if not wire.ask(_PUT_CONFIG, self._incarnation, *put):
                raise StoreFenced(FENCED)
            self._tell(wire, CONFIG)
            wire.ask(_OLD_TEXTS, config.epoch)
            wire.ask(_OLD_ROWS, EPOCHS_KEPT)
        finally:
            wire.ask("SELECT pg_advisory_unlock($1::bigint)", _CHANGING)
        return True

    async def list_model_keys(self) -> Sequence[SealedModelKey]:
        sql = "SELECT provider, base_url, sealed FROM model_keys ORDER BY provider"
        rows = await self._call(lambda wire: wire.ask(sql))
        return [SealedModelKey(provider=row[0], base_url=row[1], sealed=row[2]) for row in rows]

    async def put_model_key(self, key: SealedModelKey) -> None:
        def put(wire: PgWire) -> None:
            if not wire.ask(_PUT_KEY, self._incarnation, key.provider, key.base_url, key.sealed):
                raise StoreFenced(FENCED)
            self._tell(wire, MODEL_KEYS)

        await self._call(put)

    async def delete_model_key(self, provider: str) -> bool:
        def delete(wire: PgWire) -> bool:
            sql = f"DELETE FROM model_keys WHERE provider = $2 AND {_HERE} RETURNING 1"
            there = bool(wire.ask(sql, self._incarnation, provider))
            if not there and not wire.ask(f"SELECT 1 WHERE {_HERE}", self._incarnation):
                raise StoreFenced(FENCED)
            self._tell(wire, MODEL_KEYS)
            return there

        return bool(await self._call(delete))

    def _tell(self, wire: PgWire, kind: str) -> None:
        payload = payload_of(self._incarnation, {(kind, "")}).decode()
        wire.ask("SELECT pg_notify($1, $2)", CHANNEL, payload)


def _config_of(row: tuple[Any, ...]) -> AgreedConfig:
    return AgreedConfig(
        epoch=row[0],
        digest=row[1],
        keys=msgspec.json.decode(row[2], type=dict[str, str]),
        text=row[3],
        secrets=msgspec.json.decode(row[4], type=tuple[SealedSecret, ...]),
        by=row[5],
        seal=row[6],
    )


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
